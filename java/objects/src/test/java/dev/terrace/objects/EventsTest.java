package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.internal.store.RecordingSegmentStore;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// A recording of the Java Flight Recorder shows what pools do.
class EventsTest {
    private static final PoolOptions SMALL = PoolOptions.defaults().extents(1 << 20);
    private static final List<String> NAMES =
            List.of(
                    "PoolOpen",
                    "PoolClose",
                    "Commit",
                    "Rollback",
                    "Growth",
                    "Recovery",
                    "Move",
                    "SegmentWrite",
                    "SegmentRead",
                    "DiskRead");

    @TempDir(factory = InMemory.class)
    Path dir;

    private List<RecordedEvent> record(ThrowingWork work) throws Exception {
        Path file = dir.resolve("recording.jfr");
        try (Recording recording = new Recording()) {
            NAMES.forEach(
                    name -> recording.enable("dev.terrace.objects." + name).withoutThreshold());
            recording.start();
            work.run();
            recording.stop();
            recording.dump(file);
        }
        String ours = dir.toString();
        return RecordingFile.readAllEvents(file).stream()
                .filter(event ->
                        event.getString(event.hasField("pool") ? "pool" : "file").startsWith(ours))
                .sorted((a, b) -> a.getEndTime().compareTo(b.getEndTime()))
                .toList();
    }

    /// What is recorded.
    private interface ThrowingWork {
        void run() throws Exception;
    }

    private static List<String> names(List<RecordedEvent> events) {
        return events.stream()
                .map(event -> event.getEventType().getName())
                .map(name -> name.substring(name.lastIndexOf('.') + 1))
                .toList();
    }

    @Test
    void whatAPoolDoesIsRecorded() throws Exception {
        Path place = dir.resolve("pool");
        List<RecordedEvent> events =
                record(() -> {
                    try (Pool pool = Pool.open(place, SMALL)) {
                        pool.transact(() ->
                                DurablePerson.create(pool).setPlace("a place with a long name"));
                        DurablePerson bob = DurablePerson.create(pool);
                        bob.setAge(1);
                        assertThrows(
                                IllegalArgumentException.class,
                                () ->
                                        pool.transact(() -> {
                                            bob.setAge(2);
                                            throw new IllegalArgumentException();
                                        }));
                        bob.setImage(new byte[1000]);
                    }
                });
        // The first growth makes the pool, the second the disk, whose map the first commit
        // allocates. One word that is set has no event.
        List<String> expected =
                List.of(
                        "Growth",
                        "PoolOpen",
                        "Commit",
                        "Commit",
                        "Commit",
                        "Rollback",
                        "Growth",
                        "Commit",
                        "PoolClose");
        assertEquals(expected, names(events));
        assertTrue(
                events.stream()
                        .allMatch(event ->
                                event.getEventType()
                                        .getCategoryNames()
                                        .equals(List.of("Terrace Objects"))));
        RecordedEvent open = events.get(1);
        assertEquals(place.resolve("pool").toString(), open.getString("pool"));
        assertEquals(1 << 20, open.getLong("pmemBytes"));
        assertEquals(false, open.getBoolean("readOnly"));
        RecordedEvent commit = events.get(3);
        int words = commit.getInt("words");
        assertTrue(words > 0);
        assertEquals(32 + 16L * words, commit.getLong("bytesLogged"));
        assertEquals(1, events.get(5).getInt("words"));
        assertEquals(place.resolve("disk-0").toString(), events.get(6).getString("file"));
        assertEquals(1 << 20, events.get(6).getLong("bytes"));
        assertEquals(5, events.get(8).getLong("commits"), "the single word, too");
    }

    @Test
    void aCommitThatIsFinishedIsRecorded() throws Exception {
        Path place = dir.resolve("pool");
        try (Pool pool = Pool.open(place, SMALL)) {
            DurablePerson.create(pool);
        }
        asIfKilled(place.resolve("pool"));
        List<RecordedEvent> events = record(() -> Pool.open(place, SMALL).close());
        assertEquals(List.of("Recovery", "PoolOpen", "PoolClose"), names(events));
        assertTrue(events.getFirst().getInt("words") > 0);
    }

    /// One name that finds no room may take several demotions: together they are what the pool has
    /// counted when it is closed.
    @Test
    void valuesThatMoveAreRecorded() throws Exception {
        long[] demoted = {0};
        List<RecordedEvent> events =
                record(() -> {
                    Pool pool = Pool.open(dir.resolve("tiny"), SMALL.pmem(1 << 20));
                    try (pool) {
                        for (int i = 0; pool.demotedBytes() == 0; i++) {
                            DurablePerson.create(pool).setName(("name " + i).repeat(400));
                            assertTrue(i < 10_000, "a pool of a MiB takes 10,000 names");
                        }
                    }
                    demoted[0] = pool.demotedBytes();
                });
        List<Long> moves =
                events.stream()
                        .filter(event ->
                                event.getEventType().getName().endsWith(".Move")
                                        && "demotion".equals(event.getString("why")))
                        .map(event -> event.getLong("bytes"))
                        .toList();
        assertEquals(demoted[0], moves.stream().mapToLong(Long::longValue).sum(), moves::toString);
    }

    @Test
    void segmentsAreRecorded() throws Exception {
        RecordingSegmentStore segments = new RecordingSegmentStore(new ArrayList<>());
        ObjectType<Thing> type = Thing.on(StorageTier.REMOTE);
        List<RecordedEvent> events =
                record(() -> {
                    try (Pool pool = Pool.open(dir.resolve("far"), SMALL.remote(segments))) {
                        pool.transact(() -> {
                            Thing thing = pool.create(type);
                            pool.root("thing", type).set(thing);
                            thing.setBytes(new byte[1000]);
                        });
                    }
                    try (Pool pool = Pool.open(dir.resolve("far"), SMALL.remote(segments))) {
                        Thing thing = Objects.requireNonNull(pool.root("thing", type).get());
                        assertEquals(1000, Objects.requireNonNull(thing.getBytes()).length);
                        assertEquals(1000, Objects.requireNonNull(thing.getBytes()).length);
                    }
                });
        List<RecordedEvent> segmentEvents =
                events.stream()
                        .filter(event -> event.getEventType().getName().contains(".Segment"))
                        .toList();
        assertEquals(
                List.of("SegmentWrite", "SegmentRead"),
                names(segmentEvents),
                "the second time it need not be read");
        assertEquals(
                segmentEvents.get(0).getLong("segment"), segmentEvents.get(1).getLong("segment"));
        assertEquals(1000, segmentEvents.get(1).getLong("bytes"));
        assertTrue(segmentEvents.get(0).getLong("bytes") > 1000);
    }

    /// The last commit is on its way to its places again.
    private static void asIfKilled(Path file) throws IOException {
        try (RandomAccessFile bytes = new RandomAccessFile(file.toFile(), "rw")) {
            bytes.seek(64);
            long sequence = Long.reverseBytes(bytes.readLong());
            bytes.seek(64);
            bytes.writeLong(Long.reverseBytes(sequence - 1));
        }
    }

    @Test
    void readsOfADiskAreRecordedIfThatIsWanted() throws Exception {
        ObjectType<Thing> type = Thing.on(StorageTier.SSD);
        Path place = dir.resolve("pool");
        List<RecordedEvent> events =
                record(
                                () -> {
                                    try (Pool pool = Pool.open(place, SMALL)) {
                                        Thing thing = pool.create(type);
                                        thing.setBytes(new byte[1000]);
                                        assertEquals(1000, thing.lengthOfBytes());
                                        assertEquals(0, thing.getNumber());
                                        assertEquals(
                                                1000,
                                                Objects.requireNonNull(thing.getBytes()).length);
                                    }
                                })
                        .stream()
                        .filter(event -> event.getEventType().getName().endsWith("DiskRead"))
                        .toList();
        assertEquals(1, events.size());
        assertEquals(1000, events.getFirst().getLong("bytes"));
        assertEquals(
                place.toRealPath().resolve("disk-0").toString(),
                events.getFirst().getString("file"));
    }
}
