package dev.terrace.objects.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.PoolDamagedException;
import dev.terrace.objects.PoolFormatException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import org.apache.hadoop.conf.Configuration;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Manifests whose parts are in lists have the same parts as others, and are short.
class PartListsTest {
    private static final Configuration CONFIGURATION = new Configuration(false);

    /// About how many bytes a part has in a manifest or a list.
    private static final int OF_PART = 160;

    @TempDir private Path dir;

    private ManifestLog log() throws IOException {
        return log(dir);
    }

    private static ManifestLog log(Path directory) throws IOException {
        return new ManifestLog(directory.toString(), CONFIGURATION);
    }

    private WriteJob begin() throws IOException {
        return WriteJob.begin(
                log(), new PartStore(log().root(), PartitionOptions.defaults(), CONFIGURATION));
    }

    private static Part part(int number) {
        ColumnSummary column = new ColumnSummary(number, 8, OrderKeys.ofLong(number), null);
        return new Part("part-" + number, null, null, List.of(), 10, 1, List.of(column));
    }

    private static List<Part> parts(int from, int to) {
        return IntStream.range(from, to).mapToObj(PartListsTest::part).toList();
    }

    private static List<Part> parts(@Nullable Manifest present) {
        return present == null ? List.of() : present.parts();
    }

    private static List<PartState> states(List<Part> parts) {
        return parts.stream().map(PartState::of).toList();
    }

    private void commit(WriteJob.Change change) throws IOException {
        begin().commit(change);
    }

    private static Manifest next(@Nullable Manifest present, List<Part> parts) {
        return present == null
                ? new Manifest(1, Manifest.TABLE, "{}", Map.of(), parts)
                : present.next(parts);
    }

    private static Manifest with(@Nullable Manifest present, List<Part> more) {
        List<Part> all = new ArrayList<>(parts(present));
        all.addAll(more);
        return next(present, all);
    }

    private void append(List<Part> some) throws IOException {
        commit(present -> with(present, some));
    }

    private Manifest manifest() throws IOException {
        return log().require(Manifest.TABLE);
    }

    private List<String> files() throws IOException {
        return log().root().child("lists").list().stream().sorted().toList();
    }

    private List<String> listed() throws IOException {
        return manifest().lists().stream().map(PartList::file).distinct().sorted().toList();
    }

    private static Path file(Path directory, long number) {
        return directory.resolve("manifests").resolve(String.format("%019d", number));
    }

    private static int version(Manifest manifest) {
        String front = new String(manifest.encode(), StandardCharsets.UTF_8).split("\n", 2)[0];
        return Integer.parseInt(front.split(" ", -1)[1]);
    }

    private void vacuum() throws IOException {
        Snapshots.vacuum(log(), CONFIGURATION, Instant.now().plus(Duration.ofDays(1)));
    }

    /// The directory under another path: this process keeps lists by their paths.
    private Path copy() throws IOException {
        Path copy = Files.createTempDirectory(dir, "copy");
        for (String directory : List.of("manifests", "lists")) {
            Files.createDirectory(copy.resolve(directory));
            try (var all = Files.list(dir.resolve(directory))) {
                for (Path file : all.toList()) {
                    Files.copy(file, copy.resolve(directory).resolve(file.getFileName()));
                }
            }
        }
        return copy;
    }

    @Test
    void aThousandAppendsWriteLittleEach() throws IOException {
        long longest = 0;
        for (int i = 0; i < 1000; i++) {
            append(List.of(part(i)));
            longest = Math.max(longest, Files.size(file(dir, i + 1)));
        }
        long lists = 0;
        for (String name : files()) {
            lists += Files.size(dir.resolve("lists").resolve(name));
        }
        long most = (PartLists.REST_MAX + 10) * OF_PART;
        assertTrue(longest < most, "a manifest of " + longest + " bytes, not of " + most);
        assertTrue(lists < 1000L * 5 * OF_PART, "lists of " + lists + " bytes");
        Manifest now = manifest();
        assertTrue(now.lists().size() <= 8, () -> "lists: " + files(now));
        assertArrayEquals(
                next(null, parts(0, 1000)).encode(),
                next(null, log(copy()).require("table").parts()).encode());
        assertEquals(states(parts(0, 300)), states(log(copy()).at(300).parts()));
    }

    private static List<String> files(Manifest manifest) {
        return manifest.lists().stream().map(PartList::toString).toList();
    }

    @Test
    void aTableWithFewPartsHasNoLists() throws IOException {
        append(parts(0, PartLists.REST_MAX));
        assertEquals(List.of(), files());
        assertEquals(2, version(manifest()));
        append(parts(PartLists.REST_MAX, PartLists.REST_MAX + 1));
        assertEquals(1, files().size());
        assertEquals(List.of(), manifest().rest());
        assertEquals(8, version(manifest()));
        commit(present -> next(present, parts(0, 3)));
        assertEquals(2, version(manifest()), "earlier libraries read it again");
        assertEquals(states(parts(0, 3)), states(manifest().parts()));
        assertEquals(1, files().size(), "that of an earlier version");
        vacuum();
        assertEquals(List.of(), files());
    }

    /// As TABLE-FORMAT.md has them.
    @Test
    void bytesAreThoseOfTheSpecification() throws IOException {
        List<Part> all = IntStream.range(0, 51).mapToObj(i -> named("p" + i)).toList();
        Manifest listed =
                new PartLists(log().root())
                        .listed(new Manifest(7, Manifest.TABLE, "{}", Map.of(), all), "job");
        StringBuilder list = new StringBuilder("[");
        for (int i = 0; i < 51; i++) {
            list.append(i == 0 ? "" : ",").append(JSON.formatted("p" + i));
        }
        assertEquals(list + "]", Files.readString(dir.resolve("lists").resolve("job")));
        Manifest next = listed.next(all.subList(2, 51)).withEpoch("query", 3);
        List<Part> more = new ArrayList<>(next.parts());
        more.add(named("new"));
        String text = new String(next.next(more).encode(), StandardCharsets.UTF_8);
        String json =
                "{\"number\":9,\"kind\":\"table\",\"type\":\"{}\",\"options\":{},\"parts\":["
                        + JSON.formatted("new")
                        + "],\"streams\":{\"query\":3},\"lists\":[{\"file\":\"job\",\"from\":0,"
                        + "\"bytes\":4326,\"crc\":\"b3c80456\",\"parts\":51,\"without\":[0,1]}]}";
        assertEquals("terrace-manifest 8 26d9d9ad\n" + json, text);
        Manifest read = Manifest.decode("m", text.getBytes(StandardCharsets.UTF_8), lists());
        assertEquals(states(more), states(read.parts()));
        assertEquals(next.next(more), read);
    }

    private PartLists lists() throws IOException {
        return new PartLists(log().root());
    }

    private static final String JSON =
            "{\"name\":\"%s\",\"pmem\":null,\"disk\":null,\"hosts\":[],\"rows\":3,\"bytes\":4096,"
                    + "\"columns\":[]}";

    private static Part named(String name) {
        return new Part(name, null, null, List.of(), 3, 4096, List.of());
    }

    /// After random additions, changes, rewrites and removals, each version has the parts that were
    /// committed, and in their order again when others read it.
    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3, 4, 5, 6, 7, 8})
    void manifestsHaveThePartsThatWereCommitted(int seed) throws IOException {
        Random random = new Random(seed);
        Map<Long, List<PartState>> versions = new TreeMap<>();
        int made = 0;
        for (int i = 0; i < 60; i++) {
            List<Part> next = new ArrayList<>(i == 0 ? List.of() : manifest().parts());
            int kind = random.nextInt(12);
            int many = 1 << random.nextInt(11);
            if (kind < 6 || next.isEmpty()) {
                next.addAll(parts(made, made + many));
                made += many;
            } else if (kind < 8) {
                int each = 1 + random.nextInt(30);
                next.replaceAll(part -> random.nextInt(each) == 0 ? deleted(part, random) : part);
            } else if (kind < 10) {
                int each = 1 + random.nextInt(20);
                next.removeIf(_ -> random.nextInt(each) == 0);
            } else if (kind < 11) {
                int from = random.nextInt(next.size());
                next.subList(from, Math.min(next.size(), from + many)).clear();
                next.add(part(made++));
            } else {
                Collections.shuffle(next, random);
            }
            boolean rewrites = random.nextInt(5) == 0 && i > 0;
            commit(present -> rewrites ? present.rewritten(next) : next(present, next));
            Manifest now = manifest();
            assertEquals(
                    new TreeSet<>(states(next).stream().map(PartState::toString).toList()),
                    new TreeSet<>(states(now.parts()).stream().map(PartState::toString).toList()));
            assertEquals(next.size(), now.parts().size());
            assertEquals(rewrites, now.rewrites());
            assertTrue(now.rest().size() <= PartLists.REST_MAX);
            assertEquals(next.size() > PartLists.REST_MAX, version(now) == 8);
            assertTrue(
                    now.lists().size()
                            <= 2 * next.size() / PartLists.LENGTH_MAX + PartLists.SPARE + 1,
                    () -> next.size() + " parts: " + files(now));
            versions.put(now.number(), states(now.parts()));
        }
        ManifestLog copy = log(copy());
        for (Map.Entry<Long, List<PartState>> version : versions.entrySet()) {
            assertEquals(version.getValue(), states(copy.at(version.getKey()).parts()));
        }
        vacuum();
        assertEquals(versions.get(60L), states(manifest().parts()));
        assertEquals(listed(), files());
        assertEquals(versions.get(60L), states(log(copy()).require("table").parts()));
        Snapshots.drop(log(), CONFIGURATION);
        assertFalse(Files.exists(dir.resolve("lists")));
    }

    private static Part deleted(Part part, Random random) {
        return part.with(new Deletions("file-" + random.nextInt(), 0, 1, "00000000", 1));
    }

    /// A commit that changes few parts of many does not list the others anew.
    @Test
    void partsThatStayAreNotListedAnew() throws IOException {
        append(parts(0, 2000));
        List<String> before = files();
        commit(present -> {
            List<Part> next = new ArrayList<>(parts(present));
            next.replaceAll(part ->
                    part.rows() == 10 && part.name().endsWith("77")
                            ? deleted(part, new Random(1))
                            : part);
            return next(present, next);
        });
        assertEquals(before, files());
        assertEquals(20, manifest().rest().size());
        assertEquals(2000, manifest().parts().size());
        assertTrue(Files.size(file(dir, 2)) < 30 * 250, "a list of all parts again");
        // Lists of which half of the parts have gone do.
        commit(present -> next(present, present.parts().subList(0, 600)));
        assertEquals(2, manifest().lists().size());
        assertEquals(600, manifest().parts().size());
    }

    @Test
    void aCommitThatIsOvertakenLeavesNoList() throws IOException {
        append(parts(0, 10));
        boolean[] isFirst = {true};
        commit(present -> {
            if (isFirst[0]) {
                isFirst[0] = false;
                append(parts(10, 110));
            }
            return with(present, parts(200, 300));
        });
        assertEquals(210, manifest().parts().size());
        assertEquals(3, manifest().number());
        assertEquals(listed(), files());
        assertEquals(2, files().size());
    }

    /// When the manifest has been made of another, and has no name yet.
    @Test
    void aCommitThatLosesTheNumberListsPartsAgain() throws IOException {
        Configuration racing = new Configuration(false);
        racing.set("fs.racing.impl", RacingFileSystem.class.getName());
        racing.set("fs.racing.terrace.commit", "rename");
        append(parts(0, 40));
        ManifestLog log = new ManifestLog("racing:" + dir, racing);
        PartStore store = new PartStore(log.root(), PartitionOptions.defaults(), racing);
        RacingFileSystem.BEFORE_COMMIT.set(() -> {
            try {
                append(parts(40, 60));
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        });
        WriteJob.begin(log, store).commit(present -> with(present, parts(60, 90)));
        assertEquals(states(parts(0, 90)), states(manifest().parts()));
        assertEquals(3, manifest().number());
        assertEquals(List.of(), log.root().child("jobs").list());
        assertEquals(listed(), files());
    }

    /// As of a driver that was killed before its manifest had its name.
    @Test
    void aListWithoutAManifestGoesWithAVacuum() throws IOException {
        append(parts(0, 100));
        List<String> counts = files();
        WriteJob killed = begin();
        lists().listed(manifest().next(parts(0, 300)), killed.id() + "-lists-0");
        assertEquals(2, files().size());
        assertEquals(states(parts(0, 100)), states(manifest().parts()));
        Snapshots.vacuum(log(), CONFIGURATION, Instant.now().minus(Duration.ofDays(1)));
        assertEquals(2, files().size(), "a job that may be at work");
        vacuum();
        assertEquals(counts, files());
        assertEquals(states(parts(0, 100)), states(log(copy()).require("table").parts()));
        // Its file may have gone first.
        lists().listed(manifest().next(parts(0, 300)), begin().id() + "-lists-3");
        log().root().child("jobs").delete();
        vacuum();
        assertEquals(counts, files());
    }

    @Test
    void whatNoJobHasMadeStays() throws IOException {
        append(parts(0, 100));
        Files.writeString(dir.resolve("lists").resolve("notes"), "mine");
        vacuum();
        assertTrue(files().contains("notes"));
    }

    @Test
    void thoseWhoAppendAtATimeLoseNothing() throws Exception {
        List<Callable<Void>> work = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            int first = 1000 * i;
            work.add(() -> {
                for (int j = 0; j < 75; j++) {
                    append(List.of(part(first + j)));
                }
                return null;
            });
        }
        try (ExecutorService drivers = Executors.newFixedThreadPool(4)) {
            for (Future<Void> done : drivers.invokeAll(work)) {
                done.get();
            }
        }
        Manifest all = log(copy()).require("table");
        assertEquals(300, all.number());
        for (int i = 0; i < 4; i++) {
            String first = "part-" + (i == 0 ? "" : i);
            int number = i;
            assertEquals(
                    states(parts(1000 * i, 1000 * i + 75)),
                    states(all.parts()).stream()
                            .filter(state -> state.part().startsWith(first))
                            .filter(state ->
                                    Integer.parseInt(state.part().substring(5)) / 1000 == number)
                            .toList());
        }
        vacuum();
        assertEquals(listed(), files());
        assertEquals(List.of(), log().root().child("jobs").list());
    }

    /// A reader whose manifest is removed, with its lists, reads the one that has come in its
    /// place.
    @Test
    void aReaderThatMeetsAVacuumReadsTheNextManifest() throws IOException {
        Configuration racing = new Configuration(false);
        racing.set("fs.racing.impl", RacingFileSystem.class.getName());
        append(parts(0, 60));
        RacingFileSystem.BEFORE_LISTS.set(() -> {
            try {
                commit(present -> next(present, parts(100, 170)));
                vacuum();
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        });
        ManifestLog log = new ManifestLog("racing:" + dir, racing);
        assertEquals(states(parts(100, 170)), states(log.require("table").parts()));
        assertEquals(List.of(2L), log.numbers());
    }

    @Test
    void eachDamageIsNamed() throws IOException {
        append(parts(0, 100));
        String name = files().getFirst();
        byte[] bytes = Files.readAllBytes(dir.resolve("lists").resolve(name));
        Map<byte[], String> wrong = new IdentityHashMap<>();
        for (int i = 0; i < bytes.length; i += 97) {
            byte[] damaged = bytes.clone();
            damaged[i] ^= 4;
            wrong.put(damaged, "its checksum is wrong");
        }
        wrong.put(new byte[10], "it is too short");
        wrong.put(new byte[0], "it is too short");
        for (Map.Entry<byte[], String> each : wrong.entrySet()) {
            Path copy = copy();
            Files.write(copy.resolve("lists").resolve(name), each.getKey());
            String message =
                    assertThrows(PoolDamagedException.class, () -> log(copy).current())
                            .getMessage();
            assertTrue(
                    message.contains(copy + "/lists/" + name)
                            && message.contains("the list of 100 parts at byte 0")
                            && message.contains(each.getValue()),
                    message);
        }
        Path copy = copy();
        Files.delete(copy.resolve("lists").resolve(name));
        String message =
                assertThrows(PoolFormatException.class, () -> log(copy).current()).getMessage();
        assertTrue(message.contains(copy + "/lists/" + name), message);
        assertTrue(message.contains("is not there"), message);
        // A vacuum that cannot tell what counts removes nothing.
        assertThrows(
                PoolFormatException.class,
                () -> Snapshots.vacuum(log(copy), CONFIGURATION, Instant.MAX));
        assertTrue(Files.exists(file(copy, 1)));
    }

    @Test
    void aListThatIsWholeAndNoListIsSaidToBeNone() throws IOException {
        append(parts(0, 100));
        Manifest whole = manifest();
        for (String text : List.of("[]", "{}", "[1", "null")) {
            byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
            String name = "file" + text.length() + text.hashCode();
            Files.write(dir.resolve("lists").resolve(name), bytes);
            PartList list =
                    new PartList(name, 0, bytes.length, JobFiles.crc(bytes), 100, List.of());
            byte[] manifest = whole.withLists(List.of(list)).encode();
            String message =
                    assertThrows(
                                    PoolDamagedException.class,
                                    () -> Manifest.decode("m", manifest, lists()),
                                    text)
                            .getMessage();
            assertTrue(message.contains(name), message);
        }
    }
}
