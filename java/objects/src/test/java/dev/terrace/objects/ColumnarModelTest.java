package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.TreeMap;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Objects in columns hold what a model holds, though their narrow fields share words with those of
/// others, and though builds of their class in rows, in columns, and with fewer fields take turns.
class ColumnarModelTest {
    private static final PoolOptions SMALL = PoolOptions.defaults().extents(1 << 20);
    private static final int SEEDS = Boolean.getBoolean("terrace.long") ? 300 : 15;
    private static final int TRANSACTIONS = 80;

    @TempDir(factory = InMemory.class)
    Path dir;

    /// A field of each kind within the record, of each that may be null, and a text.
    static ObjectType<AnyHandle> wide() {
        return type(field -> true);
    }

    private static ObjectType<AnyHandle> type(Predicate<FieldSpec> has) {
        return ObjectType.of(
                "Wide",
                AnyHandle.class,
                AnyHandle::new,
                List.of(),
                GoldenPool.Thing.TYPE.fields().stream()
                        .filter(field ->
                                field.kind() != FieldKind.REFERENCE
                                        && !field.isVolatile()
                                        && !field.name().startsWith("disk_"))
                        .filter(has)
                        .toArray(FieldSpec[]::new));
    }

    /// A pool, and what its objects must hold.
    private final class Run {
        final Random random;
        final List<ObjectType<AnyHandle>> builds =
                List.of(
                        wide().inColumns(),
                        wide(),
                        type(field -> field.name().contains("t")).inColumns());
        final Map<String, @Nullable Object> blank;
        Map<Long, Map<String, @Nullable Object>> expected = new LinkedHashMap<>();
        ObjectType<AnyHandle> type = builds.getFirst();
        Pool pool;

        Run(long seed) throws IOException {
            random = new Random(seed);
            pool = Pool.open(dir, SMALL);
            AnyHandle first = pool.create(wide());
            blank = first.all();
            first.delete();
        }

        void step(Map<Long, Map<String, @Nullable Object>> objects) {
            List<Long> all = List.copyOf(objects.keySet());
            int what = all.size() < 5 ? 0 : random.nextInt(all.size() < 60 ? 10 : 20);
            if (what <= 1) {
                long reference = pool.create(type).reference();
                objects.put(reference, new TreeMap<>(blank));
                return;
            }
            // Neighbors, more often than not.
            int among = random.nextInt(3) == 0 ? all.size() : Math.min(all.size(), 4);
            long reference = all.get(all.size() - 1 - random.nextInt(among));
            AnyHandle thing = pool.object(type, reference);
            if (what == 2) {
                thing.delete();
                objects.remove(reference);
                return;
            }
            int field = random.nextInt(thing.count());
            FieldSpec spec = thing.spec(field);
            Object value =
                    spec.nullable() && random.nextInt(4) == 0
                            ? null
                            : GoldenPool.value(spec, random.nextInt(20));
            thing.set(field, value);
            Objects.requireNonNull(objects.get(reference))
                    .put(spec.name(), GoldenPoolTest.comparable(value));
        }

        void steps(Map<Long, Map<String, @Nullable Object>> objects) {
            for (int i = random.nextInt(12); i >= 0; i--) {
                step(objects);
            }
            expect(pool, objects);
        }

        void transaction() throws IOException {
            Map<Long, Map<String, @Nullable Object>> objects = new LinkedHashMap<>();
            expected.forEach((reference, values) -> objects.put(reference, new TreeMap<>(values)));
            switch (random.nextInt(10)) {
                case 0 ->
                        assertThrows(
                                IllegalStateException.class,
                                () ->
                                        pool.transact(() -> {
                                            steps(objects);
                                            throw new IllegalStateException("on purpose");
                                        }));
                case 1, 2 -> {
                    steps(objects);
                    expected = objects;
                }
                case 3 -> reopen();
                default -> {
                    pool.transact(() -> steps(objects));
                    expected = objects;
                }
            }
            expect(pool, expected);
        }

        void reopen() throws IOException {
            if (random.nextBoolean()) {
                pool.compact();
            }
            pool.close();
            type = builds.get(random.nextInt(builds.size()));
            try (Pool reader = Pool.open(dir, SMALL.toRead())) {
                expect(reader, expected);
                assertEquals(List.of(), reader.check().problems());
            }
            pool = Pool.open(dir, SMALL);
        }

        void expect(Pool of, Map<Long, Map<String, @Nullable Object>> objects) {
            List<String> names = type.fields().stream().map(FieldSpec::name).toList();
            objects.forEach((reference, values) -> {
                Map<String, @Nullable Object> seen = new TreeMap<>(values);
                seen.keySet().retainAll(names);
                assertEquals(seen, of.object(type, reference).all());
            });
            List<Long> met = new ArrayList<>();
            for (Cursor<AnyHandle> each = of.cursor(type); each.next(); ) {
                met.add(each.get().reference());
            }
            assertEquals(
                    objects.keySet().stream().sorted().toList(), met.stream().sorted().toList());
        }
    }

    @Test
    void theyHoldWhatAModelHolds() throws IOException {
        for (int seed = 0; seed < SEEDS; seed++) {
            Run run = new Run(seed);
            try {
                for (int i = 0; i < TRANSACTIONS; i++) {
                    run.transaction();
                }
                run.reopen();
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
