package dev.terrace.objects.bench;

import java.io.IOException;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/// Many new keys for a map from `Long` to `Long`, which grows meanwhile ([Maps]). Times are for all
/// of them: for a million, a millisecond is a nanosecond a key.
@State(Scope.Thread)
@BenchmarkMode(Mode.SingleShotTime)
@OutputTimeUnit(TimeUnit.MILLISECONDS)
@Warmup(iterations = 5)
@Measurement(iterations = 5)
@Fork(
        value = 2,
        jvmArgsAppend = {"-Xmx2g", "--add-opens=java.base/java.nio=ALL-UNNAMED"})
public class MapFillBench {
    /// The kind of map.
    @Param({"heap", "pool", "mapdb"})
    public String map = "heap";

    /// How many keys.
    @Param("1000000")
    public int objects = 1_000_000;

    private Long[] keys = {};
    private @Nullable Maps maps;
    private Map<Long, Long> empty = Map.of();

    /// Makes an empty map.
    @Setup(Level.Iteration)
    public void setUp() throws IOException {
        keys = new Random(3).longs(objects).boxed().toArray(Long[]::new);
        maps = new Maps(map);
        empty = maps.make("empty");
    }

    /// Removes it.
    @TearDown(Level.Iteration)
    public void tearDown() throws IOException {
        Objects.requireNonNull(maps).close();
    }

    /// Puts them.
    @Benchmark
    public int fill() {
        for (Long key : keys) {
            empty.put(key, key);
        }
        return empty.size();
    }
}
