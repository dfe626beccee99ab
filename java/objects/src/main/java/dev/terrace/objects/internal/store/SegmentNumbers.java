package dev.terrace.objects.internal.store;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/// The numbers of segments in the superblock. They decide which segments are deleted, so each
/// carries a checksum.
final class SegmentNumbers {
    private static final int NUMBER_BITS = 40;

    private final Region pmem;

    SegmentNumbers(Region pmem) {
        this.pmem = pmem;
    }

    /// The word of a number, with its checksum in the upper 24 bits.
    static long checked(long number) {
        byte[] bytes =
                ByteBuffer.allocate(Long.BYTES)
                        .order(ByteOrder.LITTLE_ENDIAN)
                        .putLong(number)
                        .array();
        return (long) Segment.crc(bytes) << NUMBER_BITS | number;
    }

    /// The number at a place of the superblock.
    long get(long at) {
        long word = pmem.getLong(at);
        long number = word & (1L << NUMBER_BITS) - 1;
        if (word != 0 && word != checked(number)) {
            throw damaged();
        }
        return number;
    }

    StoreFailure.Damaged damaged() {
        return new StoreFailure.Damaged(pmem.name() + ": the words of the remote tier are damaged");
    }

    /// Stores a number that only the writer reads, and that the present transaction has not
    /// changed: it stays even if the transaction is rolled back.
    void storeNow(long at, long number) {
        pmem.putLong(at, checked(number));
        pmem.flush(at, Long.BYTES);
        pmem.fence();
    }
}
