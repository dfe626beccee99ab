package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.collections.DurableList;
import dev.terrace.objects.collections.DurableMap;
import dev.terrace.objects.collections.DurableTree;
import dev.terrace.objects.collections.ElementType;
import dev.terrace.objects.internal.store.Buffers;
import dev.terrace.objects.internal.store.References;
import dev.terrace.objects.internal.store.Region;
import dev.terrace.objects.internal.store.Store;
import dev.terrace.objects.internal.store.Superblock;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.util.List;
import java.util.Objects;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/// Damage that leaves every header, length and checksum as it was: check finds it nevertheless.
class CheckFindsTest {
    private static final int STATE_AT = 24;
    private static final int ROOT_AT = 32;
    private static final int HEADER_BYTES = 8;
    private static final int TREE_KEYS_AT = 24;
    private static final int BUCKET_BYTES = 16 * 8;

    private PoolDir dir = new PoolDir();
    private Pool pool = dir.pool();

    /// Damage, and what is said of it.
    private record Damage(
            String name, String said, java.util.function.Consumer<CheckFindsTest> action) {
        @Override
        public String toString() {
            return name;
        }
    }

    @BeforeEach
    void fill() {
        pool.transact(() -> {
            DurablePerson bob = DurablePerson.create(pool);
            bob.setPlace("a place that has a buffer of its own");
            bob.setImage(new byte[300]);
            bob.setMood(DurablePerson.Mood.GOOD);
            bob.setBalance(1L << 40);
            pool.root("bob", DurablePerson.TYPE).set(bob);
            DurableTree<Integer, String> tree =
                    DurableTree.root(pool, "tree", ElementType.INTEGER, ElementType.STRING);
            DurableMap<Long, Integer> map =
                    DurableMap.root(pool, "map", ElementType.LONG, ElementType.INTEGER);
            DurableList<Integer> list = DurableList.root(pool, "list", ElementType.INTEGER);
            DurableList<String> texts = DurableList.root(pool, "texts", ElementType.STRING);
            for (int i = 0; i < 40; i++) {
                tree.put(i, "text " + i);
                map.put((long) i, i);
                list.add(i);
                texts.add("a text that has a buffer of its own " + i);
            }
        });
        assertEquals(List.of(), pool.check().problems());
    }

    @AfterEach
    void delete() {
        dir.close();
    }

    private Region pmem() {
        return pool.store().pmem();
    }

    private void set(long at, long value) {
        pmem().putLong(at, value);
    }

    private long get(long at) {
        return pmem().getLong(at);
    }

    private long record(String root) {
        return References.recordOf(pool.rootReference(root));
    }

    /// The first node of a collection that has no levels, or whose root is a node.
    private long node(String root) {
        return get(record(root) + ROOT_AT) & -16;
    }

    private long field(String name) {
        List<FieldSpec> fields = DurablePerson.TYPE.fields();
        int index = 0;
        while (!fields.get(index).name().equals(name)) {
            index++;
        }
        return record("bob") + Layout.of(fields).offsets()[index];
    }

    /// The first word of the bytes of the buffer that a slot leads to.
    private static long bytesAt(long slot) {
        return Objects.requireNonNull(Buffers.place(slot)).offset() + 16;
    }

    private void add(long at, long more) {
        set(at, get(at) + more);
    }

    /// The first bucket of the map that has an entry: the flags, and 16 bytes behind them the first
    /// key.
    private long bucket() {
        long bucket = node("map") + HEADER_BYTES;
        while ((get(bucket) & 1) == 0) {
            bucket += BUCKET_BYTES;
        }
        return bucket;
    }

    static Stream<Damage> damages() {
        return Stream.of(
                new Damage(
                        "keys of a sorted map change places",
                        "keys that are not in their order",
                        test -> {
                            long keys = test.node("tree") + TREE_KEYS_AT;
                            // The root has one key: those of the first child below it.
                            long child = test.get(test.node("tree") + 488);
                            assertEquals(1, test.get(test.node("tree") + 8) & 0xffff, keys + "");
                            long first = test.get(child + TREE_KEYS_AT);
                            test.set(child + TREE_KEYS_AT, test.get(child + TREE_KEYS_AT + 8));
                            test.set(child + TREE_KEYS_AT + 8, first);
                        }),
                new Damage(
                        "a key of a sorted map is its child's",
                        "keys that are not in their order",
                        test -> test.set(test.node("tree") + TREE_KEYS_AT, 1L << 32 | 1)),
                new Damage(
                        "a key of a sorted map is no number",
                        "holds 0x",
                        test -> test.add(test.node("tree") + TREE_KEYS_AT, 1L << 40)),
                new Damage(
                        "a node of a sorted map says that it has less",
                        "",
                        test -> test.add(test.get(test.node("tree") + 488) + 8, -1)),
                new Damage(
                        "a key of a map is another",
                        "whose hash belongs elsewhere",
                        test -> test.add(test.bucket() + 16, 1 << 20)),
                new Damage(
                        "the flags of an entry have another hash",
                        "whose hash belongs elsewhere",
                        test -> test.set(test.bucket(), test.get(test.bucket()) ^ 8)),
                new Damage(
                        "a value of a map is no number",
                        "holds 0x",
                        test -> test.add(test.bucket() + 24, 1L << 40)),
                new Damage(
                        "a map has an entry less than it says",
                        "has 40 entries, and should have 41",
                        test -> test.add(test.record("map") + STATE_AT, 1)),
                new Damage(
                        "a list has fewer elements than it says",
                        "has 70 words, and room for 64",
                        test -> test.add(test.record("list") + STATE_AT, 30)),
                new Damage(
                        "a list's root is gone",
                        "has 40 words, and room for 0",
                        test -> test.set(test.record("list") + ROOT_AT, 0)),
                new Damage(
                        "an element is no number",
                        "holds 0x",
                        test -> test.add(test.node("list") + HEADER_BYTES, 1L << 40)),
                new Damage(
                        "an element's slot is gone",
                        "nothing owns what begins at",
                        test -> test.set(test.node("texts") + HEADER_BYTES, 0)),
                new Damage(
                        "an element is no text",
                        "a stored string is damaged",
                        test -> test.add(bytesAt(test.get(test.node("texts") + HEADER_BYTES)), 2)),
                new Damage(
                        "a text is none",
                        "a stored string is damaged",
                        test -> test.add(bytesAt(test.get(test.field("place"))), 2)),
                new Damage(
                        "a slot is gone",
                        "nothing owns what begins at",
                        test -> test.set(test.field("place"), 0)),
                new Damage(
                        "a slot of a disk is gone",
                        "nothing owns what begins at",
                        test -> test.set(test.field("image"), 0)),
                new Damage(
                        "a number has the length of another",
                        "field balance holds what is no LONG",
                        test -> test.set(test.field("balance"), 1 | 2 << 4)),
                new Damage(
                        "an enum is no constant",
                        "field mood holds what is no ENUM",
                        test -> {
                            long at = test.field("mood");
                            test.add(at & -8, 3L << 8 * (at & 7));
                        }),
                new Damage(
                        "a flag is no flag",
                        "field active holds what is no BOOLEAN",
                        test -> {
                            long at = test.field("active");
                            test.add(at & -8, 2L << 8 * (at & 7));
                        }),
                new Damage(
                        "no root is known",
                        "nothing owns what begins at",
                        test -> test.set(Superblock.ROOTS_AT, 0)),
                new Damage(
                        "a root is not known",
                        "nothing owns what begins at",
                        test ->
                                test.set(
                                        Superblock.ROOTS_AT,
                                        test.get(test.get(Superblock.ROOTS_AT) + 8))),
                new Damage(
                        "roots lead to types",
                        "and so does another",
                        test -> test.set(Superblock.ROOTS_AT, test.get(Superblock.TYPES_AT))));
    }

    @ParameterizedTest
    @MethodSource("damages")
    void damageIsFound(Damage damage) {
        damage.action().accept(this);
        List<String> problems = pool.check().problems();
        assertTrue(
                problems.stream().anyMatch(problem -> problem.contains(damage.said())),
                problems::toString);
        assertThrows(PoolDamagedException.class, pool::collect, "nothing is freed");
    }

    /// Objects and collections that nobody refers to are no damage, whatever they own.
    @Test
    void leaksAreNoDamage() {
        pool.root("bob", DurablePerson.TYPE).set(null);
        for (String root : List.of("tree", "map", "list", "texts")) {
            pool.setRootReference(root, 0);
        }
        PoolReport report = pool.check();
        assertEquals(List.of(), report.problems());
        assertTrue(report.leakedBytes() > 0);
        pool.collect();
        assertEquals(0, pool.check().leakedBytes());
    }

    /// Each word of the superblock that is not covered by its checksum: changed, and gone.
    @ParameterizedTest
    @ValueSource(ints = {128, 136, 144, 256, 264, 272, 280})
    void noWordOfTheSuperblockMayBeAnother(int at) throws IOException {
        long was = get(at);
        Store store = pool.store();
        assertTrue(was != 0 && store.diskCount() == 1, "the pool uses this word");
        pool.close();
        for (long is : new long[] {0, was + 1, was ^ 1L << 4, was ^ 1L << 16, was ^ 1L << 40, -1}) {
            patch(at, is);
            assertTrue(isFound(), "word " + at + ": " + is + " instead of " + was);
        }
        patch(at, was);
        pool = dir.reopen();
        assertEquals(List.of(), pool.check().problems());
    }

    private boolean isFound() throws IOException {
        try (Pool found = Pool.open(dir.directory(), PoolOptions.defaults().toRead())) {
            return !found.check().problems().isEmpty();
        } catch (PoolDamagedException e) {
            return true;
        }
    }

    private void patch(int at, long value) throws IOException {
        try (RandomAccessFile file =
                new RandomAccessFile(dir.directory().resolve("pool").toFile(), "rw")) {
            file.seek(at);
            file.writeLong(Long.reverseBytes(value));
        }
    }
}
