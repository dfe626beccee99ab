package dev.terrace.objects.arrow;

import dev.terrace.objects.Cursor;
import dev.terrace.objects.DurableRecord;
import dev.terrace.objects.ObjectType;
import dev.terrace.objects.Pool;
import java.util.List;

/// All objects of a class, in the order in which they lie in persistent memory.
///
/// Fields of a fixed length within the records are copied for some dozen objects at once. All
/// others are read object by object.
final class ClassRows extends ObjectRows {
    private final List<Column> copied;
    private final List<Column> others;

    /// The last object of the batches so far, and that of the batch that is being filled; 0: none.
    private long last;

    private long lastFilled;

    ClassRows(Pool pool, ObjectType<DurableRecord> type, Shape shape) {
        super(pool, type, shape, false);
        copied = columns.all().stream().filter(Column::isCopied).toList();
        others = columns.all().stream().filter(column -> !column.isCopied()).toList();
    }

    /// Cursors are made anew for each batch, because a program may have stored the class in another
    /// form meanwhile.
    @Override
    public int fill(int rowsMax) {
        Cursor<DurableRecord> walk = pool.cursor(type);
        Cursor<DurableRecord> single = pool.cursor(type);
        walk.goOnBehind(last);
        lastFilled = last;
        int rows = 0;
        long bytes = 0;
        while (rows < rowsMax && bytes < BYTES_MAX) {
            int all = walk.nextBatch();
            if (all == 0) {
                break;
            }
            int wanted = Math.min(all, rowsMax - rows);
            int taken = 0;
            while (taken < wanted && bytes < BYTES_MAX) {
                bytes += columns.width() + add(single, walk.reference(taken), rows + taken);
                taken++;
            }
            for (Column column : copied) {
                column.copy(walk, rows, taken, all);
            }
            lastFilled = walk.reference(taken - 1);
            rows += taken;
            if (taken < all) {
                break;
            }
        }
        return rows;
    }

    /// Adds an object without the fields that are copied for many objects at once, and returns how
    /// many bytes its values of any length take.
    private long add(Cursor<DurableRecord> single, long reference, int row) {
        columns.setId(row, reference);
        long bytes = 0;
        if (!others.isEmpty()) {
            DurableRecord object = single.at(reference);
            for (Column column : others) {
                bytes += column.set(row, object);
            }
        }
        return bytes;
    }

    @Override
    public void accept() {
        last = lastFilled;
    }
}
