package dev.terrace.objects.spark;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Objects;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DayTimeIntervalType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.NumericType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.types.YearMonthIntervalType;
import org.apache.spark.unsafe.types.UTF8String;
import org.jspecify.annotations.Nullable;

/// Keys of values: bytes whose order, as unsigned numbers one after the other, is that of the
/// values as Spark compares them. Numbers have eight, the sign turned round; strings and binary
/// values their own.
final class OrderKeys {
    /// The number of bytes that are kept of a long value's key.
    static final int BYTES_MAX = 64;

    /// Bytes of the key of a decimal of more than 18 digits.
    private static final int DECIMAL_BYTES = 16;

    private OrderKeys() {}

    /// A number of Spark's order as one of the order of long: NaN is the greatest, and zero has no
    /// sign.
    static long ofDouble(double value) {
        long bits = Double.doubleToLongBits(value == 0 ? 0 : value);
        return bits < 0 ? bits ^ Long.MAX_VALUE : bits;
    }

    /// The key of a number.
    static byte[] ofLong(long number) {
        return ByteBuffer.allocate(Long.BYTES).putLong(number ^ Long.MIN_VALUE).array();
    }

    /// The number that has this key.
    static long toLong(byte[] key) {
        return ByteBuffer.wrap(key).getLong() ^ Long.MIN_VALUE;
    }

    /// The number that [#ofDouble] has made this of.
    private static double toDouble(long ordered) {
        return Double.longBitsToDouble(ordered < 0 ? ordered ^ Long.MAX_VALUE : ordered);
    }

    /// The key of a decimal of more than 18 digits: its number without the point, which fits into
    /// sixteen bytes, the sign turned round.
    private static byte[] ofDecimal(Decimal decimal) {
        byte[] unscaled = decimal.toJavaBigDecimal().unscaledValue().toByteArray();
        byte[] key = new byte[DECIMAL_BYTES];
        Arrays.fill(key, (byte) (unscaled[0] < 0 ? -1 : 0));
        System.arraycopy(unscaled, 0, key, key.length - unscaled.length, unscaled.length);
        key[0] ^= Byte.MIN_VALUE;
        return key;
    }

    private static Decimal toDecimal(byte[] key, DecimalType type) {
        byte[] unscaled = key.clone();
        unscaled[0] ^= Byte.MIN_VALUE;
        BigDecimal number = new BigDecimal(new BigInteger(unscaled), type.scale());
        return Decimal.apply(number, type.precision(), type.scale());
    }

    /// Whether each value of this type has a key, and values with the same key are equal.
    static boolean areExact(DataType type) {
        return switch (type) {
            case StringType _, BinaryType _ -> areBytesOrdered(type);
            case BooleanType _, NumericType _, DateType _ -> true;
            case TimestampType _, TimestampNTZType _ -> true;
            case YearMonthIntervalType _, DayTimeIntervalType _ -> true;
            default -> false;
        };
    }

    /// The key of a value in a row; null if that is null.
    static byte @Nullable [] in(SpecializedGetters row, int ordinal, DataType type) {
        return row.isNullAt(ordinal)
                ? null
                : Objects.requireNonNull(of(row.get(ordinal, type), type), type::sql);
    }

    /// A value with this key, of a type whose keys are exact, as Spark has it.
    static Object value(byte[] key, DataType type) {
        return switch (type) {
            case StringType _ -> UTF8String.fromBytes(key);
            case BinaryType _ -> key;
            case BooleanType _ -> toLong(key) != 0;
            case ByteType _ -> (byte) toLong(key);
            case ShortType _ -> (short) toLong(key);
            case IntegerType _, DateType _, YearMonthIntervalType _ -> (int) toLong(key);
            case FloatType _ -> (float) toDouble(toLong(key));
            case DoubleType _ -> toDouble(toLong(key));
            case DecimalType decimal ->
                    decimal.precision() > Decimal.MAX_LONG_DIGITS()
                            ? toDecimal(key, decimal)
                            : Decimal.createUnsafe(
                                    toLong(key), decimal.precision(), decimal.scale());
            default -> toLong(key);
        };
    }

    /// Whether keys are kept of the bytes of values of this type: strings are compared by their
    /// bytes only in the default collation.
    static boolean areBytesOrdered(DataType type) {
        return type.equals(DataTypes.StringType) || type instanceof BinaryType;
    }

    /// The key of a value as Spark has it; null if there is none.
    static byte @Nullable [] of(@Nullable Object value, DataType type) {
        return switch (value) {
            case UTF8String text when areBytesOrdered(type) -> text.getBytes();
            case byte[] bytes -> bytes;
            case Boolean flag when type instanceof BooleanType -> ofLong(flag ? 1 : 0);
            case Double number -> ofLong(ofDouble(number));
            case Float number -> ofLong(ofDouble(number));
            case Decimal decimal
                    when type instanceof DecimalType of && decimal.scale() == of.scale() ->
                    of.precision() > Decimal.MAX_LONG_DIGITS()
                            ? ofDecimal(decimal)
                            : ofLong(decimal.toUnscaledLong());
            case Byte _, Short _, Integer _, Long _ -> ofLong(((Number) value).longValue());
            case null, default -> null;
        };
    }

    /// Compares keys.
    static int compare(byte[] one, byte[] other) {
        return Arrays.compareUnsigned(one, other);
    }

    /// A key that is not greater.
    static byte[] floor(byte[] key) {
        return key.length > BYTES_MAX ? Arrays.copyOf(key, BYTES_MAX) : key;
    }

    /// A key that is not less; null if there is none as short.
    static byte @Nullable [] ceiling(byte[] key) {
        if (key.length <= BYTES_MAX) {
            return key;
        }
        int length = BYTES_MAX;
        while (length > 0 && key[length - 1] == (byte) 0xff) {
            length--;
        }
        if (length == 0) {
            return null;
        }
        byte[] next = Arrays.copyOf(key, length);
        next[length - 1]++;
        return next;
    }
}
