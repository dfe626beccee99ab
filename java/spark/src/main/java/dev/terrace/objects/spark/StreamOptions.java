package dev.terrace.objects.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.jspecify.annotations.Nullable;

/// The options of a stream that reads a table (SPARK.md).
///
/// @param limit how much a batch takes
/// @param startingVersion the commit with whose additions the stream begins, or [#LATEST]; null: it
///   begins with the table's rows
/// @param skipsChanges whether commits are passed over that did not only add rows
record StreamOptions(ReadLimit limit, @Nullable String startingVersion, boolean skipsChanges) {
    /// Instead of a commit's number: the next one.
    static final String LATEST = "latest";

    private static final String MAX_FILES = "maxFilesPerTrigger";
    private static final String MAX_BYTES = "maxBytesPerTrigger";
    static final String STARTING_VERSION = "startingVersion";
    static final String SKIP_CHANGES = "skipChangeCommits";

    /// As people write them.
    static final List<String> NAMES = List.of(MAX_FILES, MAX_BYTES, STARTING_VERSION, SKIP_CHANGES);

    /// Of batches, which read one version.
    private static final Set<String> OF_BATCHES = Set.of("versionAsOf", "timestampAsOf");

    /// Whether an option is of streams that read.
    static boolean has(String name) {
        return NAMES.stream().anyMatch(name::equalsIgnoreCase);
    }

    /// Those of a query.
    ///
    /// @throws IllegalArgumentException if one has another value than it may have, or is of batches
    static StreamOptions of(Map<String, String> options) {
        CaseInsensitiveStringMap all = new CaseInsensitiveStringMap(options);
        for (String name : OF_BATCHES) {
            if (all.containsKey(name)) {
                throw new IllegalArgumentException(
                        "the option "
                                + name
                                + " is one of batches only: a stream begins at the option "
                                + STARTING_VERSION);
            }
        }
        List<ReadLimit> limits = new ArrayList<>();
        if (all.containsKey(MAX_FILES)) {
            limits.add(ReadLimit.maxFiles((int) number(all, MAX_FILES, Integer.MAX_VALUE)));
        }
        if (all.containsKey(MAX_BYTES)) {
            limits.add(ReadLimit.maxBytes(number(all, MAX_BYTES, Long.MAX_VALUE)));
        }
        String start = all.get(STARTING_VERSION);
        if (start != null && !start.equalsIgnoreCase(LATEST)) {
            number(all, STARTING_VERSION, Long.MAX_VALUE);
        }
        return new StreamOptions(
                limits.size() == 1
                        ? limits.getFirst()
                        : limits.isEmpty()
                                ? ReadLimit.allAvailable()
                                : ReadLimit.compositeLimit(limits.toArray(new ReadLimit[0])),
                start,
                isSet(all, SKIP_CHANGES));
    }

    private static long number(CaseInsensitiveStringMap all, String name, long most) {
        try {
            long number = Long.parseLong(all.get(name));
            if (number >= 1 && number <= most) {
                return number;
            }
        } catch (NumberFormatException none) {
            // As is said below.
        }
        throw new IllegalArgumentException(
                "option "
                        + name
                        + ": '"
                        + all.get(name)
                        + "' is no number from 1 to "
                        + most
                        + (name.equals(STARTING_VERSION) ? ", and not " + LATEST : ""));
    }

    private static boolean isSet(CaseInsensitiveStringMap all, String name) {
        String value = all.getOrDefault(name, "false");
        if (!value.equalsIgnoreCase("true") && !value.equalsIgnoreCase("false")) {
            throw new IllegalArgumentException(
                    "option " + name + ": '" + value + "' is neither true nor false");
        }
        return value.equalsIgnoreCase("true");
    }
}
