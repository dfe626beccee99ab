package dev.terrace.objects.arrow;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.DurableRecord;
import dev.terrace.objects.FieldKind;
import dev.terrace.objects.FieldSpec;
import dev.terrace.objects.InMemory;
import dev.terrace.objects.ObjectType;
import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolDamagedException;
import dev.terrace.objects.PoolOptions;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.Tmpfs;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.RandomAccessFile;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// A saved export is whole or not there, whatever fails.
class SaveTest {
    private static final PoolOptions SMALL = PoolOptions.defaults().extents(1 << 20);
    private static final ObjectType<DurableRecord> TYPE =
            ObjectType.of(
                    "Row",
                    FieldSpec.of("number", FieldKind.LONG),
                    FieldSpec.of("text", FieldKind.STRING).on(StorageTier.DISK).orNull());
    private static final int OBJECTS = 2000;

    @TempDir(factory = InMemory.class)
    private Path dir;

    private Path place = Path.of("");
    private Path target = Path.of("");
    private Path file = Path.of("");
    private Pool pool;

    @BeforeEach
    void make() throws IOException {
        place = dir.resolve("pool");
        target = Files.createDirectory(dir.resolve("target"));
        file = target.resolve("rows.arrow");
        pool = Pool.open(place, SMALL);
        pool.transact(() -> {
            for (int i = 0; i < OBJECTS; i++) {
                DurableRecord row = pool.create(TYPE);
                row.setLong(0, i);
                row.setString(1, "the text of number " + i);
            }
        });
    }

    @AfterEach
    void close() {
        pool.close();
    }

    private ArrowExport export() {
        return ArrowExport.of(pool, TYPE).batches(100);
    }

    private List<String> names() throws IOException {
        try (var files = Files.list(target)) {
            return files.map(each -> each.getFileName().toString()).sorted().toList();
        }
    }

    @Test
    void aFileIsReplacedOnlyIfThatIsSaid() throws IOException {
        Files.writeString(file, "mine");
        FileAlreadyExistsException refused =
                assertThrows(
                        FileAlreadyExistsException.class,
                        () -> export().save(file, ArrowFormat.FILE));
        assertTrue(refused.getMessage().contains("is there already"), refused::getMessage);
        assertEquals("mine", Files.readString(file));
        assertEquals(OBJECTS, export().save(file, ArrowFormat.FILE, SaveOption.REPLACE));
        assertEquals(OBJECTS, Read.file(file).rows().size());
        assertEquals(List.of("rows.arrow"), names());
        assertEquals(
                Files.getPosixFilePermissions(Files.createFile(target.resolve("usual"))),
                Files.getPosixFilePermissions(file));
    }

    @Test
    void aNameThatIsTakenMeanwhileIsLeftAlone() throws IOException {
        NewFile.Content content =
                out -> {
                    Files.writeString(file, "mine");
                    return 0;
                };
        assertThrows(FileAlreadyExistsException.class, () -> NewFile.make(file, false, content));
        assertEquals("mine", Files.readString(file));
        assertEquals(List.of("rows.arrow"), names());
    }

    @Test
    void directoriesAreNoFiles() throws IOException {
        assertThrows(
                FileAlreadyExistsException.class,
                () -> export().save(target, ArrowFormat.FILE, SaveOption.REPLACE));
        assertThrows(
                NoSuchFileException.class,
                () -> export().save(target.resolve("none/rows"), ArrowFormat.FILE));
        assertEquals(List.of(), names());
    }

    /// The pool says what is damaged, and what was there before stays.
    @Test
    void damageLeavesNoFile() throws IOException {
        Files.writeString(file, "mine");
        pool.close();
        try (RandomAccessFile disk = new RandomAccessFile(place.resolve("disk-0").toFile(), "rw")) {
            byte[] bytes = new byte[(int) disk.length()];
            disk.readFully(bytes);
            byte[] wanted = ("number " + OBJECTS / 2).getBytes();
            int at = 0;
            for (int i = 0; i < bytes.length - wanted.length; i++) {
                if (Arrays.equals(bytes, i, i + wanted.length, wanted, 0, wanted.length)) {
                    at = i;
                }
            }
            disk.seek(at);
            disk.write('N');
        }
        pool = Pool.open(place, SMALL);
        for (SaveOption[] options :
                List.of(
                        new SaveOption[] {SaveOption.REPLACE},
                        new SaveOption[] {SaveOption.REPLACE, SaveOption.ONE_COMMIT})) {
            assertThrows(
                    PoolDamagedException.class,
                    () -> export().save(file, ArrowFormat.FILE, options));
            assertEquals("mine", Files.readString(file));
            assertEquals(List.of("rows.arrow"), names());
        }
    }

    @Test
    void aFullDiskLeavesNoFile() throws IOException {
        try (Tmpfs small = new Tmpfs(dir.resolve("small"), "32k")) {
            Path full = small.at().resolve("rows.arrow");
            for (SaveOption[] options :
                    List.of(new SaveOption[0], new SaveOption[] {SaveOption.ONE_COMMIT})) {
                assertThrows(
                        IOException.class, () -> export().save(full, ArrowFormat.FILE, options));
                try (var files = Files.list(small.at())) {
                    assertEquals(List.of(), files.toList());
                }
            }
        }
    }

    @Test
    void aFullDeviceFailsAStream() throws IOException {
        try (OutputStream full = new FileOutputStream("/dev/full")) {
            assertThrows(IOException.class, () -> export().write(full, ArrowFormat.STREAM));
        }
    }

    /// Saves again and again, in a process of its own.
    static final class Saving {
        private Saving() {}

        public static void main(String[] arguments) throws Exception {
            try (Pool pool = Pool.open(Path.of(arguments[0]), SMALL.toRead())) {
                ArrowExport export = ArrowExport.of(pool, "Row");
                while (true) {
                    export.save(Path.of(arguments[1]), ArrowFormat.FILE, SaveOption.REPLACE);
                    System.out.println("saved");
                }
            }
        }
    }

    @Test
    void aKilledProcessLeavesTheOldFileOrTheNewOne() throws Exception {
        byte[] whole = null;
        Random random = new Random(3);
        for (int round = 0; round < 4; round++) {
            List<String> command = new ArrayList<>();
            command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
            command.addAll(
                    List.of(
                            "--add-opens=java.base/java.nio=ALL-UNNAMED",
                            "--sun-misc-unsafe-memory-access=allow",
                            "-XX:TieredStopAtLevel=1",
                            "-cp",
                            System.getProperty("java.class.path"),
                            Saving.class.getName(),
                            place.toString(),
                            file.toString()));
            Process process =
                    new ProcessBuilder(command)
                            .redirectError(dir.resolve("errors").toFile())
                            .start();
            try {
                String said = process.inputReader().readLine();
                assertEquals("saved", said, () -> errors());
                Thread.sleep(random.nextInt(200));
            } finally {
                process.toHandle().destroyForcibly();
                assertTrue(process.waitFor(60, TimeUnit.SECONDS));
            }
            byte[] found = Files.readAllBytes(file);
            assertArrayEquals(whole == null ? found : whole, found);
            whole = found;
            assertEquals(OBJECTS, Read.file(file).rows().size());
        }
    }

    private String errors() {
        try {
            return Files.readString(dir.resolve("errors"));
        } catch (IOException e) {
            return e.toString();
        }
    }
}
