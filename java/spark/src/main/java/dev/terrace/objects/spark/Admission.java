package dev.terrace.objects.spark;

import java.util.stream.Stream;
import org.apache.spark.sql.connector.read.streaming.CompositeReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxBytes;
import org.apache.spark.sql.connector.read.streaming.ReadMaxFiles;

/// How many more parts a batch of a stream takes. It takes one at least, so that the stream goes
/// on.
final class Admission {
    private long parts = Long.MAX_VALUE;
    private long bytes = Long.MAX_VALUE;
    private boolean hasAny;

    Admission(ReadLimit limit) {
        add(limit);
    }

    private void add(ReadLimit limit) {
        switch (limit) {
            case ReadMaxFiles files -> parts = Math.min(parts, files.maxFiles());
            case ReadMaxBytes size -> bytes = Math.min(bytes, size.maxBytes());
            case CompositeReadLimit all -> Stream.of(all.getReadLimits()).forEach(this::add);
            case ReadAllAvailable _ -> {
                // There is no limit.
            }
            default ->
                    throw new IllegalArgumentException(
                            "a stream of a table counts parts and bytes, not " + limit);
        }
    }

    /// Takes a part, if the batch has room for it.
    ///
    /// @return whether it has
    boolean takes(Part part) {
        boolean takes = !hasAny || parts > 0 && part.bytes() <= bytes;
        if (takes) {
            hasAny = true;
            parts--;
            bytes -= part.bytes();
        }
        return takes;
    }
}
