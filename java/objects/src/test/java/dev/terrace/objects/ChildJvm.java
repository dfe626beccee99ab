package dev.terrace.objects;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/// A process of this test's own that runs a class's `main`, and talks in lines.
public final class ChildJvm implements AutoCloseable {
    /// A command that runs another as the user `nobody`.
    static final List<String> AS_NOBODY =
            List.of("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups");

    private static final long SECONDS_MAX = 120;

    private final Process process;
    private final BufferedReader lines;
    private final Path errors;

    /// Starts it.
    public ChildJvm(Class<?> main, Object... arguments) throws IOException {
        this(List.of(), System.getProperty("java.class.path"), main, arguments);
    }

    /// Starts it as the user `nobody`, with classes of this module only. Root may do that.
    static ChildJvm asNobody(Class<?> main, Object... arguments) throws IOException {
        String classes =
                Stream.of(System.getProperty("java.class.path").split(File.pathSeparator))
                        .filter(each -> Files.isDirectory(Path.of(each)))
                        .collect(Collectors.joining(File.pathSeparator));
        return new ChildJvm(AS_NOBODY, classes, main, arguments);
    }

    private ChildJvm(List<String> before, String classes, Class<?> main, Object... arguments)
            throws IOException {
        List<String> command = new ArrayList<>(before);
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        // Such processes live for a moment: that is not worth an optimizing compiler.
        command.addAll(
                List.of(
                        "-XX:TieredStopAtLevel=1",
                        "-XX:+UseSerialGC",
                        "-Xmx256m",
                        "-XX:-CreateCoredumpOnCrash"));
        command.addAll(List.of("-cp", classes, main.getName()));
        for (Object argument : arguments) {
            command.add(argument.toString());
        }
        errors = Files.createTempFile("terrace-child", ".err");
        ProcessBuilder builder = new ProcessBuilder(command).redirectError(errors.toFile());
        builder.directory(errors.getParent().toFile());
        process = builder.start();
        lines = process.inputReader(StandardCharsets.UTF_8);
    }

    /// What it says next; null if it says no more.
    public @Nullable String line() throws IOException {
        return lines.readLine();
    }

    /// What it says next, which must be something.
    public String expectLine() throws IOException {
        String line = lines.readLine();
        if (line == null) {
            throw new AssertionError("the process has ended: " + errors());
        }
        return line;
    }

    /// Says something to it.
    public void say(String what) {
        try {
            OutputStream out = process.getOutputStream();
            out.write((what + "\n").getBytes(StandardCharsets.UTF_8));
            out.flush();
        } catch (IOException e) {
            throw new AssertionError("the process has ended: " + errors(), e);
        }
    }

    /// Kills it, as `kill -9` does. What it has said before can still be read.
    public void kill() {
        // Its handle leaves open what it has written to.
        process.toHandle().destroyForcibly();
        process.onExit().join();
    }

    /// Waits until it ends by itself.
    ///
    /// @return its exit status
    public int await() throws InterruptedException {
        if (!process.waitFor(SECONDS_MAX, TimeUnit.SECONDS)) {
            throw new AssertionError("the process does not end: " + errors());
        }
        return process.exitValue();
    }

    /// What it complained of.
    public String errors() {
        try {
            return Files.readString(errors);
        } catch (IOException e) {
            return e.toString();
        }
    }

    @Override
    public void close() throws IOException {
        kill();
        Files.deleteIfExists(errors);
    }
}
