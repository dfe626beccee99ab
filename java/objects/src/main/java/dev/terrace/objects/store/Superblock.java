package dev.terrace.objects.store;

import dev.terrace.objects.PoolDamagedException;
import dev.terrace.objects.PoolFormatException;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.UUID;
import java.util.zip.CRC32C;

/// The first page of a pool (see POOL-FORMAT.md): what it is, which never changes, and words that lead to the rest.
///
/// @param id the pool's
/// @param secret what marks in headers of objects are made with
/// @param extentShift of the region that it is in
/// @param logBytes of the commit log behind it
public record Superblock(UUID id, long secret, int extentShift, long logBytes) {
    /// Bytes of the page.
    public static final int BYTES = 4096;
    /// The version that this library writes, and the only one it knows.
    public static final int VERSION = 1;

    /// Offset of the number of the last commit: odd while its words are being stored in their places.
    public static final long SEQUENCE_AT = 64;
    /// Offset of the number of extents in persistent memory.
    public static final long EXTENTS_AT = 128;
    /// Offset of the reference to the table of types.
    public static final long TYPES_AT = 136;
    /// Offset of the reference to the table of roots.
    public static final long ROOTS_AT = 144;
    /// Offset of the reference to what is to be freed of collections.
    public static final long REMAINS_AT = 152;
    /// Offset of a record of such, which is there without having been allocated.
    public static final long FIRST_REMAINS_AT = 160;
    /// Offset of the words of the first disk; those of the next follow.
    public static final long DISKS_AT = 256;
    /// Bytes of a disk's words: number of extents, first map, last map, and the map that the next extent will have.
    public static final long DISK_BYTES = 32;
    /// How many disks there may be.
    public static final int DISKS_MAX = 8;
    /// Offset of the commit log.
    public static final long LOG_AT = BYTES;

    private static final long MAGIC = 0x314a424f52524554L;
    private static final int CHECKED_BYTES = 56;

    /// Writes it to a region of zeros.
    void write(Region region) {
        ByteBuffer page = ByteBuffer.allocate(CHECKED_BYTES + 8).order(ByteOrder.LITTLE_ENDIAN);
        page.putLong(MAGIC).putInt(VERSION).putInt(extentShift);
        page.putLong(id.getMostSignificantBits()).putLong(id.getLeastSignificantBits());
        page.putLong(secret).putLong(logBytes).putLong(0);
        page.putLong(crc(page.array()));
        region.put(0, MemorySegment.ofArray(page.array()), 0, page.capacity());
    }

    /// Reads the first bytes of a file.
    ///
    /// @throws PoolFormatException if they are no pool's, or one's of another version
    /// @throws PoolDamagedException if they are a pool's, and damaged
    public static Superblock read(String name, byte[] bytes) {
        ByteBuffer page = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        if (bytes.length < CHECKED_BYTES + 8 || page.getLong(0) != MAGIC) {
            throw new PoolFormatException(name + " is no pool");
        }
        int version = page.getInt(8);
        if (version != VERSION) {
            throw new PoolFormatException(name + " is a pool of version " + version + ", and this library knows version "
                    + VERSION + (version > VERSION ? ": use a newer library" : ""));
        }
        if (page.getLong(CHECKED_BYTES) != crc(bytes)) {
            throw new PoolDamagedException(name + ": the superblock is damaged");
        }
        UUID id = new UUID(page.getLong(16), page.getLong(24));
        return new Superblock(id, page.getLong(32), page.getInt(12), page.getLong(40));
    }

    private static long crc(byte[] page) {
        CRC32C crc = new CRC32C();
        crc.update(page, 0, CHECKED_BYTES);
        return crc.getValue();
    }
}
