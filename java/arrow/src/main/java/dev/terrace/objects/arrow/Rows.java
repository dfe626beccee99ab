package dev.terrace.objects.arrow;

import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.types.pojo.Schema;

/// The rows that an export walks over. For one thread.
interface Rows {
    /// Bytes of a batch, beyond which it gets no more rows. It is exceeded by a single row, and by
    /// the numbers of a few dozen objects, which are copied together.
    long BYTES_MAX = 64L << 20;

    /// The schema of the batches.
    Schema schema();

    /// Bytes that each row takes, at least.
    int width();

    /// Rows go into these vectors from now on.
    void bind(VectorSchemaRoot root);

    /// Puts the next rows into the vectors, from row 0 on, and returns how many. If it is called
    /// again before [#accept()], it begins with the same row. In a consistent read.
    int fill(int rowsMax);

    /// The last rows have been read: the next ones follow behind them.
    void accept();
}
