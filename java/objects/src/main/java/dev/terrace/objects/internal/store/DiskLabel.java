package dev.terrace.objects.internal.store;

import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.UUID;
import java.util.zip.CRC32C;

/// The first bytes of a disk's file: its pool, its number among the pool's disks, and then its
/// tier. Old files, which have zeros in place of the tier, may be named as either tier.
final class DiskLabel {
    private static final long MAGIC = 0x4b53494452524554L;
    private static final int BYTES = 40;
    private static final int CRC_AT = 32;
    private static final int TIER_BYTES = 16;

    private DiskLabel() {}

    private static byte[] of(UUID pool, int number) {
        ByteBuffer label = ByteBuffer.allocate(BYTES).order(ByteOrder.LITTLE_ENDIAN);
        label.putLong(MAGIC)
                .putLong(pool.getMostSignificantBits())
                .putLong(pool.getLeastSignificantBits())
                .putLong(number);
        CRC32C crc = new CRC32C();
        crc.update(label.array(), 0, CRC_AT);
        return label.putLong(crc.getValue()).array();
    }

    /// The word with the tier behind a label. It has a checksum of both, so that it is not taken
    /// for another disk's word.
    private static byte[] of(Medium tier, byte[] label) {
        ByteBuffer both = ByteBuffer.allocate(BYTES + TIER_BYTES).order(ByteOrder.LITTLE_ENDIAN);
        both.put(label).putLong(tier.ordinal());
        CRC32C crc = new CRC32C();
        crc.update(both.array(), 0, both.position());
        return Arrays.copyOfRange(both.putLong(crc.getValue()).array(), BYTES, BYTES + TIER_BYTES);
    }

    /// A label with the tier behind it.
    static byte[] whole(UUID pool, int number, Medium tier) {
        byte[] label = of(pool, number);
        return ByteBuffer.allocate(BYTES + TIER_BYTES).put(label).put(of(tier, label)).array();
    }

    /// Labels a disk, durably.
    static void write(Region disk, UUID pool, int number, Medium tier) {
        disk.put(0, MemorySegment.ofArray(whole(pool, number, tier)), 0, BYTES + TIER_BYTES);
        disk.flush(0, BYTES + TIER_BYTES);
        disk.fence();
    }

    /// Checks that a disk is this one of this pool.
    ///
    /// @throws StoreFailure.UnknownFormat if it belongs to another pool, or is another disk
    /// @throws StoreFailure.Damaged if the label is damaged
    static void check(Region disk, UUID pool, int number, Medium tier) {
        byte[] found = new byte[BYTES];
        disk.get(0, MemorySegment.ofArray(found), 0, BYTES);
        byte[] wanted = of(pool, number);
        if (Arrays.equals(found, wanted)) {
            checkTier(disk, number, tier, wanted);
            return;
        }
        ByteBuffer label = ByteBuffer.wrap(found).order(ByteOrder.LITTLE_ENDIAN);
        UUID owner = new UUID(label.getLong(8), label.getLong(16));
        int as = (int) label.getLong(24);
        if (!Arrays.equals(found, of(owner, as))) {
            throw new StoreFailure.Damaged(disk.name() + ": the label is damaged");
        }
        throw new StoreFailure.UnknownFormat(
                disk.name()
                        + (owner.equals(pool)
                                ? " is disk " + as + " of the pool, and was named as disk " + number
                                : " belongs to another pool, " + owner));
    }

    private static void checkTier(Region disk, int number, Medium tier, byte[] label) {
        byte[] found = new byte[TIER_BYTES];
        disk.get(BYTES, MemorySegment.ofArray(found), 0, TIER_BYTES);
        if (Arrays.equals(found, of(tier, label)) || Arrays.equals(found, new byte[TIER_BYTES])) {
            return;
        }
        for (Medium other : Medium.values()) {
            if (Arrays.equals(found, of(other, label))) {
                throw new StoreFailure.UnknownFormat(
                        disk.name()
                                + " is of the tier "
                                + other
                                + ", and was named as "
                                + tier
                                + ": name the pool's disk "
                                + number
                                + " as it was when the pool was made");
            }
        }
        throw new StoreFailure.Damaged(disk.name() + ": the label is damaged");
    }
}
