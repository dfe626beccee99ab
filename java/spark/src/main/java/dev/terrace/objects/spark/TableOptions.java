package dev.terrace.objects.spark;

import dev.terrace.objects.StorageTier;
import java.io.Serial;
import java.io.Serializable;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.types.UTF8String;
import scala.jdk.javaapi.CollectionConverters;

/// The options of a table (SPARK.md): the tier of each column, and the place of its pools. The
/// manifest keeps them, so that they also apply to later writes that do not override them.
///
/// @param values by their names in lower case
record TableOptions(Map<String, String> values) implements Serializable {
    @Serial private static final long serialVersionUID = 1L;

    private static final String TIER = "tier.";
    private static final String DEFAULT_TIER = TIER + "default";
    private static final String PMEM = "pmem";
    private static final String DISK = "disk";
    private static final String EXTENT = "extent";
    private static final String SPLIT_BYTES = "split.bytes";
    private static final long SPLIT_BYTES_DEFAULT = 128 << 20;
    private static final String BLOCK_ROWS = "block.rows";
    private static final String ISOLATION = "isolation";
    private static final String SORT_BY = "sort.by";
    private static final String SERIALIZABLE = "serializable";
    private static final String SNAPSHOT = "snapshot";

    /// So many numbers, of any width, fill a slot of persistent memory: with the 24 bytes before
    /// them they take just less than 4, 8, 16 or 32 KiB. A column of 4,096 doubles does not fit
    /// into 32 KiB and takes 64.
    private static final int BLOCK_ROWS_DEFAULT = 4072;

    private static final int BLOCK_ROWS_MAX = 1 << 20;
    private static final Set<String> KEPT =
            Set.of(PMEM, DISK, EXTENT, SPLIT_BYTES, BLOCK_ROWS, ISOLATION, SORT_BY);
    private static final Set<String> OF_READS =
            Set.of("path", "paths", "versionasof", "timestampasof");

    /// Of the write that makes a table: its partition columns.
    static final String PARTITION_BY = "partition.by";

    /// Of a write that replaces rows.
    private static final String OVERWRITE_MODE = "partitionOverwriteMode";

    private static final String DYNAMIC = "dynamic";
    private static final String STATIC = "static";

    private static final Set<String> OF_WRITES =
            Set.of(PARTITION_BY, OVERWRITE_MODE.toLowerCase(Locale.ROOT));

    private static final String CHECKPOINT = "checkpointlocation";

    /// Of streams, which Spark follows itself.
    private static final Set<String> OF_STREAMS = Set.of(CHECKPOINT, "queryname");

    private static final String OF_COLUMN = TIER + "COLUMN";
    private static final List<String> SHOWN =
            Stream.concat(
                            Stream.of(
                                    PMEM,
                                    DISK,
                                    EXTENT,
                                    SPLIT_BYTES,
                                    BLOCK_ROWS,
                                    ISOLATION,
                                    SORT_BY,
                                    PARTITION_BY,
                                    OVERWRITE_MODE,
                                    DEFAULT_TIER,
                                    OF_COLUMN,
                                    "path",
                                    "versionAsOf",
                                    "timestampAsOf"),
                            StreamOptions.NAMES.stream())
                    .toList();

    /// Properties of tables that Spark sets itself, or keeps for itself.
    private static final Set<String> SPARKS =
            Set.copyOf(CollectionConverters.asJava(CatalogV2Util.TABLE_RESERVED_PROPERTIES()));

    private static final int SHOWN_MAX = 60;
    private static final List<StorageTier> TIERS = List.of(StorageTier.PMEM, StorageTier.DISK);

    TableOptions {
        values = Map.copyOf(values);
    }

    /// Those of a table, and others that come before them.
    ///
    /// @throws IllegalArgumentException if one is no option
    static TableOptions of(Map<String, String> table, Map<String, String> others) {
        requireKnown(others);
        Map<String, String> values = new TreeMap<>(table);
        others.forEach((name, value) -> {
            String key = name.toLowerCase(Locale.ROOT);
            if (isKept(key)) {
                values.put(key, value);
            }
        });
        return new TableOptions(values);
    }

    /// Whether it is an option of a table, which holds for later writes.
    static boolean isKept(String key) {
        return key.startsWith(TIER) || KEPT.contains(key);
    }

    /// Whether a write that replaces rows replaces only partitions of which it has some.
    static boolean isDynamic(CaseInsensitiveStringMap options) {
        String mode = options.getOrDefault(OVERWRITE_MODE, STATIC);
        if (!mode.equalsIgnoreCase(DYNAMIC) && !mode.equalsIgnoreCase(STATIC)) {
            throw new IllegalArgumentException(
                    "option "
                            + OVERWRITE_MODE
                            + ": '"
                            + mode
                            + "' is neither "
                            + DYNAMIC
                            + " nor "
                            + STATIC);
        }
        return mode.equalsIgnoreCase(DYNAMIC);
    }

    /// Throws if an option of a stream is one of batches only.
    ///
    /// @throws IllegalArgumentException if there is one
    static void requireStream(CaseInsensitiveStringMap options) {
        if (options.containsKey(OVERWRITE_MODE)) {
            throw new IllegalArgumentException(
                    "the option "
                            + OVERWRITE_MODE
                            + " is one of batches only: a stream appends, or in complete mode"
                            + " replaces all rows");
        }
    }

    /// Whether they are those of a streaming query.
    static boolean areOfStream(Map<String, String> options) {
        return options.keySet().stream().anyMatch(CHECKPOINT::equalsIgnoreCase);
    }

    /// These options, but those that only Spark follows in a stream.
    static Map<String, String> withoutStreams(Map<String, String> options) {
        Map<String, String> others = new TreeMap<>(options);
        others.keySet().removeIf(name -> OF_STREAMS.contains(name.toLowerCase(Locale.ROOT)));
        return others;
    }

    /// These options, but those of streams that read.
    static Map<String, String> withoutStreamReads(Map<String, String> options) {
        Map<String, String> others = new TreeMap<>(options);
        others.keySet().removeIf(StreamOptions::has);
        return others;
    }

    /// Throws if one is neither a table's option nor one of a read or a write, nor Spark's own
    /// word: a slip of the pen would change nothing, and nobody would know.
    ///
    /// @throws IllegalArgumentException with the options that there are, those first whose names
    ///   are nearest
    static void requireKnown(Map<String, String> options) {
        for (String name : options.keySet()) {
            String key = name.toLowerCase(Locale.ROOT);
            if (OF_STREAMS.contains(key)) {
                throw new IllegalArgumentException(
                        "the option " + name + " is one of streams only: leave it out here");
            }
            if (StreamOptions.has(key)) {
                throw new IllegalArgumentException(
                        "the option "
                                + name
                                + " is one of streams that read a table only: leave it out here");
            }
            if (!isKept(key)
                    && !OF_READS.contains(key)
                    && !OF_WRITES.contains(key)
                    && !SPARKS.contains(key)
                    && !key.startsWith(TableCatalog.OPTION_PREFIX)) {
                throw new IllegalArgumentException(
                        "there is no option "
                                + shown(name)
                                + ". There are, the nearest first: "
                                + nearest(key, SHOWN));
            }
        }
    }

    /// A name that somebody gave, at a length that fits into a message.
    private static String shown(String name) {
        return name.length() > SHOWN_MAX ? name.substring(0, SHOWN_MAX) + "..." : name;
    }

    private static String nearest(String name, List<String> others) {
        return others.stream()
                .sorted(
                        Comparator.comparing((String other) -> distance(shown(name), other))
                                .thenComparing(Comparator.naturalOrder()))
                .collect(Collectors.joining(", "));
    }

    /// How many letters of a name must change until it is another; whatever column it names stands
    /// for all.
    private static int distance(String name, String other) {
        String wanted =
                other.equals(OF_COLUMN)
                        ? TIER + name.substring(name.indexOf('.') + 1)
                        : other.toLowerCase(Locale.ROOT);
        return UTF8String.fromString(name).levenshteinDistance(UTF8String.fromString(wanted));
    }

    /// The tier of a column.
    StorageTier tierOf(String column) {
        String option = TIER + column.toLowerCase(Locale.ROOT);
        String name =
                values.getOrDefault(
                        option, values.getOrDefault(DEFAULT_TIER, StorageTier.PMEM.name()));
        for (StorageTier tier : TIERS) {
            if (tier.name().equalsIgnoreCase(name)) {
                return tier;
            }
        }
        throw new IllegalArgumentException(
                "option "
                        + (values.containsKey(option) ? option : DEFAULT_TIER)
                        + ": '"
                        + name
                        + "' is none of the tiers "
                        + TIERS);
    }

    /// Throws if they speak of a column that the table has not, or say what cannot be.
    TableOptions requireColumns(StructType schema) {
        List<String> columns =
                List.of(schema.fieldNames()).stream()
                        .map(name -> name.toLowerCase(Locale.ROOT))
                        .toList();
        for (String name : values.keySet()) {
            if (name.startsWith(TIER) && !name.equals(DEFAULT_TIER)) {
                requireColumn("option " + shown(name), name.substring(TIER.length()), schema);
            }
        }
        columns.forEach(this::tierOf);
        // So that the driver says what is wrong, not a task.
        List<Object> others =
                List.of(
                        blockRows(),
                        splitBytes(),
                        partitions().extentBytes(),
                        isSnapshot(),
                        sortBy(schema));
        assert !others.isEmpty();
        return this;
    }

    /// The name that a column has, of which somebody has written the name in any case.
    ///
    /// @param what names it, for a message
    static String requireColumn(String what, String name, StructType schema) {
        List<String> columns = List.of(schema.fieldNames());
        return columns.stream()
                .filter(column ->
                        columns.contains(name)
                                ? column.equals(name)
                                : column.equalsIgnoreCase(name))
                .findFirst()
                .orElseThrow(() ->
                        new IllegalArgumentException(
                                what
                                        + ": the table has no column "
                                        + shown(name)
                                        + ". It has, the nearest first: "
                                        + nearest(name, columns)));
    }

    /// The columns by whose values each task sorts the rows that it writes.
    List<String> sortBy(StructType schema) {
        return TableColumns.named(SORT_BY, values.getOrDefault(SORT_BY, ""), schema).stream()
                .map(name -> TableColumns.requireOrder("option " + SORT_BY, name, schema))
                .toList();
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
            throw new IllegalArgumentException(
                    "option "
                            + BLOCK_ROWS
                            + ": a block has from 1 to "
                            + BLOCK_ROWS_MAX
                            + " rows, not "
                            + rows);
        }
        return (int) rows;
    }

    /// Whether a statement that changes rows minds nothing that is committed meanwhile but changes
    /// of the parts that it changes; if not, it minds all that it would have had to read.
    boolean isSnapshot() {
        String isolation = values.getOrDefault(ISOLATION, SERIALIZABLE);
        if (!isolation.equalsIgnoreCase(SERIALIZABLE) && !isolation.equalsIgnoreCase(SNAPSHOT)) {
            throw new IllegalArgumentException(
                    "option "
                            + ISOLATION
                            + ": '"
                            + isolation
                            + "' is neither "
                            + SERIALIZABLE
                            + " nor "
                            + SNAPSHOT);
        }
        return isolation.equalsIgnoreCase(SNAPSHOT);
    }

    /// Of how many bytes of a part a task reads the columns that it needs; a part with more is read
    /// by several.
    long splitBytes() {
        long bytes = number(SPLIT_BYTES, SPLIT_BYTES_DEFAULT);
        if (bytes < 1) {
            throw new IllegalArgumentException(
                    "option " + SPLIT_BYTES + ": a task reads 1 byte at least, not " + bytes);
        }
        return bytes;
    }

    private long number(String option, long otherwise) {
        String value = values.get(option);
        try {
            return value == null ? otherwise : Long.parseLong(value);
        } catch (NumberFormatException e) {
            throw new IllegalArgumentException(
                    "option " + option + ": '" + value + "' is no number", e);
        }
    }
}
