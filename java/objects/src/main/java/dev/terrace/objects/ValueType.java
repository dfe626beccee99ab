package dev.terrace.objects;

import dev.terrace.objects.internal.collections.ValueBytes;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.List;
import java.util.UUID;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/// A class of the JDK whose values are stored as one field of another kind.
///
/// | class | kind | value |
/// |---|---|---|
/// | `LocalDate` | `LONG` or null | days since 1970-01-01 |
/// | `LocalTime` | `LONG` or null | nanoseconds since midnight |
/// | `Instant` | two `LONGS` | seconds since 1970-01-01T00:00Z; 1 + nanoseconds of the second |
/// | `Duration` | two `LONGS` | seconds; 1 + nanoseconds of the second |
/// | `LocalDateTime` | two `LONGS` | days since 1970-01-01; 1 + nanoseconds since midnight |
/// | `UUID` | two `LONGS` | its upper and its lower half, each `^` a constant of this class |
/// | `BigInteger` | `BYTES` or null | as `toByteArray()` |
/// | `BigDecimal` | `BYTES` or null | the scale, and the unscaled value as `toByteArray()` |
///
/// Two zeros are null. A scale of -127 to 127 takes one byte, another one takes the byte -128 and
/// four more, the highest first. The [FieldSpec#target()] of such a field is the fully qualified
/// name of the class.
///
/// @param <T> the class
public final class ValueType<T> {
    /// `java.time.LocalDate`
    public static final ValueType<LocalDate> LOCAL_DATE =
            ofLong(LocalDate.class, LocalDate::ofEpochDay, LocalDate::toEpochDay);

    /// `java.time.LocalTime`
    public static final ValueType<LocalTime> LOCAL_TIME =
            ofLong(LocalTime.class, LocalTime::ofNanoOfDay, LocalTime::toNanoOfDay);

    /// `java.time.Instant`
    public static final ValueType<Instant> INSTANT =
            ofTwo(
                    Instant.class,
                    two -> Instant.ofEpochSecond(two[0], nanos(two[1])),
                    value -> new long[] {value.getEpochSecond(), value.getNano() + 1L});

    /// `java.time.Duration`
    public static final ValueType<Duration> DURATION =
            ofTwo(
                    Duration.class,
                    two -> Duration.ofSeconds(two[0], nanos(two[1])),
                    value -> new long[] {value.getSeconds(), value.getNano() + 1L});

    /// `java.time.LocalDateTime`
    public static final ValueType<LocalDateTime> LOCAL_DATE_TIME =
            ofTwo(
                    LocalDateTime.class,
                    two ->
                            LocalDateTime.of(
                                    LocalDate.ofEpochDay(two[0]),
                                    LocalTime.ofNanoOfDay(two[1] - 1)),
                    value ->
                            new long[] {
                                value.toLocalDate().toEpochDay(),
                                value.toLocalTime().toNanoOfDay() + 1
                            });

    /// The `UUID` that would be stored as two zeros. Its variant, 7, is reserved, so no standard
    /// way to make one gives it.
    private static final UUID NOT_STORED = new UUID(0x8f1c6e0b5a2d4973L, 0xe6b04d9f3c7a5128L);

    /// `java.util.UUID`
    public static final ValueType<UUID> UUID =
            ofTwo(UUID.class, ValueType::toUuid, ValueType::ofUuid);

    /// `java.math.BigInteger`
    public static final ValueType<BigInteger> BIG_INTEGER =
            ofBytes(BigInteger.class, BigInteger::new, BigInteger::toByteArray);

    /// `java.math.BigDecimal`
    public static final ValueType<BigDecimal> BIG_DECIMAL =
            ofBytes(BigDecimal.class, ValueBytes::toDecimal, ValueBytes::ofDecimal);

    private static final List<ValueType<?>> ALL =
            List.of(
                    LOCAL_DATE,
                    LOCAL_TIME,
                    INSTANT,
                    DURATION,
                    LOCAL_DATE_TIME,
                    UUID,
                    BIG_INTEGER,
                    BIG_DECIMAL);

    private final Class<T> type;
    private final FieldKind kind;
    private final Function<Object, @Nullable T> decode;
    private final Function<T, Object> encode;

    private ValueType(
            Class<T> type,
            FieldKind kind,
            Function<Object, @Nullable T> decode,
            Function<T, Object> encode) {
        this.type = type;
        this.kind = kind;
        this.decode = decode;
        this.encode = encode;
    }

    private static <T> ValueType<T> ofLong(
            Class<T> type, Function<Long, T> decode, Function<T, Object> encode) {
        return new ValueType<>(type, FieldKind.LONG, bits -> decode.apply((Long) bits), encode);
    }

    private static <T> ValueType<T> ofTwo(
            Class<T> type, Function<long[], T> decode, Function<T, Object> encode) {
        return new ValueType<>(
                type,
                FieldKind.LONGS,
                stored -> {
                    long[] two = (long[]) stored;
                    return two[0] == 0 && two[1] == 0 ? null : decode.apply(two);
                },
                encode);
    }

    private static <T> ValueType<T> ofBytes(
            Class<T> type, Function<byte[], T> decode, Function<T, Object> encode) {
        return new ValueType<>(
                type, FieldKind.BYTES, bytes -> decode.apply((byte[]) bytes), encode);
    }

    /// All of them.
    public static List<ValueType<?>> all() {
        return ALL;
    }

    /// The class of a field's values; null if they are what its kind says.
    public static @Nullable ValueType<?> of(FieldSpec field) {
        return ALL.stream()
                .filter(each -> each.name().equals(field.target()) && each.kind == field.kind())
                .findAny()
                .orElse(null);
    }

    /// The fully qualified name of the class.
    public String name() {
        return type.getName();
    }

    /// The kind of the fields that hold its values.
    public FieldKind kind() {
        return kind;
    }

    /// A field of this class in PMEM, which may be null.
    public FieldSpec field(String name) {
        FieldSpec field = FieldSpec.of(name, kind).to(name());
        return kind == FieldKind.LONGS ? field.ofLength(2) : field.orNull();
    }

    /// The value that is stored as a `Long`, as two `long`s or as bytes, by its kind; null for
    /// null.
    ///
    /// @throws PoolDamagedException if no value is stored so
    public @Nullable T decode(@Nullable Object stored) {
        try {
            return stored == null ? null : decode.apply(stored);
        } catch (DateTimeException | ArithmeticException | IllegalArgumentException e) {
            throw new PoolDamagedException("what is stored is no " + name(), e);
        }
    }

    /// A value as it is stored; null for null.
    @Nullable Object encode(@Nullable T value) {
        if (value == null) {
            return kind == FieldKind.LONGS ? new long[2] : null;
        }
        return encode.apply(value);
    }

    private static long nanos(long stored) {
        if (stored < 1 || stored > 1_000_000_000) {
            throw new IllegalArgumentException(stored - 1 + " nanoseconds of a second");
        }
        return stored - 1;
    }

    private static UUID toUuid(long[] two) {
        return new UUID(
                two[0] ^ NOT_STORED.getMostSignificantBits(),
                two[1] ^ NOT_STORED.getLeastSignificantBits());
    }

    private static long[] ofUuid(UUID value) {
        if (value.equals(NOT_STORED)) {
            throw new IllegalArgumentException(
                    value + " cannot be stored, since its place is null's: choose another UUID");
        }
        return new long[] {
            value.getMostSignificantBits() ^ NOT_STORED.getMostSignificantBits(),
            value.getLeastSignificantBits() ^ NOT_STORED.getLeastSignificantBits()
        };
    }

    @Override
    public String toString() {
        return name();
    }
}
