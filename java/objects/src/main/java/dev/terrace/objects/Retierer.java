package dev.terrace.objects;

import dev.terrace.objects.internal.collections.CollectionRecords;
import dev.terrace.objects.internal.store.Buffers;
import dev.terrace.objects.internal.store.Headers;
import dev.terrace.objects.internal.store.Medium;
import dev.terrace.objects.internal.store.References;
import dev.terrace.objects.internal.store.Store;
import dev.terrace.objects.internal.store.StoreFailure;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/// Moves the values of a class to the tiers of its tags, or of the pool's placement: values behind
/// slots, and elements of collections that its objects own.
///
/// Values that already lie there are left alone. Therefore an interrupted run has only moved fewer
/// values, and the next run continues.
final class Retierer {
    private static final int RECORDS_AT_ONCE = 512;

    private final Pool pool;
    private final Store store;
    private final Buffers buffers;
    private final BitSet forms;

    /// Collections that objects of the class own.
    private final OffsetSet collections = new OffsetSet();

    private long recordBytes;

    /// @param forms the numbers of the class's forms
    Retierer(Pool pool, BitSet forms) {
        this.pool = pool;
        this.forms = forms;
        store = pool.store();
        buffers = pool.buffers();
    }

    RetierReport run() {
        for (long next = 0; next >= 0; ) {
            long from = next;
            next = store.alone(() -> retagCollections(from));
        }
        MoveEvent event = MoveEvent.begun(pool.name(), "retagging");
        Migrator migrator = new Migrator(pool);
        Migrator.Step moved = migrator.run(new ToBest());
        event.end(moved.bytes());
        Left left = new Left();
        migrator.run(left);
        return new RetierReport(moved.values(), moved.bytes(), left.values, recordBytes);
    }

    private boolean isOfClass(int type) {
        int form = Types.formOf(type);
        return form > 0 && forms.get(form);
    }

    /// Sets the tiers of the collections that some records own to the present tags; returns where
    /// to continue, or -1 at the end.
    private long retagCollections(long from) {
        long next = store.parts().nextAllocated(from);
        List<Long> records = new ArrayList<>();
        for (;
                next >= 0 && records.size() < RECORDS_AT_ONCE;
                next = store.parts().nextAllocated(next + 1)) {
            if (isOfClass(Headers.type(store.word(next)))) {
                records.add(next);
            }
        }
        store.transact(() -> {
            records.forEach(this::retagCollectionsOf);
            return true;
        });
        return next;
    }

    private void retagCollectionsOf(long record) {
        StoredType stored = pool.storedType(Types.formOf(Headers.type(store.word(record))));
        List<List<Medium>> tiers = pool.media(stored);
        Layout layout = stored.layout();
        for (int i = 0; i < stored.fields().size(); i++) {
            FieldSpec field = stored.fields().get(i);
            if (layout.hasPlace(i) && field.isCollection()) {
                retagCollection(store.word(layout.place(record, i)), tiers.get(i));
            } else if (layout.hasPlace(i)
                    && field.isInline()
                    && field.kind() != FieldKind.REFERENCE
                    && !tiers.get(i).contains(Medium.PMEM)) {
                recordBytes += field.inlineBytes();
            }
        }
    }

    private void retagCollection(long reference, List<Medium> tiers) {
        long record = References.recordOf(reference);
        long header = reference == 0 ? 0 : store.header(record);
        if (reference != 0
                && References.leadsTo(reference, header)
                && CollectionRecords.isCollection(Headers.type(header))) {
            CollectionRecords.setTiers(pool.heap(), record, tiers);
            collections.add(record);
        }
    }

    /// The tiers that the pool has; all of them if it has none, so that storing a value reports the
    /// missing tier.
    private List<Medium> known(List<Medium> tiers) {
        List<Medium> known = tiers.stream().filter(buffers::isThere).toList();
        return known.isEmpty() ? tiers : known;
    }

    /// Selects values of the class, and of its collections, that do not lie on the first tier of
    /// their tags.
    private abstract class NotOnBest implements Migrator.Goal {
        @Override
        public boolean looksAt(long record, int type) {
            return isOfClass(type) || collections.contains(record);
        }

        @Override
        public boolean wants(Buffers.Place place, List<Medium> tiers) {
            return buffers.indexOf(place, known(tiers)) != 0;
        }
    }

    private final class ToBest extends NotOnBest {
        /// The least number of bytes for which these tiers had no room, so that they are not tried
        /// again.
        private final Map<List<Medium>, Integer> noRoomFor = new HashMap<>();

        @Override
        public long put(Buffers.Place place, List<Medium> tiers, byte[] bytes) {
            int is = buffers.indexOf(place, known(tiers));
            List<Medium> better = is < 0 ? tiers : known(tiers).subList(0, is);
            if (bytes.length >= noRoomFor.getOrDefault(better, Integer.MAX_VALUE)) {
                return Buffers.NULL;
            }
            try {
                return buffers.put(better, bytes);
            } catch (StoreFailure.Full full) {
                noRoomFor.put(better, bytes.length);
                return Buffers.NULL;
            }
        }
    }

    private final class Left extends NotOnBest {
        private long values;

        @Override
        public boolean wants(Buffers.Place place, List<Medium> tiers) {
            if (super.wants(place, tiers)) {
                values++;
            }
            return false;
        }

        @Override
        public long put(Buffers.Place place, List<Medium> tiers, byte[] bytes) {
            throw new AssertionError("nothing moves that is only counted");
        }
    }
}
