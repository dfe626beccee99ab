package dev.terrace.objects.spark;

import dev.terrace.objects.DurableRecord;
import dev.terrace.objects.FieldKind;
import java.lang.reflect.Array;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.jspecify.annotations.Nullable;

/// Collects the values of a column, or of its children, until they are a block.
final class ColumnWriter {
    private static final int FIRST_LENGTH = 64;

    private final ColumnLayout layout;
    private final List<ColumnWriter> children;
    private final @Nullable Bounds bounds;

    /// An array of the layout's kind; empty where children have the values.
    private Object values;

    private int[] offsets = new int[FIRST_LENGTH];
    private byte[] nulls = new byte[FIRST_LENGTH / Byte.SIZE];
    private int rows;

    /// Bytes of all rows, where each has its own number.
    private int bytes;

    private int nullCount;
    private long nullsBefore;
    private long bytesBefore;

    ColumnWriter(ColumnLayout layout) {
        this.layout = layout;
        children = layout.children().stream().map(ColumnWriter::new).toList();
        bounds = layout.facts() < 0 || !layout.hasValues() ? null : Bounds.of(layout);
        values = array(layout.kind(), layout.hasValues() ? FIRST_LENGTH : 0);
    }

    /// An array of this kind.
    static Object array(FieldKind kind, int length) {
        return switch (kind) {
            case BYTES -> new byte[length];
            case SHORTS -> new short[length];
            case INTS -> new int[length];
            case LONGS -> new long[length];
            case FLOATS -> new float[length];
            case DOUBLES -> new double[length];
            default -> throw new AssertionError(kind);
        };
    }

    /// Bytes of what has been collected for the block, as they will be stored.
    long blockBytes() {
        long all = layout.isVariable() ? bytes + 4L * rows : fixedBytes();
        for (ColumnWriter child : children) {
            all += child.blockBytes();
        }
        return all;
    }

    /// Bytes that the longest field of the block takes so far.
    long longestBytes() {
        long longest = layout.isVariable() ? Math.max(bytes, 4L * rows) : fixedBytes();
        for (ColumnWriter child : children) {
            longest = Math.max(longest, child.longestBytes());
        }
        return longest;
    }

    private long fixedBytes() {
        return layout.hasValues() ? (long) rows * layout.kind().width() : 0;
    }

    /// Takes a value.
    void add(SpecializedGetters from, int ordinal) {
        if (from.isNullAt(ordinal)) {
            addNull();
            return;
        }
        makeRoom();
        switch (layout.type()) {
            case ArrayType _ -> children.getFirst().addAll(from.getArray(ordinal));
            case MapType _ -> {
                MapData map = from.getMap(ordinal);
                children.get(0).addAll(map.keyArray());
                children.get(1).addAll(map.valueArray());
            }
            case StructType struct -> {
                InternalRow fields = from.getStruct(ordinal, struct.size());
                for (int i = 0; i < struct.size(); i++) {
                    children.get(i).add(fields, i);
                }
            }
            default -> {
                if (layout.isVariable()) {
                    addBytes(bytes(from, ordinal));
                } else {
                    addFixed(from, ordinal);
                }
            }
        }
        endRow();
    }

    private void addAll(ArrayData elements) {
        for (int i = 0; i < elements.numElements(); i++) {
            add(elements, i);
        }
    }

    private void addNull() {
        makeRoom();
        nulls[rows / Byte.SIZE] |= (byte) (1 << rows % Byte.SIZE);
        nullCount++;
        if (layout.type() instanceof StructType) {
            children.forEach(ColumnWriter::addNull);
        } else if (!layout.isVariable()) {
            clear();
        }
        endRow();
    }

    private void endRow() {
        rows++;
        if (layout.isVariable()) {
            offsets[rows] = children.isEmpty() ? bytes : children.getFirst().rows;
        }
    }

    /// Sets the value of a row without a value, in a column of values of fixed width.
    private void clear() {
        switch (values) {
            case byte[] a -> a[rows] = 0;
            case short[] a -> a[rows] = 0;
            case int[] a -> a[rows] = 0;
            case long[] a -> a[rows] = 0;
            case float[] a -> a[rows] = 0;
            case double[] a -> a[rows] = 0;
            default -> throw new AssertionError(values);
        }
    }

    private void makeRoom() {
        if (rows / Byte.SIZE == nulls.length) {
            nulls = Arrays.copyOf(nulls, 2 * nulls.length);
        }
        if (layout.isVariable()) {
            if (rows + 1 == offsets.length) {
                offsets = Arrays.copyOf(offsets, 2 * offsets.length);
            }
        } else if (layout.hasValues() && rows == Array.getLength(values)) {
            values = resized(2 * rows, rows);
        }
    }

    private Object resized(int length, int count) {
        Object copy = array(layout.kind(), length);
        System.arraycopy(values, 0, copy, 0, count);
        return copy;
    }

    private byte[] bytes(SpecializedGetters from, int ordinal) {
        return switch (layout.type()) {
            case StringType _ -> from.getUTF8String(ordinal).getBytes();
            case DecimalType type ->
                    from.getDecimal(ordinal, type.precision(), type.scale())
                            .toJavaBigDecimal()
                            .unscaledValue()
                            .toByteArray();
            default -> from.getBinary(ordinal);
        };
    }

    private void addBytes(byte[] value) {
        int needed = Math.addExact(bytes, value.length);
        if (needed > Array.getLength(values)) {
            values =
                    resized(
                            Math.max(needed, (int) Math.min(2L * bytes, Integer.MAX_VALUE - 64)),
                            bytes);
        }
        System.arraycopy(value, 0, values, bytes, value.length);
        bytes = needed;
        if (bounds != null) {
            bounds.add(value);
        }
    }

    private void addFixed(SpecializedGetters from, int ordinal) {
        switch (values) {
            case byte[] a when layout.type() instanceof BooleanType ->
                    bound(a[rows] = (byte) (from.getBoolean(ordinal) ? 1 : 0));
            case byte[] a -> bound(a[rows] = from.getByte(ordinal));
            case short[] a -> bound(a[rows] = from.getShort(ordinal));
            case int[] a -> bound(a[rows] = from.getInt(ordinal));
            case long[] a when layout.type() instanceof DecimalType type ->
                    bound(
                            a[rows] =
                                    from.getDecimal(ordinal, type.precision(), type.scale())
                                            .toUnscaledLong());
            case long[] a -> bound(a[rows] = from.getLong(ordinal));
            case float[] a -> bound(OrderKeys.ofDouble(a[rows] = from.getFloat(ordinal)));
            case double[] a -> bound(OrderKeys.ofDouble(a[rows] = from.getDouble(ordinal)));
            default -> throw new AssertionError(values);
        }
    }

    private void bound(long number) {
        if (bounds != null) {
            bounds.add(number);
        }
    }

    /// Stores what has been collected in a block, and begins the next.
    void store(DurableRecord block) {
        bytesBefore += blockBytes();
        nullsBefore += nullCount;
        storeValues(block);
        if (layout.facts() >= 0) {
            block.setInt(layout.facts(), nullCount);
        }
        if (bounds != null) {
            block.setArray(layout.facts() + 1, bounds.min());
            block.setArray(layout.facts() + 2, bounds.max());
            bounds.next();
        }
        Arrays.fill(nulls, (byte) 0);
        rows = 0;
        bytes = 0;
        nullCount = 0;
    }

    private void storeValues(DurableRecord block) {
        block.setArray(
                layout.nulls(),
                nullCount == 0 ? null : Arrays.copyOf(nulls, (rows + Byte.SIZE - 1) / Byte.SIZE));
        if (layout.isVariable()) {
            block.setArray(layout.offsets(), Arrays.copyOf(offsets, rows + 1));
        }
        children.forEach(child -> child.store(block));
        if (layout.hasValues()) {
            int count = layout.isVariable() ? bytes : rows;
            block.setArray(layout.values(), resized(count, count));
        }
    }

    /// A summary of all stored values.
    ColumnSummary summary() {
        return new ColumnSummary(
                nullsBefore,
                bytesBefore,
                bounds == null ? null : bounds.leastOfAll(),
                bounds == null ? null : bounds.greatestOfAll());
    }
}
