package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.terrace.objects.GoldenPool.Grouped;
import dev.terrace.objects.internal.store.RecordingSegmentStore;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Fields that share slots hold what a model holds, whatever builds of their class take turns.
class GroupModelTest {
    private static final PoolOptions SMALL = PoolOptions.defaults().extents(1 << 20);
    private static final int SEEDS = Boolean.getBoolean("terrace.long") ? 300 : 12;
    private static final int STEPS = 150;

    @TempDir(factory = InMemory.class)
    Path dir;

    /// Builds of the class: its fields in two groups, apart, in one group, on other tiers, and some
    /// of them within the record. Each is there in rows and in columns.
    private static final List<UnaryOperator<FieldSpec>> BUILDS =
            List.of(
                    FieldSpec::inGroup,
                    field -> field,
                    field -> field.on(StorageTier.DISK).inGroup(),
                    field -> field.on(StorageTier.REMOTE, StorageTier.DISK).inGroup(),
                    field ->
                            field.name().startsWith("near_")
                                    ? field.on(StorageTier.PMEM)
                                    : field.inGroup());

    /// The builds in rows, and then those in columns.
    static List<ObjectType<AnyHandle>> builds() {
        List<ObjectType<AnyHandle>> rows =
                BUILDS.stream()
                        .map(build ->
                                ObjectType.of(
                                        "Thing",
                                        AnyHandle.class,
                                        AnyHandle::new,
                                        List.of(),
                                        Grouped.specs(build)))
                        .toList();
        return Stream.concat(rows.stream(), rows.stream().map(ObjectType::inColumns)).toList();
    }

    private static @Nullable Object random(FieldSpec field, Random random) {
        if (field.nullable() && random.nextInt(4) == 0) {
            return null;
        }
        return field.kind() == FieldKind.STRING
                ? "\u65e5".repeat(random.nextInt(3)) + "x".repeat(random.nextInt(60))
                : GoldenPool.value(field, random.nextInt(20));
    }

    /// A pool, and what its objects must hold.
    private final class Run {
        final Random random;
        final List<ObjectType<AnyHandle>> builds = builds();
        final RecordingSegmentStore segments = new RecordingSegmentStore(new ArrayList<>());
        final Map<Long, Map<String, @Nullable Object>> expected = new LinkedHashMap<>();
        final Map<Long, AnyHandle> handles = new HashMap<>();
        ObjectType<AnyHandle> type = builds.getFirst();
        Pool pool;

        Run(long seed) throws IOException {
            random = new Random(seed);
            pool = open();
        }

        Pool open() throws IOException {
            return Pool.open(dir, SMALL.remote(segments));
        }

        /// A handle of some object: one that has been used before, or a new one.
        AnyHandle any() {
            List<Long> all = List.copyOf(expected.keySet());
            long reference = all.get(random.nextInt(all.size()));
            return random.nextBoolean()
                    ? pool.object(type, reference)
                    : handles.computeIfAbsent(reference, _ -> pool.object(type, reference));
        }

        void set(AnyHandle thing, int field, Map<String, @Nullable Object> values) {
            Object value = random(thing.spec(field), random);
            thing.set(field, value);
            values.put(thing.spec(field).name(), GoldenPoolTest.comparable(value));
        }

        /// Sets some fields.
        void setSome(AnyHandle thing, Map<String, @Nullable Object> values) {
            for (int i = random.nextInt(12); i >= 0; i--) {
                int field = random.nextInt(thing.count());
                set(thing, field, values);
                assertEquals(values.get(thing.spec(field).name()), thing.get(field));
            }
        }

        void step() throws IOException {
            int what = expected.isEmpty() ? 0 : random.nextInt(12);
            switch (what) {
                case 0 -> {
                    AnyHandle thing = pool.create(type);
                    pool.root("thing " + thing.reference(), type).set(thing);
                    expected.put(thing.reference(), thing.all());
                }
                case 1, 2, 3 -> {
                    AnyHandle thing = any();
                    set(thing, random.nextInt(thing.count()), of(thing));
                }
                case 4, 5, 6 -> {
                    AnyHandle thing = any();
                    thing.setTogether(() -> setSome(thing, of(thing)));
                }
                case 7 -> {
                    AnyHandle thing = any();
                    Map<String, @Nullable Object> values = new LinkedHashMap<>(of(thing));
                    assertThrows(
                            IllegalStateException.class,
                            () ->
                                    thing.setTogether(() -> {
                                        setSome(thing, values);
                                        throw new IllegalStateException("on purpose");
                                    }));
                }
                case 8 -> {
                    AnyHandle one = any();
                    AnyHandle other = any();
                    one.setTogether(() -> {
                        setSome(one, of(one));
                        other.setTogether(() -> setSome(other, of(other)));
                        setSome(one, of(one));
                    });
                }
                case 9 -> {
                    AnyHandle thing = any();
                    expected.remove(thing.reference());
                    pool.root("thing " + thing.reference(), type).set(null);
                    thing.delete();
                }
                case 10 -> {
                    pool.close();
                    handles.clear();
                    type = builds.get(random.nextInt(builds.size()));
                    pool = open();
                }
                default -> {
                    pool.retier(type);
                    pool.compact();
                }
            }
        }

        private Map<String, @Nullable Object> of(AnyHandle thing) {
            return Objects.requireNonNull(expected.get(thing.reference()));
        }

        void check() throws IOException {
            for (boolean readOnly : new boolean[] {false, true}) {
                expected.forEach((reference, values) ->
                        assertEquals(values, pool.object(type, reference).all()));
                assertEquals(List.of(), pool.check().problems());
                assertEquals(Map.of(), pool.check().leaked());
                pool.close();
                PoolOptions options = SMALL.remote(segments);
                pool = Pool.open(dir, readOnly ? options : options.toRead());
            }
        }
    }

    @Test
    void theyHoldWhatFieldsApartHold() throws IOException {
        for (int seed = 0; seed < SEEDS; seed++) {
            Run run = new Run(seed);
            try {
                for (int step = 0; step < STEPS; step++) {
                    run.step();
                }
                run.check();
            } catch (AssertionError | RuntimeException e) {
                throw new AssertionError("with seed " + seed, e);
            } finally {
                run.pool.close();
            }
            SharedMemory.delete(dir);
            Files.createDirectory(dir);
        }
    }
}
