package dev.terrace.objects.internal.store;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.Collection;
import java.util.HexFormat;
import java.util.UUID;
import java.util.zip.CRC32C;
import org.jspecify.annotations.Nullable;

/// The bytes of a segment: a header that names the pool and the number, then the values, each after
/// its length and its CRC-32C.
final class Segment {
    /// Bytes of the header.
    static final int HEADER_BYTES = 64;

    /// Bytes of a value's length and checksum.
    static final int FRONT_BYTES = 8;

    private static final long MAGIC = 0x4d47455352524554L;
    private static final int VERSION = 1;
    private static final int CRC_AT = 56;

    private Segment() {}

    /// The name of segment `number` of a pool. Number 0 is the label of the directory.
    static String name(UUID pool, long number) {
        return "terrace-" + pool + "-" + HexFormat.of().toHexDigits(number) + ".segment";
    }

    /// A segment of these values.
    static byte[] of(UUID pool, long number, Collection<byte[]> values) {
        int length = HEADER_BYTES;
        for (byte[] value : values) {
            length = Math.addExact(length, FRONT_BYTES + value.length);
        }
        ByteBuffer segment = ByteBuffer.allocate(length).order(ByteOrder.LITTLE_ENDIAN);
        segment.putLong(MAGIC).putInt(VERSION).putInt(values.size());
        segment.putLong(pool.getMostSignificantBits()).putLong(pool.getLeastSignificantBits());
        segment.putLong(number).putLong(length).putLong(0);
        segment.putLong(crc(segment.array(), 0, CRC_AT) & 0xffffffffL);
        for (byte[] value : values) {
            segment.putInt(value.length).putInt(crc(value, 0, value.length)).put(value);
        }
        return segment.array();
    }

    /// The damage of this segment's header; null if it is sound.
    static @Nullable String wrong(byte[] header, UUID pool, long number) {
        ByteBuffer fields = ByteBuffer.wrap(header).order(ByteOrder.LITTLE_ENDIAN);
        if (fields.getLong(0) != MAGIC) {
            return "it is no segment";
        }
        if (fields.getLong(CRC_AT) != (crc(header, 0, CRC_AT) & 0xffffffffL)) {
            return "its header is damaged";
        }
        if (fields.getInt(8) != VERSION) {
            return "it is of version "
                    + fields.getInt(8)
                    + ", and this library knows version "
                    + VERSION;
        }
        UUID owner = new UUID(fields.getLong(16), fields.getLong(24));
        if (!owner.equals(pool)) {
            return "it belongs to another pool, " + owner;
        }
        return fields.getLong(32) == number ? null : "it is segment " + fields.getLong(32);
    }

    /// The value in a part of a segment, which begins with length and checksum; null if the part is
    /// damaged.
    static byte @Nullable [] value(byte[] part, int checksum) {
        ByteBuffer front = ByteBuffer.wrap(part).order(ByteOrder.LITTLE_ENDIAN);
        int length = part.length - FRONT_BYTES;
        boolean isRight =
                front.getInt() == length
                        && front.getInt() == checksum
                        && crc(part, FRONT_BYTES, length) == checksum;
        return isRight ? Arrays.copyOfRange(part, FRONT_BYTES, part.length) : null;
    }

    /// The checksum of a value.
    static int crc(byte[] bytes) {
        return crc(bytes, 0, bytes.length);
    }

    private static int crc(byte[] bytes, int from, int length) {
        CRC32C crc = new CRC32C();
        crc.update(bytes, from, length);
        return (int) crc.getValue();
    }
}
