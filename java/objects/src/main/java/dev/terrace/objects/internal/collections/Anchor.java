package dev.terrace.objects.internal.collections;

import dev.terrace.objects.internal.store.Headers;
import dev.terrace.objects.internal.store.Links;
import dev.terrace.objects.internal.store.Medium;
import dev.terrace.objects.internal.store.References;
import dev.terrace.objects.internal.store.Store;
import dev.terrace.objects.internal.store.StoreFailure;
import dev.terrace.objects.internal.store.Text;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Objects;
import java.util.function.LongFunction;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/// The record of a collection, to which its reference leads: the types and the number of its
/// elements, and their place.
///
/// Invariant: each change of the collection raises the number of changes, unless it only replaces
/// an element. Iterators compare that number to find out that they are out of date.
public final class Anchor {
    public static final int LIST = 0xff01;
    public static final int ARRAY = 0xff02;
    public static final int MAP = 0xff03;
    public static final int TREE = 0xff04;

    /// The type number of all nodes of collections, that is, of everything but their records.
    public static final int NODE = 0xff05;

    /// The type number of the remains of a collection that was cleared or deleted.
    public static final int REMAINS = 0xff06;

    public static final int HEADER_BYTES = 8;
    public static final int BYTES = 64;

    /// The number of characters after which a text shows no more elements.
    private static final int TEXT_MAX = 1 << 20;

    private static final int CONTENT_AT = 8;
    private static final int NAMES_AT = 16;
    public static final int STATE_AT = 24;

    /// The place of the reference to the root node; words of the kind of collection follow.
    public static final int ROOT_AT = 32;

    public static final int EXTRA_AT = 40;

    /// A collection of at most this size is freed in the same transaction; a larger one is left to
    /// [Remains].
    private static final int BULK_MAX = 1000;

    /// The number of elements that are freed in one transaction: elements with buffers, and others.
    private static final int BUFFERED_AT_ONCE = 500;

    private static final int PLAIN_AT_ONCE = 1 << 16;

    private static final int SIZE_BITS = 40;
    private static final long SIZE_MASK = (1L << SIZE_BITS) - 1;
    private static final int TIERS_SHIFT = 16;
    private static final int TIER_BITS = 4;

    /// Keys' buffers lie in persistent memory, whatever the tiers: each search reads some.
    public static final List<Medium> KEY_TIERS = List.of(Medium.PMEM);

    private static final List<Medium> NAME_TIERS = List.of(Medium.PMEM);
    private static final List<String> KINDS = List.of("list", "array", "map", "sorted map");

    public final Heap heap;
    public final Store store;
    public final long record;
    public final long header;
    private Content content;

    /// The object whose field led to the collection, if there is one.
    private @Nullable FieldUse use;

    /// The word with the types of a collection, and the tiers in it.
    private record Content(long word, List<Medium> tiers) {}

    private Anchor(Heap heap, long record, Content content) {
        this.heap = heap;
        store = heap.store();
        this.record = record;
        header = store.word(record);
        this.content = content;
    }

    /// Makes the record of an empty collection. In a transaction.
    ///
    /// @param second the type of the values; null if it is not a map
    public static Anchor create(
            Heap heap,
            int kind,
            ElementCodec<?> first,
            @Nullable ElementCodec<?> second,
            List<Medium> tiers) {
        List<Medium> on = tiers.isEmpty() ? List.of(Medium.PMEM) : List.copyOf(tiers);
        long wordOfTiers = wordOf(on);
        first.announce(heap);
        if (second != null) {
            second.announce(heap);
        }
        Store store = heap.store();
        long record = store.allocate(BYTES, kind);
        long content = first.code() | (second == null ? 0 : second.code()) << 8 | wordOfTiers;
        store.putWord(record, record + CONTENT_AT, content);
        String names = nameToStore(first) + "\n" + (second == null ? "" : nameToStore(second));
        if (names.length() > 1) {
            store.putWord(
                    record, record + NAMES_AT, heap.buffers().put(NAME_TIERS, Text.encode(names)));
        }
        return new Anchor(heap, record, new Content(content, on));
    }

    /// The bits of these tiers in the word with the types of a collection.
    private static long wordOf(List<Medium> tiers) {
        if (tiers.contains(Medium.DRAM)) {
            throw new IllegalArgumentException("a durable collection cannot be kept in DRAM");
        }
        if (tiers.size() > Medium.values().length) {
            throw new IllegalArgumentException("a tier is named more than once");
        }
        long word = 0;
        for (int i = 0; i < tiers.size(); i++) {
            word |= (long) tiers.get(i).ordinal() << TIERS_SHIFT + i * TIER_BITS;
        }
        return word;
    }

    /// From now on, this counts accesses through this handle.
    public void countBy(FieldUse newUse) {
        use = newUse;
    }

    void countRead(long bytes) {
        FieldUse of = use;
        if (of != null) {
            of.read(bytes);
        }
    }

    void countWrite(long bytes) {
        FieldUse of = use;
        if (of != null) {
            of.written(bytes);
        }
    }

    /// The bytes of the buffers of the collection at `record`, without those of keys.
    public static long bytes(Heap heap, long record) {
        long[] sum = {0};
        links(
                heap,
                record,
                new Links() {
                    @Override
                    public void owned(long offset) {}

                    @Override
                    public void slot(long owner, long at, List<Medium> tiers) {
                        // Keys and names use these list objects themselves.
                        if (tiers != KEY_TIERS && tiers != NAME_TIERS) {
                            sum[0] += Math.max(0, heap.buffers().length(at));
                        }
                    }

                    @Override
                    public void reference(long reference) {}
                });
        return sum[0];
    }

    /// The tiers of the elements' buffers, the best first. They are current, even if another handle
    /// has changed them.
    public List<Medium> tiers() {
        long word = get(CONTENT_AT);
        Content known = content;
        if (known.word != word) {
            known = new Content(word, tiersOf(word));
            content = known;
        }
        return known.tiers;
    }

    /// Sets the tiers of the elements' buffers of the collection at `record`, and returns whether
    /// that is a change. In a transaction.
    public static boolean setTiers(Heap heap, long record, List<Medium> tiers) {
        long old = heap.store().word(record + CONTENT_AT);
        long word = old & (1L << TIERS_SHIFT) - 1 | wordOf(tiers);
        if (word != old) {
            heap.store().putWord(record, record + CONTENT_AT, word);
        }
        return word != old;
    }

    private static String nameToStore(ElementCodec<?> type) {
        return ElementCodec.isObject(type.code()) ? type.name() : "";
    }

    /// The collection that a reference leads to.
    ///
    /// @throws StoreFailure.Mismatch if it is another kind of collection, or has other types
    public static Anchor open(
            Heap heap,
            long reference,
            int kind,
            ElementCodec<?> first,
            @Nullable ElementCodec<?> second) {
        return heap.read(() -> {
            Store store = heap.store();
            long record = requireThere(heap, reference);
            int isKind = Headers.type(store.word(record));
            long content = store.word(record + CONTENT_AT);
            int firstCode = (int) content & 0xff;
            int secondCode = (int) content >>> 8 & 0xff;
            String[] names = names(heap, record);
            boolean same =
                    isKind == kind
                            && firstCode == first.code()
                            && secondCode == (second == null ? 0 : second.code())
                            && (!ElementCodec.isObject(firstCode) || first.isCalled(names[0]))
                            && (second == null
                                    || !ElementCodec.isObject(secondCode)
                                    || second.isCalled(names[1]));
            if (!same) {
                String is =
                        describe(
                                isKind,
                                ElementCodec.nameOf(firstCode, names[0]),
                                secondCode == 0 ? null : ElementCodec.nameOf(secondCode, names[1]));
                String wanted = describe(kind, first.name(), second == null ? null : second.name());
                throw new StoreFailure.Mismatch("this is " + is + ", not " + wanted);
            }
            return new Anchor(heap, record, new Content(content, tiersOf(content)));
        });
    }

    private static long requireThere(Heap heap, long reference) {
        long record = References.recordOf(reference);
        long header = heap.store().header(record);
        if (!References.leadsTo(reference, header)) {
            throw heap.store().stale(record);
        }
        heap.store().requireBelongs(record, header);
        return record;
    }

    private static List<Medium> tiersOf(long content) {
        List<Medium> tiers = new ArrayList<>();
        for (long left = content >>> TIERS_SHIFT; left != 0; left >>>= TIER_BITS) {
            int tier = (int) left & (1 << TIER_BITS) - 1;
            if (tier >= Medium.values().length) {
                throw new StoreFailure.Damaged(tier + " is no tier that a collection could be on");
            }
            tiers.add(Medium.values()[tier]);
        }
        return List.copyOf(tiers);
    }

    private static String[] names(Heap heap, long record) {
        byte[] bytes = heap.buffers().get(record + NAMES_AT);
        return bytes == null
                ? new String[] {"", ""}
                : Objects.requireNonNull(Text.decode(bytes)).split("\n", 2);
    }

    private static String describe(int kind, String first, @Nullable String second) {
        if (kind < LIST || kind > TREE) {
            return "an object";
        }
        return (kind == ARRAY ? "an " : "a ")
                + kindName(kind)
                + (second == null ? " of " + first : " from " + first + " to " + second);
    }

    public static String kindName(int kind) {
        return KINDS.get(kind - LIST);
    }

    /// The collection of a root. If the root leads nowhere, a new collection is made and set.
    ///
    /// @param create makes a collection, and returns its reference
    public static <C> C root(Heap heap, String name, LongFunction<C> open, LongSupplier create) {
        long known = heap.root(name);
        if (known != 0) {
            return open.apply(known);
        }
        return open.apply(
                heap.change(() -> {
                    long meanwhile = heap.root(name);
                    if (meanwhile != 0) {
                        return meanwhile;
                    }
                    long made = create.getAsLong();
                    heap.setRoot(name, made);
                    return made;
                }));
    }

    public long reference() {
        return References.of(record, header);
    }

    public boolean isAlive() {
        return heap.read(() -> store.word(record) == header);
    }

    /// Throws if the collection has been deleted.
    public void check() {
        if (store.word(record) != header) {
            throw store.stale(record);
        }
    }

    /// Runs a read that sees one committed state.
    public <T extends @Nullable Object> T read(Supplier<T> work) {
        return heap.read(() -> {
            check();
            return work.get();
        });
    }

    /// The text of the collection, or of a view of it, as `java.util` writes it. It is for
    /// debuggers and logs: it ends when it is long enough for them, and for an element that cannot
    /// be read it gives the reason instead of throwing an exception.
    public String text(String brackets, Iterable<?> elements) {
        StringBuilder text = new StringBuilder();
        String because = "";
        try {
            read(() -> {
                text.setLength(0);
                append(text, elements.iterator());
                return null;
            });
        } catch (RuntimeException | InternalError e) {
            text.append(Text.UNREADABLE);
            because = Text.because(e);
        }
        return brackets.charAt(0) + text.toString() + brackets.charAt(1) + because;
    }

    private static void append(StringBuilder text, Iterator<?> elements) {
        for (String separator = ""; elements.hasNext(); separator = ", ") {
            text.append(separator);
            if (text.length() > TEXT_MAX) {
                text.append("...");
                return;
            }
            text.append(elements.next());
        }
    }

    /// The bytes of a key or an element; null if it has none.
    public byte @Nullable [] bytes(ElementCodec<?> codec, @Nullable Object value) {
        try {
            return codec.bytes(value);
        } catch (StoreFailure failure) {
            throw heap.told(failure);
        }
    }

    /// Runs a change as a transaction. The transaction may run again after room has been made for
    /// it.
    public <T extends @Nullable Object> T change(Supplier<T> work) {
        return heap.change(() -> {
            check();
            return work.get();
        });
    }

    /// The number of elements, and the number of changes.
    public long state() {
        return store.word(record + STATE_AT);
    }

    public static long sizeOf(long state) {
        return state & SIZE_MASK;
    }

    /// The number of changes, modulo 2^24.
    public static int changesOf(long state) {
        return (int) (state >>> SIZE_BITS);
    }

    public long size() {
        return sizeOf(state());
    }

    public int changes() {
        return changesOf(state());
    }

    /// The size as `java.util` counts it.
    public static int toInt(long size) {
        return (int) Math.min(Integer.MAX_VALUE, size);
    }

    /// Sets the number of elements, which counts as a change. In a transaction.
    public void resize(long size) {
        long changes = changesOf(state()) + 1L;
        put(STATE_AT, changes << SIZE_BITS | size);
    }

    public long get(int at) {
        return store.word(record + at);
    }

    /// Changes a word of the record. In a transaction.
    public void put(int at, long value) {
        store.putWord(record, record + at, value);
    }

    /// Deletes the collection.
    public void delete() {
        change(() -> {
            delete(heap, reference());
            return null;
        });
    }

    /// Deletes the collection that a reference leads to, of any kind. In a transaction.
    public static void delete(Heap heap, long reference) {
        Anchor anchor = ofRecord(heap, requireThere(heap, reference));
        Links freeing = new Freeing(heap);
        freeing.slot(anchor.record, anchor.record + NAMES_AT, NAME_TIERS);
        anchor.freeContent();
        freeing.owned(anchor.record);
    }

    /// Shows the slots and nodes that the collection at `record` owns, and its references.
    public static void links(Heap heap, long record, Links links) {
        Anchor anchor = ofRecord(heap, record);
        links.slot(record, record + NAMES_AT, NAME_TIERS);
        anchor.contentLinks(links);
    }

    /// The collection with this record, of any type.
    public static Anchor ofRecord(Heap heap, long record) {
        long content = heap.store().word(record + CONTENT_AT);
        return new Anchor(heap, record, new Content(content, tiersOf(content)));
    }

    /// The remains of a collection, in the form of a collection.
    public static Anchor ofRemains(Heap heap, long record) {
        return ofRecord(heap, record);
    }

    /// The kind of the collection, or of the collection that these are the remains of.
    public int kind() {
        int was = Remains.kindOf(this);
        return was == 0 ? Headers.type(header) : was;
    }

    /// Copies the words that describe the collection to a new record. In a transaction.
    public void copyContent(long to) {
        for (int at = CONTENT_AT; at < BYTES; at += Long.BYTES) {
            store.putWord(to, to + at, at == NAMES_AT ? 0 : get(at));
        }
    }

    /// Throws an exception if elements of the collection at `record` are misplaced or of other
    /// types. [#links] has already shown its slots, which have been checked.
    public static void check(Heap heap, long record) {
        Anchor anchor = ofRecord(heap, record);
        int first = anchor.firstCode();
        int second = anchor.secondCode();
        switch (Headers.type(anchor.header)) {
            case LIST, ARRAY ->
                    new Cells(anchor, ElementCodec.needsPresence(first))
                            .check(anchor.size(), first);
            case MAP ->
                    new HashTable(anchor, ElementCodec.isBuffered(first), false)
                            .check(first, second);
            case TREE -> {
                ElementCodec<?> keys = ElementCodec.withCode(first);
                if (keys == null) {
                    throw anchor.damaged("has keys of type " + first + ", which have no order");
                }
                BTree.check(anchor, keys, second);
            }
            default -> throw anchor.damaged("is none");
        }
    }

    /// Throws an exception if no node of a collection begins there.
    public void requireNode(long node) {
        if (Headers.type(store.header(node)) != NODE || !store.hasHeader(node)) {
            throw damaged("leads to " + node + ", where no node begins");
        }
    }

    /// Throws an exception if the number of entries differs from the record's.
    public void requireSize(long entries) {
        if (entries != size()) {
            throw damaged("has " + entries + " entries, and should have " + size());
        }
    }

    public StoreFailure.Damaged damaged(String what) {
        return new StoreFailure.Damaged(
                store.pmem().name() + ": the collection at " + record + " " + what);
    }

    /// The same for everything but the record.
    public void contentLinks(Links links) {
        int first = firstCode();
        int second = secondCode();
        switch (kind()) {
            case LIST, ARRAY ->
                    new Cells(this, ElementCodec.needsPresence(first)).links(size(), first, links);
            case MAP -> new HashTable(this, false, false).links(first, second, links);
            case TREE -> TreeNodes.links(this, first, second, links);
            default -> throw damaged("is none");
        }
    }

    /// Frees everything but the record, which then describes an empty collection. In a transaction.
    public void clear() {
        freeContent();
        put(ROOT_AT, 0);
        put(EXTRA_AT, 0);
        put(EXTRA_AT + 8, 0);
        resize(0);
    }

    /// The number of the type of elements, or keys.
    public int firstCode() {
        return (int) get(CONTENT_AT) & 0xff;
    }

    /// The number of the type of values; 0 if it is not a map.
    public int secondCode() {
        return (int) get(CONTENT_AT) >>> 8 & 0xff;
    }

    /// Frees everything but the record, whose references stay: in this transaction, or, if that is
    /// too much, afterwards.
    private void freeContent() {
        long bulk = kind() == MAP ? Math.max(size(), get(EXTRA_AT + Long.BYTES)) : size();
        if (bulk <= BULK_MAX || !heap.remains().take(this)) {
            contentLinks(new Freeing(heap));
        }
    }

    /// Frees the last elements of the collection, leaves it sound, and returns whether it is empty.
    /// In a transaction.
    public boolean freeLast() {
        boolean hasBuffers =
                ElementCodec.isBuffered(firstCode()) || ElementCodec.isBuffered(secondCode());
        int most = hasBuffers ? BUFFERED_AT_ONCE : PLAIN_AT_ONCE;
        switch (kind()) {
            case LIST, ARRAY -> {
                long kept = Math.max(0, size() - most);
                Cells cells = new Cells(this, ElementCodec.needsPresence(firstCode()));
                if (hasBuffers) {
                    cells.freeBuffers(kept, size());
                }
                cells.trim(kept, size());
                resize(kept);
            }
            case MAP ->
                    new HashTable(
                                    this,
                                    ElementCodec.isBuffered(firstCode()),
                                    ElementCodec.isBuffered(secondCode()))
                            .freeLast(hasBuffers);
            case TREE -> TreeNodes.freeLast(this, firstCode(), secondCode());
            default -> throw damaged("is none");
        }
        return get(ROOT_AT) == 0;
    }

    /// Frees all that it is shown, except objects.
    record Freeing(Heap heap) implements Links {
        @Override
        public void owned(long offset) {
            heap.store().free(offset);
        }

        @Override
        public void slot(long owner, long at, List<Medium> tiers) {
            heap.buffers().free(heap.store().word(at));
        }

        @Override
        public void reference(long reference) {
            // A collection does not own the objects that it refers to.
        }
    }
}
