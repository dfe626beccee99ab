package dev.terrace.objects.evaluation.run;

import java.nio.file.Path;

/// A process that does one piece of work.
final class Worker {
    private Worker() {}

    /// The job's class, the file that it is read from, and the file that the outcome is written to.
    public static void main(String[] arguments) throws Exception {
        Class<?> type = Class.forName(arguments[0]);
        Job<?> job = (Job<?>) Json.MAPPER.readValue(Path.of(arguments[1]).toFile(), type);
        Outcome<?> outcome = new Outcome<>(job.run(), Memory.now());
        Json.MAPPER.writeValue(Path.of(arguments[2]).toFile(), outcome);
    }
}
