package dev.terrace.objects.placement;

import com.fasterxml.jackson.annotation.JsonAutoDetect;
import com.fasterxml.jackson.annotation.JsonSetter;
import com.fasterxml.jackson.annotation.Nulls;
import com.fasterxml.jackson.annotation.PropertyAccessor;
import com.fasterxml.jackson.core.JacksonException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.charset.CharacterCodingException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.UUID;

/// Files of one format: a record as JSON, its components as members, beside the format's name and
/// version.
///
/// @param format its name
/// @param version that is written, and the only one that is read
/// @param type the record
record JsonFile<T extends Record>(String format, int version, Class<T> type) {
    private static final String FORMAT = "format";
    private static final String VERSION = "version";

    /// Records are written by their components only, because the results of their methods follow
    /// from these. Missing and unknown properties are errors.
    private static final ObjectMapper MAPPER =
            JsonMapper.builder()
                    .visibility(PropertyAccessor.ALL, JsonAutoDetect.Visibility.NONE)
                    .visibility(PropertyAccessor.FIELD, JsonAutoDetect.Visibility.ANY)
                    .visibility(PropertyAccessor.CREATOR, JsonAutoDetect.Visibility.ANY)
                    .enable(SerializationFeature.INDENT_OUTPUT)
                    .enable(DeserializationFeature.FAIL_ON_MISSING_CREATOR_PROPERTIES)
                    .enable(DeserializationFeature.FAIL_ON_NULL_CREATOR_PROPERTIES)
                    .enable(DeserializationFeature.FAIL_ON_NULL_FOR_PRIMITIVES)
                    .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
                    .build()
                    .setDefaultSetterInfo(JsonSetter.Value.forContentNulls(Nulls.FAIL));

    /// Reads a file.
    ///
    /// @throws IOException if it cannot be read, or is none of this format and version, or is
    ///   damaged; the message names it
    T read(Path file) throws IOException {
        requireNoDirectory(file);
        try {
            JsonNode tree = MAPPER.readTree(Files.readString(file));
            if (!(tree instanceof ObjectNode object)
                    || !object.path(FORMAT).asText().equals(format)) {
                throw new IOException(
                        file
                                + " is no "
                                + format
                                + ": it does not begin with {\"format\": \""
                                + format
                                + "\"");
            }
            if (object.path(VERSION).asInt(-1) != version) {
                throw new IOException(
                        file
                                + " is a "
                                + format
                                + " of version "
                                + object.path(VERSION)
                                + ", and only "
                                + version
                                + " is known here: write it again with this program, or read it"
                                + " with a newer one");
            }
            object.remove(FORMAT);
            object.remove(VERSION);
            return MAPPER.treeToValue(object, type);
        } catch (JacksonException e) {
            throw new IOException(
                    file
                            + " is damaged, or was changed to what it cannot be: "
                            + e.getOriginalMessage()
                            + where(e),
                    e);
        } catch (CharacterCodingException e) {
            throw new IOException(file + " is damaged: it is no text", e);
        }
    }

    private static void requireNoDirectory(Path file) throws IOException {
        if (Files.isDirectory(file)) {
            throw new IOException(file + " is a directory, and a file is wanted");
        }
    }

    private static String where(JacksonException e) {
        return e.getLocation() == null || e.getLocation().getLineNr() < 0
                ? ""
                : " (line " + e.getLocation().getLineNr() + ")";
    }

    /// Writes a file, as a whole or not at all.
    void write(Path file, T value) throws IOException {
        ObjectNode tree = MAPPER.createObjectNode().put(FORMAT, format).put(VERSION, version);
        tree.setAll((ObjectNode) MAPPER.valueToTree(value));
        replace(file, MAPPER.writeValueAsString(tree) + "\n");
    }

    /// Puts a file in the place of another, if there is one, at once.
    private static void replace(Path file, String text) throws IOException {
        requireNoDirectory(file);
        Path directory = file.toAbsolutePath().getParent();
        if (directory != null && Files.notExists(directory)) {
            throw new NoSuchFileException(directory.toString());
        }
        // Not a temporary file as Java makes them: those can be read by their owner only.
        Path written = file.resolveSibling(file.getFileName() + "." + UUID.randomUUID() + ".new");
        try {
            Files.writeString(written, text);
            Files.move(written, file, StandardCopyOption.ATOMIC_MOVE);
        } finally {
            Files.deleteIfExists(written);
        }
    }
}
