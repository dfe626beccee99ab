package dev.terrace.objects.store;

import dev.terrace.objects.PoolDamagedException;
import dev.terrace.objects.PoolFormatException;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.UUID;
import java.util.zip.CRC32C;

/// The first bytes of a disk's file: which pool it belongs to, and as which of its disks.
final class DiskLabel {
    private static final long MAGIC = 0x4b53494452524554L;
    private static final int BYTES = 40;
    private static final int CRC_AT = 32;

    private DiskLabel() {}

    private static byte[] of(UUID pool, int number) {
        ByteBuffer label = ByteBuffer.allocate(BYTES).order(ByteOrder.LITTLE_ENDIAN);
        label.putLong(MAGIC).putLong(pool.getMostSignificantBits()).putLong(pool.getLeastSignificantBits()).putLong(number);
        CRC32C crc = new CRC32C();
        crc.update(label.array(), 0, CRC_AT);
        return label.putLong(crc.getValue()).array();
    }

    /// Labels a disk, durably.
    static void write(Region disk, UUID pool, int number) {
        disk.put(0, MemorySegment.ofArray(of(pool, number)), 0, BYTES);
        disk.flush(0, BYTES);
        disk.fence();
    }

    /// Looks whether a disk is this one of this pool.
    ///
    /// @throws PoolFormatException if it belongs to another, or is another
    /// @throws PoolDamagedException if nobody can tell
    static void check(Region disk, UUID pool, int number) {
        byte[] found = new byte[BYTES];
        disk.get(0, MemorySegment.ofArray(found), 0, BYTES);
        byte[] wanted = of(pool, number);
        if (Arrays.equals(found, wanted)) {
            return;
        }
        ByteBuffer label = ByteBuffer.wrap(found).order(ByteOrder.LITTLE_ENDIAN);
        UUID owner = new UUID(label.getLong(8), label.getLong(16));
        int as = (int) label.getLong(24);
        if (!Arrays.equals(found, of(owner, as))) {
            throw new PoolDamagedException(disk.name() + ": the label is damaged");
        }
        throw new PoolFormatException(disk.name() + (owner.equals(pool)
                ? " is disk " + as + " of the pool, and was named as disk " + number
                : " belongs to another pool, " + owner));
    }
}
