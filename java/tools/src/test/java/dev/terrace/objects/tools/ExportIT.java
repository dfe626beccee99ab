package dev.terrace.objects.tools;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolOptions;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.tools.BuiltCommand.Result;
import java.io.IOException;
import java.io.InputStream;
import java.nio.channels.SeekableByteChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.jar.Attributes;
import java.util.jar.JarOutputStream;
import java.util.jar.Manifest;
import java.util.stream.Stream;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.IntVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowFileReader;
import org.apache.arrow.vector.ipc.ArrowReader;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.arrow.vector.types.pojo.Field;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// The command `export` as a process.
class ExportIT {
    private static final String CLASS = "dev.terrace.objects.tools.Item";
    private static final int ITEMS = 100;

    @TempDir private Path dir;

    private Path place = Path.of("");
    private Path file = Path.of("");
    private PoolOptions options = PoolOptions.defaults();

    @BeforeEach
    void make() throws IOException {
        place = dir.resolve("pool");
        file = Files.createDirectory(dir.resolve("target")).resolve("items.arrow");
        Path disk = Files.createDirectory(dir.resolve("disk"));
        options = PoolOptions.defaults().extents(1 << 20).disk(StorageTier.HDD, disk);
        try (Pool pool = Pool.open(place, options)) {
            pool.transact(() -> {
                for (int i = 0; i < ITEMS; i++) {
                    DurableItem item = DurableItem.create(pool);
                    item.setNumber(i);
                    item.setPicture(("the picture of number " + i).getBytes());
                }
            });
        }
    }

    private Result run(Path jar, Path to, String className, String... more)
            throws IOException, InterruptedException {
        List<String> arguments = new ArrayList<>(List.of("export", place.toString()));
        arguments.addAll(List.of("--disk", "hdd=" + dir.resolve("disk")));
        arguments.addAll(List.of("--class", className, "-o", to.toString()));
        arguments.addAll(List.of(more));
        return BuiltCommand.run(
                dir,
                jar,
                List.of("--sun-misc-unsafe-memory-access=allow"),
                arguments.toArray(String[]::new));
    }

    private Result export(String... more) throws IOException, InterruptedException {
        return run(BuiltCommand.JAR, file, CLASS, more);
    }

    private static List<Integer> numbers(ArrowReader reader) throws IOException {
        List<Integer> numbers = new ArrayList<>();
        VectorSchemaRoot root = reader.getVectorSchemaRoot();
        while (reader.loadNextBatch()) {
            IntVector column = (IntVector) root.getVector("number");
            for (int row = 0; row < root.getRowCount(); row++) {
                numbers.add(column.get(row));
            }
        }
        return numbers;
    }

    private void requireAll() throws IOException {
        try (BufferAllocator allocator = new RootAllocator();
                SeekableByteChannel in = Files.newByteChannel(file);
                ArrowReader reader = new ArrowFileReader(in, allocator)) {
            assertEquals(Stream.iterate(0, i -> i + 1).limit(ITEMS).toList(), numbers(reader));
        }
    }

    private List<String> names() throws IOException {
        try (var files = Files.list(file.getParent())) {
            return files.map(each -> each.getFileName().toString()).toList();
        }
    }

    @Test
    void objectsGoToAFile() throws Exception {
        String done = "exported: 100 objects of " + CLASS + " to " + file + "\n";
        assertEquals(new Result(0, done, ""), export());
        requireAll();
        String json = "{\"class\":\"" + CLASS + "\",\"objects\":100,\"file\":\"" + file + "\"}\n";
        assertEquals(new Result(0, json, ""), export("--json", "--force", "--one-commit"));
        requireAll();
        assertEquals(List.of("items.arrow"), names());
    }

    @Test
    void objectsGoToAStream() throws Exception {
        Result done = export("--format", "arrow-stream", "--columns", "number,@id", "--rows", "30");
        assertEquals(0, done.status(), done::err);
        try (BufferAllocator allocator = new RootAllocator();
                InputStream in = Files.newInputStream(file);
                ArrowReader reader = new ArrowStreamReader(in, allocator)) {
            assertEquals(
                    List.of("@id", "number"),
                    reader.getVectorSchemaRoot().getSchema().getFields().stream()
                            .map(Field::getName)
                            .toList());
            assertEquals(ITEMS, numbers(reader).size());
        }
    }

    @Test
    void aFileThatIsThereStays() throws Exception {
        Files.writeString(file, "mine");
        String refused =
                "terrace-objects export: " + file + " is there already: --force replaces a file\n";
        assertEquals(new Result(8, "", refused), export());
        assertEquals("mine", Files.readString(file));
        assertEquals(0, export("--force").status());
        requireAll();
    }

    @Test
    void aCommandLineThatIsWrongIsExplained() throws Exception {
        Result unknown = run(BuiltCommand.JAR, file, "org.example.None");
        assertEquals(2, unknown.status());
        assertTrue(
                unknown.err().startsWith("the pool has no class org.example.None; it has ["),
                unknown::err);
        for (String[] wrong :
                List.of(
                        new String[] {"--columns", "none"},
                        new String[] {"--columns", "tags"},
                        new String[] {"--rows", "0"},
                        new String[] {"--times", "days"},
                        new String[] {"--format", "csv"},
                        new String[] {"--decimal", "number=5,2"},
                        new String[] {"--decimal", "number=5"})) {
            Result result = export(wrong);
            assertEquals(2, result.status(), result::err);
            assertFalse(result.err().contains("Exception"), result::err);
            assertEquals(List.of(), names());
        }
        Result nowhere = run(BuiltCommand.JAR, dir.resolve("none/file"), CLASS);
        assertEquals(8, nowhere.status());
        assertTrue(nowhere.err().endsWith("/none is not there\n"), nowhere::err);
    }

    @Test
    void damageIsTold() throws Exception {
        Path disk = dir.resolve("disk").resolve("disk-0");
        byte[] bytes = Files.readAllBytes(disk);
        byte[] wanted = "the picture of number 50".getBytes();
        for (int i = 0; i < bytes.length - wanted.length; i++) {
            if (Arrays.equals(bytes, i, i + wanted.length, wanted, 0, wanted.length)) {
                bytes[i] = 'T';
            }
        }
        Files.write(disk, bytes);
        Result damaged = export();
        assertEquals(4, damaged.status(), damaged::err);
        assertTrue(damaged.err().startsWith("terrace-objects export: "), damaged::err);
        assertEquals(List.of(), names());
    }

    /// A class path alone opens nothing of Java's.
    @Test
    void whoStartsJavaWithoutWhatArrowNeedsIsTold() throws Exception {
        Path plain = dir.resolve("plain.jar");
        Manifest manifest = new Manifest();
        manifest.getMainAttributes().put(Attributes.Name.MANIFEST_VERSION, "1.0");
        manifest.getMainAttributes().put(Attributes.Name.MAIN_CLASS, Main.class.getName());
        manifest.getMainAttributes()
                .put(Attributes.Name.CLASS_PATH, BuiltCommand.JAR.toUri().toString());
        new JarOutputStream(Files.newOutputStream(plain), manifest).close();
        Result refused = run(plain, file, CLASS);
        assertEquals(8, refused.status(), refused::err);
        assertEquals(
                "terrace-objects export: Arrow needs java.nio: start java with"
                        + " --add-opens=java.base/java.nio=ALL-UNNAMED\n",
                refused.err());
        assertEquals(List.of(), names());
    }

    /// The command works without Arrow, but for this.
    @Test
    void whoHasNoArrowIsTold() throws Exception {
        Path others = Files.createDirectory(dir.resolve("lib"));
        try (var jars = Files.list(BuiltCommand.JAR.resolveSibling("lib"))) {
            for (Path jar : jars.toList()) {
                if (!jar.getFileName().toString().contains("arrow")) {
                    Files.copy(jar, others.resolve(jar.getFileName()));
                }
            }
        }
        Path alone = Files.copy(BuiltCommand.JAR, dir.resolve("alone.jar"));
        Result lacking = run(alone, file, CLASS);
        assertEquals(8, lacking.status(), lacking::err);
        assertTrue(
                lacking.err()
                        .startsWith("terrace-objects export: exports need terrace-objects-arrow"),
                lacking::err);
        assertEquals(List.of(), names());
        String[] dump = {"dump", place.toString(), "--disk", "hdd=" + dir.resolve("disk")};
        assertEquals(0, BuiltCommand.run(dir, alone, List.of(), dump).status());
    }
}
