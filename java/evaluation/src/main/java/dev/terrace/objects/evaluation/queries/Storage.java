package dev.terrace.objects.evaluation.queries;

import java.nio.file.Path;
import java.util.Locale;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.SparkSession;

/// How tables are kept that queries read.
enum Storage {
    /// Tables of the format `terrace`, with all columns in persistent memory.
    TERRACE("terrace table") {
        @Override
        void write(Dataset<Row> rows, String path) {
            rows.write().format("terrace").mode(SaveMode.Append).save(path);
        }

        @Override
        Dataset<Row> read(SparkSession session, String path) {
            return session.read().format("terrace").load(path);
        }
    },
    PARQUET_SNAPPY("Parquet, Snappy") {
        @Override
        void write(Dataset<Row> rows, String path) {
            rows.write().option("compression", "snappy").parquet(path);
        }
    },
    PARQUET_PLAIN("Parquet, uncompressed") {
        @Override
        void write(Dataset<Row> rows, String path) {
            rows.write().option("compression", "uncompressed").parquet(path);
        }
    },
    /// Uncompressed Parquet, of which all columns are cached before the first query.
    CACHED("cached DataFrame") {
        @Override
        void write(Dataset<Row> rows, String path) {
            // It reads what another has written.
        }

        @Override
        Dataset<Row> read(SparkSession session, String path) {
            Dataset<Row> cached = super.read(session, path).cache();
            cached.count();
            return cached;
        }

        @Override
        Path directory(Path all) {
            return PARQUET_PLAIN.directory(all);
        }
    };

    /// Its name in reports.
    final String title;

    Storage(String title) {
        this.title = title;
    }

    /// Writes a table.
    abstract void write(Dataset<Row> rows, String path);

    /// A table that was written.
    Dataset<Row> read(SparkSession session, String path) {
        return session.read().parquet(path);
    }

    /// The directory of its tables, in that of all.
    Path directory(Path all) {
        return all.resolve(name().toLowerCase(Locale.ROOT));
    }

    /// The directory of a table.
    String path(Path all, WarehouseTable table) {
        return directory(all).resolve(table.title()).toString();
    }
}
