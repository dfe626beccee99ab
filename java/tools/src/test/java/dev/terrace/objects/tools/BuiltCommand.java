package dev.terrace.objects.tools;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/// The command as it was built, as a process.
final class BuiltCommand {
    /// With what lies in `lib` beside it.
    static final Path JAR = Path.of(System.getProperty("terrace.tools.jar"));

    private BuiltCommand() {}

    /// Its result.
    record Result(int status, String out, String err) {}

    /// Runs it.
    ///
    /// @param dir where its output may be kept
    /// @param java more options of Java
    static Result run(Path dir, Path jar, List<String> java, String... arguments)
            throws IOException, InterruptedException {
        Path out = dir.resolve("out");
        Path err = dir.resolve("err");
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.add("-XX:TieredStopAtLevel=1");
        command.addAll(java);
        command.addAll(List.of("-jar", jar.toString()));
        command.addAll(List.of(arguments));
        Process process =
                new ProcessBuilder(command)
                        .redirectOutput(out.toFile())
                        .redirectError(err.toFile())
                        .start();
        try {
            assertTrue(process.waitFor(60, TimeUnit.SECONDS), "the command does not end");
        } finally {
            process.destroyForcibly();
        }
        return new Result(process.exitValue(), Files.readString(out), Files.readString(err));
    }
}
