package dev.terrace.objects.arrow;

import dev.terrace.objects.DurableRecord;
import dev.terrace.objects.ObjectType;
import dev.terrace.objects.Pool;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.types.pojo.Schema;

/// Rows that are objects of a class, with a column for each field.
abstract class ObjectRows implements Rows {
    final Pool pool;
    final ObjectType<DurableRecord> type;
    final Columns columns;

    /// @param mayBeNull whether a row may have no object
    ObjectRows(Pool pool, ObjectType<DurableRecord> type, Shape shape, boolean mayBeNull) {
        this.pool = pool;
        this.type = type;
        columns = new Columns(type, shape, mayBeNull);
    }

    @Override
    public final Schema schema() {
        return columns.schema(pool);
    }

    @Override
    public final int width() {
        return columns.width();
    }

    @Override
    public final void bind(VectorSchemaRoot root) {
        columns.bind(root);
    }
}
