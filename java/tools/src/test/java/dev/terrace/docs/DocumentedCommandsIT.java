package dev.terrace.docs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.Cursor;
import dev.terrace.objects.DurableRecord;
import dev.terrace.objects.FieldKind;
import dev.terrace.objects.FieldSpec;
import dev.terrace.objects.ObjectType;
import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolOptions;
import dev.terrace.objects.Profiling;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.placement.DeviceReport;
import dev.terrace.objects.placement.ProfileFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.AnnotatedElementContext;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.io.TempDirFactory;

/// Each command that the pages on durable objects print runs as it is printed, on a small pool, and
/// prints what it should. A command that is new on a page needs a step here, or a reason why it has
/// none.
class DocumentedCommandsIT {
    private static final Path DOCS = Path.of("..", "docs");
    private static final String PERSON = "org.example.Person";
    private static final ObjectType<DurableRecord> TYPE =
            ObjectType.of(
                    PERSON,
                    FieldSpec.of("age", FieldKind.INT),
                    FieldSpec.of("name", FieldKind.STRING)
                            .on(StorageTier.PMEM, StorageTier.DISK)
                            .orNull());
    private static final int PEOPLE = 20;

    /// What runs elsewhere, and where.
    private static final Map<String, String> ELSEWHERE =
            Map.of(
                    "spark-submit --jars terrace-objects-spark-4.2_2.13-0.1.0.jar,"
                            + "terrace-objects-0.1.0.jar ...",
                    "needs a distribution of Spark, and a program; SparkExamplesTest runs the"
                            + " page's programs, that in Python where there is pyspark",
                    "make run",
                    "a part of the repository's `make run`; PeopleTest runs its program",
                    PublishedLibrary.COMMAND + " REPOSITORY=DIR",
                    "PublishedIT runs it",
                    "make test",
                    "it runs this test",
                    "java -jar java/tools/target/terrace-objects.jar",
                    "what the steps here run under the name of terrace-objects");

    /// A command, as a page prints it, and what is found in what it prints.
    private record Step(String command, String... printed) {}

    /// Those of the guide, in its order, but for those of FromZeroIT, which come first.
    private static final List<Step> GUIDE =
            List.of(
                    new Step(
                            "terrace-objects profile show people.profile.json",
                            PERSON,
                            "name",
                            "20"),
                    new Step(
                            "terrace-objects probe /pmem --disk ssd=/data -o devices.json",
                            "PMEM",
                            "SSD"),
                    new Step(
                            "terrace-objects place people.profile.json --devices devices.json"
                                    + " --capacity pmem=8G --live -o placement.json",
                            "name",
                            "PMEM"),
                    new Step(
                            "terrace-objects apply pool /pmem/people --disk ssd=/data --placement"
                                    + " placement.json",
                            PERSON + ".name: PMEM",
                            "moved: 20 values"),
                    new Step(
                            "terrace-objects apply sources src/main/java --placement placement.json"
                                    + " --dry-run",
                            "-    @Tier({PMEM, DISK})",
                            "+    @Tier(PMEM)"),
                    new Step(
                            "terrace-objects check /pmem/people --disk ssd=/data",
                            "leaked: 1 of " + PERSON,
                            "The pool is sound."),
                    new Step(
                            "terrace-objects stats /pmem/people --disk ssd=/data",
                            "disk-0 ssd",
                            PERSON),
                    new Step(
                            "terrace-objects dump /pmem/people --disk ssd=/data",
                            "root \"person 1\" -> 0x",
                            PERSON),
                    new Step(
                            "terrace-objects dump /pmem/people --disk ssd=/data"
                                    + " --objects=org.example.Person --limit 10 --elements 3",
                            "name = \"the name of"),
                    new Step(
                            "terrace-objects export /pmem/people --disk ssd=/data --class"
                                    + " org.example.Person --output people.arrow",
                            "exported: " + (PEOPLE + 1) + " objects of " + PERSON),
                    new Step(
                            "terrace-objects collect /pmem/people --disk ssd=/data",
                            "freed: 1 of " + PERSON),
                    new Step(
                            "terrace-objects compact /pmem/people --disk ssd=/data",
                            "moved: ",
                            "given back: "),
                    new Step(
                            "terrace-objects backup /pmem/people --disk ssd=/data --to"
                                    + " /backup/people --keep 7",
                            "backup 1 of ",
                            " of them new"),
                    new Step(
                            "terrace-objects backups /backup/people --verify",
                            "backup 1 of ",
                            "The backups are sound."),
                    new Step(
                            "terrace-objects restore /backup/people /pmem/again --disk"
                                    + " ssd=/data/again --check",
                            "restored as pool ",
                            "The pool is sound."),
                    new Step("terrace-objects profile show people.profile.json", PERSON),
                    new Step(
                            "terrace-objects probe /pmem --disk ssd=/data -o devices.json",
                            "PMEM",
                            "SSD"),
                    new Step(
                            "terrace-objects place people.profile.json --devices devices.json -o"
                                    + " placement.json",
                            "name",
                            "PMEM"),
                    new Step(
                            "terrace-objects apply pool /pmem/people --disk ssd=/data --placement"
                                    + " placement.json",
                            PERSON + ".name: PMEM"),
                    new Step(
                            "terrace-objects apply sources src/main/java --placement"
                                    + " placement.json",
                            "changed: ",
                            "Person.java"),
                    new Step("terrace-objects seal /pmem/people --disk ssd=/data", "sealed"),
                    new Step("terrace-objects surface surface.svg"));

    @TempDir private Path dir;

    @TempDir(factory = Memory.class)
    private Path memory;

    /// Where reading costs less than on a disk.
    static final class Memory implements TempDirFactory {
        @Override
        public Path createTempDirectory(AnnotatedElementContext element, ExtensionContext test)
                throws IOException {
            Path shm = Path.of("/dev/shm");
            return Files.isWritable(shm)
                    ? Files.createTempDirectory(shm, "terrace-docs-")
                    : Files.createTempDirectory("terrace-docs-");
        }
    }

    private Path work = Path.of("");

    /// A folder with the guide's classes, a profile of the guide's pool, whose names are on the
    /// disk, and one person that no root leads to.
    @BeforeEach
    void makePool() throws IOException {
        work = Files.createDirectory(dir.resolve("work"));
        FromZeroIT.page().writeFiles(work);
        Path data = Files.createDirectory(dir.resolve("data"));
        PoolOptions options = PoolOptions.defaults().extents(1 << 20).disk(StorageTier.SSD, data);
        try (Pool pool = Pool.open(memory.resolve("people"), options)) {
            for (int i = 0; i <= PEOPLE; i++) {
                DurableRecord person = pool.create(TYPE);
                person.setInt(0, i);
                if (i > 0) {
                    person.setString(1, "the name of number " + i);
                    pool.root("person " + i, TYPE).set(person);
                }
            }
            pool.place(PERSON, Map.of("name", List.of(StorageTier.SSD)));
            try (Profiling profiling = pool.profile()) {
                Cursor<DurableRecord> all = pool.cursor(TYPE);
                while (all.next()) {
                    all.get().getString(1);
                }
                ProfileFile.write(work.resolve("people.profile.json"), profiling.profile());
            }
        }
    }

    /// The probe measures no longer than a test may take: a size, as the places are.
    private Shell shell() throws IOException {
        Path programs = Files.createDirectory(dir.resolve("programs"));
        Path program =
                Files.writeString(
                        programs.resolve("terrace-objects"),
                        """
                        #!/bin/sh
                        [ "$1" != probe ] || set -- "$@" --quick
                        exec java -XX:TieredStopAtLevel=1 -jar '%s' "$@"
                        """
                                .formatted(System.getProperty("terrace.tools.jar")));
        assertTrue(program.toFile().setExecutable(true));
        return new Shell(dir.resolve("output"))
                .withPrograms(programs)
                .at("/pmem", memory)
                .at("/data", dir.resolve("data"))
                .at("/backup", dir.resolve("backup"));
    }

    @Test
    void whatTheGuidePrintsRuns() throws IOException, InterruptedException {
        Shell shell = shell();
        for (Step step : GUIDE) {
            String said = shell.run(work, step.command);
            for (String expected : step.printed) {
                assertTrue(
                        said.contains(expected),
                        () -> step.command + " does not say " + expected + ", but:\n" + said);
            }
        }
        assertTrue(Files.readString(work.resolve("surface.svg")).contains("<svg"));
        assertTrue(
                Files.readString(work.resolve("src/main/java/org/example/Person.java"))
                        .contains("@Tier(PMEM)"));
    }

    /// PLACEMENT.md's program, with what the guide's commands have made, and on its devices.
    @Test
    void whatThePageOnPlacementPrintsRuns() throws IOException, InterruptedException {
        Page page = Page.read(DOCS.resolve("PLACEMENT.md"));
        List<Page.Block> blocks = page.blocks();
        assertEquals(
                List.of("java", "json"),
                blocks.stream().map(Page.Block::language).toList(),
                "each block has a step here");
        Files.writeString(work.resolve("devices.json"), blocks.get(1).text());
        assertEquals(1, DeviceReport.read(work.resolve("devices.json")).devices().size());
        String imports =
                "import dev.terrace.objects.placement.*; import"
                        + " dev.terrace.objects.placement.source.*; import"
                        + " dev.terrace.objects.*; import java.nio.file.*; import java.util.*;"
                        + " ";
        Files.writeString(
                work.resolve("Example.java"),
                imports
                        + "class Example { public static void main(String[] arguments) throws"
                        + " Exception {\n"
                        + blocks.get(0).text()
                        + "} }");
        String said =
                shell().with("CLASSPATH", System.getProperty("java.class.path"))
                        .run(work, "java Example.java");
        assertTrue(said.contains("-    @Tier({PMEM, DISK})\n+    @Tier(PMEM)\n"), said);
        assertTrue(
                Files.readString(work.resolve("src/main/java/org/example/Person.java"))
                        .contains("@Tier(PMEM)"));
    }

    /// The class and the program of README.md, with the places of a test.
    @Test
    void theExampleOfTheFirstPageRuns() throws IOException, InterruptedException {
        List<Page.Block> blocks = readme().blocks();
        assertEquals(
                List.of("mermaid", "sh", "java", "java"),
                blocks.stream().map(Page.Block::language).toList(),
                "each block has a step here");
        Files.writeString(
                work.resolve("Person.java"),
                "import dev.terrace.objects.*; import static dev.terrace.objects.StorageTier.*;\n"
                        + blocks.get(2).text());
        Files.writeString(
                work.resolve("Example.java"),
                "import dev.terrace.objects.*; import dev.terrace.objects.collections.*;"
                        + " import java.nio.file.*;\n"
                        + "class Example { public static void main(String[] arguments)"
                        + " throws java.io.IOException {\n"
                        + blocks.get(3)
                                .text()
                                .replace("/pmem/people", memory.resolve("example").toString())
                                .replace("/data", dir.resolve("data").toString())
                        + "} }");
        Shell shell = shell();
        shell.with("CLASSPATH", System.getProperty("java.class.path"))
                .run(work, "javac -proc:full -d classes Person.java Example.java");
        shell.with("CLASSPATH", "classes:" + System.getProperty("java.class.path"));
        for (String printed : List.of("1 people; the last is Bob", "2 people; the last is Bob")) {
            assertTrue(
                    readme().text().contains("`" + printed + "`"), "the page says what it prints");
            assertEquals(printed, shell.run(work, "java Example").strip());
        }
    }

    /// README.md's numbers are those of the pages that it names.
    @Test
    void theNumbersOfTheFirstPageStandInItsPages() throws IOException {
        int numbers = 0;
        for (String line : readme().under("## Numbers").text().lines().toList()) {
            Matcher page = Pattern.compile("\\(docs/([\\w-]+\\.md)#[\\w-]+\\) \\|$").matcher(line);
            if (page.find()) {
                String there = Files.readString(DOCS.resolve(page.group(1)));
                Matcher number = Pattern.compile("[0-9.]*[0-9](?= (ns|ms|times))").matcher(line);
                while (number.find()) {
                    String unit = number.group(1).equals("times") ? "" : " " + number.group(1);
                    assertTrue(
                            Pattern.compile("(?<![0-9.])" + Pattern.quote(number.group() + unit))
                                    .matcher(there)
                                    .find(),
                            () -> page.group(1) + " does not have all numbers of: " + line);
                    numbers++;
                }
            }
        }
        assertTrue(numbers >= 10, "the numbers are found");
    }

    @Test
    void theMakefileHasTheTargetsThatPagesName() throws IOException {
        List<String> makefile = Files.readAllLines(Path.of("..", "Makefile"));
        for (String command : readme().commands()) {
            String target = command.replaceFirst("make ", "");
            assertTrue(makefile.contains(target + ":"), command);
        }
    }

    private static Page readme() throws IOException {
        return Page.read(Path.of("..", "README.md"));
    }

    @Test
    void eachCommandOfThePagesHasAStep() throws IOException {
        List<String> printed = new ArrayList<>();
        List<String> spans = new ArrayList<>();
        for (Page page :
                List.of(
                        Page.read(DOCS.resolve("GUIDE.md")),
                        Page.read(DOCS.resolve("SPARK.md")),
                        Page.read(DOCS.resolve("PLACEMENT.md")),
                        readme())) {
            printed.addAll(page.commands());
            spans.addAll(page.spans());
        }
        List<String> steps = new ArrayList<>(FromZeroIT.page().commands());
        GUIDE.forEach(step -> steps.add(step.command));
        printed.removeAll(ELSEWHERE.keySet());
        assertEquals(steps, printed, "the commands of the pages' blocks");
        spans.removeAll(ELSEWHERE.keySet());
        assertEquals(List.of(), spans, "commands in the pages' text");
    }
}
