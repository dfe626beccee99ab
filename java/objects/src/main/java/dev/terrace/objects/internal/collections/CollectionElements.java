package dev.terrace.objects.internal.collections;

import dev.terrace.objects.internal.store.Headers;
import org.jspecify.annotations.Nullable;

/// The elements of collections, for programs without the classes of their objects. For this
/// library's own packages.
public final class CollectionElements {
    private final Heap heap;
    private final Anchor anchor;
    private final int first;
    private final int second;

    private CollectionElements(Heap heap, long record) {
        this.heap = heap;
        anchor = Anchor.ofRecord(heap, record);
        first = anchor.firstCode();
        second = anchor.secondCode();
    }

    /// A durable object that is an element.
    ///
    /// @param reference that leads to it
    public record ObjectElement(long reference) {}

    /// Receives elements.
    public interface Visitor {
        /// An element, or a key and its value: boxed values, strings, byte arrays, [ObjectElement],
        /// null.
        ///
        /// @param key null in lists and arrays
        void element(@Nullable Object key, @Nullable Object value);
    }

    /// Whether the collection at `record` maps keys to values.
    public static boolean areEntries(Heap heap, long record) {
        int type = Headers.type(heap.store().word(record));
        return type == Anchor.MAP || type == Anchor.TREE;
    }

    /// How many elements the collection at `record` has.
    public static long count(Heap heap, long record) {
        return Anchor.sizeOf(heap.store().word(record + Anchor.STATE_AT));
    }

    /// Shows the first elements of the collection at `record`, in its order. In a consistent read.
    ///
    /// @throws dev.terrace.objects.internal.store.StoreFailure.Damaged if it is not sound
    public static void forEach(Heap heap, long record, long limit, Visitor visitor) {
        CollectionElements elements = new CollectionElements(heap, record);
        switch (Headers.type(elements.anchor.header)) {
            case Anchor.MAP -> elements.table(limit, visitor);
            case Anchor.TREE ->
                    BTree.forEach(
                            elements.anchor,
                            elements.keys(),
                            limit,
                            (keyAt, valueAt) ->
                                    visitor.element(
                                            elements.value(elements.first, keyAt),
                                            elements.value(elements.second, valueAt)));
            default -> elements.sequence(limit, visitor);
        }
    }

    private ElementCodec<?> keys() {
        ElementCodec<?> keys = ElementCodec.withCode(first);
        if (keys == null) {
            throw anchor.damaged("has keys of type " + first + ", which have no order");
        }
        return keys;
    }

    private void sequence(long limit, Visitor visitor) {
        Cells cells = new Cells(anchor, ElementCodec.needsPresence(first));
        long count = Math.min(limit, anchor.size());
        for (long i = 0; i < count; i++) {
            long leaf = cells.leaf(i);
            visitor.element(null, value(first, cells.isPresent(leaf, i) ? Cells.at(leaf, i) : -1));
        }
    }

    private void table(long limit, Visitor visitor) {
        HashTable table =
                new HashTable(
                        anchor, ElementCodec.isBuffered(first), ElementCodec.isBuffered(second));
        long left = limit;
        for (long index = 0; index < table.buckets() && left > 0; index++) {
            for (long place : table.places(index)) {
                if (--left < 0) {
                    return;
                }
                long entry = HashTable.entryOf(place);
                visitor.element(
                        value(first, table.isKeyNull(place) ? -1 : entry),
                        value(second, table.isValueNull(place) ? -1 : HashTable.valueAt(entry)));
            }
        }
    }

    /// The value of the word at `at`; null if `at` is -1.
    private @Nullable Object value(int code, long at) {
        if (at < 0) {
            return null;
        }
        if (ElementCodec.isObject(code)) {
            long reference = heap.store().word(at);
            return reference == 0 ? null : new ObjectElement(reference);
        }
        ElementCodec<?> type = ElementCodec.withCode(code);
        if (type == null) {
            throw anchor.damaged("holds elements of type " + code + ", which there is not");
        }
        return type.load(heap, at);
    }
}
