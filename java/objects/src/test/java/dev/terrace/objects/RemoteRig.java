package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.terrace.objects.internal.store.RecordingSegmentStore;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.junit.jupiter.api.io.TempDir;

/// A pool with a remote tier that is kept in memory.
abstract class RemoteRig {
    static final ObjectType<Thing> THING = Thing.on(StorageTier.REMOTE);
    static final String LABEL_END = "-0000000000000000.segment";

    @TempDir(factory = InMemory.class)
    Path dir;

    final RecordingSegmentStore segments = new RecordingSegmentStore(new ArrayList<>());
    final PoolOptions options = PoolOptions.defaults().extents(1 << 20).remote(segments);

    static byte[] bytes(int seed, int length) {
        byte[] bytes = new byte[length];
        Arrays.fill(bytes, (byte) seed);
        return bytes;
    }

    static Thing thing(Pool pool, String root) {
        return Objects.requireNonNull(pool.root(root, THING).get());
    }

    static Thing make(Pool pool, String root, byte[] bytes) {
        return pool.transact(() -> {
            Thing thing = pool.create(THING);
            thing.setBytes(bytes);
            pool.root(root, THING).set(thing);
            return thing;
        });
    }

    /// Segments that hold values.
    List<String> names() {
        return segments.segments().keySet().stream()
                .filter(name -> !name.endsWith(LABEL_END))
                .toList();
    }

    void flip(String name, int at) {
        segments.segments()
                .computeIfPresent(
                        name,
                        (_, bytes) -> {
                            byte[] damaged = bytes.clone();
                            damaged[at] ^= 1;
                            return damaged;
                        });
    }

    static void expectSound(Pool pool) {
        assertEquals(List.of(), pool.check().problems());
    }

    static List<Long> remoteUse(Pool pool) {
        return List.of(pool.statistics().used().getLast(), pool.statistics().capacity().getLast());
    }
}
