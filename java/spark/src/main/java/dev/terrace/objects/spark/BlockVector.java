package dev.terrace.objects.spark;

import dev.terrace.objects.DurableRecord;
import dev.terrace.objects.PoolDamagedException;
import java.lang.reflect.Array;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.Arrays;
import java.util.Objects;
import java.util.function.IntToLongFunction;
import java.util.function.LongPredicate;
import java.util.function.Supplier;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;
import org.jspecify.annotations.Nullable;

/// The values of a column in one block after the other. Values, and null bits, are copied out of
/// the pool when they are first asked for, as a whole, into arrays that are reused. A query that
/// only tests for null reads no values.
///
/// Invariant: each array has exactly as many elements as the block has rows, or as the offsets say,
/// and offsets never fall, before anything of it is shown. So nobody is ever shown what another
/// block has left in an array.
final class BlockVector extends ColumnVector {
    private static final int UNKNOWN = -1;

    private final ColumnLayout layout;
    private final BlockVector[] children;

    /// Of children, those that they belong to.
    private final @Nullable BlockVector parent;

    /// Of values that are not a block's.
    private @Nullable Supplier<Object> made;

    private @Nullable DurableRecord block;
    private boolean areNullsThere;
    private boolean areOffsetsThere;
    private boolean areValuesThere;

    /// Null: no row is.
    private byte @Nullable [] nulls;

    private byte[] nullBits = {};
    private int[] offsets = {};
    private Object values;
    private long[] numbers = {};
    private int rows;
    private int expectedNulls = UNKNOWN;

    BlockVector(ColumnLayout layout) {
        this(layout, null);
    }

    private BlockVector(ColumnLayout layout, @Nullable BlockVector parent) {
        super(layout.type());
        this.layout = layout;
        this.parent = parent;
        children =
                layout.children().stream()
                        .map(child -> new BlockVector(child, this))
                        .toArray(BlockVector[]::new);
        values = ColumnWriter.array(layout.kind(), 0);
    }

    /// A vector of one row, which holds a number.
    static BlockVector ofNumber(ColumnLayout layout, @Nullable Long number) {
        BlockVector vector = new BlockVector(layout);
        Object array = ColumnWriter.array(layout.kind(), 1);
        vector.hold(() -> array, 1);
        if (number != null) {
            switch (array) {
                case byte[] a -> a[0] = number.byteValue();
                case short[] a -> a[0] = number.shortValue();
                case int[] a -> a[0] = number.intValue();
                default -> ((long[]) array)[0] = number;
            }
        }
        vector.nulls = number == null ? new byte[] {1} : null;
        return vector;
    }

    /// From now on the values are those of an array, and none is null.
    ///
    /// @param array gives it when a value is first asked for
    void hold(Supplier<Object> array, int count) {
        made = array;
        nulls = null;
        rows = count;
        areNullsThere = true;
        areValuesThere = false;
    }

    /// From now on the values are those of this block, which has so many rows, until it is given
    /// the next.
    ///
    /// @param nullCount how many rows are null
    void lead(DurableRecord to, int count, int nullCount) {
        lead(to);
        rows = count;
        expectedNulls = nullCount;
    }

    private void lead(DurableRecord to) {
        block = to;
        areNullsThere = false;
        areOffsetsThere = false;
        areValuesThere = false;
        for (BlockVector child : children) {
            child.lead(to);
            // The offsets may say how many, and are not read yet.
            child.rows = UNKNOWN;
            child.expectedNulls = UNKNOWN;
        }
    }

    /// How many rows there are; of elements and entries as many as the last offset says, of fields
    /// as many as structs.
    private int rows() {
        if (rows == UNKNOWN) {
            BlockVector of = Objects.requireNonNull(parent);
            rows = of.layout.isVariable() ? of.end() : of.rows();
        }
        return rows;
    }

    /// Where the last row's bytes, or elements, end.
    private int end() {
        return offsets()[rows()];
    }

    private DurableRecord block() {
        return Objects.requireNonNull(block, "the vector has no block yet");
    }

    private byte @Nullable [] nulls() {
        if (!areNullsThere) {
            boolean areAny = block().getArrayLength(layout.nulls()) >= 0;
            if (areAny) {
                nullBits = (byte[]) load(layout.nulls(), Math.ceilDiv(rows(), Byte.SIZE), nullBits);
            }
            nulls = areAny ? nullBits : null;
            requireNulls();
            areNullsThere = true;
        }
        return nulls;
    }

    /// Looks whether as many rows are null as the block says: without its bits, a row that is null
    /// would have a value.
    private void requireNulls() {
        int found = 0;
        for (int i = 0; nulls != null && i < rows(); i++) {
            found += nulls[i >> 3] >> (i & 7) & 1;
        }
        if (expectedNulls != UNKNOWN && found != expectedNulls) {
            throw damaged(
                    layout.nulls(), "say " + found + " nulls, and should say " + expectedNulls);
        }
    }

    private int[] offsets() {
        if (!areOffsetsThere) {
            offsets = (int[]) load(layout.offsets(), rows() + 1, offsets);
            for (int row = 0; row <= rows(); row++) {
                if (offsets[row] < (row == 0 ? 0 : offsets[row - 1])
                        || row == 0 && offsets[row] != 0) {
                    throw damaged(layout.offsets(), "are offsets that fall, at row " + row);
                }
            }
            areOffsetsThere = true;
        }
        return offsets;
    }

    private Object values() {
        if (!areValuesThere) {
            values =
                    made != null
                            ? made.get()
                            : load(layout.values(), layout.isVariable() ? end() : rows(), values);
            areValuesThere = true;
        }
        return values;
    }

    /// The elements of a field, which has so many, in an array that is as long at least.
    private Object load(int field, int length, Object into) {
        int stored = block().getArrayLength(field);
        if (stored != length) {
            throw damaged(field, "are " + stored + " elements, and should be " + length);
        }
        Object room =
                Array.getLength(into) >= length
                        ? into
                        : Array.newInstance(into.getClass().componentType(), length);
        if (block().copyArray(field, room) < length) {
            throw damaged(field, "are less than " + length + " elements");
        }
        return room;
    }

    /// Whether values are numbers, whose order is that of [OrderKeys].
    boolean areNumbers() {
        return !layout.isVariable();
    }

    /// Whether values have bytes, whose order is that of [OrderKeys]. Those of long decimals are
    /// not their keys.
    boolean areBytesOrdered() {
        return OrderKeys.areBytesOrdered(layout.type());
    }

    /// Asks about a value's bytes.
    @FunctionalInterface
    interface BytesTest {
        /// @param to where the value ends
        boolean isMetBy(byte[] bytes, int from, int to);
    }

    /// Clears rows whose number is null, less than the least, or greater than the greatest.
    void keepBetween(long least, long greatest, boolean[] keep) {
        keepNulls(false, keep);
        if (isAny(keep)) {
            long[] all = numbers();
            for (int row = 0; row < keep.length; row++) {
                keep[row] &= all[row] >= least & all[row] <= greatest;
            }
        }
    }

    /// Clears rows whose number is null, or does not meet a condition.
    void keepNumbers(LongPredicate condition, boolean[] keep) {
        keepNulls(false, keep);
        if (isAny(keep)) {
            long[] all = numbers();
            for (int row = 0; row < keep.length; row++) {
                keep[row] = keep[row] && condition.test(all[row]);
            }
        }
    }

    /// Clears rows whose value is null, or has bytes that do not meet a condition.
    void keepBytes(BytesTest condition, boolean[] keep) {
        keepNulls(false, keep);
        if (isAny(keep)) {
            int[] ends = offsets();
            byte[] bytes = (byte[]) values();
            for (int row = 0; row < keep.length; row++) {
                keep[row] = keep[row] && condition.isMetBy(bytes, ends[row], ends[row + 1]);
            }
        }
    }

    /// Whether a row is left; if not, nothing is to be read.
    private static boolean isAny(boolean[] rows) {
        for (boolean row : rows) {
            if (row) {
                return true;
            }
        }
        return false;
    }

    /// Clears rows that are not null, or those that are.
    void keepNulls(boolean areNulls, boolean[] keep) {
        boolean areAny = nulls() != null;
        for (int row = 0; (areAny || areNulls) && row < keep.length; row++) {
            keep[row] &= isNullAt(row) == areNulls;
        }
    }

    /// The values of all rows as numbers of the order of long.
    private long[] numbers() {
        if (values() instanceof long[] longs) {
            return longs;
        }
        numbers = numbers.length < rows() ? new long[rows()] : numbers;
        switch (values) {
            case byte[] a -> fill(row -> a[row]);
            case short[] a -> fill(row -> a[row]);
            case int[] a -> {
                // Most are: dates, keys and counts.
                for (int row = 0; row < rows; row++) {
                    numbers[row] = a[row];
                }
            }
            case float[] a -> fill(row -> OrderKeys.ofDouble(a[row]));
            case double[] a -> fill(row -> OrderKeys.ofDouble(a[row]));
            default -> throw new AssertionError(values);
        }
        return numbers;
    }

    private void fill(IntToLongFunction of) {
        for (int row = 0; row < rows; row++) {
            numbers[row] = of.applyAsLong(row);
        }
    }

    private PoolDamagedException damaged(int field, String why) {
        return new PoolDamagedException(block() + " is damaged: of field " + field + " " + why);
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
        try {
            BigInteger unscaled =
                    new BigInteger((byte[]) values(), from, offsets()[row + 1] - from);
            return Decimal.apply(new BigDecimal(unscaled, scale), precision, scale);
        } catch (ArithmeticException | NumberFormatException e) {
            throw damaged(layout.values(), "is a decimal that is none, at row " + row);
        }
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
        return isNullAt(row)
                ? null
                : Arrays.copyOfRange((byte[]) values(), offsets()[row], offsets()[row + 1]);
    }

    @Override
    public @Nullable ColumnarArray getArray(int row) {
        if (isNullAt(row)) {
            return null;
        }
        int from = offsets()[row];
        return new ColumnarArray(children[0], from, offsets()[row + 1] - from);
    }

    @Override
    public @Nullable ColumnarMap getMap(int row) {
        if (isNullAt(row)) {
            return null;
        }
        int from = offsets()[row];
        return new ColumnarMap(children[0], children[1], from, offsets()[row + 1] - from);
    }

    @Override
    public BlockVector getChild(int ordinal) {
        return children[ordinal];
    }
}
