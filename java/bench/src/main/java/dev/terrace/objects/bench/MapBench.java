package dev.terrace.objects.bench;

import java.io.IOException;
import java.util.Arrays;
import java.util.Collections;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/// Maps from `Long` to `Long`: one in a pool beside one on the heap, and MapDB's ([Maps]). Times
/// are for one call, with keys that are there, in random order.
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 5, time = 1)
@Measurement(iterations = 5, time = 1)
@Fork(
        value = 2,
        jvmArgsAppend = {"-Xmx2g", "--add-opens=java.base/java.nio=ALL-UNNAMED"})
public class MapBench {
    /// The kind of map.
    @Param({"heap", "pool", "mapdb", "mapdb-commit"})
    public String map = "heap";

    /// How many keys.
    @Param("1000000")
    public int objects = 1_000_000;

    private Long[] keys = {};
    private int next;
    private @Nullable Maps maps;
    private Map<Long, Long> filled = Map.of();

    /// Makes the map, and keys in random order.
    @Setup
    public void setUp() throws IOException {
        Random random = new Random(3);
        keys = random.longs(objects).boxed().toArray(Long[]::new);
        maps = new Maps(map);
        filled = maps.make("filled");
        for (Long key : keys) {
            filled.put(key, key);
        }
        maps.commit();
        Collections.shuffle(Arrays.asList(keys), random);
    }

    /// Removes it.
    @TearDown
    public void tearDown() throws IOException {
        Objects.requireNonNull(maps).close();
    }

    private Long key() {
        next = next + 1 == keys.length ? 0 : next + 1;
        return keys[next];
    }

    /// The value of a key that is there.
    @Benchmark
    public @Nullable Long get() {
        return filled.get(key());
    }

    /// Another value for a key that is there.
    @Benchmark
    public @Nullable Long put() {
        Long key = key();
        Long old = filled.put(key, key + next);
        Objects.requireNonNull(maps).commit();
        return old;
    }
}
