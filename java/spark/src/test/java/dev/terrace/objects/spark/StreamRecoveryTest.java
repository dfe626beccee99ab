package dev.terrace.objects.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.LongStream;
import org.apache.spark.api.java.function.MapFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.StreamingQueryException;
import org.apache.spark.sql.streaming.Trigger;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/// Streams from table to table that are interrupted and go on: each row is there once.
@ExtendWith(LocalSpark.class)
class StreamRecoveryTest {
    private static final Map<String, String> NONE = Map.of();

    /// How many rows tasks may still pass on; then they fail.
    private static final AtomicInteger LEFT = new AtomicInteger();

    @TempDir private Path dir;

    private final SparkSession spark;
    private TableStreams streams;
    private Map<String, String> options = NONE;

    StreamRecoveryTest(SparkSession spark) {
        this.spark = spark;
        streams = new TableStreams(spark, Path.of(""));
    }

    @BeforeEach
    void nameTable() {
        streams = new TableStreams(spark, dir);
    }

    private static Dataset<Row> failing(Dataset<Row> rows) {
        return rows.map(
                        (MapFunction<Row, Long>)
                                row -> {
                                    if (LEFT.getAndDecrement() <= 0) {
                                        throw new IllegalStateException("planted");
                                    }
                                    return row.getLong(0);
                                },
                        Encoders.LONG())
                .toDF("id");
    }

    private String sink() {
        return dir.resolve("sink").toString();
    }

    private List<Long> sunk() {
        return TableStreams.ids(spark.read().format("terrace").load(sink()));
    }

    private StreamingQuery start(Map<String, String> wanted, Trigger trigger) throws Exception {
        return streams.writer(failing(streams.rows(wanted)), "checkpoint")
                .format("terrace")
                .trigger(trigger)
                .start(sink());
    }

    /// A few, or as many as `-Dterrace.seeds=100` says.
    static LongStream eachRowArrivesOnce() {
        return LongStream.rangeClosed(1, Long.getLong("terrace.seeds", 3));
    }

    /// A model has the rows that were appended. Appends, optimizations, and queries that end, fail
    /// in a task, are stopped, or are killed before the checkpoint says that a batch is done follow
    /// each other by chance. Rows of a table of which each commit is read are deleted as well.
    @ParameterizedTest
    @MethodSource
    void eachRowArrivesOnce(long seed) throws Exception {
        Random random = new Random(seed);
        boolean isOfCommits = seed % 2 == 0;
        if (isOfCommits) {
            options = Map.of("startingVersion", "1", "skipChangeCommits", "true");
        }
        List<Long> model = new ArrayList<>();
        append(random, model);
        for (int step = 0; step < 16; step++) {
            switch (random.nextInt(isOfCommits ? 7 : 6)) {
                case 0, 1 -> append(random, model);
                case 2 -> Optimization.defaults().run(spark, streams.path());
                case 3 -> query(random, random.nextInt(4));
                case 4 -> {
                    query(random, Integer.MAX_VALUE);
                    if (random.nextBoolean()) {
                        forgetLastCommit();
                    }
                }
                case 5 -> stopped(random);
                default -> streams.sql("DELETE FROM TARGET WHERE id % 4 = " + random.nextInt(4));
            }
        }
        query(random, Integer.MAX_VALUE);
        assertEquals(model.stream().sorted().toList(), sunk(), () -> "seed " + seed);
    }

    private void append(Random random, List<Long> model) {
        int parts = 1 + random.nextInt(3);
        streams.append(model.size(), parts);
        for (int i = 0; i < parts; i++) {
            model.add((long) model.size());
        }
    }

    private Map<String, String> limits(Random random) {
        Map<String, String> all = new HashMap<>(options);
        switch (random.nextInt(3)) {
            case 0 -> all.put("maxFilesPerTrigger", "" + (1 + random.nextInt(3)));
            case 1 -> all.put("maxBytesPerTrigger", "" + (1 + random.nextInt(1 << 17)));
            default -> {
                // No limit.
            }
        }
        return all;
    }

    /// @param rows after which tasks fail
    private void query(Random random, int rows) throws Exception {
        LEFT.set(rows);
        try {
            start(limits(random), Trigger.AvailableNow()).awaitTermination();
        } catch (StreamingQueryException e) {
            assertTrue(LEFT.get() <= 0 && e.getMessage().contains("planted"), e::getMessage);
        }
    }

    private void stopped(Random random) throws Exception {
        LEFT.set(Integer.MAX_VALUE);
        StreamingQuery query = start(limits(random), Trigger.ProcessingTime(0));
        Thread.sleep(random.nextInt(1000));
        query.stop();
    }

    private void forgetLastCommit() throws IOException {
        try (var files = Files.list(dir.resolve("checkpoint").resolve("commits"))) {
            long last =
                    files.map(file -> file.getFileName().toString())
                            .filter(name -> name.matches("\\d+"))
                            .mapToLong(Long::parseLong)
                            .max()
                            .orElse(-1);
            if (last >= 0) {
                streams.forgetCommit("checkpoint", last);
            }
        }
    }

    @Test
    void aBatchThatFailsRunsAgainWithTheSameRows() throws Exception {
        streams.append(0, 4);
        LEFT.set(3);
        assertThrows(
                StreamingQueryException.class,
                () ->
                        start(Map.of("maxFilesPerTrigger", "2"), Trigger.AvailableNow())
                                .awaitTermination());
        assertEquals(List.of(0L, 1L), sunk());
        streams.append(4, 1);
        LEFT.set(Integer.MAX_VALUE);
        start(NONE, Trigger.AvailableNow()).awaitTermination();
        assertEquals(List.of(0L, 1L, 2L, 3L, 4L), sunk());
    }

    /// A process that runs the first batch again finds a later commit.
    @ParameterizedTest
    @ValueSource(strings = {"latest", "2", ""})
    void theFirstBatchBeginsWhereItBegan(String start) throws Exception {
        streams.append(0, 1);
        Map<String, String> options = start.isEmpty() ? NONE : Map.of("startingVersion", start);
        List<List<Long>> first = start.isEmpty() ? List.of(List.of(0L)) : List.of();
        assertEquals(first, streams.batches("checkpoint", options));
        for (int i = 0; i < 2; i++) {
            streams.forgetCommit("checkpoint", 0);
            streams.append(1 + i, 1);
            if (i == 0) {
                List<List<Long>> again = new ArrayList<>(first);
                again.add(List.of(1L));
                assertEquals(again, streams.batches("checkpoint", options));
                streams.forgetCommit("checkpoint", 1);
                Files.delete(streams.offsets("checkpoint", 1));
            }
        }
        List<List<Long>> again = new ArrayList<>(first);
        again.add(List.of(1L, 2L));
        assertEquals(again, streams.batches("checkpoint", options));
    }

    @Test
    void aQueryGoesOnInTheMiddleOfACommit() throws Exception {
        streams.append(0, 1);
        assertEquals(1, streams.batches().size());
        streams.append(1, 5);
        Map<String, String> two = Map.of("maxFilesPerTrigger", "2");
        List<List<Long>> batches = new ArrayList<>();
        assertThrows(
                StreamingQueryException.class,
                () ->
                        streams.run(
                                streams.rows(two),
                                "checkpoint",
                                batch -> {
                                    batches.add(TableStreams.ids(batch));
                                    if (batches.size() == 2) {
                                        throw new IllegalStateException("planted");
                                    }
                                }));
        assertEquals(List.of(List.of(1L, 2L), List.of(3L, 4L)), batches);
        Optimization.defaults().run(spark, streams.path());
        streams.append(6, 1);
        assertEquals(List.of(List.of(3L, 4L), List.of(5L, 6L)), streams.batches());
    }

    /// Replaces the offset of a batch of a query that has read three parts in two batches.
    private String withOffset(int batch, String offset) throws Exception {
        Path checkpoint = dir.resolve("checkpoint");
        if (!Files.exists(checkpoint)) {
            streams.append(0, 3);
            assertEquals(
                    2, streams.batches("checkpoint", Map.of("maxFilesPerTrigger", "2")).size());
        }
        Path file = streams.offsets("checkpoint", batch);
        List<String> lines = Files.readAllLines(file);
        List<String> changed = new ArrayList<>(lines);
        changed.set(lines.size() - 1, offset);
        Files.write(file, changed);
        streams.forgetCommit("checkpoint", 1);
        try {
            return streams.refused();
        } finally {
            Files.write(file, lines);
            Files.writeString(checkpoint.resolve("commits").resolve("1"), "v1\n{}");
        }
    }

    @Test
    void damagedOffsetsAreNamed() throws Exception {
        String foreign = withOffset(1, "{\"logOffset\":0}");
        assertTrue(
                foreign.contains("the checkpoint has the offset {\"logOffset\":0}")
                        && foreign.contains("none of a stream of " + streams.table())
                        && foreign.contains("restore the checkpoint"),
                foreign);
        TableOffset first = offset(0);
        TableOffset last = offset(1);
        assertEquals(List.of(0L, 2L), List.of(first.commit(), (long) first.part()));
        assertEquals(List.of(1L, 0L), List.of(last.commit(), (long) last.part()));
        String part = withOffset(1, last.beginning().within(9, first.state() + "").json());
        assertTrue(part.contains("no such commits or parts: restore the checkpoint"), part);
        String commit = withOffset(1, last.within(1, last.state() + "").json());
        assertTrue(commit.contains("commit 2 of " + streams.table()), commit);
        String other =
                withOffset(1, last.json().replaceFirst("\"state\":\"[0-9a-f]{8}", state('0')));
        assertTrue(other.contains("is another than the stream has read"), other);
        String back = withOffset(1, last.beginning().within(1, first.state() + "").json());
        assertTrue(back.contains("no such commits or parts"), back);
        String mixed = withOffset(1, last.json().replace("true", "false"));
        assertTrue(mixed.contains("no such commits or parts"), mixed);
        streams.forgetCommit("checkpoint", 1);
        assertEquals(List.of(List.of(2L)), streams.batches());
    }

    private static String state(char digit) {
        return "\"state\":\"" + ("" + digit).repeat(8);
    }

    private TableOffset offset(int batch) throws IOException {
        List<String> lines = Files.readAllLines(streams.offsets("checkpoint", batch));
        return TableOffset.parse(lines.getLast(), streams.table());
    }

    @Test
    void offsetsAreOfTheSpecification() {
        String golden =
                "{\"version\":1,\"begin\":5,\"initial\":true,\"commit\":6,\"part\":2,"
                        + "\"state\":\"01234567-89ab-cdef-0123-456789abcdef\"}";
        TableOffset offset = TableOffset.parse(golden, "the table");
        assertEquals(golden, offset.json());
        assertEquals(7, offset.known());
        assertEquals(TableOffset.ofRows(5), offset.beginning());
        assertFalse(offset.isBeforeRows());
        assertTrue(offset.beginning().isBeforeRows());
        assertFalse(TableOffset.ofCommit(5, null).hasBeginningOf(offset));
        for (List<String> change :
                List.of(
                        List.of("\"version\":1", "\"version\":2", "use a later library"),
                        List.of("\"version\":1", "\"version\":0", "cannot be"),
                        List.of("\"version\":1,", "", "version"),
                        List.of("\"begin\":5", "\"begin\":0", "cannot be"),
                        List.of("\"begin\":5", "\"begin\":8", "cannot be"),
                        List.of("\"begin\":5", "\"begin\":\"5\"", ""),
                        List.of("\"begin\":5", "\"begin\":5.0", ""),
                        List.of("\"begin\":5", "\"begin\":null", ""),
                        List.of("\"initial\":true,", "", "initial"),
                        List.of("\"initial\":true", "\"initial\":1", ""),
                        List.of("\"commit\":6", "\"commit\":99999999999999999999", ""),
                        List.of("\"part\":2", "\"part\":-1", "cannot be"),
                        List.of("\"part\":2", "\"part\":2147483648", ""),
                        List.of("\"part\":2", "\"part\":2,\"part\":2", "part"),
                        List.of("\"part\":2", "\"part\":2,\"more\":1", "more"),
                        List.of(",\"state\":\"01234567-", ",\"state\":\"0123456-", "cannot be"),
                        List.of(golden, "{}", ""),
                        List.of(golden, "", ""),
                        List.of(golden, "null", ""),
                        List.of(golden, "[1]", ""),
                        List.of(golden, "5", ""),
                        List.of(golden, "{" + "x".repeat(1000), "..."),
                        List.of(golden, golden + golden, ""),
                        List.of(golden, golden.substring(0, 20), ""))) {
            String changed = golden.replace(change.get(0), change.get(1));
            String refused =
                    assertThrows(
                                    IllegalArgumentException.class,
                                    () -> TableOffset.parse(changed, "the table"),
                                    changed)
                            .getMessage();
            assertTrue(
                    refused.contains("none of a stream of the table")
                            && refused.contains(change.get(2)),
                    refused);
            assertTrue(refused.length() < 800, refused);
        }
    }
}
