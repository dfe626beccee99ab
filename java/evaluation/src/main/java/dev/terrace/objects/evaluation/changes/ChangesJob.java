package dev.terrace.objects.evaluation.changes;

import dev.terrace.objects.evaluation.run.Job;
import dev.terrace.objects.evaluation.run.Scratch;
import dev.terrace.objects.evaluation.run.Spread;
import dev.terrace.objects.evaluation.spark.Answer;
import dev.terrace.objects.evaluation.spark.LocalSpark;
import dev.terrace.objects.spark.TerraceCatalog;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.SparkSession;

/// Makes a table, changes rows of it several times, and scans it after each change.
///
/// @param directory of the table, which is not there before and after
/// @param disk where Spark may put what it needs no longer than it runs
/// @param warmUps passes over all changes before the first that counts
/// @param runs passes that count
record ChangesJob(long rows, Path directory, Path disk, int warmUps, int runs)
        implements Job<ChangesJob.Result> {
    private static final double NANOS = 1e9;
    private static final int PARTS = 4;

    /// The result of the job.
    ///
    /// @param firstScanSeconds the median of scans before the first change
    /// @param changeSeconds the median of each statement's runs
    /// @param scanSeconds the same of the scan that follows
    /// @param scans what each scan has found
    /// @param bytes of the table's files after all changes
    record Result(
            double firstScanSeconds,
            Map<Change, Double> changeSeconds,
            Map<Change, Double> scanSeconds,
            List<Answer> scans,
            long bytes) {}

    @Override
    public Result run() throws Exception {
        try (SparkSession session = LocalSpark.start(disk)) {
            String table = create(session);
            List<Double> firstScans = new ArrayList<>();
            for (int pass = 0; pass < warmUps + runs; pass++) {
                long start = System.nanoTime();
                scan(session, table);
                if (pass >= warmUps) {
                    firstScans.add((System.nanoTime() - start) / NANOS);
                }
            }
            Map<Change, List<Double>> changes = new EnumMap<>(Change.class);
            Map<Change, List<Double>> scans = new EnumMap<>(Change.class);
            List<Answer> found = new ArrayList<>();
            for (int pass = 0; pass < warmUps + runs; pass++) {
                for (Change change : Change.values()) {
                    long start = System.nanoTime();
                    session.sql(change.statement(table, rows, pass));
                    long changed = System.nanoTime();
                    found.add(scan(session, table));
                    if (pass >= warmUps) {
                        add(changes, change, changed - start);
                        add(scans, change, System.nanoTime() - changed);
                    }
                }
            }
            long bytes = Scratch.bytes(directory);
            return new Result(
                    new Spread(firstScans).median(),
                    medians(changes),
                    medians(scans),
                    found,
                    bytes);
        } finally {
            Scratch.delete(directory);
        }
    }

    /// Makes the table, in the order of its ids.
    ///
    /// @return its name in statements
    private String create(SparkSession session) {
        session.conf().set("spark.sql.catalog.terrace", TerraceCatalog.class.getName());
        String table = "terrace.`" + directory + "`";
        session.range(0, rows, 1, PARTS)
                .selectExpr(
                        "id",
                        "cast(id % 1000 as int) AS number",
                        "id * 0.25D AS amount",
                        "date_add(DATE '2020-01-01', cast(id % 2000 as int)) AS day",
                        "concat('name of ', id % 100000) AS name")
                .createOrReplaceTempView("source");
        session.sql("CREATE TABLE " + table + " AS SELECT * FROM source");
        return table;
    }

    private static Answer scan(SparkSession session, String table) {
        return Answer.of(
                session.sql(
                                "SELECT count(id), sum(id), sum(amount), max(day), max(name) FROM "
                                        + table)
                        .collectAsList());
    }

    private static void add(Map<Change, List<Double>> times, Change change, long nanos) {
        times.computeIfAbsent(change, _ -> new ArrayList<>()).add(nanos / NANOS);
    }

    private static Map<Change, Double> medians(Map<Change, List<Double>> times) {
        Map<Change, Double> medians = new EnumMap<>(Change.class);
        times.forEach((change, all) -> medians.put(change, new Spread(all).median()));
        return medians;
    }
}
