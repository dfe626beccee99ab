package dev.terrace.objects.stress;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import org.openjdk.jcstress.Main;

/// Runs tests, as jcstress's own command does, with a directory for their pools that is gone
/// afterwards. Once in a process: jcstress keeps in static fields how it starts others.
public final class Stress {
    /// All tests, and the planted mistakes.
    static final String ALL = "Tests\\.";

    private static final Path MEMORY = Path.of("/dev/shm");

    /// Few states at a time: some are open pools.
    private static final String STRIDES = " -strideSize 32 -strideCount 4";

    /// One short run of each, as the compiler is by default.
    private static final String QUICK =
            "-f 1 -fsm 1 -iters 1 -time 400 -sc false -af NONE -hs 64 -pth false" + STRIDES;

    private static final String LONG = "-m default -hs 256" + STRIDES;

    private Stress() {}

    /// Runs tests. It writes the results to standard output, and to a report.
    ///
    /// @param arguments a regular expression for their names; `quick`, or `long` for all modes of
    ///   the compiler that jcstress knows; the report's directory; options of jcstress
    /// @throws Exception if something was seen that must not be: the process ends with another
    ///   status than 0 then
    public static void main(String[] arguments) throws Exception {
        boolean isQuick = arguments[1].equals("quick");
        Path pools =
                Files.isWritable(MEMORY)
                        ? Files.createTempDirectory(MEMORY, "terrace-objects-stress")
                        : Files.createTempDirectory("terrace-objects-stress");
        List<String> all = new ArrayList<>(List.of("-t", arguments[0], "-r", arguments[2]));
        all.addAll(List.of((isQuick ? QUICK : LONG).split(" ")));
        all.add(isQuick ? "-jvmArgs" : "-jvmArgsPrepend");
        all.add(
                "-D"
                        + Rig.PROPERTY
                        + "="
                        + pools
                        + " --sun-misc-unsafe-memory-access=allow"
                        + (isQuick ? " -XX:+UseSerialGC" : ""));
        all.addAll(List.of(arguments).subList(3, arguments.length));
        Files.createDirectories(Path.of(arguments[2]));
        try {
            Main.main(all.toArray(new String[0]));
        } finally {
            delete(pools);
        }
    }

    private static void delete(Path directory) throws IOException {
        List<Path> all;
        try (Stream<Path> found = Files.walk(directory)) {
            all = found.sorted(Comparator.reverseOrder()).toList();
        }
        for (Path path : all) {
            Files.delete(path);
        }
    }
}
