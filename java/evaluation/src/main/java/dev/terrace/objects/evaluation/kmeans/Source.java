package dev.terrace.objects.evaluation.kmeans;

import dev.terrace.objects.spark.DurableRDD;
import dev.terrace.objects.spark.PartitionOptions;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/// Where the points of a run come from.
enum Source {
    /// NO-PMEM as the paper's authors ran it: each step reads the text again.
    TEXT("text, parsed again in each step") {
        @Override
        Points open(SparkSession session, PointFiles files, Path pmem) {
            return new RddPoints(text(session, files));
        }
    },
    TEXT_CACHED("text + cached RDD") {
        @Override
        Points open(SparkSession session, PointFiles files, Path pmem) {
            return new RddPoints(text(session, files).cache());
        }
    },
    BINARY_CACHED("binary + cached RDD") {
        @Override
        Points open(SparkSession session, PointFiles files, Path pmem) {
            return new RddPoints(binary(session, files.converted()).cache());
        }

        @Override
        void store(SparkSession session, PointFiles files, Path pmem) throws IOException {
            // As text, since Spark sends it to tasks, and paths cannot be sent.
            String directory = Files.createDirectories(files.converted()).toString();
            text(session, files)
                    .foreachPartition(rows ->
                            PointFiles.write(
                                    Path.of(directory, "part-" + TaskContext.getPartitionId()),
                                    rows));
        }

        @Override
        Path directory(PointFiles files, Path pmem) {
            return files.converted();
        }
    },
    PARQUET_CACHED("Parquet + cached DataFrame") {
        @Override
        Points open(SparkSession session, PointFiles files, Path pmem) {
            return new FramePoints(session.read().parquet(files.parquet().toString()).cache());
        }

        @Override
        void store(SparkSession session, PointFiles files, Path pmem) {
            frame(session, files).write().parquet(files.parquet().toString());
        }
    },
    /// A table whose columns lie in persistent memory, which needs no cache and makes a row of
    /// Spark's of each of its own.
    PMEM_TABLE("table in persistent memory") {
        @Override
        Points open(SparkSession session, PointFiles files, Path pmem) {
            return new FramePoints(
                    session.read().format(TABLE_FORMAT).load(table(pmem).toString()));
        }

        @Override
        void store(SparkSession session, PointFiles files, Path pmem) {
            frame(session, files)
                    .coalesce(POOLS)
                    .write()
                    .format(TABLE_FORMAT)
                    .mode(SaveMode.Append)
                    .save(table(pmem).toString());
        }

        @Override
        Path directory(PointFiles files, Path pmem) {
            return table(pmem);
        }
    },
    /// ALL-PMEM of the paper: a pool for each partition, points read in place.
    ALL_PMEM("ALL-PMEM (DurableRDD)") {
        @Override
        Points open(SparkSession session, PointFiles files, Path pmem) throws IOException {
            return new DurablePoints(
                    DurableRDD.open(
                            context(session),
                            Point.class,
                            DurablePoint.class,
                            points(pmem).toString()));
        }

        @Override
        void store(SparkSession session, PointFiles files, Path pmem) throws IOException {
            JavaRDD<Point> points = text(session, files).map(Point::new);
            int pools = Math.min(points.getNumPartitions(), POOLS);
            DurableRDD.save(
                    points.coalesce(pools),
                    Point.class,
                    DurablePoint.class,
                    points(pmem).toString(),
                    PartitionOptions.defaults());
        }

        @Override
        Path directory(PointFiles files, Path pmem) {
            return points(pmem);
        }
    };

    /// Those that look at a file only once, and are stored as the paper's authors did not: the
    /// honest ones.
    static final List<Source> CACHED = List.of(TEXT_CACHED, BINARY_CACHED, PARQUET_CACHED);

    private static final int POOLS = 8;
    private static final String TABLE_FORMAT = "terrace";

    /// Its name in reports.
    final String title;

    Source(String title) {
        this.title = title;
    }

    /// The points, of which nothing has been read yet.
    abstract Points open(SparkSession session, PointFiles files, Path pmem) throws IOException;

    /// Makes of the files what [#open(SparkSession, PointFiles, Path)] needs, if that is something
    /// else.
    void store(SparkSession session, PointFiles files, Path pmem) throws IOException {}

    /// The directory of what [#store(SparkSession, PointFiles, Path)] makes, if that is one.
    ///
    /// @throws IllegalArgumentException if it makes none
    Path directory(PointFiles files, Path pmem) {
        throw new IllegalArgumentException(title + " has no directory of its own");
    }

    private static JavaSparkContext context(SparkSession session) {
        return JavaSparkContext.fromSparkContext(session.sparkContext());
    }

    private static Path points(Path pmem) {
        return pmem.resolve("points");
    }

    private static Path table(Path pmem) {
        return pmem.resolve("table");
    }

    private static Dataset<Row> frame(SparkSession session, PointFiles files) {
        return session.createDataFrame(
                binary(session, files.binary())
                        .map(row -> RowFactory.create(Arrays.stream(row).boxed().toArray())),
                new StructType(
                        IntStream.range(0, Point.DIMENSIONS)
                                .mapToObj(i ->
                                        DataTypes.createStructField(
                                                "c" + i, DataTypes.DoubleType, false))
                                .toArray(StructField[]::new)));
    }

    private static JavaRDD<double[]> text(SparkSession session, PointFiles files) {
        return context(session).textFile(files.text().toString()).map(Source::parse);
    }

    /// As people write it.
    private static double[] parse(String line) {
        String[] parts = line.split(" ");
        double[] row = new double[parts.length];
        for (int i = 0; i < parts.length; i++) {
            row[i] = Double.parseDouble(parts[i]);
        }
        return row;
    }

    private static JavaRDD<double[]> binary(SparkSession session, Path files) {
        return context(session)
                .binaryRecords(files.toString(), Point.DIMENSIONS * Double.BYTES)
                .map(bytes -> {
                    double[] row = new double[Point.DIMENSIONS];
                    ByteBuffer.wrap(bytes).asDoubleBuffer().get(row);
                    return row;
                });
    }
}
