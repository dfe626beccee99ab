package dev.terrace.objects.arrows;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/// Files fit a reader's patience, and methods fit a caller's.
class SizesTest {
    private static List<Arrows.Source> all() throws IOException {
        Path directory = Path.of("..");
        List<Arrows.Source> all = new ArrayList<>(Arrows.sources(directory));
        all.addAll(Arrows.sources(directory, "src/test/java"));
        assertTrue(all.size() > 300, () -> all.size() + " files");
        return all;
    }

    private static void assertNone(List<String> wrong, String remedy) {
        assertTrue(wrong.isEmpty(), () -> remedy + "\n" + String.join("\n", wrong));
    }

    @Test
    void noFileIsTooLongWithoutAReason() throws IOException {
        assertNone(
                all().stream().flatMap(source -> Sizes.tooLong(source).stream()).toList(),
                "Split them by idea, or give a reason at the top: " + Sizes.REASON);
    }

    @Test
    void noMethodHasTooManyParameters() throws IOException {
        assertNone(
                all().stream().flatMap(source -> Sizes.tooMany(source).stream()).toList(),
                "Make a record of what belongs together.");
    }

    // Planted mistakes

    private static Arrows.Source file(String reason, int lines) {
        return new Arrows.Source(
                "Planted.java",
                "/// A class.\n" + reason + "\nclass Planted {\n" + "\n".repeat(lines));
    }

    @Test
    void aPlantedLongFileIsFound() {
        assertEquals(List.of(), Sizes.tooLong(file("///", 597)));
        assertEquals(List.of("Planted.java: 601 lines"), Sizes.tooLong(file("///", 598)));
        assertEquals(List.of("Planted.java: 601 lines"), Sizes.tooLong(file(Sizes.REASON, 598)));
        assertEquals(List.of(), Sizes.tooLong(file(Sizes.REASON + "one table.", 598)));
    }

    @Test
    void aPlantedLongListOfParametersIsFound() {
        String text =
                """
                class Planted {
                    record Wide(int a, int b, int c, int d, int e, int f, int g) {}

                    // void commented(int a, int b, int c, int d, int e, int f, int g) {}
                    Planted make() {
                        return make(1, 2, 3, 4, 5, 6, 7);
                    }

                    void six(int a, int b, Map<Integer, String> c, int d, int e, int f) {}

                    <T> List<T> seven(
                            @Tag({1, 2}) int a, int b, int c, int d, int e, int f, Map<T, T> g)
                            throws IOException {
                        new Wide(1, 2, 3, 4, 5, 6, 7);
                        six(1, 2, 3, 4, 5, 6, 7);
                    }
                }
                """;
        assertEquals(
                List.of("Planted.java:11: seven has 7 parameters"),
                Sizes.tooMany(new Arrows.Source("Planted.java", text)));
    }
}
