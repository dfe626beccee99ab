package dev.terrace.objects.arrow;

import dev.terrace.objects.Cursor;
import dev.terrace.objects.DurableRecord;
import dev.terrace.objects.ObjectType;
import dev.terrace.objects.collections.DurableSequence;
import org.jspecify.annotations.Nullable;

/// The objects of a list, by their numbers. An element that is null is a row of nulls.
final class ListRows extends ObjectRows {
    private final DurableSequence<?> list;
    private int next;
    private int filled;

    ListRows(DurableSequence<?> list, ObjectType<DurableRecord> type, Shape shape) {
        super(list.pool(), type, shape, true);
        this.list = list;
    }

    @Override
    public int fill(int rowsMax) {
        Cursor<DurableRecord> cursor = pool.cursor(type);
        int end = (int) Math.min(list.size(), (long) next + rowsMax);
        long bytes = 0;
        filled = 0;
        for (int i = next; i < end && bytes < BYTES_MAX; i++) {
            bytes += columns.width() + add(list.read(i, cursor), filled);
            filled++;
        }
        return filled;
    }

    private long add(@Nullable DurableRecord object, int row) {
        if (object == null) {
            columns.setNull(row);
            return 0;
        }
        columns.setId(row, object.reference());
        long bytes = 0;
        for (Column column : columns.all()) {
            bytes += column.set(row, object);
        }
        return bytes;
    }

    @Override
    public void accept() {
        next += filled;
    }
}
