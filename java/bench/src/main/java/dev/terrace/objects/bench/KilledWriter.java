package dev.terrace.objects.bench;

import dev.terrace.objects.Pool;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Path;

/// A process that changes a pool until it is killed.
final class KilledWriter {
    private static final int EXTENT_BYTES = 64 << 20;
    private static final int TRANSACTIONS_BEFORE = 1000;

    private KilledWriter() {}

    /// Lets it work on the pool in this directory, and kills it.
    static void run(Path directory) throws IOException {
        Process process =
                new ProcessBuilder(
                                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                                "-cp",
                                System.getProperty("java.class.path"),
                                KilledWriter.class.getName(),
                                directory.toString())
                        .redirectError(ProcessBuilder.Redirect.INHERIT)
                        .start();
        try (BufferedReader lines = process.inputReader()) {
            if (lines.readLine() == null) {
                throw new IOException("the process that was to be killed has ended by itself");
            }
        } finally {
            process.toHandle().destroyForcibly();
            process.onExit().join();
        }
    }

    /// The pool's directory.
    public static void main(String[] arguments) throws IOException {
        try (Pool pool = Samples.open(Path.of(arguments[0]), EXTENT_BYTES)) {
            DurableSample first = ReopenBench.first(pool);
            for (int i = 1; ; i++) {
                int number = i;
                pool.transact(() -> {
                    first.setNumber(number);
                    first.setText("text " + number);
                });
                if (i == TRANSACTIONS_BEFORE) {
                    System.out.println(i);
                }
            }
        }
    }
}
