package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.collections.DurableList;
import dev.terrace.objects.collections.DurableMap;
import dev.terrace.objects.collections.DurableTree;
import dev.terrace.objects.collections.ElementType;
import java.io.IOException;
import java.io.RandomAccessFile;
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
import java.util.Random;
import java.util.Set;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Blocks of a pool's files become zeros, ones, another block, or what they were before: a device may give any of these. Whoever reads then gets what was
/// stored, or an exception of this library's.
///
/// Numbers, references and slots in persistent memory have no checksum, so there a null, or something else that was stored at some time, may be read.
class WrongBlocksTest {
    private static final PoolOptions SMALL = PoolOptions.defaults().extents(1 << 20);
    private static final int PEOPLE = 24;
    private static final int TRIALS = Boolean.getBoolean("terrace.long") ? 20_000 : 500;
    private static final int SHIFT_MIN = 3;
    private static final int SHIFT_MAX = 20;
    private static final String REFUSED = "refused";
    private static final List<String> FILES = List.of("pool", "disk-0");

    @TempDir(factory = InMemory.class)
    Path dir;

    private final Random random = new Random(1);

    /// What becomes of a block.
    private enum Damage {
        ZEROS,
        ONES,
        ANOTHER,
        FORMER
    }

    private static String text(int i, int round) {
        return ("text " + i + " of round " + round + " ").repeat(1 + i * i % 40);
    }

    private static byte[] bytes(int i, int round) {
        int length = i == 0 ? 400_000 : 20 + i * i * 31;
        return Arrays.copyOf(text(i, round).repeat(1 + length / 15).getBytes(StandardCharsets.ISO_8859_1), length);
    }

    private static String key(int i) {
        return "a key that is longer than a slot " + i;
    }

    private static void fill(Pool pool, int round) {
        DurableList<DurablePerson> people = DurableList.root(pool, "people", ElementType.of(DurablePerson.TYPE));
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
        DurableList<DurablePerson> people = DurableList.root(pool, "people", ElementType.of(DurablePerson.TYPE));
        for (int n = 0; n < PEOPLE; n++) {
            int i = n;
            looks.put("place " + i, texts -> forPerson(people, i, person -> texts.add(person.getPlace())));
            looks.put("image " + i, texts -> forPerson(people, i, person -> texts.add(text(person.getImage()))));
            looks.put("length of image " + i, texts -> forPerson(people, i, person -> texts.add("" + pool.arrays().length(person, 1))));
            looks.put("key " + i, texts -> texts.add(map(pool).get(key(i))));
        }
        looks.put("list", texts -> DurableList.root(pool, "texts", ElementType.STRING).forEach(texts::add));
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

    private static void forPerson(DurableList<DurablePerson> people, int i, Consumer<DurablePerson> look) {
        DurablePerson person = i < people.size() ? people.get(i) : null;
        if (person != null) {
            look.accept(person);
        }
    }

    private static @Nullable String text(byte @Nullable [] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.ISO_8859_1);
    }

    /// What each look finds: texts, or what the library has to say. Another exception is none of its own, and goes on.
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

    /// The files as they were before all was written anew, and as they are.
    private record Versions(byte[] before, byte[] now) {}

    private Map<String, Versions> make(PoolOptions options) throws IOException {
        Map<String, byte[]> before = new LinkedHashMap<>();
        try (Pool pool = Pool.open(dir, options)) {
            fill(pool, 0);
        }
        for (String file : FILES) {
            before.put(file, Files.readAllBytes(dir.resolve(file)));
        }
        try (Pool pool = Pool.open(dir, options)) {
            fill(pool, 1);
        }
        Map<String, Versions> made = new LinkedHashMap<>();
        for (String file : FILES) {
            made.put(file, new Versions(before.get(file), Files.readAllBytes(dir.resolve(file))));
        }
        return made;
    }

    /// Damages a block of a file that holds something: the bytes, and where they are.
    private byte @Nullable [] damaged(Versions file, long at, int length) {
        byte[] now = Arrays.copyOfRange(file.now, (int) at, (int) at + length);
        byte[] damaged = switch (Damage.values()[random.nextInt(Damage.values().length)]) {
            case ZEROS -> new byte[length];
            case ONES -> filled(length);
            case ANOTHER -> {
                int from = random.nextInt(file.now.length / length) * length;
                yield Arrays.copyOfRange(file.now, from, from + length);
            }
            case FORMER -> at + length > file.before.length
                    ? new byte[length]
                    : Arrays.copyOfRange(file.before, (int) at, (int) at + length);
        };
        return Arrays.equals(now, damaged) ? null : damaged;
    }

    private static byte[] filled(int length) {
        byte[] ones = new byte[length];
        Arrays.fill(ones, (byte) -1);
        return ones;
    }

    private void write(String file, long at, byte[] bytes, int from, int length) throws IOException {
        try (RandomAccessFile out = new RandomAccessFile(dir.resolve(file).toFile(), "rw")) {
            out.seek(at);
            out.write(bytes, from, length);
        }
    }

    /// What is done with a pool that is damaged.
    private interface Trial {
        void run(String what, Map<String, List<String>> right) throws IOException;
    }

    /// Damages one block after the other of a file, each of another size; returns how often.
    private int damageEach(String name, PoolOptions options, Trial trial) throws IOException {
        Versions file = make(options).get(name);
        Map<String, List<String>> right = read(options.toRead());
        assertTrue(right.values().stream().noneMatch(List.of(REFUSED)::equals), right::toString);
        int trials = 0;
        while (trials < TRIALS) {
            int length = 1 << SHIFT_MIN + random.nextInt(SHIFT_MAX - SHIFT_MIN + 1);
            int at = random.nextInt(file.now.length / length) * length;
            byte[] bytes = damaged(file, at, length);
            if (bytes != null) {
                trials++;
                write(name, at, bytes, 0, length);
                String what = name + ": " + length + " bytes at " + at;
                try {
                    trial.run(what, right);
                } catch (RuntimeException | Error e) {
                    throw new AssertionError(what, e);
                }
                write(name, at, file.now, at, length);
            }
        }
        assertEquals(right, read(options.toRead()));
        return trials;
    }

    private static PoolOptions options(boolean checksPmem) {
        return checksPmem ? SMALL.withPmemChecksums() : SMALL;
    }

    @Test
    void whatADiskGivesIsRightOrRefused() throws IOException {
        int[] refused = {0};
        damageEach("disk-0", SMALL, (what, right) -> {
            Map<String, List<String>> found = read(SMALL.toRead());
            boolean isRefused = false;
            for (Map.Entry<String, List<String>> each : found.entrySet()) {
                if (each.getValue().equals(List.of(REFUSED))) {
                    isRefused = true;
                } else {
                    assertEquals(right.get(each.getKey()), each.getValue(), what);
                }
            }
            refused[0] += isRefused ? 1 : 0;
            assertTrue(!isRefused || problems() > 0, () -> what + " is read as damaged, and check says that all is sound");
        });
        assertTrue(refused[0] > TRIALS / 10, refused[0] + " of " + TRIALS + " were noticed");
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
    void whatPersistentMemoryGivesIsNoneOfNobodysIfItIsChecked(boolean checksPmem) throws IOException {
        PoolOptions options = options(checksPmem);
        int[] refused = {0};
        damageEach("pool", options, (what, right) -> {
            Map<String, List<String>> found = read(options.toRead());
            refused[0] += found.containsValue(List.of(REFUSED)) || problems() > 0 ? 1 : 0;
            found.forEach((name, texts) -> texts.forEach(text -> {
                boolean isStored = text == null || text.equals(REFUSED) || name.startsWith("length") || stored().contains(text);
                assertTrue(!checksPmem || isStored, () -> what + ": " + name + " gives what nobody has stored: " + text);
            }));
        });
        assertTrue(refused[0] > TRIALS / 10, refused[0] + " of " + TRIALS + " were noticed");
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
