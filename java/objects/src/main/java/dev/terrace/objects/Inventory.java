package dev.terrace.objects;

import dev.terrace.objects.internal.collections.CollectionRecords;
import dev.terrace.objects.internal.store.Headers;
import dev.terrace.objects.internal.store.References;
import dev.terrace.objects.internal.store.Store;
import dev.terrace.objects.internal.store.StoreFailure;
import java.util.HashMap;
import java.util.Map;
import java.util.stream.IntStream;

/// Counts a pool's objects of each form of its classes, and measures the values of some of them. It
/// walks over the whole pool in parts, so that other threads can write in between.
final class Inventory {
    /// The number of objects of a form that are all measured; after these, one object stands for
    /// several.
    private static final int MEASURED_FIRST = 10_000;

    private static final int MEASURED_THEN = 100;
    private static final int RECORDS_AT_ONCE = 4096;

    private final Pool pool;
    private final Store store;
    private final Map<Integer, Stock> stocks = new HashMap<>();
    private long next;

    /// The counts of a form.
    static final class Stock {
        private final long[] bytes;
        private long objects;
        private long measured;

        private Stock(long[] bytes) {
            this.bytes = bytes;
        }

        /// Objects of this form.
        long objects() {
            return objects;
        }

        /// Objects whose bytes are counted: measured objects, and objects that they stand for.
        long measured() {
            return measured;
        }

        /// Bytes of a field of this form in all these objects, including fields in extensions.
        long bytes(int field) {
            return bytes[field];
        }

        private Stock copy() {
            Stock copy = new Stock(bytes.clone());
            copy.objects = objects;
            copy.measured = measured;
            return copy;
        }
    }

    private Inventory(Pool pool) {
        this.pool = pool;
        store = pool.store();
    }

    /// The stock of each form, by the forms' numbers.
    static Map<Integer, Stock> of(Pool pool) {
        Inventory found = new Inventory(pool);
        while (found.next >= 0) {
            Inventory before = found;
            // A read that was overtaken by a commit is repeated, so its counts go to a copy.
            found = pool.store().alone(() -> before.copy().look());
        }
        return found.stocks;
    }

    private Inventory copy() {
        Inventory copy = new Inventory(pool);
        stocks.forEach((form, stock) -> copy.stocks.put(form, stock.copy()));
        copy.next = next;
        return copy;
    }

    private Inventory look() {
        long at = store.parts().nextAllocated(next);
        for (int i = 0;
                i < RECORDS_AT_ONCE && at >= 0;
                i++, at = store.parts().nextAllocated(at + 1)) {
            int type = Headers.type(store.word(at));
            if (Types.isClass(type)) {
                count(at, type);
            }
        }
        next = at;
        return this;
    }

    private Stock stock(int form) {
        return stocks.computeIfAbsent(
                form, _ -> new Stock(new long[pool.storedType(form).fields().size()]));
    }

    private void count(long record, int form) {
        Stock stock = stock(form);
        long number = stock.objects++;
        int standsFor =
                number < MEASURED_FIRST ? 1 : number % MEASURED_THEN == 0 ? MEASURED_THEN : 0;
        stock.measured += standsFor;
        // Damage may have made the extensions a circle.
        int parts = 0;
        for (long part = record; standsFor > 0 && part != 0 && parts <= stocks.size(); parts++) {
            int formOfPart = Types.formOf(Headers.type(store.header(part)));
            if (formOfPart == 0) {
                return;
            }
            measure(part, formOfPart, standsFor);
            part = store.word(part + Layout.EXTENSION_AT);
        }
    }

    private void measure(long record, int form, int standsFor) {
        StoredType stored = pool.storedType(form);
        long[] bytes = stock(form).bytes;
        Layout layout = stored.layout();
        for (int i = 0; i < bytes.length; i++) {
            FieldSpec field = stored.fields().get(i);
            if (layout.hasPlace(i) && !field.grouped()) {
                bytes[i] += standsFor * bytesAt(layout.place(record, i), field);
            } else if (layout.hasPlace(i)) {
                Group group = Group.of(stored, layout, i);
                measureGroup(group, layout.place(record, i), bytes, standsFor);
            }
        }
    }

    /// Counts a group without reading it, so its texts count with equal shares.
    private void measureGroup(Group group, long at, long[] bytes, int standsFor) {
        int length = lengthAt(at);
        int count = group.members().size();
        long texts = IntStream.range(0, count).filter(group::isText).count();
        for (int i = 0; i < count && length > 0; i++) {
            long its =
                    group.isText(i)
                            ? Math.max(0, length - group.frontBytes()) / texts
                            : group.members().get(i).inlineBytes();
            bytes[group.field(i)] += standsFor * its;
        }
    }

    private int lengthAt(long at) {
        try {
            return pool.buffers().length(at);
        } catch (StoreFailure.Damaged | IndexOutOfBoundsException e) {
            return 0;
        }
    }

    /// Bytes of a value; none if it is damaged: [Pool#check()] reports it.
    private long bytesAt(long at, FieldSpec field) {
        try {
            if (field.isCollection()) {
                long reference = store.word(at);
                long record = References.recordOf(reference);
                boolean isThere =
                        reference != 0 && References.leadsTo(reference, store.header(record));
                return isThere ? CollectionRecords.bytes(pool.heap(), record) : 0;
            }
            return field.isInline() ? field.inlineBytes() : Math.max(0, lengthAt(at));
        } catch (StoreFailure.Damaged | IndexOutOfBoundsException e) {
            return 0;
        }
    }
}
