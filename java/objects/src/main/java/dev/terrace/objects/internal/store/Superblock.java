package dev.terrace.objects.internal.store;

import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.UUID;
import java.util.zip.CRC32C;

/// The first page of a pool (see POOL-FORMAT.md). It holds the pool's identity, which never
/// changes, and words that lead to all other structures.
///
/// @param id the pool's identity
/// @param secret the secret from which marks in headers are computed
/// @param extentShift of the pool's region
/// @param logBytes the bytes of the commit log behind the page
public record Superblock(UUID id, long secret, int extentShift, long logBytes) {
    /// Bytes of the page.
    public static final int BYTES = 4096;

    /// The version of pools with words of features.
    public static final int VERSION = 4;

    /// The version of a pool that had neither a remote tier nor placements.
    private static final int VERSION_PLAIN = 1;

    /// The version of a pool that had a remote tier.
    private static final int VERSION_REMOTE = 2;

    /// The version of a pool that had placements, and maybe a remote tier.
    private static final int VERSION_PLACEMENTS = 3;

    /// Offset of the number of the last commit: odd while its words are being stored in their
    /// places.
    public static final long SEQUENCE_AT = 64;

    /// Offset of the number of extents in persistent memory.
    public static final long EXTENTS_AT = 128;

    /// Offset of the reference to the table of types.
    public static final long TYPES_AT = 136;

    /// Offset of the reference to the table of roots.
    public static final long ROOTS_AT = 144;

    /// Offset of the reference to remains of collections.
    public static final long REMAINS_AT = 152;

    /// Offset of a record of remains, which exists without having been allocated.
    public static final long FIRST_REMAINS_AT = 160;

    /// Offset of the words of the first disk; those of the next follow.
    public static final long DISKS_AT = 256;

    /// Bytes of a disk's words: number of extents, first map, last map, and the map that the next
    /// extent will have.
    public static final long DISK_BYTES = 32;

    /// The greatest number of disks.
    public static final int DISKS_MAX = 8;

    /// Offset of the number that the next segment of the remote tier gets.
    public static final long REMOTE_NEXT_AT = 512;

    /// Offset of the number below which each segment is in use or has been deleted.
    public static final long REMOTE_SETTLED_AT = 520;

    /// Offset of the reference to the first empty segment.
    public static final long REMOTE_EMPTY_AT = 528;

    /// Offset of the number of bytes of all segments.
    public static final long REMOTE_BYTES_AT = 536;

    /// Offset of the number of these bytes that are in use.
    public static final long REMOTE_LIVE_AT = 544;

    /// Offset of the reference to a chunk that is reserved for records of values.
    public static final long REMOTE_RESERVE_AT = 552;

    /// Offset of the reference to the table of tiers that override tags.
    public static final long PLACEMENTS_AT = 560;

    /// Offset of the word of features that no program needs to know ([Feature]).
    public static final long COMPATIBLE_AT = 568;

    /// Offset of the word of features that writers must know.
    public static final long READ_COMPATIBLE_AT = 576;

    /// Offset of the word of features that all programs must know.
    public static final long INCOMPATIBLE_AT = 584;

    /// Offset of the words through which backups and who writes talk ([Watch]). A line of their
    /// own: who writes looks at them in each transaction.
    public static final long WATCH_AT = 640;

    /// Offset of the commit log.
    public static final long LOG_AT = BYTES;

    private static final long MAGIC = 0x314a424f52524554L;
    private static final int VERSION_AT = 8;

    /// Offset of the pool's identity.
    static final int ID_AT = 16;

    /// Bytes that the checksum covers, which follows them.
    static final int CHECKED_BYTES = 56;

    /// Formats a region without extents as an empty pool.
    ///
    /// @throws StoreFailure.Full if there is no room for it
    public void format(Region pmem) {
        pmem.grow();
        write(pmem);
        Feature.format(pmem, Feature.CHECKED_DISK);
        pmem.putLong(EXTENTS_AT, 1);
        pmem.flush(0, BYTES);
        pmem.fence();
    }

    private void write(Region region) {
        ByteBuffer page = ByteBuffer.allocate(CHECKED_BYTES + 8).order(ByteOrder.LITTLE_ENDIAN);
        page.putLong(MAGIC).putInt(VERSION).putInt(extentShift);
        page.putLong(id.getMostSignificantBits()).putLong(id.getLeastSignificantBits());
        page.putLong(secret).putLong(logBytes).putLong(0);
        page.putLong(crc(page.array()));
        region.put(0, MemorySegment.ofArray(page.array()), 0, page.capacity());
    }

    /// Reads the first page of a file.
    ///
    /// @param readOnly whether the pool is opened read-only
    /// @throws StoreFailure.UnknownFormat if it is not a pool's, or of a pool of another version,
    ///   or with unknown features
    /// @throws StoreFailure.Damaged if it is a pool's, but damaged
    public static Superblock read(String name, byte[] bytes, boolean readOnly) {
        ByteBuffer page = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        if (bytes.length < CHECKED_BYTES + 8 || page.getLong(0) != MAGIC) {
            throw new StoreFailure.UnknownFormat(name + " is no pool");
        }
        int version = page.getInt(VERSION_AT);
        if (version > VERSION) {
            throw newer(name, bytes, version);
        }
        if (!isRight(bytes, page.getLong(CHECKED_BYTES))) {
            throw new StoreFailure.Damaged(name + ": the superblock is damaged");
        }
        if (bytes.length < BYTES) {
            throw new StoreFailure.Damaged(name + " ends within its superblock");
        }
        if (version == VERSION) {
            Feature.requireKnown(name, page, readOnly);
        }
        UUID id = new UUID(page.getLong(ID_AT), page.getLong(ID_AT + 8));
        return new Superblock(id, page.getLong(32), page.getInt(12), page.getLong(40));
    }

    /// Throws an exception if [#read] can no longer read a read-only pool.
    static void requireKnown(Region region) {
        byte[] page = new byte[BYTES];
        region.get(0, MemorySegment.ofArray(page), 0, BYTES);
        read(region.name(), page, true);
    }

    /// Tells a damaged version from a later one. An old version's checksum with a later version
    /// almost always means damage, because a process rarely ends between the two stores of
    /// [#upgrade].
    private static RuntimeException newer(String name, byte[] page, int version) {
        if (crc(page)
                == ByteBuffer.wrap(page).order(ByteOrder.LITTLE_ENDIAN).getLong(CHECKED_BYTES)) {
            return new StoreFailure.UnknownFormat(
                    name
                            + " is a pool of version "
                            + version
                            + ", and this library knows versions "
                            + VERSION_PLAIN
                            + " to "
                            + VERSION
                            + ": use a newer library");
        }
        return new StoreFailure.Damaged(
                name
                        + ": the superblock is damaged, or a newer library was ended while it made"
                        + " this a pool of version "
                        + version
                        + ": open it with that library, or use a copy");
    }

    /// Brings a pool that is opened for writing to this version. A pool of an earlier version gets
    /// the features that its version stood for, before the version is changed. Version and checksum
    /// are two stores, so a pool may be found with the checksum of an earlier version.
    public static void upgrade(Region region) {
        byte[] page = new byte[CHECKED_BYTES + 8];
        region.get(0, MemorySegment.ofArray(page), 0, page.length);
        ByteBuffer fields = ByteBuffer.wrap(page).order(ByteOrder.LITTLE_ENDIAN);
        int old = fields.getInt(VERSION_AT);
        if (old < VERSION) {
            Feature.format(region, Feature.CHECKED_DISK);
            region.flush(COMPATIBLE_AT, 3 * Long.BYTES);
            region.fence();
            if (old == VERSION_REMOTE
                    || old == VERSION_PLACEMENTS && region.getLong(REMOTE_NEXT_AT) != 0) {
                Feature.REMOTE.addTo(region);
            }
            if (old == VERSION_PLACEMENTS) {
                Feature.PLACEMENTS.addTo(region);
            }
            fields.putInt(VERSION_AT, VERSION);
            storeWord(region, VERSION_AT, fields.getLong(VERSION_AT));
        }
        if (fields.getLong(CHECKED_BYTES) != crc(page)) {
            storeWord(region, CHECKED_BYTES, crc(page));
        }
        Feature.CHECKED_DISK.addTo(region);
    }

    private static void storeWord(Region region, long at, long value) {
        region.putLong(at, value);
        region.flush(at, Long.BYTES);
        region.fence();
    }

    /// Whether this is the checksum of a page, with its version or an earlier one.
    private static boolean isRight(byte[] page, long checksum) {
        byte[] before = page.clone();
        ByteBuffer fields = ByteBuffer.wrap(before).order(ByteOrder.LITTLE_ENDIAN);
        for (int version = fields.getInt(VERSION_AT); version >= VERSION_PLAIN; version--) {
            fields.putInt(VERSION_AT, version);
            if (crc(before) == checksum) {
                return true;
            }
        }
        return false;
    }

    /// The checksum of a page.
    static long crc(byte[] page) {
        CRC32C crc = new CRC32C();
        crc.update(page, 0, CHECKED_BYTES);
        return crc.getValue();
    }
}
