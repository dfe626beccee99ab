package dev.terrace.objects.evaluation.run;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class MemoryGroupTest {
    private static final long MIB = 1 << 20;

    @TempDir Path directory;

    /// Writes a file, and then has no more of the page cache than the group has room for.
    record WriteJob(Path file, int mib) implements Job<WriteJob.Result> {
        record Result(String group) {}

        @Override
        public Result run() throws IOException {
            byte[] some = new byte[(int) MIB];
            Files.write(file, new byte[0]);
            try (var out = Files.newOutputStream(file)) {
                for (int i = 0; i < mib; i++) {
                    out.write(some);
                }
            }
            return new Result(Files.readString(Path.of("/proc/self/cgroup")));
        }
    }

    @Test
    void aProcessIsInItsGroupAndTheGroupIsGoneAfterwards() throws Exception {
        Optional<MemoryGroup> made = MemoryGroup.of(256 * MIB);
        assumeTrue(made.isPresent(), "only root can make groups, where the system has them");
        Path at = made.get().directory();
        try (MemoryGroup group = made.get()) {
            WriteJob.Result result =
                    new Forks(Duration.ofMinutes(1))
                            .run(
                                    Jvm.of(Jvm.Collector.G1).heap(64).within(group),
                                    new WriteJob(directory.resolve("file"), 1),
                                    WriteJob.Result.class)
                            .result();
            assertTrue(result.group().contains(at.getFileName().toString()), result.group());
        }
        assertFalse(Files.exists(at));
    }

    /// tmpfs is memory that the system cannot take back: a process that puts more there than its
    /// group may have is killed.
    @Test
    void memoryIsLimitedForWhatLiesInTmpfsToo() throws Exception {
        Path tmpfs = Path.of("/dev/shm");
        assumeTrue(Files.isDirectory(tmpfs), "there is no tmpfs");
        Optional<MemoryGroup> made = MemoryGroup.of(192 * MIB);
        assumeTrue(made.isPresent(), "only root can make groups, where the system has them");
        Path file = Files.createTempFile(tmpfs, "terrace-evaluation-test", null);
        try (MemoryGroup group = made.get()) {
            Jvm jvm = Jvm.of(Jvm.Collector.G1).heap(32).within(group);
            Forks forks = new Forks(Duration.ofMinutes(1));
            IOException killed =
                    assertThrows(
                            IOException.class,
                            () -> forks.run(jvm, new WriteJob(file, 256), WriteJob.Result.class));
            assertTrue(killed.getMessage().contains("failed with status 137"), killed::getMessage);
        } finally {
            Files.delete(file);
        }
    }

    @Test
    void theLimitIsWrittenWhereTheVersionOfGroupsHasIt() throws Exception {
        // A directory that stands in for the system's has no such files, unless it makes them.
        assertEquals(Optional.empty(), MemoryGroup.in(directory, MIB));
        assertEquals(Optional.empty(), MemoryGroup.in(directory.resolve("missing"), MIB));
        assertEquals(List.of(), Files.list(directory).toList());
    }
}
