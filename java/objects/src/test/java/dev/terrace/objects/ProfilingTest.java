package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.collections.CollectionOwner;
import dev.terrace.objects.collections.ElementType;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/// What is done with fields is counted, each access once, whatever way it takes.
class ProfilingTest {
    private static final ObjectType<Thing> TYPE =
            ObjectType.of(
                    "Thing",
                    Thing.class,
                    Thing::new,
                    List.of("Object"),
                    FieldSpec.of("number", FieldKind.INT),
                    FieldSpec.of("text", FieldKind.STRING).orNull(),
                    FieldSpec.of("row", FieldKind.DOUBLES).ofLength(4),
                    FieldSpec.of("image", FieldKind.BYTES).orNull().on(StorageTier.DISK),
                    FieldSpec.of("far", FieldKind.LONG).on(StorageTier.DISK),
                    FieldSpec.of("maybe", FieldKind.INT).orNull(),
                    FieldSpec.of("names", FieldKind.REFERENCE)
                            .to("java.util.List<java.lang.String>")
                            .orNull(),
                    FieldSpec.of("next", FieldKind.REFERENCE).to("Thing").orNull(),
                    FieldSpec.of("score", FieldKind.DOUBLE).on(StorageTier.DRAM));

    private static final class Thing extends CollectionOwner {
        int number() {
            return getInt(0, TYPE.offset(0));
        }

        void number(int value) {
            setInt(0, TYPE.offset(0), value);
        }

        @Nullable String text() {
            return getString(1, TYPE.offset(1));
        }

        void text(@Nullable String value) {
            setString(1, TYPE.offset(1), value);
        }

        boolean isText(@Nullable String value) {
            return equalsString(1, TYPE.offset(1), value);
        }

        double row(int index) {
            return getDoubleAt(2, TYPE.offset(2), 4, index);
        }

        void row(int index, double value) {
            setDoubleAt(2, TYPE.offset(2), index, value);
        }

        void row(double[] into) {
            copyDoubles(2, TYPE.offset(2), 4, into);
        }

        byte @Nullable [] image() {
            return getBytes(3, TYPE.offset(3));
        }

        void image(byte @Nullable [] value) {
            setBytes(3, -1, value);
        }

        byte image(int index) {
            return getByteAt(3, TYPE.offset(3), 0, index);
        }

        long far() {
            return getLong(4, TYPE.offset(4));
        }

        void far(long value) {
            setLong(4, TYPE.offset(4), value);
        }

        @Nullable Integer maybe() {
            return getBoxedInt(5, TYPE.offset(5));
        }

        void names(List<String> value) {
            setList(6, TYPE.offset(6), ElementType.STRING, value);
        }

        List<String> names() {
            return Objects.requireNonNull(getList(6, TYPE.offset(6), ElementType.STRING));
        }

        @Nullable Thing next() {
            return getReference(7, TYPE.offset(7), TYPE);
        }

        double score() {
            Object value = getVolatile(8);
            if (value == null) {
                value = recompute(8, () -> 2.0 * number());
            }
            return (double) value;
        }
    }

    private static FieldProfile field(Profile profile, String name) {
        ClassProfile things = profile.classes().getFirst();
        assertEquals("Thing", things.name());
        return things.fields().stream()
                .filter(field -> field.field().name().equals(name))
                .findAny()
                .orElseThrow();
    }

    /// Reads, writes, reads and writes of elements, bytes read and written.
    private static List<Long> counts(
            long reads,
            long writes,
            long elementReads,
            long elementWrites,
            long read,
            long written) {
        return List.of(reads, writes, elementReads, elementWrites, read, written);
    }

    private static void assertCounts(List<Long> expected, FieldProfile field) {
        assertEquals(
                expected,
                List.of(
                        field.reads(),
                        field.writes(),
                        field.elementReads(),
                        field.elementWrites(),
                        field.bytesRead(),
                        field.bytesWritten()),
                field.field().name());
    }

    @Test
    void eachAccessIsCountedOnce() {
        try (PoolDir dir = new PoolDir()) {
            Thing thing = dir.pool().create(TYPE);
            thing.number(1);
            assertEquals(1, thing.number());
            Profiling profiling = dir.pool().profile();
            thing.number(7);
            assertEquals(7, thing.number());
            assertEquals(7, thing.number());
            thing.text("twelve bytes");
            assertEquals("twelve bytes", thing.text());
            assertTrue(thing.isText("twelve bytes"));
            assertFalse(thing.isText("x"));
            assertFalse(thing.isText(null));
            thing.row(1, 0.5);
            thing.row(new double[4]);
            thing.row(new double[2]);
            assertEquals(0.5, thing.row(1));
            thing.image(new byte[1000]);
            assertEquals(1000, Objects.requireNonNull(thing.image()).length);
            assertEquals(0, thing.image(999));
            thing.far(1L << 40);
            assertEquals(1L << 40, thing.far());
            assertEquals(null, thing.maybe());
            thing.names(List.of("a", "bcd"));
            assertEquals("bcd", thing.names().get(1));
            thing.names().set(0, "ef");
            assertEquals(List.of("ef", "bcd"), thing.names());
            assertEquals(null, thing.next());
            profiling.close();
            Profile profile = profiling.profile();

            assertCounts(counts(2, 1, 0, 0, 8, 4), field(profile, "number"));
            assertCounts(counts(4, 1, 0, 0, 3 * 13, 13), field(profile, "text"));
            assertCounts(counts(2, 0, 1, 1, 48, 0), field(profile, "row"));
            assertCounts(counts(1, 1, 1, 0, 1000, 1000), field(profile, "image"));
            assertCounts(counts(1, 1, 0, 0, 8, 8), field(profile, "far"));
            assertCounts(counts(1, 0, 0, 0, 0, 0), field(profile, "maybe"));
            // That which is replaced is read.
            assertCounts(counts(4, 3, 0, 0, 4 + 2 + 3 + 4, 2 + 4 + 3), field(profile, "names"));
            assertEquals(3 + 4, field(profile, "names").bytesStored());
            assertCounts(counts(1, 0, 0, 0, 0, 0), field(profile, "next"));
            assertCounts(counts(0, 0, 0, 0, 0, 0), field(profile, "score"));
            assertTrue(profile.nanos() > 0);
        }
    }

    @Test
    void sizesAndNumbersAreThoseOfTheObjectsThereAre() {
        try (PoolDir dir = new PoolDir()) {
            for (int i = 0; i < 10; i++) {
                Thing thing = dir.pool().create(TYPE);
                thing.text(i < 5 ? null : "x".repeat(19));
                thing.image(new byte[100 * i]);
            }
            dir.pool().cursor(TYPE).next();
            Profile profile;
            try (Profiling profiling = dir.pool().profile()) {
                profile = profiling.profile();
            }
            assertEquals(10, profile.classes().getFirst().objects());
            assertEquals(4, field(profile, "number").bytesStored());
            assertEquals(10, field(profile, "text").bytesStored());
            assertEquals(32, field(profile, "row").bytesStored());
            assertEquals(450, field(profile, "image").bytesStored());
            assertEquals(0, field(profile, "far").bytesStored());
            assertEquals(8, field(profile, "score").bytesStored());
            assertEquals(
                    TYPE.fields(),
                    profile.classes().getFirst().fields().stream()
                            .map(FieldProfile::field)
                            .toList());
        }
    }

    @Test
    void aWalkAndAllThreadsAreCounted() throws InterruptedException {
        try (PoolDir dir = new PoolDir()) {
            Pool pool = dir.pool();
            for (int i = 0; i < 1000; i++) {
                pool.create(TYPE).number(i);
            }
            Profiling profiling = pool.profile();
            Runnable walk =
                    () -> {
                        Cursor<Thing> things = pool.cursor(TYPE);
                        double[] row = new double[4];
                        while (things.next()) {
                            things.get().number();
                            things.get().row(row);
                        }
                    };
            Thread other = new Thread(walk);
            other.start();
            walk.run();
            other.join();
            pool.transact(walk);
            assertCounts(counts(3000, 0, 0, 0, 12_000, 0), field(profiling.profile(), "number"));
            assertCounts(counts(3000, 0, 0, 0, 96_000, 0), field(profiling.profile(), "row"));
        }
    }

    @Test
    void recomputationsAreTimed() {
        try (PoolDir dir = new PoolDir()) {
            Thing thing = dir.pool().create(TYPE);
            thing.number(4);
            try (Profiling profiling = dir.pool().profile()) {
                assertEquals(8.0, thing.score());
                assertEquals(8.0, thing.score());
                FieldProfile score = field(profiling.profile(), "score");
                assertEquals(1, score.recomputations());
                assertTrue(score.recomputeNanos() > 0);
                assertCounts(counts(2, 0, 0, 0, 8, 0), score);
            }
        }
    }

    @Test
    void whatComesAfterTheEndIsNotCounted() {
        try (PoolDir dir = new PoolDir()) {
            Thing thing = dir.pool().create(TYPE);
            Profiling profiling = dir.pool().profile();
            thing.number();
            assertThrows(IllegalStateException.class, dir.pool()::profile);
            profiling.close();
            profiling.close();
            thing.number();
            thing.number(3);
            assertCounts(counts(1, 0, 0, 0, 4, 0), field(profiling.profile(), "number"));
            try (Profiling next = dir.pool().profile()) {
                assertEquals(3, thing.number());
                assertCounts(counts(1, 0, 0, 0, 4, 0), field(next.profile(), "number"));
            }
        }
    }

    @Test
    void whoOnlyReadsCountsToo() {
        PoolOptions options = PoolOptions.defaults().extents(1 << 20);
        try (PoolDir dir = new PoolDir(options)) {
            dir.pool().root("thing", TYPE).set(dir.pool().create(TYPE));
            Pool reader = dir.reopen(options.toRead());
            Thing thing = Objects.requireNonNull(reader.root("thing", TYPE).get());
            thing.number();
            try (Profiling profiling = reader.profile()) {
                thing.number();
                assertCounts(counts(1, 0, 0, 0, 4, 0), field(profiling.profile(), "number"));
            }
        }
    }

    /// A look that was overtaken by a commit is repeated: objects are not counted twice.
    @Test
    void whoOnlyReadsCountsObjectsOnceBesideAWriter() throws IOException {
        try (PoolDir dir = new PoolDir()) {
            List<Thing> things = new ArrayList<>();
            dir.pool()
                    .transact(() -> {
                        for (int i = 0; i < 1000; i++) {
                            things.add(dir.pool().create(TYPE));
                            things.getLast().text("some text");
                        }
                    });
            PoolFiles files = PoolFiles.open(dir.directory(), PoolOptions.defaults().toRead());
            Pool reader = Pool.on(files);
            AtomicBoolean done = new AtomicBoolean();
            CompletableFuture<Void> writer =
                    CompletableFuture.runAsync(() -> {
                        // Then the reader is alone, however slow it is.
                        for (int i = 0; i < 500 && !done.get(); i++) {
                            things.getFirst().number(i);
                            LockSupport.parkNanos(1_000_000);
                        }
                    });
            try (Profiling profiling = reader.profile()) {
                for (int i = 0; i < 4; i++) {
                    Profile profile = profiling.profile();
                    assertEquals(1000, profile.classes().getFirst().objects());
                    assertEquals(10, field(profile, "text").bytesStored());
                }
            } finally {
                done.set(true);
                writer.join();
                reader.closeNow(files);
            }
        }
    }

    /// Objects of all forms count, by what their fields are called now, and wherever they lie.
    @Test
    void sizesOfObjectsInOlderFormsAreThoseOfTheirFields() {
        ObjectType<Thing> before =
                ObjectType.of(
                        "Object",
                        Thing.class,
                        Thing::new,
                        List.of(),
                        FieldSpec.of("number", FieldKind.INT),
                        FieldSpec.of("label", FieldKind.STRING).orNull(),
                        FieldSpec.of("row", FieldKind.BYTES).ofLength(64));
        ObjectType<Thing> after =
                ObjectType.of(
                        "Thing",
                        Thing.class,
                        Thing::new,
                        List.of("Object"),
                        FieldSpec.of("number", FieldKind.INT),
                        FieldSpec.of("text", FieldKind.STRING).orNull().formerly("label"),
                        FieldSpec.of("row", FieldKind.BYTES).ofLength(64).on(StorageTier.DISK),
                        FieldSpec.of("image", FieldKind.BYTES).orNull());
        try (PoolDir dir = new PoolDir()) {
            Thing old = dir.pool().create(before);
            old.text("x".repeat(30));
            dir.pool().root("old", before).set(old);
            Thing found = Objects.requireNonNull(dir.reopen().root("old", after).get());
            found.image(new byte[1000]);
            try (Profiling profiling = dir.pool().profile()) {
                found.number(1);
                Profile profile = profiling.profile();
                assertEquals(1, profile.classes().getFirst().objects());
                assertEquals(31, field(profile, "text").bytesStored());
                assertEquals(64, field(profile, "row").bytesStored());
                assertEquals(1000, field(profile, "image").bytesStored());
            }
        }
    }

    /// Of very many objects some stand for others, so that the first ones do not decide.
    @Test
    void sizesOfVeryManyObjectsAreTheMeanOfAll() {
        try (PoolDir dir = new PoolDir(PoolOptions.defaults().extents(16 << 20))) {
            dir.pool()
                    .transact(() -> {
                        for (int i = 0; i < 15_000; i++) {
                            dir.pool().create(TYPE).text(i < 10_000 ? null : "x".repeat(29));
                        }
                    });
            try (Profiling profiling = dir.pool().profile()) {
                Profile profile = profiling.profile();
                assertEquals(15_000, profile.classes().getFirst().objects());
                assertEquals(10, field(profile, "text").bytesStored(), 0.1);
            }
        }
    }

    @Test
    void aPoolThatIsClosedSaysSo() {
        try (PoolDir dir = new PoolDir()) {
            dir.pool().create(TYPE);
            Profiling profiling = dir.pool().profile();
            dir.pool().close();
            assertThrows(PoolClosedException.class, profiling::profile);
            profiling.close();
        }
    }
}
