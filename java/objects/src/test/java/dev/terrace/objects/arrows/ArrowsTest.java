package dev.terrace.objects.arrows;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;

/// Packages use what lies below them and nothing else, as ARCHITECTURE.md draws it.
class ArrowsTest {
    private static final String ROOT = "dev.terrace.objects";
    private static final String STORE = ROOT + ".internal.store";

    /// The packages of the library, the lowest first.
    private static final List<String> FLOORS =
            List.of(
                    STORE,
                    ROOT + ".internal.backup",
                    ROOT + ".internal.collections",
                    ROOT,
                    ROOT + ".collections",
                    ROOT + ".spi");

    /// What pools are spoken of in: it knows nothing of how they work.
    private static final Set<String> WORDS =
            Set.of(
                    "ClassProfile",
                    "CompactionReport",
                    "Durable",
                    "Embedded",
                    "FieldKind",
                    "FieldProfile",
                    "FieldSpec",
                    "FixedLength",
                    "Formerly",
                    "Layout",
                    "PoolBusyException",
                    "PoolClosedException",
                    "PoolDamagedException",
                    "PoolFormatException",
                    "PoolFullException",
                    "PoolLockedException",
                    "PoolOptions",
                    "PoolReadOnlyException",
                    "PoolReport",
                    "PoolStatistics",
                    "Profile",
                    "ProfileSink",
                    "Recompute",
                    "RetierReport",
                    "SchemaMismatchException",
                    "SegmentStore",
                    "StaleReferenceException",
                    "StorageTier",
                    "StoredSize",
                    "StoredType",
                    "TerraceException",
                    "Tier",
                    "TierUnavailableException",
                    "TransactionAbortedException");

    /// Files and segments, and what is said of them: they know nothing of transactions.
    private static final Set<String> MEDIA =
            Set.of(
                    "Durability",
                    "Events",
                    "MappedRegion",
                    "Medium",
                    "Ownership",
                    "Region",
                    "Segments",
                    "StoreFailure",
                    "Uninterrupted",
                    "Watch");

    private static Arrows all() throws IOException {
        return new Arrows(Arrows.sources(Path.of("..")));
    }

    private static void assertNone(List<String> wrong) {
        assertTrue(wrong.isEmpty(), () -> "arrows that must not be:\n" + String.join("\n", wrong));
    }

    @Test
    void noPackagesFormACircle() throws IOException {
        assertNone(all().circles());
    }

    @Test
    void theLibrarysPackagesUseOnlyWhatLiesBelow() throws IOException {
        Arrows all = all();
        assertNone(all.upward(FLOORS));
        Set<String> packages = Set.copyOf(FLOORS);
        List<String> others =
                all.arrows().stream()
                        .filter(arrow -> packages.contains(arrow.from()))
                        .filter(arrow -> !packages.contains(arrow.to()))
                        .map(Arrows.Arrow::toString)
                        .toList();
        assertNone(others);
    }

    @Test
    void wordsAndMediaKnowNothingOfWhatUsesThem() throws IOException {
        Arrows all = all();
        assertNone(all.upward(ROOT, WORDS));
        assertNone(all.upward(STORE, MEDIA));
    }

    @Test
    void nobodyElseUsesInternals() throws IOException {
        List<String> wrong =
                all().arrows().stream()
                        .filter(arrow -> arrow.to().startsWith(ROOT + ".internal"))
                        .filter(arrow -> !arrow.file().startsWith("objects/"))
                        // It plants mistakes in the library.
                        .filter(arrow -> !arrow.file().startsWith("stress/"))
                        .map(Arrows.Arrow::toString)
                        .toList();
        assertNone(wrong);
    }

    @Test
    void allModulesAreLookedAt() throws IOException {
        Set<String> packages = all().packages();
        for (String module :
                List.of(
                        "arrow",
                        "bench",
                        "evaluation",
                        "placement",
                        "processor",
                        "remote",
                        "spark")) {
            assertTrue(packages.contains(ROOT + "." + module), module);
        }
        assertTrue(packages.containsAll(FLOORS), packages::toString);
    }

    // Planted mistakes

    private static Arrows.Source source(String name, String... lines) {
        return new Arrows.Source(name + ".java", String.join("\n", lines));
    }

    private static Arrows planted() {
        return new Arrows(
                List.of(
                        source(
                                "Low",
                                "package dev.terrace.low;",
                                "// import dev.terrace.high.High;",
                                "/* dev.terrace.high.High */ class Low {",
                                "    String name = \"dev.terrace.high.High \\\" \";",
                                "    char quote = '\"'; dev.terrace.high.High high;",
                                "    Word word;",
                                "}"),
                        source(
                                "Word",
                                "package dev.terrace.low;",
                                "class Word {",
                                "    Object low = new Low();",
                                "}"),
                        source(
                                "High",
                                "package dev.terrace.high;",
                                "import dev.terrace.low.Low;",
                                "class High {}"),
                        source(
                                "Apart",
                                "package dev.terrace.high.apart;",
                                "import dev.terrace.high.High;",
                                "class Apart {}")));
    }

    @Test
    void aPlantedCircleIsFoundWithItsLines() {
        assertEquals(
                List.of(
                        "Low.java:5: dev.terrace.low uses dev.terrace.high, which leads back to it",
                        "High.java:2: dev.terrace.high uses dev.terrace.low, which leads back to"
                                + " it"),
                planted().circles());
    }

    @Test
    void aPlantedArrowUpwardIsFoundWithItsLine() {
        assertEquals(
                List.of("Low.java:5: dev.terrace.low uses dev.terrace.high, which is above it"),
                planted().upward(List.of("dev.terrace.low", "dev.terrace.high")));
    }

    @Test
    void aPlantedArrowWithinAPackageIsFoundWithItsLine() {
        assertEquals(
                List.of("Word.java:3: Word uses Low, which is above it"),
                planted().upward("dev.terrace.low", Set.of("Word")));
    }
}
