package dev.terrace.objects.internal.store;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;

/// The features of a pool: bits of three words of the superblock. The word decides what a version
/// of this library does that does not know one of its bits.
///
/// Invariant: a bit is durable before any data of its feature are written, and is never cleared.
/// Each word contains its checksum, so it changes by one store.
public enum Feature {
    /// Values on a remote tier.
    REMOTE(Word.INCOMPATIBLE, 0),
    /// Values on disks have a seal of their length, place and commit. All pools of this version
    /// have this feature.
    CHECKED_DISK(Word.INCOMPATIBLE, 1),
    /// The same in persistent memory.
    CHECKED_PMEM(Word.INCOMPATIBLE, 2),
    /// A form of a class may have fields that share a slot.
    GROUPS(Word.INCOMPATIBLE, 3),
    /// A collection may hold values of classes of the JDK, as `UUID` and `Instant`.
    VALUE_ELEMENTS(Word.INCOMPATIBLE, 4),
    /// Chunks may be cut into columns, for forms of classes that say so.
    COLUMNS(Word.INCOMPATIBLE, 5),
    /// Tiers that override tags. Readers do not need their list; a writer that does not know the
    /// list would free it.
    PLACEMENTS(Word.READ_COMPATIBLE, 0),
    /// The pool never changes again ([Seal]). A version that does not know this may read it, as if
    /// another process might write.
    SEALED(Word.READ_COMPATIBLE, 1);

    private static final int BITS = 40;

    /// The effect of a feature on a version of this library that does not know it.
    enum Word {
        /// It reads and writes as usual. There is no such feature yet.
        COMPATIBLE("compatible", Superblock.COMPATIBLE_AT),
        /// It may read, but not write.
        READ_COMPATIBLE("read-compatible", Superblock.READ_COMPATIBLE_AT),
        /// It refuses the pool.
        INCOMPATIBLE("incompatible", Superblock.INCOMPATIBLE_AT);

        private final String text;
        private final long at;

        Word(String text, long at) {
            this.text = text;
            this.at = at;
        }

        /// The word of a pool of this version without features of this kind, and with all those of
        /// `bits`.
        private long of(long bits) {
            ByteBuffer covered = ByteBuffer.allocate(2 * Long.BYTES).order(ByteOrder.LITTLE_ENDIAN);
            covered.putLong(bits).putLong(at);
            return (long) Segment.crc(covered.array()) << BITS | bits;
        }

        private long bits(String pool, long word) {
            long bits = word & (1L << BITS) - 1;
            if (word != of(bits)) {
                throw new StoreFailure.Damaged(
                        pool + ": the word of its " + text + " features is damaged");
            }
            return bits;
        }

        private long known() {
            return Arrays.stream(Feature.values())
                    .filter(feature -> feature.word == this)
                    .mapToLong(feature -> feature.bit)
                    .reduce(0, (a, b) -> a | b);
        }

        private void requireKnown(String pool, long word) {
            long unknown = bits(pool, word) & ~known();
            if (unknown != 0) {
                throw new StoreFailure.UnknownFormat(
                        pool
                                + " has the "
                                + text
                                + " feature "
                                + Long.numberOfTrailingZeros(unknown)
                                + ", which this library does not know: "
                                + (this == READ_COMPATIBLE
                                        ? "open it to read, or use a newer library"
                                        : "use a newer library"));
            }
        }
    }

    private final Word word;
    private final long bit;

    Feature(Word word, int number) {
        this.word = word;
        bit = 1L << number;
    }

    Word word() {
        return word;
    }

    /// Its bit of that word.
    long bit() {
        return bit;
    }

    /// Throws an exception if a version of this library that knows only these features must refuse
    /// the pool.
    ///
    /// @param page the superblock
    static void requireKnown(String pool, ByteBuffer page, boolean readOnly) {
        Word.COMPATIBLE.bits(pool, page.getLong((int) Word.COMPATIBLE.at));
        long readCompatible = page.getLong((int) Word.READ_COMPATIBLE.at);
        Word.READ_COMPATIBLE.bits(pool, readCompatible);
        Word.INCOMPATIBLE.requireKnown(pool, page.getLong((int) Word.INCOMPATIBLE.at));
        if (!readOnly) {
            Word.READ_COMPATIBLE.requireKnown(pool, readCompatible);
        }
    }

    /// Stores the words of a pool with exactly these features.
    static void format(Region pool, Feature... features) {
        for (Word word : Word.values()) {
            long bits = 0;
            for (Feature feature : features) {
                bits |= feature.word == word ? feature.bit : 0;
            }
            pool.putLong(word.at, word.of(bits));
        }
    }

    /// Whether a pool has this feature; false for pools of versions before there were features.
    public boolean isIn(Region pool) {
        return isIn(pool.name(), pool.getLongAcquire(word.at));
    }

    /// Whether a pool with this first page has the feature.
    public boolean isIn(String pool, ByteBuffer page) {
        return isIn(pool, page.getLong((int) word.at));
    }

    private boolean isIn(String pool, long stored) {
        return stored != 0 && (word.bits(pool, stored) & bit) != 0;
    }

    /// Adds the feature to a pool that threads use, durably.
    ///
    /// @throws StoreFailure.ReadOnly if the pool is sealed
    public void addTo(Store store) {
        store.alone(() -> {
            store.changes().requireWhole();
            addTo(store.pmem());
            return null;
        });
    }

    /// Adds the feature to a pool that no other thread writes to, durably.
    public void addTo(Region pool) {
        if (!isIn(pool)) {
            pool.putLong(word.at, word.of(word.bits(pool.name(), pool.getLong(word.at)) | bit));
            pool.flush(word.at, Long.BYTES);
            pool.fence();
        }
    }
}
