package dev.terrace.objects.evaluation.run;

import com.fasterxml.jackson.databind.JavaType;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/// A new process for each piece of work, so that none profits or suffers from what another has
/// left.
public final class Forks implements Processes {
    private static final int LINES_SHOWN = 20;

    private final Duration limit;

    /// Processes are ended that take longer than this.
    public Forks(Duration limit) {
        this.limit = limit;
    }

    @Override
    public <R> Outcome<R> run(Jvm jvm, Job<R> job, Class<R> result)
            throws IOException, InterruptedException, HeapExhaustedException {
        Path directory = Files.createTempDirectory("terrace-evaluation");
        Path jobFile = directory.resolve("job.json");
        Path outcomeFile = directory.resolve("outcome.json");
        Path log = directory.resolve("log");
        try {
            Json.MAPPER.writeValue(jobFile.toFile(), job);
            int status = await(start(jvm, job.getClass(), jobFile, outcomeFile, log), jvm, job);
            if (status == Jvm.OUT_OF_MEMORY_STATUS) {
                throw new HeapExhaustedException(jvm.heapMib());
            }
            if (status != 0) {
                throw new IOException(job + " failed with status " + status + ":\n" + end(log));
            }
            JavaType type =
                    Json.MAPPER.getTypeFactory().constructParametricType(Outcome.class, result);
            return Json.MAPPER.readValue(outcomeFile.toFile(), type);
        } finally {
            Scratch.delete(directory);
        }
    }

    private static Process start(Jvm jvm, Class<?> job, Path jobFile, Path outcomeFile, Path log)
            throws IOException {
        List<String> command = new ArrayList<>(jvm.command());
        command.addAll(
                List.of(
                        "-cp",
                        System.getProperty("java.class.path"),
                        Worker.class.getName(),
                        job.getName(),
                        jobFile.toString(),
                        outcomeFile.toString()));
        return new ProcessBuilder(command)
                .redirectErrorStream(true)
                .redirectOutput(log.toFile())
                .start();
    }

    private int await(Process process, Jvm jvm, Job<?> job)
            throws IOException, InterruptedException, HeapExhaustedException {
        Runnable end =
                () -> {
                    process.toHandle().destroyForcibly();
                    process.onExit().join();
                };
        AtExit.add(end);
        try {
            if (!process.waitFor(limit.toSeconds(), TimeUnit.SECONDS)) {
                if (jvm.heapMib() > 0) {
                    throw new HeapExhaustedException(jvm.heapMib(), limit.toSeconds());
                }
                throw new IOException(
                        job
                                + " took longer than "
                                + limit.toSeconds()
                                + " s: allow more with --limit");
            }
            return process.exitValue();
        } finally {
            end.run();
            AtExit.remove(end);
        }
    }

    private static String end(Path log) throws IOException {
        try (Stream<String> lines = Files.lines(log)) {
            List<String> all = lines.toList();
            return String.join(
                    "\n", all.subList(Math.max(0, all.size() - LINES_SHOWN), all.size()));
        }
    }
}
