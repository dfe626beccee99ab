package dev.terrace.objects.spark;

import dev.terrace.objects.DurableRecord;
import java.lang.reflect.Array;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.Arrays;
import java.util.Objects;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;
import org.jspecify.annotations.Nullable;

/// The values of a column in one block after the other. What of it is asked for is copied out of the pool when it is, as a whole, into arrays that are
/// used again: who only asks which rows are null reads no values.
final class BlockVector extends ColumnVector {
    private static final int UNKNOWN = -1;

    private final ColumnLayout layout;
    private final @Nullable BlockVector element;
    private @Nullable DurableRecord block;
    private boolean areNullsThere;
    private boolean areOffsetsThere;
    private boolean areValuesThere;
    /// Null: no row is.
    private byte @Nullable [] nulls;
    private byte[] nullBits = {};
    private int[] offsets = {};
    private Object values;
    private int rows;

    BlockVector(ColumnLayout layout) {
        super(layout.type());
        this.layout = layout;
        ColumnLayout elements = layout.element();
        element = elements == null ? null : new BlockVector(elements);
        values = ColumnWriter.array(layout.kind(), 0);
    }

    /// A vector of one row, which holds a number.
    static BlockVector ofNumber(ColumnLayout layout, @Nullable Long number) {
        BlockVector vector = new BlockVector(layout);
        vector.values = ColumnWriter.array(layout.kind(), 1);
        if (number != null) {
            switch (vector.values) {
                case byte[] a -> a[0] = number.byteValue();
                case short[] a -> a[0] = number.shortValue();
                case int[] a -> a[0] = number.intValue();
                default -> ((long[]) vector.values)[0] = number;
            }
        }
        vector.nulls = number == null ? new byte[] {1} : null;
        vector.rows = 1;
        vector.areNullsThere = true;
        vector.areValuesThere = true;
        return vector;
    }

    /// From now on the values are those of this block, which has so many rows, until it is given the next.
    void lead(DurableRecord to, int count) {
        block = to;
        rows = count;
        areNullsThere = false;
        areOffsetsThere = false;
        areValuesThere = false;
        if (element != null) {
            element.lead(to, UNKNOWN);
        }
    }

    private int rows() {
        if (rows == UNKNOWN) {
            rows = block().getArrayLength(layout.isVariable() ? layout.offsets() : layout.values()) - (layout.isVariable() ? 1 : 0);
        }
        return rows;
    }

    private DurableRecord block() {
        return Objects.requireNonNull(block, "the vector has no block yet");
    }

    private byte @Nullable [] nulls() {
        if (!areNullsThere) {
            int length = block().getArrayLength(layout.nulls());
            if (length >= 0) {
                nullBits = (byte[]) load(layout.nulls(), length, nullBits);
            }
            nulls = length < 0 ? null : nullBits;
            areNullsThere = true;
        }
        return nulls;
    }

    private int[] offsets() {
        if (!areOffsetsThere) {
            offsets = (int[]) load(layout.offsets(), block().getArrayLength(layout.offsets()), offsets);
            areOffsetsThere = true;
        }
        return offsets;
    }

    private Object values() {
        if (!areValuesThere) {
            values = load(layout.values(), block().getArrayLength(layout.values()), values);
            areValuesThere = true;
        }
        return values;
    }

    /// The first elements of a field, in an array that is as long at least.
    private Object load(int field, int length, Object into) {
        Object room = Array.getLength(into) >= length ? into : Array.newInstance(into.getClass().componentType(), length);
        int count = block().copyArray(field, room);
        assert count >= length;
        return room;
    }

    @Override
    public void close() {
        // Its arrays are the heap's, and the pool is the reader's.
    }

    @Override
    public boolean hasNull() {
        return nulls() != null;
    }

    @Override
    public int numNulls() {
        int count = 0;
        for (int row = 0; row < rows(); row++) {
            count += isNullAt(row) ? 1 : 0;
        }
        return count;
    }

    @Override
    public boolean isNullAt(int row) {
        byte[] bits = nulls();
        return bits != null && (bits[row >> 3] >> (row & 7) & 1) != 0;
    }

    @Override
    public boolean getBoolean(int row) {
        return ((byte[]) values())[row] != 0;
    }

    @Override
    public byte getByte(int row) {
        return ((byte[]) values())[row];
    }

    @Override
    public byte[] getBytes(int row, int count) {
        return Arrays.copyOfRange((byte[]) values(), row, row + count);
    }

    @Override
    public short getShort(int row) {
        return ((short[]) values())[row];
    }

    @Override
    public short[] getShorts(int row, int count) {
        return Arrays.copyOfRange((short[]) values(), row, row + count);
    }

    @Override
    public int getInt(int row) {
        return ((int[]) values())[row];
    }

    @Override
    public int[] getInts(int row, int count) {
        return Arrays.copyOfRange((int[]) values(), row, row + count);
    }

    @Override
    public long getLong(int row) {
        return ((long[]) values())[row];
    }

    @Override
    public long[] getLongs(int row, int count) {
        return Arrays.copyOfRange((long[]) values(), row, row + count);
    }

    @Override
    public float getFloat(int row) {
        return ((float[]) values())[row];
    }

    @Override
    public float[] getFloats(int row, int count) {
        return Arrays.copyOfRange((float[]) values(), row, row + count);
    }

    @Override
    public double getDouble(int row) {
        return ((double[]) values())[row];
    }

    @Override
    public double[] getDoubles(int row, int count) {
        return Arrays.copyOfRange((double[]) values(), row, row + count);
    }

    @Override
    public @Nullable Decimal getDecimal(int row, int precision, int scale) {
        if (isNullAt(row)) {
            return null;
        }
        if (!layout.isVariable()) {
            return Decimal.createUnsafe(getLong(row), precision, scale);
        }
        int from = offsets()[row];
        BigInteger unscaled = new BigInteger((byte[]) values(), from, offsets()[row + 1] - from);
        return Decimal.apply(new BigDecimal(unscaled, scale), precision, scale);
    }

    @Override
    public @Nullable UTF8String getUTF8String(int row) {
        if (isNullAt(row)) {
            return null;
        }
        int from = offsets()[row];
        return UTF8String.fromBytes((byte[]) values(), from, offsets()[row + 1] - from);
    }

    @Override
    public byte @Nullable [] getBinary(int row) {
        return isNullAt(row) ? null : Arrays.copyOfRange((byte[]) values(), offsets()[row], offsets()[row + 1]);
    }

    @Override
    public @Nullable ColumnarArray getArray(int row) {
        if (isNullAt(row)) {
            return null;
        }
        int from = offsets()[row];
        return new ColumnarArray(getChild(0), from, offsets()[row + 1] - from);
    }

    @Override
    public ColumnarMap getMap(int row) {
        throw new UnsupportedOperationException("tables have no maps");
    }

    @Override
    public ColumnVector getChild(int ordinal) {
        return Objects.requireNonNull(element, "only arrays have elements");
    }
}
