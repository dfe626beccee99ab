package dev.terrace.objects.spark;

import dev.terrace.objects.StorageTier;
import java.io.Serial;
import java.io.Serializable;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.types.StructType;

/// What a table's options say (SPARK.md): which tier each column is on, and where its pools lie. They are kept in the manifest, so that later writes go by them, if they
/// do not say otherwise.
///
/// @param values by their names in lower case
record TableOptions(Map<String, String> values) implements Serializable {
    @Serial
    private static final long serialVersionUID = 1L;

    private static final String TIER = "tier.";
    private static final String DEFAULT_TIER = TIER + "default";
    private static final String PMEM = "pmem";
    private static final String DISK = "disk";
    private static final String EXTENT = "extent";
    private static final String SPLIT_BYTES = "split.bytes";
    private static final long SPLIT_BYTES_DEFAULT = 128 << 20;
    private static final String BLOCK_ROWS = "block.rows";
    private static final int BLOCK_ROWS_DEFAULT = 4096;
    private static final int BLOCK_ROWS_MAX = 1 << 20;
    private static final List<StorageTier> TIERS = List.of(StorageTier.PMEM, StorageTier.DISK);

    TableOptions {
        values = Map.copyOf(values);
    }

    /// Those of a table, and others that come before them; what is no table's option is left out.
    static TableOptions of(Map<String, String> table, Map<String, String> others) {
        Map<String, String> values = new TreeMap<>(table);
        others.forEach((name, value) -> {
            String key = name.toLowerCase(Locale.ROOT);
            if (key.startsWith(TIER) || List.of(PMEM, DISK, EXTENT, SPLIT_BYTES, BLOCK_ROWS).contains(key)) {
                values.put(key, value);
            }
        });
        return new TableOptions(values);
    }

    /// The tier of a column.
    StorageTier tierOf(String column) {
        String option = TIER + column.toLowerCase(Locale.ROOT);
        String name = values.getOrDefault(option, values.getOrDefault(DEFAULT_TIER, StorageTier.PMEM.name()));
        for (StorageTier tier : TIERS) {
            if (tier.name().equalsIgnoreCase(name)) {
                return tier;
            }
        }
        throw new IllegalArgumentException("option " + (values.containsKey(option) ? option : DEFAULT_TIER) + ": '" + name + "' is none of the tiers " + TIERS);
    }

    /// Throws if they speak of a column that the table has not, or say what cannot be.
    TableOptions requireColumns(StructType schema) {
        List<String> columns = List.of(schema.fieldNames()).stream().map(name -> name.toLowerCase(Locale.ROOT)).toList();
        for (String name : values.keySet()) {
            if (name.startsWith(TIER) && !name.equals(DEFAULT_TIER) && !columns.contains(name.substring(TIER.length()))) {
                throw new IllegalArgumentException("option " + name + ": the table has no such column, but " + columns);
            }
        }
        columns.forEach(this::tierOf);
        // So that the driver says what is wrong, not a task.
        long numbers = blockRows() + splitBytes() + partitions().extentBytes();
        assert numbers > 0;
        return this;
    }

    /// Where pools lie, and how they are made.
    PartitionOptions partitions() {
        long extentBytes = number(EXTENT, PartitionOptions.defaults().extentBytes());
        return new PartitionOptions(values.get(PMEM), values.get(DISK), extentBytes, false);
    }

    /// How many rows a block has, if they are small.
    int blockRows() {
        long rows = number(BLOCK_ROWS, BLOCK_ROWS_DEFAULT);
        if (rows < 1 || rows > BLOCK_ROWS_MAX) {
            throw new IllegalArgumentException("option " + BLOCK_ROWS + ": a block has from 1 to " + BLOCK_ROWS_MAX + " rows, not " + rows);
        }
        return (int) rows;
    }

    /// Of how many bytes of a part a task reads the columns that it needs; a part with more is read by several.
    long splitBytes() {
        long bytes = number(SPLIT_BYTES, SPLIT_BYTES_DEFAULT);
        if (bytes < 1) {
            throw new IllegalArgumentException("option " + SPLIT_BYTES + ": a task reads 1 byte at least, not " + bytes);
        }
        return bytes;
    }

    private long number(String option, long otherwise) {
        String value = values.get(option);
        try {
            return value == null ? otherwise : Long.parseLong(value);
        } catch (NumberFormatException e) {
            throw new IllegalArgumentException("option " + option + ": '" + value + "' is no number", e);
        }
    }
}
