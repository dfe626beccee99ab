package dev.terrace.objects.placement;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.ClassProfile;
import dev.terrace.objects.FieldKind;
import dev.terrace.objects.FieldSpec;
import dev.terrace.objects.Profile;
import dev.terrace.objects.placement.ProfileDatabase.Entry;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Profiles and devices in files, and predictions from them.
class ProfileDatabaseTest {
    private static final FieldName READS = new FieldName("Node", "reads");

    @TempDir Path directory;

    /// A data set in which reads follow a law of the properties: 3 · rows^1.5, ten times as many if
    /// it is a graph.
    private static Entry entry(String name, double rows, String kind) {
        long reads = reads(rows, kind);
        return new Entry(
                name,
                Map.of("rows", rows, "kind", kind),
                new Profile(
                        1,
                        List.of(
                                new ClassProfile(
                                        "Node",
                                        (long) rows,
                                        List.of(
                                                Profiles.field(
                                                        FieldSpec.of("reads", FieldKind.LONG),
                                                        reads,
                                                        7,
                                                        8))))));
    }

    private static long reads(double rows, String kind) {
        return (long) (3 * Math.pow(rows, 1.5) * (kind.equals("graph") ? 10 : 1));
    }

    private static long reads(Profile profile) {
        return profile.classes().getFirst().fields().getFirst().reads();
    }

    @Test
    void aProfileIsReadAsItWasWritten() throws IOException {
        Path file = directory.resolve("profile.json");
        Profile people = Profiles.people(10);
        ProfileFile.write(file, people);
        ProfileFile.write(file, people);
        assertEquals(people, ProfileFile.read(file));
        try (Stream<Path> files = Files.list(directory)) {
            assertEquals(List.of(file), files.toList());
        }
    }

    @Test
    void devicesAreReadAsTheyWereWritten() throws IOException {
        Path file = directory.resolve("devices.json");
        DeviceReport report =
                new DeviceReport(
                        "today", Profiles.devices().stream().map(Device::asSimulated).toList());
        report.write(file);
        assertEquals(report, DeviceReport.read(file));
    }

    @Test
    void aFileThatIsNoneOrDamagedOrNewerIsNamed() throws IOException {
        Path file = directory.resolve("profile.json");
        ProfileFile.write(file, Profiles.people(10));
        String whole = Files.readString(file);
        Map<String, String> wrong =
                Map.of(
                        "",
                        "is no terrace-profile",
                        "[]",
                        "is no terrace-profile",
                        "{}",
                        "is no terrace-profile",
                        whole.substring(0, whole.length() / 2),
                        "is damaged",
                        whole.replace("\"version\" : 1", "\"version\" : 2"),
                        "of version 2, and only 1",
                        whole.replace("\"nanos\"", "\"nano\""),
                        "is damaged",
                        whole.replace("\"reads\" : 1000,", "\"reads\" : -1000,"),
                        "a count is negative",
                        whole.replace("\"reads\" : 1000,", ""),
                        "is damaged",
                        whole.replace("\"INT\"", "\"INTEGER\""),
                        "is damaged",
                        whole + "{}",
                        "is damaged");
        for (Map.Entry<String, String> each : wrong.entrySet()) {
            Files.writeString(file, each.getKey());
            String message =
                    assertThrows(IOException.class, () -> ProfileFile.read(file), each::getKey)
                            .getMessage();
            assertTrue(
                    message.startsWith(file.toString()) && message.contains(each.getValue()),
                    message);
        }
        Files.write(file, new byte[] {'{', (byte) 0xff, '}'});
        assertTrue(
                assertThrows(IOException.class, () -> ProfileFile.read(file))
                        .getMessage()
                        .contains("no text"));
    }

    @Test
    void aDatabaseIsWhatItsDirectoryHolds() throws IOException {
        ProfileDatabase database = ProfileDatabase.open(directory);
        assertThrows(IllegalStateException.class, () -> database.predict(Map.of()));
        database.add(entry("small", 10, "table"));
        database.add(entry("large", 1000, "table"));
        Files.writeString(directory.resolve("notes.txt"), "anything");
        assertEquals(database.entries(), ProfileDatabase.open(directory).entries());
        Files.move(directory.resolve("small.json"), directory.resolve("other.json"));
        assertTrue(
                assertThrows(IOException.class, () -> ProfileDatabase.open(directory))
                        .getMessage()
                        .contains("rename it to small.json"));
    }

    @Test
    void namesAndPropertiesThatCannotBeAreRefused() {
        Profile people = Profiles.people(1);
        assertThrows(IllegalArgumentException.class, () -> new Entry("../x", Map.of(), people));
        assertThrows(
                IllegalArgumentException.class,
                () -> new Entry("x", Map.of("rows", Double.NaN), people));
        assertThrows(
                IllegalArgumentException.class,
                () -> new Entry("x", Map.of("rows", List.of()), people));
    }

    @Test
    void whatIsInTheDatabaseIsPredictedAsItIs() throws IOException {
        ProfileDatabase database = ProfileDatabase.open(directory);
        Entry known = entry("known", 500, "graph");
        database.add(known);
        database.add(entry("other", 600, "graph"));
        Prediction prediction = database.predict(Map.of("rows", 500, "kind", "graph"));
        assertEquals(known.profile(), prediction.profile());
        assertEquals(0, prediction.distance());
        assertFalse(prediction.isFar());
    }

    @Test
    void eachOfManyIsPredictedFromTheOthers() throws IOException {
        for (int left = 1; left < 19; left += 8) {
            ProfileDatabase database = ProfileDatabase.open(directory.resolve("without" + left));
            for (int i = 0; i < 20; i++) {
                if (i != left) {
                    database.add(entry("table" + i, rows(i), "table"));
                    database.add(entry("graph" + i, rows(i), "graph"));
                }
            }
            Prediction prediction =
                    database.predict(Map.of("rows", rows(left), "kind", "graph"), 2);
            double ratio = (double) reads(prediction.profile()) / reads(rows(left), "graph");
            assertTrue(ratio > 0.8 && ratio < 1.25, left + ": " + ratio);
            assertTrue(
                    prediction.neighbours().stream()
                            .allMatch(each -> each.name().startsWith("graph")),
                    prediction::statement);
        }
    }

    private static double rows(int i) {
        return 100 * Math.pow(1.5, i);
    }

    @Test
    void whatIsFarFromAllIsSaidToBe() throws IOException {
        ProfileDatabase database = ProfileDatabase.open(directory);
        for (int i = 0; i < 5; i++) {
            database.add(entry("table" + i, rows(i), "table"));
        }
        Prediction near = database.predict(Map.of("rows", rows(2) * 1.2, "kind", "table"));
        assertFalse(near.isFar());
        assertTrue(
                near.statement().startsWith("Predicted from table2 (distance 0.")
                        && near.statement().contains("That is near"),
                near.statement());
        Prediction far = database.predict(Map.of("rows", rows(12), "kind", "table"));
        assertTrue(far.isFar());
        assertTrue(far.statement().contains("Profile this data set itself."), far.statement());
        assertTrue(database.predict(Map.of("rows", rows(2), "kind", "graph")).isFar());
        assertTrue(database.predict(Map.of("columns", 3)).isFar());
        assertTrue(database.predict(Map.of("rows", -1, "kind", "table")).isFar());
    }
}
