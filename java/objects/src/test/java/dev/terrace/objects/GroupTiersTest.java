package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.terrace.objects.internal.store.RecordingSegmentStore;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// The tiers of fields that share a slot, and what profiles say of them.
class GroupTiersTest {
    private static final PoolOptions SMALL = PoolOptions.defaults().extents(1 << 20);
    private static final List<StorageTier> DISK = List.of(StorageTier.DISK);
    private static final List<StorageTier> PMEM = List.of(StorageTier.PMEM);

    private static final FieldSpec ONE =
            FieldSpec.of("one", FieldKind.LONGS).ofLength(4).on(StorageTier.SSD).inGroup();
    private static final FieldSpec OTHER =
            FieldSpec.of("other", FieldKind.LONGS).ofLength(4).on(StorageTier.SSD).inGroup();

    /// The bytes of both fields together on a disk.
    private static final long SIZE = StoredSize.onDisk(64);

    @TempDir(factory = InMemory.class)
    Path dir;

    private static ObjectType<AnyHandle> type(FieldSpec... fields) {
        return ObjectType.of("Thing", AnyHandle.class, AnyHandle::new, List.of(), fields);
    }

    private static FieldSpec onHdd(FieldSpec field) {
        return field.on(StorageTier.HDD).inGroup();
    }

    private static long onDisk(Pool pool) {
        return pool.statistics().used().get(1);
    }

    private Pool open() throws IOException {
        return Pool.open(dir, SMALL.disk(StorageTier.SSD, dir).disk(StorageTier.HDD, dir));
    }

    private long make(ObjectType<AnyHandle> type) throws IOException {
        try (Pool pool = open()) {
            AnyHandle thing = pool.create(type);
            thing.set(0, new long[] {1, 2, 3, 4});
            thing.set(1, new long[] {1, 2, 3, 4});
            assertEquals(List.of(SIZE, 0L), pool.statistics().used().subList(1, 3));
            return thing.reference();
        }
    }

    @Test
    void aGroupIsPlacedAsAWhole() throws IOException {
        ObjectType<AnyHandle> type =
                type(
                        FieldSpec.of("one", FieldKind.LONG).on(StorageTier.DISK).inGroup(),
                        FieldSpec.of("other", FieldKind.LONG).on(StorageTier.DISK).inGroup(),
                        FieldSpec.of("text", FieldKind.STRING).on(StorageTier.DISK).orNull());
        try (Pool pool = Pool.open(dir, SMALL)) {
            AnyHandle thing = pool.create(type);
            thing.fill(3);
            IllegalArgumentException refused =
                    assertThrows(
                            IllegalArgumentException.class,
                            () -> pool.place(Map.of("Thing", Map.of("one", PMEM, "text", PMEM))));
            assertEquals(
                    "fields one and other of Thing share a buffer: name all of [one, other] with"
                            + " the same tiers, or none",
                    refused.getMessage());
            assertEquals(Map.of(), pool.placements());
            assertThrows(
                    IllegalArgumentException.class,
                    () -> pool.place(Map.of("Thing", Map.of("one", PMEM, "other", DISK))));
            Map<String, @Nullable Object> before = thing.all();
            long disk = onDisk(pool);
            pool.place(Map.of("Thing", Map.of("one", PMEM, "other", PMEM)));
            assertEquals(StoredSize.onDisk(16), disk - onDisk(pool), "it has moved");
            assertEquals(before, thing.all());
            thing.set(1, 77L);
            assertEquals(StoredSize.onDisk(16), disk - onDisk(pool), "it stays there");
            pool.place(Map.of("Thing", Map.of()));
            assertEquals(disk, onDisk(pool));
            assertEquals(77L, thing.get(1));
        }
    }

    @Test
    void anOldGroupFollowsTheTagsOfItsFirstField() throws IOException {
        long reference = make(type(ONE, OTHER));
        try (Pool pool = open()) {
            ObjectType<AnyHandle> now = type(ONE, onHdd(OTHER));
            pool.object(now, reference).set(1, new long[] {5, 6, 7, 8});
            pool.retier(now);
            assertEquals(List.of(SIZE, 0L), pool.statistics().used().subList(1, 3));
            assertEquals(List.of(5L, 6L, 7L, 8L), pool.object(now, reference).get(1));
        }
        try (Pool pool = open()) {
            ObjectType<AnyHandle> now = type(onHdd(ONE), OTHER);
            pool.object(now, reference).set(1, new long[] {5, 6, 7, 8});
            assertEquals(List.of(0L, SIZE), pool.statistics().used().subList(1, 3));
        }
    }

    @Test
    void anOldGroupFollowsTheFirstFieldThatIsLeft() throws IOException {
        long reference = make(type(ONE, OTHER));
        try (Pool pool = open()) {
            ObjectType<AnyHandle> now = type(onHdd(OTHER), FieldSpec.of("third", FieldKind.LONG));
            pool.retier(now);
            assertEquals(List.of(0L, SIZE), pool.statistics().used().subList(1, 3));
            pool.object(now, reference).set(0, new long[] {5, 6, 7, 8});
            assertEquals(List.of(0L, SIZE), pool.statistics().used().subList(1, 3));
        }
    }

    @Test
    void aFieldIsFoundByNamesThatOnlyThePoolKnows() throws IOException {
        long reference = make(type(ONE, OTHER));
        FieldSpec renamed =
                FieldSpec.of("renamed", FieldKind.LONGS).ofLength(4).on(StorageTier.SSD).inGroup();
        try (Pool pool = open()) {
            pool.create(type(renamed.formerly("one"), OTHER));
        }
        try (Pool pool = open()) {
            ObjectType<AnyHandle> now = type(onHdd(renamed), onHdd(OTHER));
            pool.retier(now);
            assertEquals(List.of(0L, SIZE), pool.statistics().used().subList(1, 3));
            pool.object(now, reference).set(1, new long[] {5, 6, 7, 8});
            assertEquals(List.of(0L, SIZE), pool.statistics().used().subList(1, 3));
        }
    }

    @Test
    void aProfileTellsSizesWithoutReadingTheGroup() throws IOException {
        RecordingSegmentStore segments = new RecordingSegmentStore(new ArrayList<>());
        PoolOptions options = SMALL.remote(segments);
        ObjectType<AnyHandle> type =
                type(
                        FieldSpec.of("number", FieldKind.LONG).on(StorageTier.REMOTE).inGroup(),
                        FieldSpec.of("maybe", FieldKind.INT)
                                .on(StorageTier.REMOTE)
                                .orNull()
                                .inGroup(),
                        FieldSpec.of("text", FieldKind.STRING)
                                .on(StorageTier.REMOTE)
                                .orNull()
                                .inGroup());
        try (Pool pool = Pool.open(dir, options)) {
            AnyHandle thing = pool.create(type);
            thing.setTogether(() -> {
                thing.set(0, 5L);
                thing.set(2, "x".repeat(99));
            });
        }
        try (Pool pool = Pool.open(dir, options)) {
            segments.reachable(false);
            int before = segments.reads();
            List<FieldProfile> fields = pool.profile().profile().classes().getFirst().fields();
            assertEquals(
                    List.of(8.0, 4.0, 100.0),
                    fields.stream().map(FieldProfile::bytesStored).toList());
            assertEquals(before, segments.reads());
        }
    }
}
