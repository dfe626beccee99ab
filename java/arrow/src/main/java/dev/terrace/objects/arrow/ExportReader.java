package dev.terrace.objects.arrow;

import dev.terrace.objects.Pool;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.List;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.util.MemoryUtil;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowReader;
import org.apache.arrow.vector.types.pojo.Schema;

/// Reads batches out of a pool, each in a consistent read.
final class ExportReader extends ArrowReader {
    private final Pool pool;
    private final Rows rows;
    private final int rowsMax;
    private boolean isBound;
    private long bytes;

    ExportReader(Pool pool, Rows rows, Shape shape, BufferAllocator allocator) {
        super(allocator);
        requireOpen(MemoryUtil.class.getModule());
        this.pool = pool;
        this.rows = rows;
        rowsMax =
                (int)
                        Math.max(
                                1,
                                Math.min(shape.rows(), Rows.BYTES_MAX / Math.max(1, rows.width())));
    }

    /// Arrow itself would fail only when it needs a part of its memory as a buffer of Java's.
    private static void requireOpen(Module arrow) {
        if (!ByteBuffer.class.getModule().isOpen("java.nio", arrow)) {
            throw new IllegalStateException(
                    "Arrow needs java.nio: start java with --add-opens=java.base/java.nio="
                            + (arrow.isNamed() ? arrow.getName() : "ALL-UNNAMED"));
        }
    }

    @Override
    protected Schema readSchema() {
        return rows.schema();
    }

    @Override
    public boolean loadNextBatch() throws IOException {
        prepareLoadNextBatch();
        VectorSchemaRoot root = getVectorSchemaRoot();
        if (!isBound) {
            rows.bind(root);
            isBound = true;
        }
        List<FieldVector> vectors = root.getFieldVectors();
        int count =
                pool.read(() -> {
                    vectors.forEach(this::empty);
                    return rows.fill(rowsMax);
                });
        rows.accept();
        root.setRowCount(count);
        vectors.forEach(vector -> bytes += vector.getBufferSize());
        return count > 0;
    }

    /// Prepares a vector for a batch: its buffers are used again, unless the program has taken them
    /// away.
    private void empty(FieldVector vector) {
        if (vector.getValueCapacity() < rowsMax) {
            vector.clear();
            vector.setInitialCapacity(rowsMax);
            vector.allocateNew();
        } else {
            vector.reset();
        }
    }

    @Override
    public long bytesRead() {
        return bytes;
    }

    /// The pool stays open: it is the program's.
    @Override
    protected void closeReadSource() {}
}
