package dev.terrace.objects.spark;

import java.io.Serial;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import java.util.function.ToLongFunction;
import org.apache.spark.sql.connector.read.HasPartitionStatistics;
import org.apache.spark.sql.connector.read.InputPartition;

/// The input of a task: parts, or shares of them, which it reads one after the other.
record PartsInput(List<TableScan.PartInput> parts)
        implements InputPartition, HasPartitionStatistics {
    @Serial private static final long serialVersionUID = 1L;

    /// Each part is a task's as long as these are not more than so many: they run at the same time.
    private static final int FEW = 100;

    /// What it costs to open a part, in bytes of columns that could be read meanwhile.
    private static final long OPENING_BYTES = 4 << 20;

    PartsInput {
        parts = List.copyOf(parts);
    }

    /// The inputs of tasks, in the order of the parts. Many small parts, as those of a table with
    /// many partitions, are not a task each.
    ///
    /// @param taskBytes about how many bytes of columns a task reads
    static List<PartsInput> of(List<TableScan.PartInput> inputs, long taskBytes) {
        long bytesMax = inputs.size() > FEW ? taskBytes : 0;
        List<PartsInput> tasks = new ArrayList<>();
        List<TableScan.PartInput> some = new ArrayList<>();
        long bytes = 0;
        for (TableScan.PartInput input : inputs) {
            long more = input.bytes() + OPENING_BYTES;
            boolean isElsewhere =
                    !some.isEmpty() && !some.getFirst().part().hosts().equals(input.part().hosts());
            if (!some.isEmpty() && (bytes + more > bytesMax || isElsewhere)) {
                tasks.add(new PartsInput(some));
                some.clear();
                bytes = 0;
            }
            some.add(input);
            bytes += more;
        }
        if (!some.isEmpty()) {
            tasks.add(new PartsInput(some));
        }
        return tasks;
    }

    @Override
    public String[] preferredLocations() {
        return parts.getFirst().part().hosts().toArray(new String[0]);
    }

    private OptionalLong sum(ToLongFunction<TableScan.PartInput> of) {
        return OptionalLong.of(parts.stream().mapToLong(of).sum());
    }

    @Override
    public OptionalLong sizeInBytes() {
        return sum(TableScan.PartInput::bytes);
    }

    @Override
    public OptionalLong numRows() {
        return sum(TableScan.PartInput::rows);
    }

    @Override
    public OptionalLong filesCount() {
        return OptionalLong.of(parts.size());
    }
}
