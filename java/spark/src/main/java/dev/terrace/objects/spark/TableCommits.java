package dev.terrace.objects.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.spark.sql.types.StructType;
import org.jspecify.annotations.Nullable;

/// The commits of a table, one after the other, as a stream reads them.
///
/// Invariant: what follows an offset is given only if the table is as it was when the offset was
/// made, and each commit since is there and has only added rows, or only written them anew, or is
/// to be passed over. So no row is missed silently.
final class TableCommits {
    /// A stream looks at a commit, and at the one before.
    private static final int KEPT_MAX = 4;

    private static final String NEW_CHECKPOINT =
            "start the query with a new checkpointLocation, so that it begins with the table's"
                    + " rows or at the option "
                    + StreamOptions.STARTING_VERSION;

    private final ManifestLog log;
    private final String name;
    private final Manifest loaded;
    private final boolean skipsChanges;

    /// Commits that were read last, by their numbers.
    private final Map<Long, Read> kept =
            new LinkedHashMap<>(2 * KEPT_MAX, 0.75f, true) {
                @Override
                protected boolean removeEldestEntry(Map.Entry<Long, Read> eldest) {
                    return size() > KEPT_MAX;
                }
            };

    /// @param name of the table, for messages
    /// @param loaded the manifest whose columns the stream has
    /// @param skipsChanges whether commits are passed over that did not only add rows
    TableCommits(ManifestLog log, String name, Manifest loaded, boolean skipsChanges) {
        this.log = log;
        this.name = name;
        this.loaded = loaded;
        this.skipsChanges = skipsChanges;
    }

    /// A manifest's file as it is now.
    ///
    /// @param at when it was committed
    /// @param state tells it from another manifest of the same number. Names of parts are unique;
    ///   where there is none, the time tells
    private record Read(Manifest manifest, Instant at, String state) {
        static Read of(Manifest manifest, Instant at) {
            String text =
                    manifest.parts().isEmpty()
                            ? Long.toString(at.toEpochMilli())
                            : String.join("\n", manifest.names());
            byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
            return new Read(manifest, at, UUID.nameUUIDFromBytes(bytes).toString());
        }

        Set<PartState> parts() {
            return PartState.of(manifest.parts());
        }
    }

    /// A commit that follows an offset.
    ///
    /// @param state of the table as of it
    /// @param brings the numbers, in its manifest, of the parts that it brings
    record Commit(Manifest manifest, String state, List<Integer> brings) {
        /// One of the parts that it brings.
        Part part(int index) {
            return manifest.parts().get(brings.get(index));
        }
    }

    /// The number of the last one.
    long last() throws IOException {
        List<Long> numbers = log.numbers();
        if (numbers.isEmpty()) {
            throw new IllegalStateException(dropped());
        }
        return numbers.getLast();
    }

    private String dropped() {
        return name
                + " is not there any more, it was dropped: when there is a table again, "
                + NEW_CHECKPOINT;
    }

    /// The offset of a stream that begins with what a commit adds.
    TableOffset from(long number) throws IOException {
        return TableOffset.ofCommit(number, number == 1 ? null : read(number - 1).state);
    }

    /// Throws if the table is not as it was when this offset was made.
    void require(TableOffset offset) throws IOException {
        if (offset.state() != null && !read(offset.known()).state.equals(offset.state())) {
            throw new IllegalStateException(
                    "commit "
                            + offset.known()
                            + " of "
                            + name
                            + " is another than the stream has read: the table was dropped and"
                            + " made anew, or restored from a copy. To read it, "
                            + NEW_CHECKPOINT);
        }
    }

    /// The commit that follows an offset; null: there is none yet.
    ///
    /// @throws IllegalStateException if the stream cannot go on
    @Nullable Commit after(TableOffset offset) throws IOException {
        require(offset);
        long number = offset.commit() + 1;
        Read before = offset.isBeforeRows() || number == 1 ? null : read(offset.commit());
        if (before != null && offset.part() == 0 && !log.has(number)) {
            return null;
        }
        Read it = read(number);
        List<Integer> brings = before == null ? all(it.manifest) : added(before, it);
        if (!brings.isEmpty()) {
            requireColumns(it.manifest);
        }
        return new Commit(it.manifest, it.state, brings);
    }

    private static List<Integer> all(Manifest manifest) {
        return IntStream.range(0, manifest.parts().size()).boxed().toList();
    }

    /// The numbers of the parts that a commit added.
    private List<Integer> added(Read before, Read it) {
        Set<PartState> old = before.parts();
        if (it.manifest.rewrites()) {
            return List.of();
        }
        if (it.parts().containsAll(old)) {
            List<Part> parts = it.manifest.parts();
            return all(it.manifest).stream()
                    .filter(number -> !old.contains(PartState.of(parts.get(number))))
                    .toList();
        }
        if (skipsChanges) {
            return List.of();
        }
        throw new IllegalStateException(
                "commit "
                        + it.manifest.number()
                        + " of "
                        + name
                        + " has deleted, changed or replaced rows that were there before, and a"
                        + " stream gives rows that are added: set the option "
                        + StreamOptions.SKIP_CHANGES
                        + " to true, which passes over such commits with all that they add, or "
                        + NEW_CHECKPOINT);
    }

    private void requireColumns(Manifest it) {
        if (!it.type().equals(loaded.type())) {
            StructType columns = TerraceTable.schema(it);
            throw new IllegalStateException(
                    "commit "
                            + it.number()
                            + " of "
                            + name
                            + " has the columns "
                            + columns.simpleString()
                            + ", and the stream has "
                            + TerraceTable.schema(loaded).simpleString()
                            + ": "
                            + (it.number() > loaded.number()
                                    ? "load the table again, and start the query with that"
                                    : NEW_CHECKPOINT));
        }
    }

    private synchronized Read read(long number) throws IOException {
        try {
            // Somebody may have made the table anew since it was read last.
            Instant at = log.committedAt(number);
            Read known = kept.get(number);
            if (known == null || !known.at.equals(at)) {
                known = Read.of(log.requireKind(log.at(number), Manifest.TABLE), at);
                kept.put(number, known);
            }
            return known;
        } catch (FileNotFoundException e) {
            throw new IllegalStateException(gone(number), e);
        }
    }

    /// The reason why there is no such commit.
    private String gone(long number) throws IOException {
        List<Long> numbers = log.numbers();
        if (numbers.isEmpty()) {
            return dropped();
        }
        String there =
                "commit "
                        + number
                        + " of "
                        + name
                        + ", which the stream needs, is not there, but "
                        + numbers.stream().map(String::valueOf).collect(Collectors.joining(", "));
        return numbers.getLast() < number
                ? there
                        + ": the table was dropped and made anew, or restored from a copy. To read"
                        + " it, "
                        + NEW_CHECKPOINT
                : there
                        + ": a vacuum has removed it. To go on without what it led to, "
                        + NEW_CHECKPOINT
                        + ". A vacuum is to have an age longer than a stream ever rests or is"
                        + " behind";
    }
}
