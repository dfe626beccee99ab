package dev.terrace.objects.spark;

import java.util.stream.IntStream;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;
import org.jspecify.annotations.Nullable;

/// The values of a column in the rows of a block that are not deleted, and that a query may need.
/// Nothing is copied: a batch of Spark's knows no selection, so each value is looked up by the
/// number of its row.
final class LiveVector extends ColumnVector {
    private final BlockVector all;
    private final LiveRows rows;

    /// The fields of structs, whose rows are the structs' rows; of arrays and maps nothing.
    private final LiveVector[] fields;

    /// @param all values of the block, deleted rows included
    LiveVector(BlockVector all, LiveRows rows) {
        super(all.dataType());
        this.all = all;
        this.rows = rows;
        int count = all.dataType() instanceof StructType struct ? struct.size() : 0;
        fields =
                IntStream.range(0, count)
                        .mapToObj(i -> new LiveVector(all.getChild(i), rows))
                        .toArray(LiveVector[]::new);
    }

    @Override
    public void close() {
        all.close();
    }

    @Override
    public boolean hasNull() {
        return all.hasNull();
    }

    @Override
    public int numNulls() {
        int count = 0;
        for (int row = 0; row < rows.count(); row++) {
            count += isNullAt(row) ? 1 : 0;
        }
        return count;
    }

    @Override
    public boolean isNullAt(int row) {
        return all.isNullAt(rows.at(row));
    }

    @Override
    public boolean getBoolean(int row) {
        return all.getBoolean(rows.at(row));
    }

    @Override
    public byte getByte(int row) {
        return all.getByte(rows.at(row));
    }

    @Override
    public short getShort(int row) {
        return all.getShort(rows.at(row));
    }

    @Override
    public int getInt(int row) {
        return all.getInt(rows.at(row));
    }

    @Override
    public long getLong(int row) {
        return all.getLong(rows.at(row));
    }

    @Override
    public float getFloat(int row) {
        return all.getFloat(rows.at(row));
    }

    @Override
    public double getDouble(int row) {
        return all.getDouble(rows.at(row));
    }

    @Override
    public @Nullable ColumnarArray getArray(int row) {
        return all.getArray(rows.at(row));
    }

    @Override
    public @Nullable ColumnarMap getMap(int row) {
        return all.getMap(rows.at(row));
    }

    @Override
    public @Nullable Decimal getDecimal(int row, int precision, int scale) {
        return all.getDecimal(rows.at(row), precision, scale);
    }

    @Override
    public @Nullable UTF8String getUTF8String(int row) {
        return all.getUTF8String(rows.at(row));
    }

    @Override
    public byte @Nullable [] getBinary(int row) {
        return all.getBinary(rows.at(row));
    }

    @Override
    public ColumnVector getChild(int ordinal) {
        return fields.length == 0 ? all.getChild(ordinal) : fields[ordinal];
    }
}
