package dev.terrace.objects.placement;

import dev.terrace.objects.Profile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;

/// Profiles of data sets by what is known of these, in a directory of JSON files (the paper's
/// section 3.4, at its end): from it the profile of a data set that was never profiled can be
/// predicted.
///
/// Properties are numbers or texts by name: `rows` 1e6, `kind` `graph`.
public final class ProfileDatabase {
    private static final JsonFile<Entry> FORMAT =
            new JsonFile<>("terrace-profile-entry", 1, Entry.class);
    private static final String SUFFIX = ".json";
    private static final int NEIGHBOURS = 3;

    private final Path directory;
    private final Map<String, Entry> entries = new TreeMap<>();

    /// A data set with its profile.
    ///
    /// @param name what predictions call it, and its file
    /// @param properties numbers and texts by name
    /// @param profile of a program over it
    public record Entry(String name, Map<String, Object> properties, Profile profile) {
        /// Checks name and properties.
        public Entry {
            if (!name.matches("[A-Za-z0-9][A-Za-z0-9._-]*")) {
                throw new IllegalArgumentException(
                        "\""
                                + name
                                + "\" cannot name a file: use letters, digits, and . _ - within");
            }
            properties = checked(properties);
        }
    }

    private ProfileDatabase(Path directory) {
        this.directory = directory;
    }

    /// Opens a database. A directory that is not there holds no data sets; [#add] makes it. Files
    /// that do not end in `.json` are none of it.
    ///
    /// @throws IOException if it cannot be read, or a file of it is damaged; the message names that
    public static ProfileDatabase open(Path directory) throws IOException {
        ProfileDatabase database = new ProfileDatabase(directory);
        if (Files.notExists(directory)) {
            return database;
        }
        try (Stream<Path> files = Files.list(directory)) {
            for (Path file :
                    files.filter(each -> each.toString().endsWith(SUFFIX)).sorted().toList()) {
                Entry entry = FORMAT.read(file);
                if (!file.equals(database.file(entry.name))) {
                    throw new IOException(
                            file
                                    + " holds the data set "
                                    + entry.name
                                    + ": rename it to "
                                    + entry.name
                                    + SUFFIX);
                }
                database.entries.put(entry.name, entry);
            }
        }
        return database;
    }

    private Path file(String name) {
        return directory.resolve(name + SUFFIX);
    }

    /// All data sets, by name.
    public List<Entry> entries() {
        return List.copyOf(entries.values());
    }

    /// Adds a data set, in the place of one of the same name if there is one.
    ///
    /// @throws IOException if it cannot be written; then the database is what it was
    public void add(Entry entry) throws IOException {
        Files.createDirectories(directory);
        FORMAT.write(file(entry.name), entry);
        entries.put(entry.name, entry);
    }

    /// Predicts the profile of a program over a data set with these properties, from the three that
    /// are nearest to it.
    public Prediction predict(Map<String, Object> properties) {
        return predict(properties, NEIGHBOURS);
    }

    /// Predicts the profile of a program over a data set with these properties, from so many that
    /// are nearest to it.
    ///
    /// @throws IllegalStateException if the database is empty
    public Prediction predict(Map<String, Object> properties, int neighbours) {
        if (neighbours < 1) {
            throw new IllegalArgumentException(
                    "a prediction from " + neighbours + " neighbours: at least 1");
        }
        if (entries.isEmpty()) {
            throw new IllegalStateException(directory + " has no profiles yet: add one");
        }
        return new Predictor(new ArrayList<>(entries.values()))
                .predict(checked(properties), neighbours);
    }

    private static Map<String, Object> checked(Map<String, Object> properties) {
        properties.forEach((name, value) -> {
            boolean isNumber =
                    value instanceof Number number && Double.isFinite(number.doubleValue());
            if (!isNumber && !(value instanceof String)) {
                throw new IllegalArgumentException(
                        "property " + name + " is " + value + ": a number or a text is wanted");
            }
        });
        return Map.copyOf(properties);
    }
}
