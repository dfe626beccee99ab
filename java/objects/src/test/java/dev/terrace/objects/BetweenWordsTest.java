package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

/// A getter of a pool that is only read returns a committed value, or says that the object is gone,
/// after each single store of the process that writes: also between the words of a commit.
class BetweenWordsTest {
    private static final String GONE = "gone";

    private static final Map<String, Function<DurablePerson, @Nullable Object>> GETTERS =
            new TreeMap<>(
                    Map.ofEntries(
                            Map.entry("age", DurablePerson::getAge),
                            Map.entry("place", DurablePerson::getPlace),
                            Map.entry("is no place", person -> person.placeEquals(null)),
                            Map.entry("is short", person -> person.placeEquals("x")),
                            Map.entry("is long", person -> person.placeEquals(CrashTest.LONG)),
                            Map.entry(
                                    "is longer",
                                    person -> person.placeEquals(CrashTest.LONG + CrashTest.LONG)),
                            Map.entry("is name", person -> person.nameEquals(CrashTest.LONG)),
                            Map.entry("name", DurablePerson::getName),
                            Map.entry("image", person -> Arrays.hashCode(person.getImage())),
                            Map.entry("is image", person -> person.imageEquals(new byte[5000])),
                            Map.entry("height", DurablePerson::getHeight),
                            Map.entry("row", person -> Arrays.hashCode(person.getRow())),
                            Map.entry("element", person -> person.getRow(5)),
                            Map.entry("mood", DurablePerson::getMood),
                            Map.entry("balance", DurablePerson::getBalance)));

    private static String look(
            DurablePerson person, Function<DurablePerson, @Nullable Object> getter) {
        try {
            return String.valueOf(getter.apply(person));
        } catch (StaleReferenceException e) {
            return GONE;
        }
    }

    /// What each getter returns now.
    private static void lookAtAll(DurablePerson person, Map<String, Set<String>> into) {
        GETTERS.forEach((name, getter) ->
                into.computeIfAbsent(name, _ -> new HashSet<>()).add(look(person, getter)));
    }

    @ParameterizedTest
    @MethodSource("dev.terrace.objects.CrashTest#changes")
    void aGetterReturnsACommittedValueOrSaysThatTheObjectIsGone(CrashTest.Step step) {
        try (PoolRig rig = PoolRig.of(step.prepare())) {
            Map<String, Set<String>> committed = new TreeMap<>();
            Map<String, Set<String>> seen = new TreeMap<>();
            DurablePerson person = CrashTest.bob(rig.pool());
            DurablePerson same = CrashTest.bob(rig.reader());
            int[] stores = {0};
            lookAtAll(person, committed);
            rig.onCommit(() -> lookAtAll(person, committed));
            rig.onStore(() -> {
                stores[0]++;
                lookAtAll(same, seen);
            });
            step.work().accept(rig.pool());
            rig.onStore(() -> {});
            assertTrue(stores[0] > 0);
            seen.forEach((name, values) -> {
                Set<String> allowed = Objects.requireNonNull(committed.get(name));
                assertTrue(
                        allowed.containsAll(values),
                        () -> name + ": " + values + " was read, not of " + allowed);
            });
        }
    }

    /// Where two numbers of one word are.
    private enum Pairs {
        FIELDS,
        COLUMN,
        ARRAY;

        ObjectType<DurableRecord> type() {
            return switch (this) {
                case FIELDS ->
                        ObjectType.of(
                                "Pair",
                                FieldSpec.of("one", FieldKind.INT),
                                FieldSpec.of("other", FieldKind.INT));
                case COLUMN ->
                        ObjectType.of("Pair", FieldSpec.of("one", FieldKind.INT)).inColumns();
                case ARRAY ->
                        ObjectType.of("Pair", FieldSpec.of("both", FieldKind.INTS).ofLength(2));
            };
        }

        int get(List<DurableRecord> pair, int index) {
            return switch (this) {
                case FIELDS -> pair.getFirst().getInt(index);
                case COLUMN -> pair.get(index).getInt(0);
                case ARRAY -> pair.getFirst().getIntAt(0, type().offset(0), 2, index);
            };
        }

        void set(List<DurableRecord> pair, int one, int other) {
            switch (this) {
                case FIELDS -> {
                    pair.getFirst().setInt(0, one);
                    pair.getFirst().setInt(1, other);
                }
                case COLUMN -> {
                    pair.get(0).setInt(0, one);
                    pair.get(1).setInt(0, other);
                }
                case ARRAY -> pair.getFirst().setArray(0, new int[] {one, other});
            }
        }
    }

    /// A transaction that sets two numbers of one word is read whole or not at all, though a reader
    /// looks at that word twice, and the writer stores it in between.
    @ParameterizedTest
    @EnumSource(Pairs.class)
    void twoNumbersOfAWordAreOfOneCommit(Pairs where) throws Exception {
        try (PoolRig rig = new PoolRig()) {
            Pool pool = rig.pool();
            List<DurableRecord> pair =
                    pool.transact(
                            () -> List.of(pool.create(where.type()), pool.create(where.type())));
            Pool reader = rig.reader();
            List<DurableRecord> same =
                    pair.stream()
                            .map(each -> reader.object(where.type(), each.reference()))
                            .toList();
            CountDownLatch isStored = new CountDownLatch(1);
            CountDownLatch isRead = new CountDownLatch(1);
            rig.onStore(() -> {
                if (isStored.getCount() > 0 && where.get(same, 1) != 0) {
                    isStored.countDown();
                    await(isRead);
                }
            });
            Thread writer = new Thread(() -> pool.transact(() -> where.set(pair, -7, 7)));
            int sum =
                    reader.read(() -> {
                        int one = where.get(same, 0);
                        if (writer.getState() == Thread.State.NEW) {
                            writer.start();
                            await(isStored);
                        }
                        return one + where.get(same, 1);
                    });
            isRead.countDown();
            writer.join();
            assertEquals(0, sum);
            assertEquals(-7, where.get(same, 0));
        }
    }

    private static void await(CountDownLatch latch) {
        try {
            assertTrue(latch.await(60, TimeUnit.SECONDS));
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }
}
