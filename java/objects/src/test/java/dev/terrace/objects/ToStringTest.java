package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.collections.DurableArray;
import dev.terrace.objects.collections.DurableCollection;
import dev.terrace.objects.collections.DurableList;
import dev.terrace.objects.collections.DurableMap;
import dev.terrace.objects.collections.DurableSet;
import dev.terrace.objects.collections.DurableSortedSet;
import dev.terrace.objects.collections.DurableTree;
import dev.terrace.objects.collections.ElementType;
import java.io.IOException;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.ReentrantLock;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// The text of whatever a program holds of a pool can be asked for at any time, as debuggers and
/// logs do: nothing is thrown, and nothing changes.
class ToStringTest {
    private static final PoolOptions SMALL = PoolOptions.defaults().extents(1 << 20);
    private static final ObjectType<Thing> THING = Thing.on(StorageTier.PMEM);
    private static final ElementType<Thing> THINGS = ElementType.of(THING);
    private static final String LONG = "a text that is longer than a slot holds ";

    @TempDir(factory = InMemory.class)
    Path dir;

    private Pool open() throws IOException {
        return Pool.open(dir.resolve("pool"), SMALL);
    }

    /// One of each that a program can have of a pool, with all views.
    private static List<Object> samples(Pool pool) {
        Thing thing = pool.create(THING);
        thing.setText(LONG);
        DurableList<String> texts = DurableList.create(pool, ElementType.STRING, StorageTier.DISK);
        DurableArray<Thing> array = DurableArray.create(pool, THINGS, 3);
        DurableMap<String, Thing> map = DurableMap.create(pool, ElementType.STRING, THINGS);
        DurableTree<Integer, String> tree =
                DurableTree.create(pool, ElementType.INTEGER, ElementType.STRING, StorageTier.DISK);
        for (int i = 0; i < 40; i++) {
            texts.add(LONG + i);
            tree.put(i, LONG + i);
            map.put(LONG + i, thing);
        }
        array.set(1, thing);
        DurableSet<String> set = DurableSet.create(pool, ElementType.STRING);
        set.add(LONG);
        DurableSortedSet<Integer> sortedSet = DurableSortedSet.create(pool, ElementType.INTEGER);
        sortedSet.addAll(List.of(1, 2, 3));
        List<Object> samples =
                new ArrayList<>(List.of(pool, thing, texts, array, map, tree, set, sortedSet));
        samples.addAll(List.of(pool.root("thing", THING), pool.cursor(THING), THING, THINGS));
        samples.addAll(List.of(sortedSet.headSet(2), ValueType.INSTANT));
        samples.addAll(
                List.of(
                        texts.subList(1, 3),
                        texts.subList(1, 9).subList(2, 4),
                        array.subList(0, 2)));
        samples.addAll(
                List.of(
                        map.keySet(),
                        map.values(),
                        map.entrySet(),
                        map.entrySet().iterator().next()));
        for (Map<Integer, String> each : List.of(tree, tree.descendingMap(), tree.subMap(2, 9))) {
            samples.addAll(
                    List.of(
                            each,
                            each.keySet(),
                            each.values(),
                            each.entrySet(),
                            each.entrySet().iterator().next()));
        }
        samples.addAll(
                List.of(texts.iterator(), map.entrySet().iterator(), tree.keySet().iterator()));
        return samples;
    }

    private static void allHaveTexts(List<Object> samples) {
        for (Object sample : samples) {
            String text =
                    assertDoesNotThrow(sample::toString, () -> "toString of " + sample.getClass());
            assertTrue(text != null && !text.isEmpty(), sample.getClass()::toString);
        }
    }

    /// Of `[<unreadable>] (PoolClosedException: ...)` the reason.
    private static void isUnreadable(Class<? extends Throwable> why, Object sample) {
        String text = sample.toString();
        assertTrue(
                text.matches(
                        "(?s)([\\[{])(.*, )?<unreadable>[]}] [(]"
                                + why.getSimpleName()
                                + ": .*[)]"),
                text);
    }

    @Test
    void aClosedPoolIsSaidToBe() throws IOException {
        List<Object> samples;
        try (Pool pool = open()) {
            samples = samples(pool);
            allHaveTexts(samples);
            assertTrue(
                    samples.get(2).toString().startsWith("[" + LONG + "0, " + LONG + "1, "),
                    samples.get(2)::toString);
        }
        allHaveTexts(samples);
        samples.subList(2, 8).forEach(each -> isUnreadable(PoolClosedException.class, each));
    }

    @Test
    void whatIsDeletedIsSaidToBe() throws IOException {
        try (Pool pool = open()) {
            List<Object> samples = samples(pool);
            ((Thing) samples.get(1)).delete();
            allHaveTexts(samples);
            isUnreadable(StaleReferenceException.class, samples.get(3));
            for (Object each : samples.subList(2, 8)) {
                ((DurableCollection) each).delete();
            }
            pool.transact(() -> {
                allHaveTexts(samples);
                pool.create(THING);
            });
            assertEquals(
                    1,
                    pool.check().objects().size() + pool.check().leaked().size(),
                    "the transaction has committed");
            samples.subList(2, 8)
                    .forEach(each -> isUnreadable(StaleReferenceException.class, each));
        }
    }

    @Test
    void whatWasRolledBackHasATextToo() throws IOException {
        try (Pool pool = open()) {
            List<Object> samples = new ArrayList<>();
            assertThrows(
                    IllegalStateException.class,
                    () ->
                            pool.transact(() -> {
                                samples.addAll(samples(pool));
                                allHaveTexts(samples);
                                // Nobody else sees it yet.
                                CompletableFuture.runAsync(() -> allHaveTexts(samples)).join();
                                throw new IllegalStateException("changed my mind");
                            }));
            allHaveTexts(samples);
            isUnreadable(StaleReferenceException.class, samples.get(2));
        }
    }

    @Test
    void aRangeThatIsOutOfDateHasATextToo() throws IOException {
        try (Pool pool = open()) {
            DurableList<String> texts = DurableList.create(pool, ElementType.STRING);
            texts.addAll(List.of("a", "b", "c"));
            List<String> some = texts.subList(1, 3);
            assertEquals("[b, c]", some.toString());
            texts.clear();
            assertTrue(
                    some.toString().startsWith("[<unreadable>] (ConcurrentModificationException"),
                    some::toString);
        }
    }

    @Test
    void aTextEndsWhereNobodyReadsIt() throws IOException {
        try (Pool pool = open()) {
            DurableArray<Long> array = DurableArray.create(pool, ElementType.LONG, 10_000_000);
            String text = array.toString();
            assertTrue(
                    text.startsWith("[null, null, ") && text.endsWith(", ...]"),
                    () -> "it has " + text.length());
            DurableMap<String, String> map =
                    DurableMap.create(pool, ElementType.STRING, ElementType.STRING);
            map.put("a", "b");
            assertEquals("{a=b}", map.toString());
        }
    }

    @Test
    void aFileThatWasCutOffIsSaidToBe() throws IOException {
        try (Pool pool = open()) {
            List<Object> samples = samples(pool);
            try (FileChannel disk =
                    FileChannel.open(
                            dir.resolve("pool").resolve("disk-0"), StandardOpenOption.WRITE)) {
                disk.truncate(4096);
            }
            allHaveTexts(samples);
            isUnreadable(PoolDamagedException.class, samples.get(2));
        }
    }

    /// Each look is at a pool of which one place is damaged: where its bytes were something else,
    /// zeros, or ones.
    @Test
    void damageHasATextToo() throws IOException {
        int rounds = Boolean.getBoolean("terrace.long") ? 20_000 : 300;
        Random random = new Random(14);
        try (Pool pool = open()) {
            List<Object> samples = samples(pool);
            int unreadable = 0;
            for (String name : List.of("pool", "disk-0")) {
                try (FileChannel file =
                        FileChannel.open(
                                dir.resolve("pool").resolve(name),
                                StandardOpenOption.READ,
                                StandardOpenOption.WRITE)) {
                    List<Long> used = usedWords(file);
                    for (int round = 0; round < rounds; round++) {
                        long at = used.get(random.nextInt(used.size()));
                        ByteBuffer before = ByteBuffer.allocate(Long.BYTES);
                        file.read(before, at);
                        byte[] bytes = new byte[Long.BYTES];
                        switch (random.nextInt(3)) {
                            case 0 -> random.nextBytes(bytes);
                            case 1 -> Arrays.fill(bytes, (byte) -1);
                            default -> bytes[0] = 0;
                        }
                        file.write(ByteBuffer.wrap(bytes), at);
                        allHaveTexts(samples);
                        unreadable +=
                                samples.stream()
                                                .anyMatch(each ->
                                                        each.toString().contains("<unreadable>"))
                                        ? 1
                                        : 0;
                        file.write(before.flip(), at);
                    }
                }
            }
            assertTrue(unreadable > rounds / 20, "the damage is seen: " + unreadable);
        }
    }

    /// The words behind the first block that are not zero.
    private static List<Long> usedWords(FileChannel file) throws IOException {
        ByteBuffer all = ByteBuffer.allocate((int) file.size());
        file.read(all, 0);
        List<Long> used = new ArrayList<>();
        for (int at = 4096; at < all.limit(); at += Long.BYTES) {
            if (all.getLong(at) != 0) {
                used.add((long) at);
            }
        }
        return used;
    }

    /// Their texts look at no pool.
    private static final Set<Class<?>> OF_THE_JDK = Set.of(Object.class, ReentrantLock.class);

    /// Every class with a text of its own, or an inherited one that walks over elements, is among
    /// the samples.
    @Test
    void eachClassWithATextIsAmongTheSamples() throws Exception {
        Path classes =
                Path.of(Pool.class.getProtectionDomain().getCodeSource().getLocation().toURI());
        Set<Class<?>> sampled = new HashSet<>();
        try (Pool pool = open()) {
            samples(pool).forEach(each -> sampled.add(each.getClass()));
        }
        List<String> names;
        try (Stream<Path> files = Files.walk(classes)) {
            names =
                    files.map(file -> classes.relativize(file).toString())
                            .filter(name ->
                                    name.endsWith(".class") && !name.endsWith("-info.class"))
                            .map(name ->
                                    name.substring(0, name.length() - ".class".length())
                                            .replace('/', '.'))
                            .toList();
        }
        assertTrue(names.size() > 100, classes::toString);
        List<Class<?>> missing = new ArrayList<>();
        for (String name : names) {
            Class<?> each = Class.forName(name, false, Pool.class.getClassLoader());
            boolean hasText =
                    !each.isInterface()
                            && !each.isRecord()
                            && !each.isEnum()
                            && !each.isAnnotation()
                            && !Throwable.class.isAssignableFrom(each)
                            && !Modifier.isAbstract(each.getModifiers())
                            && !OF_THE_JDK.contains(each.getMethod("toString").getDeclaringClass());
            if (hasText && !sampled.contains(each)) {
                missing.add(each);
            }
        }
        assertEquals(List.of(), missing, "toString of these is not tried");
    }
}
