package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.collections.DurableList;
import dev.terrace.objects.collections.DurableMap;
import dev.terrace.objects.collections.DurableTree;
import dev.terrace.objects.collections.ElementType;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Reading a pool whose device gives [WrongBlocks] gives the stored values, or an exception of this
/// library's.
///
/// Numbers, references and slots in persistent memory have no checksum, so there a null, or
/// something else that was stored at some time, may be read.
class WrongBlocksTest {
    private static final PoolOptions SMALL = PoolOptions.defaults().extents(1 << 20);
    private static final int PEOPLE = 24;
    private static final String REFUSED = "refused";

    @TempDir(factory = InMemory.class)
    Path dir;

    private static String text(int i, int round) {
        return ("text " + i + " of round " + round + " ").repeat(1 + i * i % 40);
    }

    private static byte[] bytes(int i, int round) {
        int length = i == 0 ? 400_000 : 20 + i * i * 31;
        return Arrays.copyOf(
                text(i, round).repeat(1 + length / 15).getBytes(StandardCharsets.ISO_8859_1),
                length);
    }

    private static String key(int i) {
        return "a key that is longer than a slot " + i;
    }

    private static void fill(Pool pool, int round) {
        DurableList<DurablePerson> people =
                DurableList.root(pool, "people", ElementType.of(DurablePerson.TYPE));
        DurableList<String> texts = DurableList.root(pool, "texts", ElementType.STRING);
        texts.clear();
        for (int i = 0; i < PEOPLE; i++) {
            if (people.size() == i) {
                people.add(DurablePerson.create(pool));
            }
            DurablePerson person = people.get(i);
            person.setPlace(text(i, round));
            person.setImage(bytes(i, round));
            texts.add(text(i + PEOPLE, round));
            map(pool).put(key(i), text(i, round));
            tree(pool).put(i, text(i, round));
        }
    }

    /// What looks at one thing that a pool holds.
    private interface Look {
        void into(List<String> texts);
    }

    /// All that is read, each on its own.
    private static Map<String, Look> looks(Pool pool) {
        Map<String, Look> looks = new LinkedHashMap<>();
        DurableList<DurablePerson> people =
                DurableList.root(pool, "people", ElementType.of(DurablePerson.TYPE));
        for (int n = 0; n < PEOPLE; n++) {
            int i = n;
            looks.put(
                    "place " + i,
                    texts -> forPerson(people, i, person -> texts.add(person.getPlace())));
            looks.put(
                    "image " + i,
                    texts -> forPerson(people, i, person -> texts.add(text(person.getImage()))));
            looks.put(
                    "length of image " + i,
                    texts ->
                            forPerson(
                                    people,
                                    i,
                                    person -> texts.add("" + pool.arrays().length(person, 1))));
            looks.put("key " + i, texts -> texts.add(map(pool).get(key(i))));
        }
        looks.put(
                "list",
                texts -> DurableList.root(pool, "texts", ElementType.STRING).forEach(texts::add));
        looks.put("keys", texts -> map(pool).keySet().forEach(texts::add));
        looks.put("tree", texts -> tree(pool).values().forEach(texts::add));
        return looks;
    }

    private static DurableMap<String, String> map(Pool pool) {
        return DurableMap.root(pool, "map", ElementType.STRING, ElementType.STRING);
    }

    private static DurableTree<Integer, String> tree(Pool pool) {
        return DurableTree.root(pool, "tree", ElementType.INTEGER, ElementType.STRING);
    }

    private static void forPerson(
            DurableList<DurablePerson> people, int i, Consumer<DurablePerson> look) {
        DurablePerson person = i < people.size() ? people.get(i) : null;
        if (person != null) {
            look.accept(person);
        }
    }

    private static @Nullable String text(byte @Nullable [] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.ISO_8859_1);
    }

    /// What each look finds: texts, or what the library has to say. Another exception is none of
    /// its own, and goes on.
    private Map<String, List<String>> read(PoolOptions options) throws IOException {
        Map<String, List<String>> found = new LinkedHashMap<>();
        try (Pool pool = Pool.open(dir, options)) {
            looks(pool).forEach((name, look) -> found.put(name, outcome(look)));
        } catch (TerraceException refused) {
            return Map.of("pool", List.of(REFUSED));
        }
        return found;
    }

    private static List<String> outcome(Look look) {
        List<String> texts = new ArrayList<>();
        try {
            look.into(texts);
        } catch (TerraceException refused) {
            return List.of(REFUSED);
        }
        return texts;
    }

    /// Makes a pool, in which all was written anew, and what its files are damaged by.
    private WrongBlocks make(String file, PoolOptions options) throws IOException {
        try (Pool pool = Pool.open(dir, options)) {
            fill(pool, 0);
        }
        byte[] before = Files.readAllBytes(dir.resolve(file));
        try (Pool pool = Pool.open(dir, options)) {
            fill(pool, 1);
        }
        return new WrongBlocks(dir.resolve(file), before);
    }

    @Test
    void whatADiskGivesIsRightOrRefused() throws IOException {
        int[] refused = {0};
        WrongBlocks blocks = make("disk-0", SMALL);
        Map<String, List<String>> right = read(SMALL.toRead());
        blocks.forEach(what -> {
            boolean isRefused = false;
            for (Map.Entry<String, List<String>> each : read(SMALL.toRead()).entrySet()) {
                if (each.getValue().equals(List.of(REFUSED))) {
                    isRefused = true;
                } else {
                    assertEquals(right.get(each.getKey()), each.getValue(), what);
                }
            }
            refused[0] += isRefused ? 1 : 0;
            assertTrue(
                    !isRefused || problems() > 0,
                    () -> what + " is read as damaged, and check says that all is sound");
        });
        assertTrue(refused[0] > WrongBlocks.TRIALS / 5, refused[0] + " were noticed");
        assertEquals(right, read(SMALL.toRead()));
    }

    /// How many problems a check finds; that the pool cannot be looked at is one.
    private int problems() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL.toRead())) {
            return pool.check().problems().size();
        } catch (TerraceException refused) {
            return 1;
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void whatPersistentMemoryGivesWasStoredIfItIsChecked(boolean isChecked) throws IOException {
        PoolOptions options = isChecked ? SMALL.withPmemChecksums() : SMALL;
        int[] refused = {0};
        WrongBlocks blocks = make("pool", options);
        Map<String, List<String>> right = read(options.toRead());
        blocks.forEach(what -> {
            Map<String, List<String>> found = read(options.toRead());
            refused[0] += found.containsValue(List.of(REFUSED)) || problems() > 0 ? 1 : 0;
            found.forEach((name, texts) ->
                    texts.forEach(text -> {
                        boolean wasStored =
                                text == null
                                        || text.equals(REFUSED)
                                        || name.startsWith("length")
                                        || stored().contains(text);
                        assertTrue(
                                !isChecked || wasStored,
                                () ->
                                        what
                                                + ": "
                                                + name
                                                + " gives what nobody has stored: "
                                                + text);
                    }));
        });
        assertTrue(refused[0] > WrongBlocks.TRIALS / 5, refused[0] + " were noticed");
        assertEquals(right, read(options.toRead()));
    }

    /// A record that stands in another's place has a header of that type and generation.
    @Test
    void aRecordInAnothersPlaceIsRefused() throws IOException {
        long[] records = new long[2];
        try (Pool pool = Pool.open(dir, SMALL)) {
            for (int i = 0; i < records.length; i++) {
                DurablePerson person = DurablePerson.create(pool);
                person.setAge(i);
                pool.root("person " + i, DurablePerson.TYPE).set(person);
                records[i] = person.record();
            }
        }
        byte[] bytes = Files.readAllBytes(dir.resolve("pool"));
        int length = (int) StoredSize.record(DurablePerson.TYPE.fields());
        System.arraycopy(bytes, (int) records[0], bytes, (int) records[1], length);
        Files.write(dir.resolve("pool"), bytes);
        try (Pool pool = Pool.open(dir, SMALL.toRead())) {
            assertEquals(
                    0,
                    Objects.requireNonNull(pool.root("person 0", DurablePerson.TYPE).get())
                            .getAge());
            assertThrows(
                    PoolDamagedException.class,
                    () -> pool.root("person 1", DurablePerson.TYPE).get());
            Cursor<DurablePerson> cursor = pool.cursor(DurablePerson.TYPE);
            assertTrue(cursor.next());
            assertThrows(PoolDamagedException.class, cursor::next);
            assertFalse(pool.check().problems().isEmpty());
        }
    }

    private final Set<String> stored = new HashSet<>();

    /// All that was ever stored.
    private Set<String> stored() {
        if (stored.isEmpty()) {
            for (int round = 0; round < 2; round++) {
                for (int i = 0; i < 2 * PEOPLE; i++) {
                    stored.add(text(i, round));
                    stored.add(Objects.requireNonNull(text(bytes(i, round))));
                    stored.add(key(i));
                }
            }
        }
        return stored;
    }
}
