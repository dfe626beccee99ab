package dev.terrace.objects.arrow;

import dev.terrace.objects.Cursor;
import dev.terrace.objects.FieldKind;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.apache.arrow.memory.ArrowBuf;
import org.apache.arrow.vector.BitVectorHelper;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.types.FloatingPointPrecision;
import org.apache.arrow.vector.types.pojo.ArrowType;

/// Primitives, as they go from a cursor's batch to an array, and from there to a vector, many at a
/// time.
final class Elements {
    private Elements() {}

    /// How Arrow calls primitives of a kind.
    static ArrowType typeOf(FieldKind kind) {
        return switch (kind) {
            case BOOLEAN -> ArrowType.Bool.INSTANCE;
            case BYTE, SHORT, INT, LONG, REFERENCE ->
                    new ArrowType.Int(kind.width() * Byte.SIZE, true);
            case CHAR -> new ArrowType.Int(kind.width() * Byte.SIZE, false);
            case FLOAT -> new ArrowType.FloatingPoint(FloatingPointPrecision.SINGLE);
            case DOUBLE -> new ArrowType.FloatingPoint(FloatingPointPrecision.DOUBLE);
            default -> throw new AssertionError(kind);
        };
    }

    /// An array of primitives of a kind.
    static Object array(FieldKind kind, int length) {
        return switch (kind) {
            case BOOLEAN -> new boolean[length];
            case BYTE -> new byte[length];
            case SHORT -> new short[length];
            case CHAR -> new char[length];
            case INT -> new int[length];
            case FLOAT -> new float[length];
            case LONG -> new long[length];
            case DOUBLE -> new double[length];
            default -> throw new AssertionError(kind);
        };
    }

    /// Copies a field of a cursor's batch into an array.
    static void copy(Cursor<?> cursor, int field, Object into) {
        int elements =
                switch (into) {
                    case boolean[] array -> cursor.copyBooleans(field, array, 0);
                    case byte[] array -> cursor.copyBytes(field, array, 0);
                    case short[] array -> cursor.copyShorts(field, array, 0);
                    case char[] array -> cursor.copyChars(field, array, 0);
                    case int[] array -> cursor.copyInts(field, array, 0);
                    case float[] array -> cursor.copyFloats(field, array, 0);
                    case long[] array -> cursor.copyLongs(field, array, 0);
                    case double[] array -> cursor.copyDoubles(field, array, 0);
                    default -> throw new AssertionError(into.getClass());
                };
        assert elements > 0;
    }

    /// Puts the first elements of an array into a vector, which gets room for them. None is null.
    static void put(FieldVector vector, int at, Object array, int count) {
        while (vector.getValueCapacity() < at + count) {
            vector.reAlloc();
        }
        ArrowBuf data = vector.getDataBuffer();
        switch (array) {
            case boolean[] values -> putBits(data, at, values, count);
            case byte[] values -> data.setBytes(at, values, 0, count);
            case short[] values ->
                    room(data, at, count, Short.BYTES).asShortBuffer().put(values, 0, count);
            case char[] values ->
                    room(data, at, count, Character.BYTES).asCharBuffer().put(values, 0, count);
            case int[] values ->
                    room(data, at, count, Integer.BYTES).asIntBuffer().put(values, 0, count);
            case float[] values ->
                    room(data, at, count, Float.BYTES).asFloatBuffer().put(values, 0, count);
            case long[] values ->
                    room(data, at, count, Long.BYTES).asLongBuffer().put(values, 0, count);
            case double[] values ->
                    room(data, at, count, Double.BYTES).asDoubleBuffer().put(values, 0, count);
            default -> throw new AssertionError(array.getClass());
        }
        setAll(vector.getValidityBuffer(), at, count);
    }

    private static ByteBuffer room(ArrowBuf data, int at, int count, int width) {
        return data.nioBuffer((long) at * width, count * width).order(ByteOrder.LITTLE_ENDIAN);
    }

    private static void putBits(ArrowBuf data, int at, boolean[] values, int count) {
        for (int i = 0; i < count; i++) {
            BitVectorHelper.setValidityBit(data, at + i, values[i] ? 1 : 0);
        }
    }

    /// Sets bits, whole bytes of them at once.
    static void setAll(ArrowBuf bits, int from, int count) {
        int end = from + count;
        int at = from;
        for (; at < end && at % Byte.SIZE != 0; at++) {
            BitVectorHelper.setBit(bits, at);
        }
        int bytes = (end - at) / Byte.SIZE;
        bits.setOne((long) at / Byte.SIZE, bytes);
        for (at += bytes * Byte.SIZE; at < end; at++) {
            BitVectorHelper.setBit(bits, at);
        }
    }
}
