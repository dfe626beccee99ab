package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.HashSet;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.params.ParameterizedTest;
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
}
