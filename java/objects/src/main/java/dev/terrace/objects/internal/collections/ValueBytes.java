package dev.terrace.objects.internal.collections;

import dev.terrace.objects.internal.store.StoreFailure;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.Arrays;
import java.util.UUID;
import java.util.function.Function;

/// The values of a class of the JDK as bytes, for elements that lie in buffers: see
/// COLLECTIONS-FORMAT.md.
///
/// Invariant: two values are equal if and only if their bytes are. Hash tables compare bytes only.
///
/// @param <T> the class
public final class ValueBytes<T extends Comparable<? super T>> {
    static final ValueBytes<UUID> OF_UUID =
            new ValueBytes<>(
                    UUID.class,
                    value ->
                            put(2 * Long.BYTES)
                                    .putLong(value.getMostSignificantBits())
                                    .putLong(value.getLeastSignificantBits())
                                    .array(),
                    bytes -> {
                        ByteBuffer in = get(bytes, 2 * Long.BYTES);
                        return new UUID(in.getLong(), in.getLong());
                    });

    static final ValueBytes<Instant> OF_INSTANT =
            new ValueBytes<>(
                    Instant.class,
                    value -> seconds(value.getEpochSecond(), value.getNano()),
                    bytes -> {
                        ByteBuffer in = get(bytes, Long.BYTES + Integer.BYTES);
                        return Instant.ofEpochSecond(in.getLong(), in.getInt());
                    });

    static final ValueBytes<Duration> OF_DURATION =
            new ValueBytes<>(
                    Duration.class,
                    value -> seconds(value.getSeconds(), value.getNano()),
                    bytes -> {
                        ByteBuffer in = get(bytes, Long.BYTES + Integer.BYTES);
                        return Duration.ofSeconds(in.getLong(), in.getInt());
                    });

    static final ValueBytes<LocalDateTime> OF_LOCAL_DATE_TIME =
            new ValueBytes<>(
                    LocalDateTime.class,
                    value ->
                            put(2 * Long.BYTES)
                                    .putLong(value.toLocalDate().toEpochDay())
                                    .putLong(value.toLocalTime().toNanoOfDay())
                                    .array(),
                    bytes -> {
                        ByteBuffer in = get(bytes, 2 * Long.BYTES);
                        return LocalDateTime.of(
                                LocalDate.ofEpochDay(in.getLong()),
                                LocalTime.ofNanoOfDay(in.getLong()));
                    });

    static final ValueBytes<BigInteger> OF_BIG_INTEGER =
            new ValueBytes<>(BigInteger.class, BigInteger::toByteArray, BigInteger::new);

    static final ValueBytes<BigDecimal> OF_BIG_DECIMAL =
            new ValueBytes<>(BigDecimal.class, ValueBytes::ofDecimal, ValueBytes::toDecimal);

    /// A byte that says that the scale is in the four bytes behind it.
    private static final byte LONG_SCALE = Byte.MIN_VALUE;

    private final Class<T> type;
    private final Function<T, byte[]> encode;
    private final Function<byte[], T> decode;

    private ValueBytes(Class<T> type, Function<T, byte[]> encode, Function<byte[], T> decode) {
        this.type = type;
        this.encode = encode;
        this.decode = decode;
    }

    private static ByteBuffer put(int length) {
        return ByteBuffer.allocate(length).order(ByteOrder.LITTLE_ENDIAN);
    }

    private static ByteBuffer get(byte[] bytes, int length) {
        if (bytes.length != length) {
            throw new IllegalArgumentException(bytes.length + " bytes, and not " + length);
        }
        return ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    }

    private static byte[] seconds(long seconds, int nanos) {
        return put(Long.BYTES + Integer.BYTES).putLong(seconds).putInt(nanos).array();
    }

    /// A value as its bytes.
    byte[] encode(Object value) {
        return encode.apply(type.cast(value));
    }

    /// The value of these bytes.
    ///
    /// @throws StoreFailure.Damaged if there is none
    T decode(byte[] bytes) {
        try {
            return decode.apply(bytes);
        } catch (DateTimeException | ArithmeticException | IllegalArgumentException e) {
            throw new StoreFailure.Damaged("what is stored is no " + type.getName(), e);
        }
    }

    /// Whether these are the bytes of a value.
    boolean areOne(byte[] bytes) {
        return Arrays.equals(bytes, encode(decode(bytes)));
    }

    /// Compares a value to the one of these bytes.
    int compare(Object value, byte[] bytes) {
        return type.cast(value).compareTo(decode(bytes));
    }

    /// The number of these bytes: the scale, and the unscaled value as `toByteArray()`. A scale of
    /// -127 to 127 takes one byte, another one takes the byte -128 and four more.
    ///
    /// @throws IllegalArgumentException if there is none
    public static BigDecimal toDecimal(byte[] bytes) {
        ByteBuffer in = ByteBuffer.wrap(bytes);
        int scale = in.hasRemaining() ? in.get() : 0;
        if (scale == LONG_SCALE) {
            if (in.remaining() < Integer.BYTES) {
                throw new IllegalArgumentException("a scale of " + in.remaining() + " bytes");
            }
            scale = in.getInt();
        }
        return new BigDecimal(
                new BigInteger(Arrays.copyOfRange(bytes, in.position(), bytes.length)), scale);
    }

    /// A number as its bytes.
    public static byte[] ofDecimal(BigDecimal value) {
        byte[] unscaled = value.unscaledValue().toByteArray();
        int scale = value.scale();
        boolean isShort = scale > LONG_SCALE && scale <= Byte.MAX_VALUE;
        ByteBuffer out = ByteBuffer.allocate(1 + (isShort ? 0 : Integer.BYTES) + unscaled.length);
        if (isShort) {
            out.put((byte) scale);
        } else {
            out.put(LONG_SCALE).putInt(scale);
        }
        return out.put(unscaled).array();
    }
}
