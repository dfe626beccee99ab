package dev.terrace.objects.spark;

import java.nio.ByteBuffer;
import java.util.Arrays;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.unsafe.types.UTF8String;
import org.jspecify.annotations.Nullable;

/// Keys of values: bytes whose order, as unsigned numbers one after the other, is that of the
/// values as Spark compares them. Numbers have eight, the sign turned round; strings and binary
/// values their own.
final class OrderKeys {
    /// The number of bytes that are kept of a long value's key.
    static final int BYTES_MAX = 64;

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
                    when type instanceof DecimalType of
                            && of.precision() <= Decimal.MAX_LONG_DIGITS()
                            && decimal.scale() == of.scale() ->
                    ofLong(decimal.toUnscaledLong());
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
