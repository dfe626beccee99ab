package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import dev.terrace.objects.internal.store.Superblock;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.zip.CRC32C;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/// Files that are not what they should be: an exception of this library's says so; nothing else
/// happens, and nothing wrong is read.
class DamageTest {
    private static final int EXTENT_BYTES = 1 << 20;
    private static final PoolOptions SMALL = PoolOptions.defaults().extents(EXTENT_BYTES);
    private static final int SUPERBLOCK_BYTES = 4096;

    /// Of the superblock, bytes that mean something.
    private static final int USED_BYTES = 512;

    private static final int VERSION_AT = 8;
    private static final int CHECKED_BYTES = 56;
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final int AGE = 19;

    private Path directory = Path.of("");

    @BeforeEach
    void make() throws IOException {
        directory = SharedMemory.directory();
    }

    @AfterEach
    void remove() throws IOException {
        SharedMemory.delete(directory);
    }

    private Path file() {
        return directory.resolve("pool");
    }

    private Path disk() {
        return directory.resolve("disk-0");
    }

    /// A pool of two extents at least, with something on each tier.
    private String fill() throws IOException {
        try (Pool pool = Pool.open(directory, SMALL)) {
            pool.transact(() -> {
                DurablePerson bob = DurablePerson.create(pool);
                DurablePerson eve = DurablePerson.create(pool);
                for (DurablePerson person : List.of(bob, eve)) {
                    person.setAge(AGE);
                    person.setPlace("x".repeat(600_000));
                    person.setImage(new byte[10_000]);
                }
                bob.setFriend(eve);
                pool.root("bob", DurablePerson.TYPE).set(bob);
            });
            return contents(pool);
        }
    }

    private static String contents(Pool pool) {
        StringBuilder text = new StringBuilder(pool.rootNames().toString());
        DurablePerson next = pool.root("bob", DurablePerson.TYPE).get();
        for (; next != null; next = next.getFriend()) {
            text.append(next.contents().hashCode()).append(' ');
        }
        return text.toString();
    }

    private void write(byte[] bytes) throws IOException {
        Files.write(file(), bytes);
    }

    private static void truncate(Path file) throws IOException {
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.WRITE)) {
            channel.truncate(0);
        }
    }

    @Test
    void whatIsNoPoolIsRefused() throws IOException {
        byte[] text =
                "This is a letter, and no pool.\n"
                        .repeat(1000)
                        .getBytes(java.nio.charset.StandardCharsets.US_ASCII);
        for (byte[] foreign :
                new byte[][] {{}, {1}, Arrays.copyOf(text, 31), text, new byte[1 << 20]}) {
            write(foreign);
            for (PoolOptions options : List.of(SMALL, SMALL.existing(), SMALL.toRead())) {
                PoolFormatException refused =
                        assertThrows(
                                PoolFormatException.class, () -> Pool.open(directory, options));
                assertTrue(refused.getMessage().contains(file().toString()), refused.getMessage());
            }
            assertTrue(
                    Arrays.equals(foreign, Files.readAllBytes(file())),
                    "what is no pool stays as it is");
        }
        Files.delete(file());
        assertThrows(PoolFormatException.class, () -> Pool.open(directory, SMALL.existing()));
        assertThrows(
                PoolFormatException.class,
                () -> Pool.open(directory.resolve("none"), SMALL.existing()));
        assertThrows(
                PoolFormatException.class,
                () -> Pool.open(directory.resolve("none"), SMALL.toRead()));
    }

    @Test
    void aPoolOfANewerVersionIsRefused() throws IOException {
        fill();
        byte[] bytes = Files.readAllBytes(file());
        ByteBuffer page = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        page.putInt(VERSION_AT, Superblock.VERSION + 1);
        CRC32C crc = new CRC32C();
        crc.update(bytes, 0, CHECKED_BYTES);
        page.putLong(CHECKED_BYTES, crc.getValue());
        write(bytes);
        PoolFormatException refused =
                assertThrows(PoolFormatException.class, () -> Pool.open(directory, SMALL));
        assertTrue(refused.getMessage().contains("newer"), refused.getMessage());
        assertTrue(Arrays.equals(bytes, Files.readAllBytes(file())), "it stays as it is");
    }

    @Test
    void aPoolThatWasCutOffIsRefused() throws IOException {
        String before = fill();
        byte[] whole = Files.readAllBytes(file());
        assertTrue(whole.length >= 2 * EXTENT_BYTES, whole.length + " bytes");
        for (int size :
                new int[] {
                    64,
                    100,
                    SUPERBLOCK_BYTES - 1,
                    SUPERBLOCK_BYTES,
                    EXTENT_BYTES - 1,
                    EXTENT_BYTES,
                    whole.length - 1
                }) {
            write(Arrays.copyOf(whole, size));
            for (PoolOptions options : List.of(SMALL, SMALL.toRead())) {
                assertThrows(
                        PoolDamagedException.class,
                        () -> Pool.open(directory, options),
                        () -> size + " bytes");
            }
        }
        write(whole);
        Files.move(disk(), directory.resolve("elsewhere"));
        PoolFormatException missing =
                assertThrows(PoolFormatException.class, () -> Pool.open(directory, SMALL));
        assertTrue(missing.getMessage().contains("disk-0"), missing.getMessage());
        Files.move(directory.resolve("elsewhere"), disk());
        try (Pool pool = Pool.open(directory, SMALL)) {
            assertEquals(before, contents(pool));
        }
    }

    /// Each byte of the superblock is changed, in more than one way: what can be read then, is
    /// right.
    @Test
    void noByteOfTheSuperblockMisleads() throws IOException {
        String before = fill();
        byte[] whole = Files.readAllBytes(file());
        List<String> wrong = new ArrayList<>();
        for (int at = 0; at < SUPERBLOCK_BYTES; at++) {
            for (int bits : at < USED_BYTES ? new int[] {0xff, 1, 0x80} : new int[] {0xff}) {
                for (PoolOptions options :
                        at < USED_BYTES ? List.of(SMALL.toRead(), SMALL) : List.of(SMALL)) {
                    patch(at, new byte[] {(byte) (whole[at] ^ bits)});
                    String outcome =
                            assertTimeoutPreemptively(
                                    PATIENCE, () -> outcome(options), "byte " + at);
                    if (!outcome.equals(before) && !outcome.equals("refused")) {
                        wrong.add(at + " ^ " + bits + ": " + outcome);
                    }
                    patch(0, Arrays.copyOf(whole, SUPERBLOCK_BYTES));
                }
            }
        }
        if (!wrong.isEmpty()) {
            fail(String.join("\n", wrong));
        }
        assertEquals(before, outcome(SMALL));
    }

    private void patch(int at, byte[] bytes) throws IOException {
        try (FileChannel channel = FileChannel.open(file(), StandardOpenOption.WRITE)) {
            channel.write(ByteBuffer.wrap(bytes), at);
        }
    }

    private String outcome(PoolOptions options) {
        try (Pool pool = Pool.open(directory, options)) {
            return contents(pool);
        } catch (TerraceException refused) {
            return "refused";
        } catch (IOException | RuntimeException | Error other) {
            return other + " at " + other.getStackTrace()[0];
        }
    }

    /// In a process of its own: a fault that the virtual machine does not catch would end it.
    @Test
    void aFileThatIsCutOffWhileItIsOpenIsDamaged() throws Exception {
        fill();
        byte[] whole = Files.readAllBytes(file());
        byte[] wholeDisk = Files.readAllBytes(disk());
        for (String what :
                new String[] {
                    "get", "copy", "string", "disk", "set", "transact", "create", "read"
                }) {
            write(whole);
            Files.write(disk(), wholeDisk);
            try (ChildJvm child = new ChildJvm(Victim.class, directory, what)) {
                assertEquals("open", child.expectLine());
                truncate(what.equals("disk") ? disk() : file());
                child.say("go on");
                assertEquals(
                        "PoolDamagedException", child.line(), () -> what + ": " + child.errors());
                assertEquals(0, child.await(), () -> what + ": " + child.errors());
            }
        }
    }

    /// A process whose pool's file somebody cuts off.
    static final class Victim {
        private static final int WARM = 20_000;

        /// Pool's directory, what is done with it.
        public static void main(String[] arguments) throws IOException {
            try (Pool pool = Pool.open(Path.of(arguments[0]), SMALL)) {
                DurablePerson bob =
                        Objects.requireNonNull(pool.root("bob", DurablePerson.TYPE).get());
                Runnable work = () -> work(pool, bob, arguments[1]);
                for (int i = 0; i < (arguments[1].equals("get") ? WARM : 20); i++) {
                    work.run();
                }
                System.out.println("open");
                System.in.read();
                try {
                    work.run();
                    System.out.println("nothing is said");
                } catch (TerraceException e) {
                    System.out.println(e.getClass().getSimpleName());
                    e.printStackTrace();
                }
            }
        }

        private static void work(Pool pool, DurablePerson bob, String what) {
            switch (what) {
                case "get" -> bob.getAge();
                case "copy" -> bob.copyRow(new double[12]);
                case "string" -> bob.getPlace();
                case "disk" -> bob.getImage();
                case "set" -> bob.setAge(1);
                case "transact" ->
                        pool.transact(() -> {
                            bob.setAge(2);
                            bob.setBalance(3);
                        });
                case "create" -> DurablePerson.create(pool).delete();
                case "read" -> pool.read(() -> contents(pool));
                default -> throw new IllegalArgumentException(what);
            }
        }
    }

    @Test
    void aDamagedDiskIsNoticed() throws IOException {
        fill();
        byte[] bytes = Files.readAllBytes(disk());
        for (int i = 1 << 16; i < bytes.length; i += 512) {
            bytes[i] ^= 1;
        }
        Files.write(disk(), bytes);
        try (Pool pool = Pool.open(directory, SMALL)) {
            DurablePerson bob = Objects.requireNonNull(pool.root("bob", DurablePerson.TYPE).get());
            assertEquals(AGE, bob.getAge());
            assertThrows(PoolDamagedException.class, bob::getImage);
        }
    }
}
