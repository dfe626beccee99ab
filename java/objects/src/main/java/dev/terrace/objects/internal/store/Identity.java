package dev.terrace.objects.internal.store;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.UUID;

/// Another identity for a copy of a pool, so that nobody takes a file of one for one of the other.
///
/// The secret stays, because all headers and seals of the copy are made with it.
public final class Identity {
    private Identity() {}

    /// The identity of a pool with this persistent memory.
    public static UUID of(Region pmem) {
        return new UUID(
                pmem.getLong(Superblock.ID_AT), pmem.getLong(Superblock.ID_AT + Long.BYTES));
    }

    /// Gives the first page of a pool another identity.
    public static void renew(byte[] page, UUID id) {
        ByteBuffer words = ByteBuffer.wrap(page).order(ByteOrder.LITTLE_ENDIAN);
        words.putLong(Superblock.ID_AT, id.getMostSignificantBits());
        words.putLong(Superblock.ID_AT + Long.BYTES, id.getLeastSignificantBits());
        words.putLong(Superblock.CHECKED_BYTES, Superblock.crc(page));
    }

    /// Clears the words of a pool's first page through which a backup has talked with the writer.
    public static void forgetTalk(byte[] page) {
        Arrays.fill(
                page, (int) Superblock.WATCH_AT, (int) Superblock.WATCH_AT + Watch.BYTES, (byte) 0);
    }

    /// Labels the first page of a disk as one of this pool.
    public static void renewDisk(byte[] page, UUID id, int number, Medium tier) {
        byte[] label = DiskLabel.whole(id, number, tier);
        System.arraycopy(label, 0, page, 0, label.length);
    }
}
