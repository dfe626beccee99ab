package dev.terrace.objects.evaluation.run;

import com.fasterxml.jackson.annotation.JsonIgnore;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// The Java process that some work is done in.
///
/// @param collector its garbage collector
/// @param heapMib how large its heap may become, in MiB; 0: as large as Java chooses
/// @param flags other options
/// @param group the control group that it starts in, which limits its memory; null: none of its own
public record Jvm(
        Collector collector, int heapMib, List<String> flags, @JsonIgnore @Nullable Path group) {
    /// Ends a process in which there is no memory left.
    static final int OUT_OF_MEMORY_STATUS = 3;

    /// A garbage collector.
    public enum Collector {
        /// The collector of the paper's authors, as far as it still exists.
        PARALLEL("-XX:+UseParallelGC", "ParallelGC"),
        /// Java's default.
        G1("-XX:+UseG1GC", "G1");

        private final String flag;

        /// Its name in reports.
        public final String title;

        Collector(String flag, String title) {
            this.flag = flag;
            this.title = title;
        }
    }

    /// Copies the list.
    public Jvm {
        flags = List.copyOf(flags);
    }

    /// With this collector and a heap as large as Java chooses.
    public static Jvm of(Collector collector) {
        return new Jvm(collector, 0, List.of(), null);
    }

    /// The same, with a heap of at most so many MiB.
    public Jvm heap(int mib) {
        return new Jvm(collector, mib, flags, group);
    }

    /// The same, with other options, too.
    public Jvm with(List<String> more) {
        List<String> all = new ArrayList<>(flags);
        all.addAll(more);
        return new Jvm(collector, heapMib, all, group);
    }

    /// The same, within the limit of a group.
    public Jvm within(MemoryGroup group) {
        return new Jvm(collector, heapMib, flags, group.directory());
    }

    /// Its name in reports.
    public String title() {
        return collector.title
                + (heapMib == 0 ? ", heap as Java chooses" : ", heap of " + heapMib + " MiB");
    }

    /// How it is started: the command line without what it is to run.
    List<String> command() {
        List<String> all = new ArrayList<>();
        if (group != null) {
            // Memory counts from the first page on if the process enters before it becomes Java.
            all.addAll(
                    List.of(
                            "sh",
                            "-c",
                            "echo $$ >\"$0\" && exec \"$@\"",
                            group.resolve(MemoryGroup.PROCESSES).toString()));
        }
        all.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        all.addAll(options());
        return all;
    }

    private List<String> options() {
        List<String> all =
                new ArrayList<>(
                        List.of(
                                collector.flag,
                                "-XX:+ExitOnOutOfMemoryError",
                                "--sun-misc-unsafe-memory-access=allow",
                                "--enable-native-access=ALL-UNNAMED"));
        if (heapMib > 0) {
            all.add("-Xmx" + heapMib + "m");
        }
        all.addAll(flags);
        return all;
    }
}
