package dev.terrace.objects.placement.source;

import static dev.terrace.objects.StorageTier.DISK;
import static dev.terrace.objects.StorageTier.DRAM;
import static dev.terrace.objects.StorageTier.HDD;
import static dev.terrace.objects.StorageTier.PMEM;
import static dev.terrace.objects.StorageTier.SSD;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.DurableObject;
import dev.terrace.objects.FieldSpec;
import dev.terrace.objects.ObjectType;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.processor.DurableProcessor;
import java.io.IOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import javax.tools.JavaCompiler;
import javax.tools.StandardJavaFileManager;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Tags that are set in sources: only what must change does, and the compiler and the annotation
/// processor see what was wanted.
class SourceTaggerTest {
    @TempDir Path directory;

    private Path write(String name, String text) throws IOException {
        return Files.writeString(directory.resolve(name + ".java"), text);
    }

    private Retagging retag(String type, Map<String, List<StorageTier>> tiers) throws IOException {
        return SourceTagger.of(List.of(directory)).retag(Map.of("app." + type, tiers));
    }

    /// Tags a class in a file of its own, and checks that the same again changes nothing.
    private void assertTagged(String before, Map<String, List<StorageTier>> tiers, String after)
            throws IOException {
        Path file = write("Person", before);
        Retagging retagging = retag("Person", tiers);
        assertEquals(before, Files.readString(file));
        retagging.apply();
        assertEquals(after, Files.readString(file));
        assertEquals(Map.of(), retag("Person", tiers).changes());
    }

    private static final String PERSON =
            """
            package app;

            import static dev.terrace.objects.StorageTier.DISK;

            import dev.terrace.objects.Durable;
            import dev.terrace.objects.Embedded;
            import dev.terrace.objects.Recompute;
            import dev.terrace.objects.StorageTier;
            import dev.terrace.objects.Tier;
            import java.util.List;

            /** Somebody. */
            @Durable
            public class Person {
                /** In years. */
                int age; // not months

                @Deprecated
                protected String name = "a, b; @Tier(DISK)";

                @Tier(DISK)
                byte[] image;

                @Tier(value = { DISK /* large */ })
                long[] history;

                int x, y = 3, /* the last */ z[];

                @Embedded
                Address home;

                @Tier(StorageTier.DRAM)
                @Recompute("score")
                double score;

                List<String> notes;

                static double score(DurablePerson person) {
                    return person.getAge();
                }
            }
            """;

    @Test
    void onlyTheTagsChange() throws IOException {
        write("Address", "package app;\npublic record Address(String street, int zip) {}\n");
        assertTagged(
                PERSON,
                Map.of(
                        "age",
                        List.of(SSD),
                        "name",
                        List.of(PMEM),
                        "image",
                        List.of(PMEM),
                        "history",
                        List.of(PMEM, DISK),
                        "x",
                        List.of(PMEM),
                        "y",
                        List.of(SSD),
                        "z",
                        List.of(DISK),
                        "score",
                        List.of(DRAM),
                        "home.zip",
                        List.of(HDD)),
                PERSON.replace("    int age;", "    @Tier(SSD)\n    int age;")
                        .replace("@Tier(DISK)\n    byte", "@Tier(PMEM)\n    byte")
                        .replace(
                                "@Tier(value = { DISK /* large */ })",
                                "@Tier(value = {PMEM, DISK})")
                        .replace(
                                "    int x, y = 3, /* the last */ z[];",
                                "    int x;\n"
                                        + "    @Tier(SSD) int y = 3;\n"
                                        + "    @Tier(DISK) int /* the last */ z[];")
                        .replace(
                                "StorageTier.DISK;\n",
                                "StorageTier.DISK;\n"
                                        + "import static dev.terrace.objects.StorageTier.PMEM;\n"
                                        + "import static dev.terrace.objects.StorageTier.SSD;\n"));
        assertEquals(
                """
                package app;

                import dev.terrace.objects.StorageTier;
                import dev.terrace.objects.Tier;

                public record Address(String street, @Tier(StorageTier.HDD) int zip) {}
                """,
                Files.readString(directory.resolve("Address.java")));
    }

    /// What the processor generates of the changed sources has the tiers that were wanted.
    @Test
    void theProcessorSeesWhatWasWanted() throws Exception {
        write("Address", "package app;\npublic record Address(String street, int zip) {}\n");
        write("Person", PERSON);
        Map<String, List<StorageTier>> wanted =
                Map.of(
                        "age",
                        List.of(SSD),
                        "image",
                        List.of(PMEM),
                        "history",
                        List.of(PMEM, DISK),
                        "x",
                        List.of(HDD),
                        "y",
                        List.of(SSD),
                        "score",
                        List.of(DRAM),
                        "home.zip",
                        List.of(HDD),
                        "home.street",
                        List.of(PMEM));
        retag("Person", wanted).apply();
        Path classes = Files.createDirectory(directory.resolve("classes"));
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        try (StandardJavaFileManager files =
                compiler.getStandardFileManager(null, null, StandardCharsets.UTF_8)) {
            JavaCompiler.CompilationTask task =
                    compiler.getTask(
                            null,
                            files,
                            null,
                            List.of(
                                    "-d",
                                    classes.toString(),
                                    "-cp",
                                    System.getProperty("java.class.path"),
                                    "-nowarn"),
                            null,
                            files.getJavaFileObjects(
                                    directory.resolve("Person.java"),
                                    directory.resolve("Address.java")));
            task.setProcessors(List.of(new DurableProcessor()));
            assertTrue(task.call());
        }
        try (URLClassLoader loader =
                new URLClassLoader(
                        new URL[] {classes.toUri().toURL()}, getClass().getClassLoader())) {
            Class<?> handle = loader.loadClass("app.DurablePerson");
            List<FieldSpec> fields = ObjectType.of(handle.asSubclass(DurableObject.class)).fields();
            wanted.forEach((name, tiers) ->
                    assertEquals(
                            tiers,
                            fields.stream()
                                    .filter(field -> field.name().equals(name))
                                    .findFirst()
                                    .orElseThrow()
                                    .tiers(),
                            name));
        }
    }

    @Test
    void namesAreWrittenAsTheFileWritesThem() throws IOException {
        String qualified =
                "package app;\n"
                    + "@dev.terrace.objects.Durable class Person {\n"
                    + "    @dev.terrace.objects.Tier(dev.terrace.objects.StorageTier.SSD) int a;\n"
                    + "    int b;\n"
                    + "}\n";
        assertTagged(
                qualified,
                Map.of("a", List.of(HDD), "b", List.of(SSD)),
                qualified
                        .replace("StorageTier.SSD", "StorageTier.HDD")
                        .replace(
                                "    int b",
                                "    @dev.terrace.objects.Tier(dev.terrace.objects.StorageTier.SSD)"
                                        + " int b"));
        String all =
                "package app;\n\n"
                        + "import static dev.terrace.objects.StorageTier.*;\n"
                        + "import dev.terrace.objects.*;\n\n"
                        + "@Durable class Person {\n"
                        + "    int a;\n"
                        + "}\n";
        assertTagged(
                all,
                Map.of("a", List.of(PMEM, SSD)),
                all.replace("    int a", "    @Tier({PMEM, SSD})\n    int a"));
        String none =
                "class Person extends Base {\n"
                        + "    int a;\n"
                        + "}\n"
                        + "@dev.terrace.objects.Durable class Base {}\n";
        assertEquals(
                "import dev.terrace.objects.StorageTier;\nimport dev.terrace.objects.Tier;\n\n"
                        + none.replace("class Person", "@dev.terrace.objects.Durable class Person")
                                .replace("    int", "    @Tier(StorageTier.SSD)\n    int"),
                SourceTagger.of(
                                List.of(
                                        write(
                                                "None",
                                                none.replace(
                                                        "class Person",
                                                        "@dev.terrace.objects.Durable class"
                                                                + " Person"))))
                        .retag(Map.of("Person", Map.of("a", List.of(SSD))))
                        .changes()
                        .values()
                        .iterator()
                        .next()
                        .after());
        String taken =
                "package app;\n\n"
                        + "import dev.terrace.objects.Durable;\n\n"
                        + "@Durable class Person {\n"
                        + "    int a;\n"
                        + "    enum Tier {}\n"
                        + "}\n";
        assertTagged(
                taken,
                Map.of("a", List.of(SSD)),
                taken.replace(
                                "import dev.terrace.objects.Durable;",
                                "import dev.terrace.objects.Durable;\n"
                                        + "import dev.terrace.objects.StorageTier;")
                        .replace(
                                "    int a",
                                "    @dev.terrace.objects.Tier(StorageTier.SSD)\n    int a"));
    }

    @Test
    void linesEndAsTheyDid() throws IOException {
        assertTagged(
                "package app;\r\n\r\n"
                        + "import dev.terrace.objects.Durable;\r\n\r\n"
                        + "@Durable class Person {\r\n"
                        + "\tint a;\r\n"
                        + "}\r\n",
                Map.of("a", List.of(SSD)),
                "package app;\r\n\r\n"
                        + "import dev.terrace.objects.Durable;\r\n"
                        + "import dev.terrace.objects.StorageTier;\r\n"
                        + "import dev.terrace.objects.Tier;\r\n"
                        + "\r\n"
                        + "@Durable class Person {\r\n"
                        + "\t@Tier(StorageTier.SSD)\r\n"
                        + "\tint a;\r\n"
                        + "}\r\n");
    }

    @Test
    void fieldsOfSuperclassesNestedClassesAndGenericsAreFound() throws IOException {
        write(
                "Base",
                "package app; import dev.terrace.objects.*; @Durable abstract class Base { int id;"
                        + " }");
        write(
                "Outer",
                "package app; import dev.terrace.objects.*; class Outer { @Durable static class"
                        + " Person extends Base { @Embedded @Tier(StorageTier.SSD) Inner in; record"
                        + " Inner(String text, int number) {} } }");
        Retagging retagging =
                retag(
                        "Outer.Person",
                        Map.of(
                                "id",
                                List.of(SSD),
                                "in.text",
                                List.of(SSD),
                                "in.number",
                                List.of(PMEM)));
        retagging.apply();
        assertEquals(
                "package app; import dev.terrace.objects.*; @Durable abstract class Base {"
                        + " @Tier(StorageTier.SSD) int id; }",
                Files.readString(directory.resolve("Base.java")));
        assertTrue(
                Files.readString(directory.resolve("Outer.java"))
                        .contains("record Inner(String text, @Tier(StorageTier.PMEM) int number)"));
    }

    @Test
    void aClassThatSeveralEmbedHasOneTag() throws IOException {
        write("Address", "package app; record Address(String street) {}");
        write(
                "Two",
                "package app; import dev.terrace.objects.*; @Durable class A { @Embedded Address"
                        + " home; }\n"
                        + "@Durable class B { @Embedded @Tier(StorageTier.SSD) Address home; }");
        SourceTagger tagger = SourceTagger.of(List.of(directory));
        Map<String, Map<String, List<StorageTier>>> asTheyAre =
                Map.of(
                        "app.A",
                        Map.of("home.street", List.of(PMEM)),
                        "app.B",
                        Map.of("home.street", List.of(SSD)));
        assertEquals(Map.of(), tagger.retag(asTheyAre).changes());
        Map<String, Map<String, List<StorageTier>>> apart =
                Map.of(
                        "app.A",
                        Map.of("home.street", List.of(HDD)),
                        "app.B",
                        Map.of("home.street", List.of(SSD)));
        String message =
                assertThrows(TaggingException.class, () -> tagger.retag(apart)).getMessage();
        assertTrue(
                message.contains(
                        "app.Address.street has one tag, but is to be on different tiers: "
                                + "app.A.home.street on [HDD], app.B.home.street on [SSD]"),
                message);
        tagger.retag(
                        Map.of(
                                "app.A",
                                Map.of("home.street", List.of(HDD)),
                                "app.B",
                                Map.of("home.street", List.of(HDD))))
                .apply();
        assertTrue(
                Files.readString(directory.resolve("Address.java"))
                        .contains("@Tier(StorageTier.HDD) String street"));
    }

    @Test
    void whatCannotBeIsRefusedAndNothingIsWritten() throws IOException {
        write("Person", PERSON);
        write("Plain", "package app; class Plain { int a; }");
        assertRefused(
                "class app.Nobody is not in these sources; tagged with @Durable are [app.Person]",
                "Nobody",
                "age",
                SSD);
        assertRefused("is not tagged with @Durable", "Plain", "a", SSD);
        assertRefused(
                "app.Person in " + directory.resolve("Person.java") + " has no field ages",
                "Person",
                "ages",
                SSD);
        assertRefused(
                "the class Address of app.Person.home is not in these sources",
                "Person",
                "home.street",
                SSD);
        assertRefused("@Recompute is for fields in DRAM", "Person", "score", PMEM);
        assertRefused("DRAM cannot be one of several", "Person", "age", DRAM, PMEM);
        assertRefused("each once", "Person", "age", PMEM, PMEM);
        assertRefused("what is embedded is stored", "Person", "home", DRAM);
        assertEquals(PERSON, Files.readString(directory.resolve("Person.java")));
    }

    private void assertRefused(String why, String type, String field, StorageTier... tiers) {
        String message =
                assertThrows(
                                TaggingException.class,
                                () -> retag(type, Map.of(field, List.of(tiers))))
                        .getMessage();
        assertTrue(message.contains(why), message);
    }

    @Test
    void sourcesThatAreNoJavaOrThereTwiceAreRefused() throws IOException {
        write("Person", "package app;\nclass Person {\n    int a\n}\n");
        String message =
                assertThrows(TaggingException.class, () -> SourceTagger.of(List.of(directory)))
                        .getMessage();
        assertTrue(message.contains("Person.java:3: "), message);
        write("Person", "package app; class Person {}");
        write("Other", "package app; class Person {}");
        assertThrows(TaggingException.class, () -> SourceTagger.of(List.of(directory)));
        Files.write(directory.resolve("Other.java"), new byte[] {(byte) 0xff});
        assertThrows(IOException.class, () -> SourceTagger.of(List.of(directory)));
    }

    @Test
    void theDiffShowsLinesWithThoseAroundThem() throws IOException {
        Path file = write("Person", PERSON);
        write("Address", "package app;\npublic record Address(String street, int zip) {}\n");
        String image = retag("Person", Map.of("image", List.of(HDD))).diff();
        assertTrue(image.startsWith("--- " + file + "\n+++ " + file + "\n@@ "), image);
        assertTrue(
                image.endsWith(
                        """
                             @Deprecated
                             protected String name = "a, b; @Tier(DISK)";
                        \s
                        -    @Tier(DISK)
                        +    @Tier(HDD)
                             byte[] image;
                        \s
                             @Tier(value = { DISK /* large */ })
                        """),
                image);
        assertEquals("", retag("Person", Map.of("image", List.of(DISK))).diff());
        String diff = retag("Person", Map.of("age", List.of(DISK), "score", List.of(DRAM))).diff();
        assertTrue(diff.contains("+    @Tier(DISK)\n     int age; // not months\n"), diff);
    }

    @Test
    void aFileThatHasChangedMeanwhileIsNotReplaced() throws IOException {
        Path file = write("Person", PERSON);
        Path other =
                write(
                        "Aa",
                        "package app; import dev.terrace.objects.*; @Durable class Aa { int a; }");
        Retagging retagging =
                SourceTagger.of(List.of(directory))
                        .retag(
                                Map.of(
                                        "app.Person",
                                        Map.of("age", List.of(SSD)),
                                        "app.Aa",
                                        Map.of("a", List.of(SSD))));
        Files.writeString(file, PERSON + "\n");
        String before = Files.readString(other);
        assertTrue(
                assertThrows(IOException.class, retagging::apply)
                        .getMessage()
                        .contains("has changed since it was read"));
        assertEquals(before, Files.readString(other));
        try (Stream<Path> files = Files.list(directory)) {
            assertEquals(2, files.count());
        }
    }

    @Test
    void aFileKeepsItsPermissions() throws IOException {
        Path file = write("Person", PERSON);
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-r-----"));
        Retagging retagging = retag("Person", Map.of("age", List.of(SSD)));
        assertFalse(retagging.diff().isEmpty());
        retagging.apply();
        assertEquals(
                "rw-r-----", PosixFilePermissions.toString(Files.getPosixFilePermissions(file)));
    }

    @Test
    void allFilesAreReplacedOrNone() throws IOException {
        Path first =
                write(
                        "Aa",
                        "package app; import dev.terrace.objects.*; @Durable class Aa { int a; }");
        Path other = Files.createDirectory(directory.resolve("other"));
        Path second =
                Files.writeString(
                        other.resolve("Bb.java"),
                        "package app; import dev.terrace.objects.*; @Durable class Bb { int b; }");
        Retagging retagging =
                SourceTagger.of(List.of(directory))
                        .retag(
                                Map.of(
                                        "app.Aa",
                                        Map.of("a", List.of(SSD)),
                                        "app.Bb",
                                        Map.of("b", List.of(SSD))));
        String before = Files.readString(first);
        Files.delete(second);
        assertThrows(IOException.class, retagging::apply);
        assertEquals(before, Files.readString(first));
        try (Stream<Path> files = Files.walk(directory)) {
            assertEquals(List.of(first), files.filter(Files::isRegularFile).toList());
        }
    }

    @Test
    void aLinkStaysALink() throws IOException {
        Path real =
                Files.writeString(
                        Files.createDirectory(directory.resolve("real")).resolve("Aa.txt"),
                        "package app; import dev.terrace.objects.*; @Durable class Aa { int a; }");
        Path link = Files.createSymbolicLink(directory.resolve("Aa.java"), real);
        SourceTagger.of(List.of(link)).retag(Map.of("app.Aa", Map.of("a", List.of(SSD)))).apply();
        assertTrue(Files.isSymbolicLink(link));
        assertTrue(Files.readString(real).contains("@Tier(StorageTier.SSD)"));
    }
}
