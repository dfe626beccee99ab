package dev.terrace.objects.spark;

import dev.terrace.objects.Cursor;
import dev.terrace.objects.DurableRecord;
import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolDamagedException;
import java.io.IOException;
import java.io.Serial;
import java.io.Serializable;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.jspecify.annotations.Nullable;
import org.roaringbitmap.RoaringBitmap;

/// Reads the blocks of a part, one batch each, without the rows that are deleted, and mostly
/// without those that do not meet the query's conditions.
///
/// Invariant: who reads a part to its end has met as many rows as the manifest says: none is lost
/// with a block.
final class BlockReader implements PartitionReader<ColumnarBatch>, BlockFilter.Facts {
    /// Instead of a column's number: the ids of rows.
    static final int ID = -1;

    private static final ColumnLayout IDS =
            BlockLayout.of(new StructType().add("id", DataTypes.LongType)).column(0);

    private final Pool pool;
    private final TableScan.PartInput input;
    private final BlockLayout layout;
    private final List<BlockFilter> filters;
    private final Cursor<DurableRecord> cursor;
    private final DurableRecord block;
    private final BlockVector[] vectors;
    private final int[] columns;
    private final LiveRows live;

    /// All rows of a block.
    private final ColumnarBatch all;

    /// Those of a block that the query may need.
    private final ColumnarBatch some;

    private ColumnarBatch batch;
    private long[] ids = {};

    /// Rows of the blocks so far.
    private long walked;

    private long met;
    private long left;
    private long read;
    private long skipped;

    /// Makes readers of parts on executors.
    ///
    /// @param wanted columns, and of structs fields; among them may be the ids of rows
    record Factory(
            PartStore store,
            StructType schema,
            StructType wanted,
            List<BlockFilter> filters,
            long limit)
            implements Serializable {
        @Serial private static final long serialVersionUID = 1L;

        BlockReader open(TableScan.PartInput input) throws IOException {
            Pool pool = store.open(input.part());
            boolean done = false;
            try {
                RoaringBitmap deleted = store.deleted(input.part());
                BlockReader reader = new BlockReader(pool, input, this, deleted);
                done = true;
                return reader;
            } finally {
                if (!done) {
                    pool.close();
                }
            }
        }
    }

    private BlockReader(
            Pool pool, TableScan.PartInput input, Factory query, RoaringBitmap deleted) {
        this.pool = pool;
        this.input = input;
        filters = query.filters;
        columns = numbers(query.wanted, query.schema);
        layout = BlockLayout.of(query.schema);
        cursor = pool.cursor(layout.storedType(pool, input.part().name()));
        block = cursor.get();
        vectors =
                IntStream.range(0, columns.length)
                        .mapToObj(i -> new BlockVector(layout(i, query.wanted)))
                        .toArray(BlockVector[]::new);
        live = new LiveRows(deleted);
        all = new ColumnarBatch(vectors.clone());
        some =
                new ColumnarBatch(
                        IntStream.range(0, vectors.length)
                                .mapToObj(i ->
                                        columns[i] == ID
                                                ? vectors[i]
                                                : new LiveVector(vectors[i], live))
                                .toArray(ColumnVector[]::new));
        batch = all;
        left = query.limit;
    }

    /// The numbers of columns in a table.
    ///
    /// @return [#ID]: the ids of rows
    static int[] numbers(StructType wanted, StructType schema) {
        String ids = RowIds.column(schema).name();
        return Stream.of(wanted.fieldNames())
                .mapToInt(name -> name.equals(ids) ? ID : schema.fieldIndex(name))
                .toArray();
    }

    private ColumnLayout layout(int i, StructType wanted) {
        return columns[i] == ID ? IDS : layout.column(columns[i]).of(wanted.apply(i).dataType());
    }

    @Override
    public boolean next() {
        while (left > 0 && nextBlock()) {
            if (met++ % input.shares() != input.share()) {
                continue;
            }
            if (lead()) {
                read++;
                int rows = (int) Math.min(left, live.count());
                batch = live.areAll() ? all : some;
                batch.setNumRows(rows);
                left -= rows;
                return true;
            }
            skipped++;
        }
        return false;
    }

    /// Leads to the rows of the block that the query may need.
    ///
    /// @return whether there are any
    private boolean lead() {
        live.lead(walked - rows(), (int) rows());
        if (live.count() == 0 || !filters.stream().allMatch(filter -> filter.mayMatch(this))) {
            return false;
        }
        for (int i = 0; i < vectors.length; i++) {
            if (columns[i] != ID) {
                lead(vectors[i], columns[i]);
            }
        }
        narrow();
        for (int i = 0; i < vectors.length; i++) {
            if (columns[i] == ID) {
                vectors[i].hold(this::ids, live.count());
            }
        }
        return live.count() > 0;
    }

    private BlockVector lead(BlockVector vector, int column) {
        vector.lead(block, (int) rows(), (int) nulls(column));
        return vector;
    }

    /// Leaves out rows that do not meet the conditions: of the columns that no condition names,
    /// only what is left is looked at, and nothing if no row is.
    private void narrow() {
        List<BlockFilter> open =
                filters.stream().filter(filter -> !filter.mustMatch(this)).toList();
        if (!open.isEmpty()) {
            boolean[] needed = new boolean[(int) rows()];
            Arrays.fill(needed, true);
            open.forEach(filter -> filter.keep(this::vector, needed));
            live.narrow(needed);
        }
    }

    /// The values of a column of the block, whether the query wants it or not.
    private BlockVector vector(int column) {
        for (int i = 0; i < columns.length; i++) {
            if (columns[i] == column) {
                return vectors[i];
            }
        }
        return lead(new BlockVector(layout.column(column)), column);
    }

    /// The ids of the block's rows, in an array that is reused.
    private long[] ids() {
        ids = ids.length < live.count() ? new long[(int) rows()] : ids;
        RowIds.copy(input.number(), walked - rows(), live, ids);
        return ids;
    }

    /// Goes to the next block of the part, whoever's share it is.
    private boolean nextBlock() {
        boolean isThere = cursor.next();
        walked += isThere ? rows() : 0;
        long all = input.part().rows();
        if (isThere ? rows() < 1 || walked > all : walked != all) {
            throw new PoolDamagedException(
                    "part "
                            + input.part().name()
                            + " is damaged: its blocks have "
                            + walked
                            + (isThere ? " rows at least" : " rows")
                            + ", and the manifest says "
                            + all);
        }
        return isThere;
    }

    @Override
    public ColumnarBatch get() {
        return batch;
    }

    /// How many blocks were read so far.
    long read() {
        return read;
    }

    /// How many were skipped.
    long skipped() {
        return skipped;
    }

    @Override
    public long rows() {
        return block.getInt(BlockLayout.ROWS);
    }

    @Override
    public long nulls(int column) {
        return block.getInt(layout.column(column).facts());
    }

    @Override
    public byte @Nullable [] min(int column) {
        return (byte[]) block.getArray(layout.column(column).facts() + 1);
    }

    @Override
    public byte @Nullable [] max(int column) {
        return (byte[]) block.getArray(layout.column(column).facts() + 2);
    }

    @Override
    public void close() {
        pool.close();
    }
}
