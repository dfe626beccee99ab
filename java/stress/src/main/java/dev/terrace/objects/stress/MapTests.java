package dev.terrace.objects.stress;

import dev.terrace.objects.collections.DurableMap;
import dev.terrace.objects.collections.ElementType;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.Description;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.II_Result;
import org.openjdk.jcstress.infra.results.I_Result;

/// Maps that are read beside what changes them.
public final class MapTests {
    /// The map of all tests: those of a process are of one kind.
    private static final DurableMap<Integer, Integer> MAP =
            DurableMap.root(Rig.POOL, "numbers", ElementType.INTEGER, ElementType.INTEGER);

    private MapTests() {}

    private static int get(DurableMap<Integer, Integer> map, int key) {
        Integer value = map.get(key);
        return value == null ? 0 : value;
    }

    @JCStressTest
    @Description("get beside put of the same key, which is there or not.")
    @Outcome(
            id = {"0, 1", "0, 2", "2, 1", "2, 2"},
            expect = Expect.ACCEPTABLE,
            desc = "each before or after")
    @Outcome(expect = Expect.FORBIDDEN, desc = "what nobody has put")
    @State
    public static class BesidePut {
        private final int key = 2 * Rig.nextPlace();

        public BesidePut() {
            MAP.remove(key);
            MAP.put(key + 1, 1);
        }

        @Actor
        public void put() {
            MAP.put(key, 2);
            MAP.put(key + 1, 2);
        }

        @Actor
        public void get(II_Result seen) {
            seen.r2 =
                    (int)
                            Rig.look(
                                    1,
                                    () -> {
                                        seen.r1 = MapTests.get(MAP, key);
                                        return MapTests.get(MAP, key + 1);
                                    });
        }
    }

    @JCStressTest
    @Description(
            "get of a key that is there, beside the growth of the map, and the removal of others.")
    @Outcome(id = "7", expect = Expect.ACCEPTABLE, desc = "it is there")
    @Outcome(expect = Expect.FORBIDDEN, desc = "it was not found, or is another's")
    @State
    public static class BesideGrowth {
        private static final int KEYS = 24;

        private final DurableMap<Integer, Integer> map =
                DurableMap.create(Rig.POOL, ElementType.INTEGER, ElementType.INTEGER);

        public BesideGrowth() {
            map.put(-1, 7);
        }

        @Actor
        public void grow() {
            for (int key = 0; key < KEYS; key++) {
                map.put(key, key);
            }
        }

        @Actor
        public void get(I_Result seen) {
            seen.r1 = (int) Rig.look(7, () -> MapTests.get(map, -1));
        }

        @Arbiter
        public void end() {
            map.delete();
        }
    }
}
