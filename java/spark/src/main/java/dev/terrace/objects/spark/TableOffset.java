package dev.terrace.objects.spark;

import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.MapperFeature;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.util.regex.Pattern;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.jspecify.annotations.Nullable;

/// How far a stream has read a table, as its checkpoint keeps it (TABLE-FORMAT.md): behind a
/// commit, and behind some of the parts that the next one brings.
///
/// A commit brings the parts that it adds. The one at which a stream begins with the table's rows
/// brings all parts that the table has then.
///
/// Each offset says where its stream began. So the first batch begins there too when it runs again
/// in another process, which finds a later commit.
final class TableOffset extends Offset {
    private static final int VERSION = 1;
    private static final Pattern STATE =
            Pattern.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}");
    private static final int SHOWN_MAX = 200;

    /// Takes nothing for a number that is none, and passes over nothing that it does not know.
    private static final JsonMapper JSON =
            JsonMapper.builder()
                    .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
                    .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
                    .enable(DeserializationFeature.FAIL_ON_NULL_FOR_PRIMITIVES)
                    .enable(DeserializationFeature.FAIL_ON_MISSING_CREATOR_PROPERTIES)
                    .disable(DeserializationFeature.ACCEPT_FLOAT_AS_INT)
                    .disable(MapperFeature.ALLOW_COERCION_OF_SCALARS)
                    .build();

    private final Fields fields;

    private TableOffset(Fields fields) {
        this.fields = fields;
    }

    /// The members of the JSON.
    ///
    /// @param version of this format
    /// @param begin the commit with which the stream began
    /// @param initial whether it began with all rows of the table as of that commit, not only with
    ///   those that the commit added
    /// @param commit the last one of which all has been read
    /// @param part how many of the parts that the next one brings have been read
    /// @param state of the table, by [TableCommits]: as of the next commit if parts of it have been
    ///   read, else as of this one; null: of a stream that has read nothing
    private record Fields(
            int version,
            long begin,
            boolean initial,
            long commit,
            int part,
            @JsonInclude(JsonInclude.Include.NON_NULL) @Nullable String state) {}

    /// The offset of a stream that begins with all rows of the table as of a commit.
    static TableOffset ofRows(long commit) {
        return new TableOffset(new Fields(VERSION, commit, true, commit - 1, 0, null));
    }

    /// The offset of a stream that begins with what a commit adds.
    ///
    /// @param state as of the commit before; null: there is none
    static TableOffset ofCommit(long commit, @Nullable String state) {
        return new TableOffset(new Fields(VERSION, commit, false, commit - 1, 0, state));
    }

    /// The offset at which the stream began.
    TableOffset beginning() {
        return new TableOffset(
                new Fields(VERSION, fields.begin, fields.initial, fields.begin - 1, 0, null));
    }

    /// Whether another offset is of a stream that began where this one's did.
    boolean hasBeginningOf(TableOffset other) {
        return fields.begin == other.fields.begin && fields.initial == other.fields.initial;
    }

    /// Whether nothing has been read yet.
    boolean isBeginning() {
        return fields.commit < fields.begin && fields.part == 0;
    }

    /// Whether less has been read than at another offset.
    boolean isBefore(TableOffset other) {
        return fields.commit < other.fields.commit
                || fields.commit == other.fields.commit && fields.part < other.fields.part;
    }

    /// The offset behind so many parts of the next commit.
    TableOffset within(int parts, String state) {
        return at(fields.commit, parts, state);
    }

    /// The offset behind the next commit.
    TableOffset behind(String state) {
        return at(fields.commit + 1, 0, state);
    }

    private TableOffset at(long commit, int part, String state) {
        return new TableOffset(
                new Fields(VERSION, fields.begin, fields.initial, commit, part, state));
    }

    /// The last commit of which all has been read.
    long commit() {
        return fields.commit;
    }

    /// How many of the parts that the next commit brings have been read.
    int part() {
        return fields.part;
    }

    /// Whether the next commit brings all parts that the table has then.
    boolean isBeforeRows() {
        return fields.initial && fields.commit < fields.begin;
    }

    /// The commit that must be as it was when the offset was made, or none is.
    long known() {
        return fields.part > 0 ? fields.commit + 1 : fields.commit;
    }

    /// The state of the table as of the [#known()] commit; null: nothing of it has been read.
    @Nullable String state() {
        return fields.state;
    }

    @Override
    public String json() {
        try {
            return JSON.writeValueAsString(fields);
        } catch (JsonProcessingException e) {
            throw new AssertionError(e);
        }
    }

    /// Reads an offset of a checkpoint.
    ///
    /// @param table as a message names it
    /// @throws IllegalArgumentException if it is no offset of a table
    static TableOffset parse(String json, String table) {
        try {
            JsonNode tree = JSON.readTree(json);
            JsonNode version = tree.path("version");
            if (version.isIntegralNumber() && version.asLong() > VERSION) {
                throw refused(
                        json,
                        table,
                        "it is of version " + version.asLong() + ": use a later library",
                        null);
            }
            Fields fields = JSON.treeToValue(tree, Fields.class);
            if (fields == null
                    || fields.version != VERSION
                    || fields.begin < 1
                    || fields.commit < fields.begin - 1
                    || fields.part < 0
                    || fields.state == null
                    || !STATE.matcher(fields.state).matches()) {
                throw refused(json, table, "its numbers cannot be: " + REMEDY, null);
            }
            return new TableOffset(fields);
        } catch (JsonProcessingException e) {
            throw refused(json, table, e.getOriginalMessage() + ": " + REMEDY, e);
        }
    }

    private static final String REMEDY =
            "restore the checkpoint, or start the query with a new checkpointLocation";

    private static IllegalArgumentException refused(
            String json, String table, String why, @Nullable Exception cause) {
        String shown = json.length() > SHOWN_MAX ? json.substring(0, SHOWN_MAX) + "..." : json;
        return new IllegalArgumentException(
                "the checkpoint has the offset "
                        + shown
                        + ", which is none of a stream of "
                        + table
                        + ". "
                        + why,
                cause);
    }
}
