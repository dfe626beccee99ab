package dev.terrace.objects.internal.store;

import java.util.Arrays;

/// The sizes of slots into which chunks are divided.
final class SizeClasses {
    /// Bytes of a chunk.
    static final int CHUNK_BYTES = 1 << 16;

    /// Bytes of the smallest slot.
    static final int SLOT_BYTES_MIN = 32;

    /// Slots are multiples of this.
    static final int GRANULE_BYTES = 16;

    private static final int[] SLOT_BYTES = slotBytes();
    private static final byte[] CLASS_OF_GRANULES = classOfGranules();

    private SizeClasses() {}

    private static int[] slotBytes() {
        int[] small = {
            32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896,
            1024
        };
        int[] perChunk = {
            52, 42, 36, 32, 28, 24, 21, 18, 16, 14, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2
        };
        int[] all = Arrays.copyOf(small, small.length + perChunk.length);
        for (int i = 0; i < perChunk.length; i++) {
            all[small.length + i] = CHUNK_BYTES / perChunk[i] & -GRANULE_BYTES;
        }
        return all;
    }

    private static byte[] classOfGranules() {
        byte[] classes = new byte[SLOT_BYTES[SLOT_BYTES.length - 1] / GRANULE_BYTES + 1];
        for (int granules = 0, sizeClass = 0; granules < classes.length; granules++) {
            if (granules * GRANULE_BYTES > SLOT_BYTES[sizeClass]) {
                sizeClass++;
            }
            classes[granules] = (byte) sizeClass;
        }
        return classes;
    }

    /// The number of classes.
    static int count() {
        return SLOT_BYTES.length;
    }

    /// The class of the smallest slot that holds so many bytes; -1 if they need whole chunks.
    static int of(long bytes) {
        long granules = (bytes + GRANULE_BYTES - 1) / GRANULE_BYTES;
        return granules < CLASS_OF_GRANULES.length ? CLASS_OF_GRANULES[(int) granules] : -1;
    }

    /// The class for so many bytes, as a bit of a set of classes. The highest bit is the class of
    /// whole chunks.
    static long bit(long bytes) {
        return 1L << of(bytes);
    }

    /// Bytes of a slot.
    static int slotBytes(int sizeClass) {
        return SLOT_BYTES[sizeClass];
    }

    /// Slots of a chunk.
    static int slots(int sizeClass) {
        return CHUNK_BYTES / SLOT_BYTES[sizeClass];
    }
}
