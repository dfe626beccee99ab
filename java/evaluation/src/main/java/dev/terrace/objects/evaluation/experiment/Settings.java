package dev.terrace.objects.evaluation.experiment;

import dev.terrace.objects.evaluation.run.PageCache;
import dev.terrace.objects.evaluation.run.Processes;
import java.nio.file.Path;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/// The settings of an experiment.
///
/// @param command that is running, as it can be given again
/// @param data the archive ego-facebook.tar.gz; null: a synthetic graph
/// @param copies of the graph
/// @param rows of tables and pools
/// @param scale of the tables that queries read, as TPC-H counts it
/// @param runs of each measurement
/// @param isQuick whether it only shows that everything runs
/// @param pmem a directory in persistent memory
/// @param disk a directory on a disk
/// @param processes where work is done
/// @param progress is told what is being done
public record Settings(
        String command,
        @Nullable Path data,
        int copies,
        int rows,
        double scale,
        int runs,
        boolean isQuick,
        Path pmem,
        Path disk,
        Processes processes,
        Consumer<String> progress) {
    /// Has the system forget what it keeps of files, unless this is to be quick.
    ///
    /// @return whether it has
    public boolean dropCaches() throws InterruptedException {
        return !isQuick && PageCache.drop();
    }
}
