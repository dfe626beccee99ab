package dev.terrace.objects.evaluation.run;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ForksTest {
    private final Forks forks = new Forks(Duration.ofSeconds(60));

    /// What happens in the process.
    enum Deed {
        WORK,
        FAIL,
        FILL_THE_HEAP,
        SLEEP
    }

    /// What came out.
    record Result(long pid, Phase phase) {}

    /// Some work.
    record Task(Deed deed) implements Job<Result> {
        @Override
        public Result run() throws Exception {
            Meter meter = new Meter();
            switch (deed) {
                case WORK -> meter.phase("work", () -> "done");
                case FAIL -> throw new IllegalStateException("no luck");
                case FILL_THE_HEAP -> {
                    List<long[]> all = new ArrayList<>();
                    while (true) {
                        all.add(new long[1 << 16]);
                    }
                }
                case SLEEP -> Thread.sleep(Duration.ofMinutes(1));
            }
            return new Result(ProcessHandle.current().pid(), meter.phases().getFirst());
        }
    }

    @Test
    void workIsDoneInAProcessOfItsOwnWithItsHeap() throws Exception {
        Outcome<Result> outcome =
                forks.run(
                        Jvm.of(Jvm.Collector.PARALLEL).heap(64), new Task(Deed.WORK), Result.class);
        assertNotEquals(ProcessHandle.current().pid(), outcome.result().pid());
        assertEquals("work", outcome.result().phase().name());
        assertTrue(outcome.memory().heapMax() <= 64 << 20);
    }

    @Test
    void aHeapThatIsTooSmallIsAResult() {
        String message =
                assertThrows(
                                HeapExhaustedException.class,
                                () ->
                                        forks.run(
                                                Jvm.of(Jvm.Collector.G1).heap(32),
                                                new Task(Deed.FILL_THE_HEAP),
                                                Result.class))
                        .getMessage();
        assertEquals("a heap of 32 MiB is too small", message);
    }

    @Test
    void whatAProcessHasSaidWhenItFailedIsTold() {
        String message =
                assertThrows(
                                IOException.class,
                                () ->
                                        forks.run(
                                                Jvm.of(Jvm.Collector.G1),
                                                new Task(Deed.FAIL),
                                                Result.class))
                        .getMessage();
        assertTrue(message.contains("FAIL") && message.contains("no luck"), message);
    }

    @Test
    void aProcessThatTakesTooLongIsEnded() {
        String message =
                assertThrows(
                                IOException.class,
                                () ->
                                        new Forks(Duration.ofSeconds(1))
                                                .run(
                                                        Jvm.of(Jvm.Collector.G1),
                                                        new Task(Deed.SLEEP),
                                                        Result.class))
                        .getMessage();
        assertTrue(message.endsWith("took longer than 1 s: allow more with --limit"), message);
    }

    @Test
    void aLimitedHeapThatLeavesNoTimeIsTooSmall() {
        String message =
                assertThrows(
                                HeapExhaustedException.class,
                                () ->
                                        new Forks(Duration.ofMillis(1))
                                                .run(
                                                        Jvm.of(Jvm.Collector.G1).heap(32),
                                                        new Task(Deed.SLEEP),
                                                        Result.class))
                        .getMessage();
        assertEquals("with a heap of 32 MiB the work was not done within 0 s", message);
    }

    /// Ends as by Ctrl-C, while it has directories.
    record Ending(Path directory) implements Job<Result> {
        @Override
        public Result run() throws IOException {
            Scratch scratch = Scratch.in(directory, directory);
            Files.writeString(scratch.pmem().resolve("file"), "something");
            System.exit(7);
            throw new AssertionError("it has ended");
        }
    }

    @Test
    void aProcessThatIsToldToEndLeavesNoDirectories(@TempDir Path directory) throws IOException {
        assertThrows(
                IOException.class,
                () ->
                        forks.run(
                                Jvm.of(Jvm.Collector.PARALLEL),
                                new Ending(directory),
                                Result.class));
        try (Stream<Path> left = Files.list(directory)) {
            assertEquals(0, left.count());
        }
    }

    @Test
    void aSpreadHasTheMiddleTheLeastAndTheMost() {
        Spread odd = Spread.of(3, 1, 2);
        assertEquals(2, odd.median());
        assertEquals(1, odd.min());
        assertEquals(3, odd.max());
        assertEquals(2.5, Spread.of(4, 1, 2, 3).median());
        assertEquals(List.of(6.0, 2.0, 4.0), odd.times(2).values());
        assertEquals("2.00 (1.00–3.00)", odd.toString());
        assertEquals("5.00", Spread.of(5).toString());
        assertThrows(IllegalArgumentException.class, Spread::of);
    }
}
