package dev.terrace.docs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;

/// Runs a command as a reader of a page would, in a directory, on the places of a test instead of
/// those that the page names.
final class Shell {
    private static final int PATIENCE_MINUTES = 10;

    private final Path output;
    private final Map<String, String> environment = new TreeMap<>();
    private final Map<String, String> places = new TreeMap<>();

    /// @param output what each command says, until the next one
    Shell(Path output) {
        this.output = output;
        environment.put("JAVA_HOME", System.getProperty("java.home"));
        environment.put(
                "PATH",
                Path.of(System.getProperty("java.home"), "bin") + ":" + System.getenv("PATH"));
        environment.put("LC_ALL", "C.UTF-8");
    }

    /// With this variable in its environment.
    Shell with(String variable, String value) {
        environment.put(variable, value);
        return this;
    }

    /// With programs of this directory before others.
    Shell withPrograms(Path directory) {
        return with("PATH", directory + ":" + environment.get("PATH"));
    }

    /// With this path wherever a command says that one.
    Shell at(String named, Path place) {
        places.put(named, place.toString());
        return this;
    }

    /// What a command prints. It is to end with 0, and to complain of nothing.
    String run(Path directory, String command) throws IOException, InterruptedException {
        String here = command;
        for (Map.Entry<String, String> place : places.entrySet()) {
            here =
                    here.replaceAll(
                            "(?<![\\w/.])" + place.getKey() + "(?![\\w.])", place.getValue());
        }
        ProcessBuilder builder =
                new ProcessBuilder(List.of("sh", "-c", here))
                        .directory(directory.toFile())
                        .redirectErrorStream(true)
                        .redirectOutput(output.toFile());
        builder.environment().putAll(environment);
        Process process = builder.start();
        try {
            assertTrue(
                    process.waitFor(PATIENCE_MINUTES, TimeUnit.MINUTES), command + " does not end");
        } finally {
            process.descendants().forEach(ProcessHandle::destroyForcibly);
            process.destroyForcibly();
        }
        String said = Files.readString(output);
        assertEquals(0, process.exitValue(), () -> command + " says:\n" + said);
        return said;
    }
}
