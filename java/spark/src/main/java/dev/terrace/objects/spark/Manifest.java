package dev.terrace.objects.spark;

import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import dev.terrace.objects.PoolDamagedException;
import dev.terrace.objects.PoolFormatException;
import java.io.IOException;
import java.io.Serial;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.zip.CRC32C;
import org.jspecify.annotations.Nullable;

/// The contents of a directory as of one commit: a file that is written once (TABLE-FORMAT.md).
///
/// @param number of the commit, from 1
/// @param kind what the parts hold: [#OBJECTS] or [#TABLE]
/// @param type the tagged class, or the table's schema in Spark's JSON
/// @param options of a table, by their names; of objects none
/// @param parts that count: those of lists first, in their order
/// @param streams the last epoch that each streaming query has committed, by the queries' ids. All
///   later manifests keep them: an epoch that runs again is known by them.
/// @param rewrites whether the table has the same rows as before the commit, in other parts. A
///   stream of its rows passes over it.
/// @param partitioning the columns of which each part has one value, or null, in all rows; empty:
///   the table has no partitions
/// @param lists files that list parts, so that the manifest's own file need not
record Manifest(
        long number,
        String kind,
        String type,
        Map<String, String> options,
        List<Part> parts,
        @JsonInclude(JsonInclude.Include.NON_EMPTY) Map<String, Long> streams,
        @JsonInclude(JsonInclude.Include.NON_DEFAULT) boolean rewrites,
        @JsonInclude(JsonInclude.Include.NON_EMPTY) List<String> partitioning,
        @JsonInclude(JsonInclude.Include.NON_EMPTY) List<PartList> lists)
        implements Serializable {
    @Serial private static final long serialVersionUID = 1L;

    static final String OBJECTS = "objects";
    static final String TABLE = "table";

    /// In a schema's JSON; the schema is a struct itself.
    private static final String STRUCT_TYPE = "\"type\":\"struct\"";

    private static final String MAP_TYPE = "\"type\":\"map\"";
    private static final String MAGIC = "terrace-manifest";

    /// Files list parts, which earlier libraries would miss. It may have all that earlier versions
    /// have.
    private static final int VERSION_8 = 8;

    /// It has partition columns: earlier libraries would write parts with several values of them.
    /// Or columns have structs or maps, which they do not know. It may have all that earlier
    /// versions have.
    private static final int VERSION_7 = 7;

    /// It only writes rows anew, which earlier libraries do not know to say. It may have all that
    /// earlier versions have.
    private static final int VERSION_6 = 6;

    /// It has epochs of streaming queries: earlier libraries would drop them, and epochs that run
    /// again would double their rows. It may have all that earlier versions have.
    private static final int VERSION_5 = 5;

    /// Rows of parts are deleted: earlier libraries would show them.
    private static final int VERSION_3 = 3;

    /// Its checksum covers the version; parts are pools that know features.
    private static final int VERSION_2 = 2;

    private static final int VERSION_1 = 1;
    private static final List<String> VERSIONS =
            List.of(
                    "" + VERSION_1,
                    "" + VERSION_2,
                    "" + VERSION_3,
                    "" + VERSION_5,
                    "" + VERSION_6,
                    "" + VERSION_7,
                    "" + VERSION_8);
    private static final ObjectMapper JSON =
            new ObjectMapper().enable(SerializationFeature.ORDER_MAP_ENTRIES_BY_KEYS);

    Manifest {
        options = Map.copyOf(options);
        parts = List.copyOf(parts);
        // Manifests of earlier versions have no such members.
        streams = streams == null ? Map.of() : Map.copyOf(streams);
        partitioning = partitioning == null ? List.of() : List.copyOf(partitioning);
        lists = lists == null ? List.of() : List.copyOf(lists);
    }

    /// Without streaming queries and partitions.
    Manifest(long number, String kind, String type, Map<String, String> options, List<Part> parts) {
        this(number, kind, type, options, parts, Map.of(), false, List.of(), List.of());
    }

    /// The manifest of a table, without streaming queries.
    static Manifest ofTable(
            long number, TableColumns columns, Map<String, String> options, List<Part> parts) {
        return new Manifest(
                number,
                TABLE,
                columns.schema().json(),
                options,
                parts,
                Map.of(),
                false,
                columns.partitioning(),
                List.of());
    }

    /// This one, which comes after `before` and nothing else.
    ///
    /// @throws CommitConflictException if another has been committed since
    Manifest after(@Nullable Manifest before, @Nullable Manifest present, Storage root)
            throws CommitConflictException {
        // Numbers begin anew where a table was dropped and made again.
        if (number(before) != number(present) || !partNames(before).equals(partNames(present))) {
            throw new CommitConflictException(
                    root
                            + " has changed since this write began, by somebody else's commit: look"
                            + " at what is there now, and write again");
        }
        return this;
    }

    /// The present manifest, if it is of the same table as this one, which a statement has read.
    ///
    /// @param statement as a message names it
    Manifest requireTable(@Nullable Manifest present, String statement)
            throws CommitConflictException {
        if (present == null) {
            throw new CommitConflictException(
                    statement + " changed nothing: somebody else has meanwhile dropped the table");
        }
        if (!present.hasColumnsOf(this)) {
            throw conflict(present, statement, "made another of it");
        }
        return present;
    }

    /// Whether the columns, and those of partitions, are the same.
    boolean hasColumnsOf(Manifest other) {
        return type.equals(other.type) && partitioning.equals(other.partitioning);
    }

    /// The reason of a conflict with an append.
    static final String ADDED_ROWS = "added rows that it would have had to look at";

    /// The exception for a statement that has read this manifest, and met the present one.
    ///
    /// @param what somebody else has done
    CommitConflictException conflict(Manifest present, String statement, String what) {
        return conflict(present, statement, what, "");
    }

    /// The same.
    ///
    /// @param remedy what can be done beside another attempt
    CommitConflictException conflict(
            Manifest present, String statement, String what, String remedy) {
        return new CommitConflictException(
                statement
                        + " has read commit "
                        + number
                        + " and changed nothing, because somebody else has meanwhile "
                        + what
                        + " (commit "
                        + present.number
                        + "): run the statement again"
                        + remedy);
    }

    /// The number of a manifest, or 0 if there is none.
    static long number(@Nullable Manifest manifest) {
        return manifest == null ? 0 : manifest.number;
    }

    /// The next one, with these parts. Lists stay of which more than half of the parts do; these
    /// parts come first.
    Manifest next(List<Part> of) {
        return next(options, of, false);
    }

    /// The next one, with the same rows in these parts.
    Manifest rewritten(List<Part> of) {
        return next(options, of, true);
    }

    /// The next one, with these options.
    Manifest next(TableOptions of) {
        return next(of.values(), parts, false);
    }

    private Manifest next(Map<String, String> with, List<Part> of, boolean isSame) {
        List<PartList> kept = new ArrayList<>();
        List<Part> all = new ArrayList<>();
        Map<PartState, Part> left = new LinkedHashMap<>();
        of.forEach(part -> left.put(PartState.of(part), part));
        int from = 0;
        for (PartList list : lists) {
            PartList its = list.with(parts.subList(from, from + list.size()), left.keySet());
            if (2 * its.size() > its.parts()) {
                kept.add(its);
                for (Part part : parts.subList(from, from + list.size())) {
                    if (left.remove(PartState.of(part)) != null) {
                        all.add(part);
                    }
                }
            }
            from += list.size();
        }
        all.addAll(left.values());
        return new Manifest(number + 1, kind, type, with, all, streams, isSame, partitioning, kept);
    }

    /// This one, with its parts in these lists, but those at the end that they do not have.
    Manifest withLists(List<PartList> of) {
        return with(parts, of);
    }

    /// Parts that no list has.
    List<Part> rest() {
        int listed = lists.stream().mapToInt(PartList::size).sum();
        return parts.subList(listed, parts.size());
    }

    private Manifest with(List<Part> all, List<PartList> of) {
        return new Manifest(number, kind, type, options, all, streams, rewrites, partitioning, of);
    }

    /// This one, with the epochs that streaming queries have committed as of another.
    Manifest withStreamsOf(@Nullable Manifest other) {
        return other == null ? this : withStreams(other.streams);
    }

    /// This one, as the commit of an epoch of a streaming query.
    Manifest withEpoch(String query, long epoch) {
        Map<String, Long> all = new TreeMap<>(streams);
        all.put(query, epoch);
        return withStreams(all);
    }

    private Manifest withStreams(Map<String, Long> all) {
        return new Manifest(number, kind, type, options, parts, all, rewrites, partitioning, lists);
    }

    /// Whether a streaming query has committed an epoch.
    boolean hasEpoch(String query, long epoch) {
        return streams.getOrDefault(query, -1L) >= epoch;
    }

    /// The names of parts, and of files of deletions.
    Set<String> names() {
        Set<String> names = new TreeSet<>();
        for (Part part : parts) {
            names.add(part.name());
            if (part.deletions() != null) {
                names.add(part.deletions().file());
            }
        }
        return names;
    }

    /// The same, and those of files of lists.
    Set<String> allNames() {
        Set<String> names = names();
        lists.forEach(list -> names.add(list.file()));
        return names;
    }

    private static List<String> partNames(@Nullable Manifest manifest) {
        return manifest == null ? List.of() : manifest.parts.stream().map(Part::name).toList();
    }

    /// Objects, or rows that are not deleted, in all parts.
    long rows() {
        return parts.stream().mapToLong(Part::live).sum();
    }

    /// Whether rows of a part are deleted.
    boolean hasDeletions() {
        return parts.stream().anyMatch(part -> part.deletions() != null);
    }

    /// Bytes in use in all parts.
    long bytes() {
        return parts.stream().mapToLong(Part::bytes).sum();
    }

    /// The earliest version that has all of it.
    private int version() {
        if (!lists.isEmpty()) {
            return VERSION_8;
        }
        if (!partitioning.isEmpty() || hasNestedColumns()) {
            return VERSION_7;
        }
        if (rewrites) {
            return VERSION_6;
        }
        if (!streams.isEmpty()) {
            return VERSION_5;
        }
        return hasDeletions() ? VERSION_3 : VERSION_2;
    }

    /// Whether columns have structs or maps. Names in the schema cannot look so, as their quotes
    /// follow backslashes.
    private boolean hasNestedColumns() {
        return kind.equals(TABLE)
                && (type.contains(MAP_TYPE)
                        || type.indexOf(STRUCT_TYPE) != type.lastIndexOf(STRUCT_TYPE));
    }

    /// A line with magic, version and checksum, and the rest in JSON: parts of lists are not in it.
    byte[] encode() {
        int version = version();
        try {
            byte[] json = JSON.writeValueAsBytes(with(rest(), lists));
            byte[] front =
                    (MAGIC + " " + version + " " + crc(version, json, 0) + "\n")
                            .getBytes(StandardCharsets.US_ASCII);
            byte[] all = new byte[front.length + json.length];
            System.arraycopy(front, 0, all, 0, front.length);
            System.arraycopy(json, 0, all, front.length, json.length);
            return all;
        } catch (JsonProcessingException e) {
            throw new AssertionError(e);
        }
    }

    /// Decodes the result of [#encode()].
    ///
    /// @param name of the file, for messages
    /// @param files of lists
    /// @throws PoolFormatException if this is no manifest, or one of a version that this library
    ///   does not know, or if a file of lists is not there
    /// @throws PoolDamagedException if it, or a list, is not what was written
    static Manifest decode(String name, byte[] bytes, PartLists files) throws IOException {
        int end = 0;
        while (end < bytes.length && bytes[end] != '\n') {
            end++;
        }
        String[] front = new String(bytes, 0, end, StandardCharsets.US_ASCII).split(" ", -1);
        if (!front[0].equals(MAGIC) || front.length != 3) {
            throw new PoolDamagedException(
                    name
                            + " does not begin as a manifest does: restore it, or remove it to go"
                            + " back to the one before");
        }
        if (!VERSIONS.contains(front[1])) {
            throw new PoolFormatException(
                    name
                            + " is of version "
                            + front[1]
                            + ", and this library knows "
                            + VERSIONS
                            + ": use a later one");
        }
        int version = Integer.parseInt(front[1]);
        if (end == bytes.length || !front[2].equals(crc(version, bytes, end + 1))) {
            throw new PoolDamagedException(
                    name
                            + " is damaged, its checksum is wrong: restore it, or remove it to go"
                            + " back to the one before");
        }
        Manifest own;
        try {
            own =
                    JSON.readValue(
                            new String(
                                    bytes, end + 1, bytes.length - end - 1, StandardCharsets.UTF_8),
                            Manifest.class);
        } catch (JsonProcessingException e) {
            throw new PoolFormatException(
                    name
                            + " has a checksum that is right and is no manifest of version "
                            + version
                            + ": "
                            + e.getOriginalMessage(),
                    e);
        }
        if (own.lists.isEmpty()) {
            return own;
        }
        List<Part> all = files.read(own.lists);
        all.addAll(own.parts);
        return own.with(all, own.lists);
    }

    /// The checksum of the JSON, and, but in version 1, of what is before it.
    private static String crc(int version, byte[] bytes, int from) {
        CRC32C crc = new CRC32C();
        if (version != VERSION_1) {
            crc.update((MAGIC + " " + version + " ").getBytes(StandardCharsets.US_ASCII));
        }
        crc.update(bytes, from, bytes.length - from);
        return HexFormat.of().toHexDigits((int) crc.getValue());
    }
}
