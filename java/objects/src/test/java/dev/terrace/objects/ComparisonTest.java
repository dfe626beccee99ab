package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.internal.store.RecordingSegmentStore;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/// Texts and bytes are compared where they are stored, with the result that `equals` of the
/// getter's value has.
class ComparisonTest {
    private static final PoolOptions SMALL = PoolOptions.defaults().extents(1 << 20);

    /// Around what fits into a slot, words, slots of a chunk, and runs.
    private static final int[] LENGTHS = {
        0, 1, 5, 6, 7, 8, 9, 14, 15, 16, 17, 31, 39, 40, 41, 1023, 1024, 1025, 70_000
    };

    @TempDir(factory = InMemory.class)
    Path dir;

    /// A text that differs from others of its length at the begin, in the middle and at the end.
    private static Stream<String> ofLength(int length, char character) {
        String plain = String.valueOf(character).repeat(length);
        if (length == 0) {
            return Stream.of(plain);
        }
        return Stream.of(
                plain,
                "y" + plain.substring(1),
                plain.substring(0, length / 2) + "y" + plain.substring(length / 2 + 1),
                plain.substring(0, length - 1) + "y",
                // Its lower bytes are those of the first.
                plain.substring(0, length - 1) + (char) (character + 0x100),
                plain.substring(0, length - 1) + "\0");
    }

    private static List<@Nullable String> texts() {
        List<@Nullable String> texts = new ArrayList<>();
        texts.add(null);
        for (int length : LENGTHS) {
            ofLength(length, 'x').forEach(texts::add);
            ofLength(length, '\u00e9').forEach(texts::add);
            ofLength(length, '\u4e2d').forEach(texts::add);
        }
        texts.add("\ud83d\ude00 a pair, and one half of another \ud83d");
        return texts;
    }

    private static byte @Nullable [] bytes(@Nullable String text) {
        if (text == null) {
            return null;
        }
        byte[] bytes = new byte[text.length()];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) (text.charAt(i) ^ text.charAt(i) >>> 8);
        }
        return bytes;
    }

    private PoolOptions options() {
        return SMALL.remote(new RecordingSegmentStore(new ArrayList<>()));
    }

    private static void compareAll(Thing thing) {
        String text = thing.getText();
        byte[] bytes = thing.getBytes();
        for (String other : texts()) {
            if (text != null && other != null && Math.abs(text.length() - other.length()) > 9) {
                continue;
            }
            assertEquals(Objects.equals(text, other), thing.textEquals(other));
            byte[] others = bytes(other);
            assertEquals(Arrays.equals(bytes, others), thing.bytesEqual(others));
        }
    }

    @ParameterizedTest
    @EnumSource(value = StorageTier.class, names = "DRAM", mode = EnumSource.Mode.EXCLUDE)
    void allTextsWithAllTextsOnEachTier(StorageTier tier) throws IOException {
        PoolOptions options = options();
        if (tier == StorageTier.SSD || tier == StorageTier.HDD) {
            options = options.disk(tier, Files.createDirectory(dir.resolve("disk")));
        }
        for (boolean isChecked : new boolean[] {false, true}) {
            PoolOptions checked = isChecked ? options.withPmemChecksums() : options;
            try (Pool pool = Pool.open(dir.resolve("pool"), checked)) {
                Thing thing = pool.create(Thing.on(tier));
                for (String text : texts()) {
                    thing.setText(text);
                    thing.setBytes(bytes(text));
                    compareAll(thing);
                }
            }
        }
    }

    private static ObjectType<Thing> fixed(String name, int length, StorageTier tier) {
        return ObjectType.of(
                name,
                Thing.class,
                Thing::new,
                List.of(),
                FieldSpec.of("bytes", FieldKind.BYTES).ofLength(length).on(tier));
    }

    /// Within the record, and behind a slot, which is null until the array is set.
    @ParameterizedTest
    @EnumSource(
            value = StorageTier.class,
            names = {"PMEM", "DISK"})
    void arraysOfAFixedLengthAreCompared(StorageTier tier) throws IOException {
        ObjectType<Thing> type = fixed("Fixed", 11, tier);
        byte[] hello = "hello world".getBytes(StandardCharsets.US_ASCII);
        try (Pool pool = Pool.open(dir, SMALL)) {
            Thing thing = pool.create(type);
            for (int round = 0; round < 2; round++) {
                assertTrue(thing.bytesEqual(new byte[11]));
                assertFalse(thing.bytesEqual(new byte[10]));
                assertFalse(thing.bytesEqual(null));
                thing.setBytes(hello);
                assertFalse(thing.bytesEqual(new byte[11]));
                assertTrue(thing.bytesEqual(hello.clone()));
                thing.setBytes(new byte[11]);
                assertFalse(thing.bytesEqual(hello));
            }
        }
    }

    /// The bytes stay where they were when the class gets another tag: within the record, where
    /// they may look like any slot.
    @ParameterizedTest
    @ValueSource(bytes = {0, 0x02, 0x03, 0x0d, 0x31, 0x32, 0x68})
    void arraysOfAnotherTagAreCompared(byte first) throws IOException {
        byte[] stored = {first, 1, 2};
        List<StorageTier> tiers = List.of(StorageTier.PMEM, StorageTier.DISK);
        for (StorageTier before : tiers) {
            Path place = dir.resolve(before.name());
            try (Pool pool = Pool.open(place, SMALL)) {
                Thing thing = pool.create(fixed("Retagged", 3, before));
                thing.setBytes(stored);
                pool.root("thing", fixed("Retagged", 3, before)).set(thing);
            }
            StorageTier after = tiers.get(1 - tiers.indexOf(before));
            try (Pool pool = Pool.open(place, SMALL)) {
                Thing thing =
                        Objects.requireNonNull(
                                pool.root("thing", fixed("Retagged", 3, after)).get());
                assertTrue(thing.bytesEqual(stored));
                for (byte[] other : List.of(new byte[3], new byte[] {1, 2, 0}, new byte[] {1})) {
                    assertEquals(Arrays.equals(stored, other), thing.bytesEqual(other));
                }
            }
        }
    }

    /// Texts of an object that was stored in another form, with a field less.
    @Test
    void textsOfAnotherFormAreCompared() throws IOException {
        String text = "a text with a buffer of its own";
        ObjectType<Thing> before =
                ObjectType.of(
                        "Grown",
                        Thing.class,
                        Thing::new,
                        List.of(),
                        FieldSpec.of("bytes", FieldKind.BYTES).orNull());
        ObjectType<Thing> after = Thing.named("Grown", StorageTier.PMEM);
        byte[] bytes = text.getBytes(StandardCharsets.US_ASCII);
        try (Pool pool = Pool.open(dir, SMALL)) {
            Thing thing = pool.create(before);
            thing.setBytes(bytes);
            pool.root("thing", before).set(thing);
        }
        try (Pool pool = Pool.open(dir, SMALL)) {
            Thing thing = Objects.requireNonNull(pool.root("thing", after).get());
            assertTrue(thing.textEquals(null) && !thing.textEquals(text));
            assertTrue(thing.bytesEqual(bytes) && !thing.bytesEqual(null));
            // It lies in an extension of the object.
            thing.setText(text);
            assertTrue(thing.textEquals(text) && !thing.textEquals(null));
            assertTrue(thing.bytesEqual(bytes));
        }
    }

    @Test
    void aTransactionSeesItsOwnTextAndOthersTheOld() throws IOException {
        String before = "before".repeat(5);
        String after = "behind".repeat(5);
        try (Pool pool = Pool.open(dir, SMALL)) {
            DurablePerson person = DurablePerson.create(pool);
            person.setPlace(before);
            pool.transact(() -> {
                person.setPlace(after);
                assertTrue(person.placeEquals(after));
                assertFalse(person.placeEquals(before));
                assertTrue(CompletableFuture.supplyAsync(() -> person.placeEquals(before)).join());
                assertFalse(CompletableFuture.supplyAsync(() -> person.placeEquals(after)).join());
            });
            assertTrue(person.placeEquals(after));
            assertTrue(pool.read(() -> person.placeEquals(after)));
        }
    }

    @Test
    void goneObjectsAndClosedPoolsAreTold() throws IOException {
        String text = "a text with a buffer of its own";
        DurablePerson person;
        try (Pool pool = Pool.open(dir, SMALL)) {
            person = DurablePerson.create(pool);
            person.setPlace(text);
            DurablePerson gone = DurablePerson.create(pool);
            gone.setPlace(text);
            assertTrue(gone.placeEquals(text));
            gone.delete();
            for (String other : new @Nullable String[] {text, "x", null}) {
                assertThrows(StaleReferenceException.class, () -> gone.placeEquals(other));
            }
            assertThrows(StaleReferenceException.class, () -> gone.imageEquals(new byte[9]));
        }
        assertThrows(PoolClosedException.class, () -> person.placeEquals(text));
    }

    /// The other text takes the place that the first had.
    @Test
    void aComparisonBesideAWriterSeesWholeTextsOnly() throws IOException, InterruptedException {
        String first = "a".repeat(40);
        String second = "b".repeat(40);
        String mixed = "a".repeat(20) + "b".repeat(20);
        String mixedToo = "b".repeat(20) + "a".repeat(20);
        try (Pool pool = Pool.open(dir, SMALL)) {
            DurablePerson person = DurablePerson.create(pool);
            DurablePerson other = DurablePerson.create(pool);
            person.setPlace(first);
            Thread writer =
                    Thread.ofPlatform()
                            .start(() -> {
                                for (int i = 0; i < 20_000; i++) {
                                    person.setPlace(i % 2 == 0 ? second : first);
                                    other.setPlace(i % 2 == 0 ? mixed : mixedToo);
                                }
                            });
            while (writer.isAlive()) {
                assertFalse(person.placeEquals(mixed) || person.placeEquals(mixedToo));
            }
            writer.join();
            assertTrue(person.placeEquals(first));
        }
    }
}
