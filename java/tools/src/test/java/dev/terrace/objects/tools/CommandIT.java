package dev.terrace.objects.tools;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.DurableRecord;
import dev.terrace.objects.FieldKind;
import dev.terrace.objects.FieldSpec;
import dev.terrace.objects.ObjectType;
import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolOptions;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.ValueType;
import dev.terrace.objects.collections.DurableArray;
import dev.terrace.objects.collections.DurableList;
import dev.terrace.objects.collections.DurableMap;
import dev.terrace.objects.collections.DurableTree;
import dev.terrace.objects.collections.ElementType;
import dev.terrace.objects.remote.HadoopSegments;
import dev.terrace.objects.tools.BuiltCommand.Result;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.regex.Pattern;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// The command as it was built, as a process, on pools that programs have made.
class CommandIT {
    private static final String CLASS = "dev.terrace.objects.tools.Item";
    private static final String PICTURE = "a picture that is longer than a slot";
    private static final int LOG_AT = 4096;
    private static final int SEQUENCE_AT = 64;

    @TempDir Path dir;

    private Path place = Path.of("");
    private PoolOptions options = PoolOptions.defaults();

    @BeforeEach
    void makePool() throws IOException {
        place = dir.resolve("pool");
        options =
                PoolOptions.defaults()
                        .extents(1 << 20)
                        .disk(StorageTier.HDD, Files.createDirectory(dir.resolve("disk")));
        try (Pool pool = Pool.open(place, options)) {
            pool.transact(() -> {
                DurableItem second = item(pool, 2);
                DurableItem first = item(pool, 1);
                first.setNext(second);
                pool.root("first \"item\"", DurableItem.class).set(first);
            });
        }
    }

    private static DurableItem item(Pool pool, int number) {
        DurableItem item = DurableItem.create(pool);
        item.setNumber(number);
        item.setLabel("item\n" + number + " \u00e6");
        item.setColor(Item.Color.GREEN);
        item.setSign('"');
        item.setRow(19, Double.NaN);
        item.setPicture(PICTURE.getBytes(StandardCharsets.ISO_8859_1));
        return item;
    }

    private Result run(String... arguments) throws IOException, InterruptedException {
        return BuiltCommand.run(dir, BuiltCommand.JAR, List.of(), arguments);
    }

    private Result run(String command) throws IOException, InterruptedException {
        return run(command, place.toString(), "--disk", "hdd=" + dir.resolve("disk"));
    }

    private Result runJson(String command, String... more)
            throws IOException, InterruptedException {
        List<String> all =
                new ArrayList<>(
                        List.of(
                                command,
                                place.toString(),
                                "--disk",
                                "HDD=" + dir.resolve("disk"),
                                "--json"));
        all.addAll(List.of(more));
        return run(all.toArray(String[]::new));
    }

    @Test
    void aSoundPoolIsFoundSound() throws Exception {
        assertEquals(new Result(0, "2 objects of 1 class\nThe pool is sound.\n", ""), run("check"));
        String json =
                "{\"sound\":true,\"problems\":[],\"objects\":{\""
                        + CLASS
                        + "\":2},\"leaked\":{},\"leaked_bytes\":0,"
                        + "\"stale_references\":0}\n";
        assertEquals(new Result(0, json, ""), runJson("check"));
    }

    @Test
    void whatNoRootReachesIsShownAndFreed() throws Exception {
        try (Pool pool = Pool.open(place, options)) {
            pool.root("first \"item\"", DurableItem.class).set(null);
        }
        String leaks =
                "0 objects of 0 classes\nleaked: 2 of "
                        + CLASS
                        + "\nleaked: 4 of strings and arrays\n"
                        + "leaked: 704 B, which collect frees\nThe pool is sound.\n";
        assertEquals(new Result(0, leaks, ""), run("check"));
        String freed = "freed: 2 of " + CLASS + "\nfreed: 4 of strings and arrays\nfreed: 704 B\n";
        assertEquals(new Result(0, freed, ""), run("collect"));
        assertEquals(
                new Result(0, "0 objects of 0 classes\nThe pool is sound.\n", ""), run("check"));
        assertEquals(new Result(0, "{\"freed\":{},\"freed_bytes\":0}\n", ""), runJson("collect"));
    }

    @Test
    void whatIsFarApartMovesTogether() throws Exception {
        try (Pool pool = Pool.open(place, options)) {
            DurableItem large = item(pool, 3);
            large.setPicture(new byte[900_000]);
            DurableItem rest = item(pool, 4);
            rest.setPicture(new byte[900_000]);
            large.delete();
            rest.delete();
        }
        String moved =
                "moved: 0 values, 0 B\n"
                        + "freed: 0 chunks of 64 KiB\n"
                        + "given back: 1.0 MiB of disks and segments\n";
        assertEquals(new Result(0, moved, ""), run("compact"));
        assertEquals(1 << 20, Files.size(dir.resolve("disk").resolve("disk-0")));
        String json = "{\"moved\":0,\"moved_bytes\":0,\"freed_chunks\":0,\"given_back_bytes\":0}\n";
        assertEquals(new Result(0, json, ""), runJson("compact"));
        assertEquals(new Result(0, "2 objects of 1 class\nThe pool is sound.\n", ""), run("check"));
    }

    @Test
    void aSealedPoolIsReadAndNoLongerWritten() throws Exception {
        assertEquals(new Result(0, "sealed\n", ""), run("seal"));
        assertTrue(run("check").out().endsWith("The pool is sound.\n"));
        assertTrue(run("stats").out().contains("The pool is sealed: its contents never change.\n"));
        assertTrue(runJson("stats").out().contains("\"sealed\":true"));
        for (String command : List.of("seal", "collect", "compact")) {
            Result refused = run(command);
            assertEquals(8, refused.status(), refused::out);
            assertTrue(refused.err().contains("is sealed, so it never changes"), refused::err);
        }
    }

    @Test
    void aRemoteTierIsNamedByItsDirectory() throws Exception {
        Path directory = dir.resolve("segments");
        try (HadoopSegments segments = HadoopSegments.open(directory.toUri());
                Pool pool = Pool.open(place, options.remote(segments))) {
            for (int i = 0; i < 3; i++) {
                DurableArchive archive = DurableArchive.create(pool);
                archive.setNumber(i);
                archive.setPages(new byte[1000]);
                pool.root("archive " + i, DurableArchive.class).set(archive);
            }
        }
        String[] named = {"--remote", directory.toUri().toString()};
        assertEquals(
                new Result(0, "5 objects of 2 classes\nThe pool is sound.\n", ""),
                runNamed("check", named));
        Result stats = runNamed("stats", named);
        assertEquals(0, stats.status(), stats::err);
        assertTrue(
                Pattern.compile("remote +3.0 KiB +3.1 KiB").matcher(stats.out()).find(),
                stats::out);
        String moved =
                "moved: 3 values, 2.9 KiB\n"
                        + "freed: 0 chunks of 64 KiB\n"
                        + "given back: 128 B of disks and segments\n";
        assertEquals(new Result(0, moved, ""), runNamed("compact", named));
        Result without = run("check");
        assertEquals(8, without.status(), without::out);
        assertTrue(without.err().contains("name it when the pool is opened"), without::err);
    }

    private Result runNamed(String command, String... more)
            throws IOException, InterruptedException {
        List<String> all =
                new ArrayList<>(
                        List.of(command, place.toString(), "--disk", "hdd=" + dir.resolve("disk")));
        all.addAll(List.of(more));
        return run(all.toArray(String[]::new));
    }

    @Test
    void aDamagedPoolIsFoundDamagedAndLeftAlone() throws Exception {
        Path disk = dir.resolve("disk").resolve("disk-0");
        byte[] bytes = Files.readAllBytes(disk);
        int at = new String(bytes, StandardCharsets.ISO_8859_1).indexOf(PICTURE);
        bytes[at]++;
        Files.write(disk, bytes);
        Result check = run("check");
        assertEquals(4, check.status(), check.err());
        assertTrue(check.out().startsWith("damaged: "), check.out());
        assertTrue(check.out().endsWith("The pool is damaged: 1 problem.\n"), check.out());
        assertEquals(4, run("stats").status());
        Result collect = run("collect");
        assertEquals(4, collect.status());
        assertTrue(
                collect.err()
                        .startsWith(
                                "terrace-objects collect: the pool is damaged, so nothing of it is"
                                        + " freed"),
                collect.err());
    }

    @Test
    void statsShowTiersAndClasses() throws Exception {
        Result json = runJson("stats");
        assertEquals(0, json.status(), json.err());
        String all =
                """
                {"tiers":[{"tier":"pmem","used_bytes":0,"capacity_bytes":1048576},\
                {"tier":"disk-0 hdd","used_bytes":128,"capacity_bytes":1048576}],\
                "classes":{"%s":{"objects":2,"bytes":704,"forms":1,"leaked":0}},\
                "placements":{},"leaked_bytes":0,"stale_references":0,"problems":0,\
                "sealed":false}
                """
                        .formatted(CLASS);
        assertEquals(
                all,
                json.out().replaceFirst("\"used_bytes\":[0-9]+", "\"used_bytes\":0"),
                "but for the bytes of maps");
        List<String> lines = run("stats").out().lines().toList();
        assertEquals("disk-0 hdd     128 B  1.0 MiB", lines.get(2));
        assertEquals(CLASS + "        2  704 B      1       0", lines.get(5));
    }

    @Test
    void dumpShowsObjectsWithoutTheirClasses() throws Exception {
        try (Pool pool = Pool.open(place, options)) {
            pool.root("first \"item\"", DurableItem.class).get().setTags(List.of("a", "b"));
        }
        Result text =
                run("dump", place.toString(), "--disk", "hdd=" + dir.resolve("disk"), "--objects");
        assertEquals(0, text.status(), text.err());
        assertTrue(text.out().contains("root \"first \\\"item\\\"\" -> 0x"), text.out());
        assertTrue(text.out().contains("  picture: bytes or null on disk, slot at "), text.out());
        assertTrue(text.out().contains("  row: doubles[20] on pmem, at "), text.out());
        assertTrue(
                text.out()
                        .contains(
                                "  color: enum "
                                        + CLASS
                                        + ".Color [RED, GREEN] or null on pmem, at "),
                text.out());
        assertTrue(
                text.out()
                        .contains(
                                "  label = \"item\\n1 \\u00e6\"\n"
                                        + "  color = GREEN\n"
                                        + "  sign = \"\\\"\"\n"
                                        + "  rank = null\n"),
                text.out());
        assertTrue(
                text.out().matches("(?s).* tags = 0x[0-9a-f]+ of list of 2 \\[\"a\", \"b\"]\n.*"),
                text.out());
        assertTrue(text.out().contains("0.0, 0.0, ...] 20 elements\n"), text.out());
        assertEquals(2, text.out().split("\nobject 0x", -1).length - 1, text.out());
        Result json = runJson("dump", "--objects=" + CLASS, "--limit", "1");
        assertEquals(0, json.status(), json.err());
        assertTrue(
                json.out().startsWith("{\"roots\":{\"first \\\"item\\\"\":{\"reference\":\"0x"),
                json.out());
        assertTrue(
                json.out()
                        .contains(
                                "\"class\":\"" + CLASS + "\",\"form\":1,\"fields\":{\"number\":2,"),
                json.out());
        assertTrue(
                json.out().contains("\"picture\":{\"length\":36,\"first\":[97,32,112,"),
                json.out());
        assertTrue(json.out().endsWith("\"next\":null,\"tags\":null}}]}\n"), json.out());
    }

    @Test
    void dumpShowsFieldsThatShareASlotAndValuesOfTheJdk() throws Exception {
        try (Pool pool = Pool.open(place, options)) {
            DurableRecord receipt =
                    pool.create(
                            ObjectType.of(
                                    "Receipt",
                                    ValueType.INSTANT.field("at").on(StorageTier.DISK).inGroup(),
                                    FieldSpec.of("number", FieldKind.INT)
                                            .on(StorageTier.DISK)
                                            .inGroup()));
            receipt.setArray(0, new long[] {5, 8});
            receipt.setInt(1, 7);
        }
        Result text =
                run(
                        "dump",
                        place.toString(),
                        "--disk",
                        "hdd=" + dir.resolve("disk"),
                        "--objects=Receipt");
        assertEquals(0, text.status(), text.err());
        assertTrue(
                text.out()
                        .contains(
                                "  at: longs[2] java.time.Instant on disk, shared slot at 16\n"
                                        + "  number: int on disk, shared slot at 16\n"),
                text.out());
        assertTrue(
                text.out().contains("  at = 1970-01-01T00:00:05.000000007Z\n  number = 7\n"),
                text.out());
        Result json = runJson("dump", "--objects=Receipt", "--limit", "1");
        assertTrue(
                json.out().contains("{\"at\":\"1970-01-01T00:00:05.000000007Z\",\"number\":7}"),
                json.out());
        assertTrue(json.out().contains("\"offset\":16,\"grouped\":true"), json.out());
    }

    @Test
    void dumpShowsElementsOfCollections() throws Exception {
        try (Pool pool = Pool.open(place, options)) {
            pool.transact(() -> {
                DurableItem item = pool.root("first \"item\"", DurableItem.class).get();
                DurableList.root(pool, "a list", ElementType.of(DurableItem.TYPE))
                        .addAll(Arrays.asList(item, null));
                DurableArray.root(pool, "an array", ElementType.LONG, 2).set(1, 7L);
                DurableTree<String, Double> tree =
                        DurableTree.root(pool, "a tree", ElementType.STRING, ElementType.DOUBLE);
                for (int i = 0; i < 100; i++) {
                    tree.put(String.format("key\n%02d", i), i == 1 ? null : i / 2.0);
                }
                DurableMap.root(pool, "a map", ElementType.CHARACTER, ElementType.BYTES)
                        .put(null, new byte[] {1, 2});
            });
        }
        Result text =
                run(
                        "dump",
                        place.toString(),
                        "--disk",
                        "hdd=" + dir.resolve("disk"),
                        "--elements=3");
        assertEquals(0, text.status(), text.err());
        String item = "0x[0-9a-f]+ of " + CLASS;
        List<String> lines = text.out().lines().toList();
        assertTrue(
                lines.get(0)
                        .matches(
                                "root \"a list\" -> 0x[0-9a-f]+ of list of 2 \\["
                                        + item
                                        + ", null]"),
                text.out());
        assertTrue(lines.get(1).endsWith(" of map of 1 {null: [1, 2]}"), text.out());
        assertTrue(
                lines.get(2)
                        .endsWith(
                                " of sorted map of 100 {\"key\\n00\": 0.0, \"key\\n01\": null,"
                                        + " \"key\\n02\": 1.0, ...}"),
                text.out());
        assertTrue(lines.get(3).endsWith(" of array of 2 [null, 7]"), text.out());
        assertEquals(
                -1,
                run("dump").out().lines().toList().get(2).indexOf("key\\n16"),
                "16 of them without the option");
        Result json = runJson("dump", "--elements", "2");
        assertTrue(
                json.out()
                        .contains(
                                "\"class\":\"sorted map of 100\",\"count\":100,"
                                        + "\"first\":[[\"key\\n00\",0.0],[\"key\\n01\",null]]}"),
                json.out());
        assertTrue(
                json.out()
                        .contains("\"count\":1,\"first\":[[null,{\"length\":2,\"first\":[1,2]}]]}"),
                json.out());
        assertTrue(
                json.out().contains("\"class\":\"array of 2\",\"count\":2,\"first\":[null,7]}"),
                json.out());
        Result none = runJson("dump", "--elements", "0");
        assertTrue(none.out().contains("\"class\":\"list of 2\"},"), none.out());
        assertEquals(2, runJson("dump", "--elements", "-1").status());
    }

    /// While this process has the pool open to write.
    @Test
    void readersNeedNoLock() throws Exception {
        try (Pool pool = Pool.open(place, options)) {
            pool.transact(() -> pool.root("third", DurableItem.class).set(item(pool, 3)));
            assertEquals("3 objects of 1 class\nThe pool is sound.\n", run("check").out());
            assertEquals(0, run("stats").status());
            assertEquals(0, run("dump").status());
            assertEquals(
                    0, runJson("check", "--patience", "0").status(), "nobody commits meanwhile");
            Result collect = run("collect");
            assertEquals(8, collect.status());
            assertTrue(collect.err().contains("is open in another process"), collect.err());
        }
    }

    /// The writer was killed when the last commit was in the log, and none of its words in its
    /// place: among them those that lead to the disk's first extent.
    @Test
    void whatAKilledWriterHasCommittedIsSeen() throws Exception {
        place = dir.resolve("killed");
        Path file = place.resolve("pool");
        Files.delete(dir.resolve("disk").resolve("disk-0"));
        Pool.open(place, options).close();
        byte[] before = Files.readAllBytes(file);
        try (Pool pool = Pool.open(place, options)) {
            pool.transact(() -> pool.root("third", DurableItem.class).set(item(pool, 3)));
        }
        try (RandomAccessFile bytes = new RandomAccessFile(file.toFile(), "rw")) {
            bytes.seek(LOG_AT);
            long sequence = Long.reverseBytes(bytes.readLong());
            long words = Long.reverseBytes(bytes.readLong());
            for (long i = 0; i < words; i++) {
                bytes.seek(LOG_AT + 32 + 16 * i);
                long offset = Long.reverseBytes(bytes.readLong());
                bytes.seek(offset);
                bytes.write(before, (int) offset, Long.BYTES);
            }
            bytes.seek(SEQUENCE_AT);
            bytes.writeLong(Long.reverseBytes(sequence));
        }
        byte[] killed = Files.readAllBytes(file);
        assertEquals("1 object of 1 class\nThe pool is sound.\n", run("check").out());
        Result dump =
                run("dump", place.toString(), "--disk", "hdd=" + dir.resolve("disk"), "--objects");
        assertTrue(
                dump.out().contains("root \"third\" -> 0x") && dump.out().contains("number = 3\n"),
                dump.out());
        assertTrue(run("stats").out().contains("disk-0 hdd     64 B  1.0 MiB"), "stats see it too");
        assertArrayEquals(killed, Files.readAllBytes(file), "nothing was written");
    }

    private void assertMistake(String command, Path directory, String message) throws Exception {
        assertEquals(
                new Result(8, "", "terrace-objects " + command + ": " + directory + message + "\n"),
                run(command, directory.toString()));
    }

    @Test
    void aBackupIsMadeAndRestored() throws Exception {
        String to = dir.resolve("backups").toString();
        assertEquals(2, run("backup").status(), "--to is missing");
        assertEquals(2, runJson("backup", "--to", to, "--keep", "0").status());
        Result inside = runJson("backup", "--to", place.resolve("backups").toString());
        assertEquals(8, inside.status(), inside.err());
        assertEquals(8, run("backups", to).status(), "there are none");
        for (int i = 1; i <= 2; i++) {
            Result made = runJson("backup", "--to", to, "--keep", "1");
            assertEquals(0, made.status(), made.err());
            assertTrue(made.out().startsWith("{\"backup\":" + i + ","), made.out());
        }
        assertTrue(run("backups", to).out().startsWith("backup 2 of "));
        String again = dir.resolve("again").toString();
        String disk = "hdd=" + dir.resolve("again-disk");
        assertEquals(8, run("restore", to, again, "--disk", disk, "--backup", "1").status());
        Result restored = run("restore", to, again, "--disk", disk, "--check", "--json");
        assertEquals(0, restored.status(), restored.err());
        assertTrue(restored.out().contains("\"problems\":[]"), restored.out());
        assertEquals(8, run("restore", to, again, "--disk", disk).status(), "it is there");
        Path state = dir.resolve("backups").resolve("state-0000000000000002");
        byte[] bytes = Files.readAllBytes(state);
        bytes[40] ^= 1;
        Files.write(state, bytes);
        assertEquals(4, run("backups", to, "--verify").status());
        assertEquals(4, run("backups", to).status());
    }

    @Test
    void mistakesAreToldInALine() throws Exception {
        assertEquals(2, run().status());
        assertEquals(2, run("check", "--colour", place.toString()).status());
        Result disk = run("check", place.toString(), "--disk", "tape=/x");
        assertEquals(2, disk.status());
        assertTrue(disk.err().contains("'tape=/x' is not ssd=DIR or hdd=DIR"), disk.err());
        Result name =
                run(
                        "dump",
                        place.toString(),
                        "--disk",
                        "hdd=" + dir.resolve("disk"),
                        "--objects=Nobody");
        assertEquals(2, name.status());
        assertTrue(
                name.err().startsWith("the pool has no class Nobody; it has [" + CLASS + "]"),
                name.err());
        List<String> nine = new ArrayList<>(List.of("check", place.toString()));
        for (int i = 0; i < 9; i++) {
            nine.addAll(List.of("--disk", "hdd=" + dir));
        }
        Result many = run(nine.toArray(String[]::new));
        assertEquals(2, many.status());
        assertTrue(many.err().startsWith("--disk: a pool has at most 8 disks"), many.err());
        Result never = run("check", place.toString(), "--patience", "-1");
        assertEquals(2, never.status());
        assertTrue(never.err().contains("'-1' is no number of seconds"), never.err());
        assertMistake(
                "check", dir.resolve("none"), " is not there, so it is no pool: look at the path");
        assertMistake(
                "collect",
                dir.resolve("disk"),
                " has no file pool, so it is no pool: look at the path");
        Result nowhere = runNamed("check", "--remote", "tape:x");
        assertEquals(8, nowhere.status());
        assertTrue(
                nowhere.err()
                        .startsWith(
                                "terrace-objects check: 'tape:x' is no directory of a file"
                                        + " system: "),
                nowhere.err());
        Result fewer = run("check", place.toString());
        assertEquals(8, fewer.status());
        assertTrue(
                fewer.err()
                        .contains(
                                "disk-0 is missing: name the directory that it is in as the pool's"
                                        + " disk 0"),
                fewer.err());
        Result other = run("check", place.toString(), "--disk", "ssd=" + dir.resolve("disk"));
        assertEquals(8, other.status());
        assertTrue(
                other.err()
                        .contains(
                                "disk-0 is of the tier HDD, and was named as SSD: name the pool's"
                                        + " disk 0 as"),
                other.err());
        Result help = run("--help");
        assertEquals(0, help.status());
        assertTrue(help.out().contains("4   the pool is damaged"), help.out());
    }
}
