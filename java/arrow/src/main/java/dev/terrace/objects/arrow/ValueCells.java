package dev.terrace.objects.arrow;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.util.UUID;
import org.apache.arrow.vector.DateDayVector;
import org.apache.arrow.vector.Decimal256Vector;
import org.apache.arrow.vector.DecimalVector;
import org.apache.arrow.vector.DurationVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.TimeNanoVector;
import org.apache.arrow.vector.TimeStampVector;
import org.apache.arrow.vector.UuidVector;
import org.apache.arrow.vector.extension.UuidType;
import org.apache.arrow.vector.types.DateUnit;
import org.apache.arrow.vector.types.TimeUnit;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.jspecify.annotations.Nullable;

/// Values of classes of the JDK for which Arrow has a type of its own. A value that this type
/// cannot hold is refused, and never changed; only fractions of a time that are shorter than the
/// unit are cut off.
final class ValueCells extends Cells {
    private static final int UUID_BYTES = 16;

    private final String column;
    private final ArrowType type;
    private final TimeUnit unit;

    private ValueCells(String column, ArrowType type, TimeUnit unit) {
        this.column = column;
        this.type = type;
        this.unit = unit;
    }

    /// Those of a class; null if Arrow has no type for it.
    ///
    /// @param column the name of the column
    static @Nullable Cells of(String className, String column, Shape shape) {
        TimeUnit unit = shape.unit();
        ArrowType.Decimal decimal = shape.decimals().get(column);
        boolean isNumber =
                className.equals(BigDecimal.class.getName())
                        || className.equals(BigInteger.class.getName());
        if (isNumber) {
            return decimal == null ? new TextCells() : new ValueCells(column, decimal, unit);
        }
        ArrowType type =
                switch (className) {
                    case "java.util.UUID" -> UuidType.INSTANCE;
                    case "java.time.LocalDate" -> new ArrowType.Date(DateUnit.DAY);
                    case "java.time.LocalTime" ->
                            new ArrowType.Time(TimeUnit.NANOSECOND, Long.SIZE);
                    case "java.time.LocalDateTime" -> new ArrowType.Timestamp(unit, null);
                    case "java.time.Instant" -> new ArrowType.Timestamp(unit, "UTC");
                    case "java.time.Duration" -> new ArrowType.Duration(unit);
                    default -> null;
                };
        return type == null ? null : new ValueCells(column, type, unit);
    }

    @Override
    ArrowType type() {
        return type;
    }

    @Override
    int width() {
        return type instanceof ArrowType.Decimal decimal
                ? decimal.getBitWidth() / Byte.SIZE
                : UUID_BYTES;
    }

    @Override
    long set(int row, Object value) {
        try {
            store(row, value);
        } catch (ArithmeticException e) {
            throw new IllegalArgumentException(
                    "column "
                            + column
                            + ": "
                            + value
                            + " does not fit into Arrow's "
                            + type
                            + ": "
                            + remedy(),
                    e);
        }
        return 0;
    }

    private String remedy() {
        return switch (type) {
            case ArrowType.Decimal _ -> "export it with more digits, or as a text";
            case ArrowType.Date _ -> "leave the column out";
            default -> "export times in a longer unit, or leave the column out";
        };
    }

    private void store(int row, Object value) {
        FieldVector into = vector();
        switch (value) {
            case UUID id -> ((UuidVector) into).setSafe(row, id);
            case LocalDate day ->
                    ((DateDayVector) into).setSafe(row, Math.toIntExact(day.toEpochDay()));
            case LocalTime time -> ((TimeNanoVector) into).setSafe(row, time.toNanoOfDay());
            case LocalDateTime time ->
                    ((TimeStampVector) into)
                            .setSafe(
                                    row, count(time.toEpochSecond(ZoneOffset.UTC), time.getNano()));
            case Instant time ->
                    ((TimeStampVector) into)
                            .setSafe(row, count(time.getEpochSecond(), time.getNano()));
            case Duration time ->
                    ((DurationVector) into).setSafe(row, count(time.getSeconds(), time.getNano()));
            case BigInteger number -> storeDecimal(into, row, new BigDecimal(number));
            case BigDecimal number -> storeDecimal(into, row, number);
            default -> throw new AssertionError(value.getClass());
        }
    }

    /// How many of the unit a time has.
    private long count(long seconds, int nanos) {
        long perSecond =
                switch (unit) {
                    case SECOND -> 1;
                    case MILLISECOND -> 1_000;
                    case MICROSECOND -> 1_000_000;
                    case NANOSECOND -> 1_000_000_000;
                };
        long part = nanos / (1_000_000_000 / perSecond);
        // So the lowest number is reached, too: its whole seconds alone would be too many.
        return seconds < 0
                ? Math.addExact(Math.multiplyExact(seconds + 1, perSecond), part - perSecond)
                : Math.addExact(Math.multiplyExact(seconds, perSecond), part);
    }

    private void storeDecimal(FieldVector into, int row, BigDecimal number) {
        ArrowType.Decimal decimal = (ArrowType.Decimal) type;
        BigDecimal scaled = number.setScale(decimal.getScale());
        if (scaled.precision() > decimal.getPrecision()) {
            throw new ArithmeticException(scaled.precision() + " digits");
        }
        if (into instanceof DecimalVector narrow) {
            narrow.setSafe(row, scaled);
        } else {
            ((Decimal256Vector) into).setSafe(row, scaled);
        }
    }
}
