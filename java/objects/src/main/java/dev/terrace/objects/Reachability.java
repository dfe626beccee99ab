package dev.terrace.objects;

import dev.terrace.objects.internal.collections.CollectionRecords;
import dev.terrace.objects.internal.collections.Remains;
import dev.terrace.objects.internal.store.Buffers;
import dev.terrace.objects.internal.store.Headers;
import dev.terrace.objects.internal.store.Links;
import dev.terrace.objects.internal.store.Medium;
import dev.terrace.objects.internal.store.References;
import dev.terrace.objects.internal.store.Store;
import dev.terrace.objects.internal.store.StoreFailure;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/// Walks from the roots to all that they reach, and finds space in use that was not reached. In a
/// transaction, or a consistent read.
final class Reachability implements Links {
    private static final int GRANULE_BYTES = 16;
    private static final int PROBLEMS_MAX = 1000;
    private static final String BUFFER = "strings and arrays";

    private final Pool pool;
    private final Store store;

    /// The offsets of all records and values that were reached, by disk, with -1 for persistent
    /// memory.
    private final Map<Integer, OffsetSet> reached = new HashMap<>();

    private final Deque<Long> toVisit = new ArrayDeque<>();
    private final List<String> problems = new ArrayList<>();
    private final Map<String, Long> objects = new TreeMap<>();
    private final Map<String, Long> bytes = new TreeMap<>();
    private final Map<String, Long> leaked = new TreeMap<>();
    private final List<Buffers.Place> leakedPlaces = new ArrayList<>();
    private @Nullable Leaks leaks;
    private long leakedBytes;
    private long staleReferences;
    private String place = "the superblock";

    /// The class of the present object; null for parts of the pool itself.
    private @Nullable String owner;

    Reachability(Pool pool) {
        this.pool = pool;
        store = pool.store();
    }

    /// Checks the whole pool.
    PoolReport run() {
        store.links(this);
        pool.links(this);
        pool.remains().links(this);
        while (!toVisit.isEmpty()) {
            visit(toVisit.pop());
        }
        findLeaks();
        place = pool.name();
        store.remote().wrong().forEach(this::problem);
        return new PoolReport(
                List.copyOf(problems),
                Map.copyOf(objects),
                Map.copyOf(bytes),
                Map.copyOf(leaked),
                leakedBytes,
                staleReferences);
    }

    /// The parts in use that were not reached, after [#run()].
    Leaks leaks() {
        return Objects.requireNonNull(leaks);
    }

    private void problem(String what) {
        if (problems.size() < PROBLEMS_MAX) {
            problems.add(place + ": " + what);
        }
    }

    /// Whether the part at this offset is reached for the first time.
    private boolean reach(int disk, long offset) {
        return reached.computeIfAbsent(disk, _ -> new OffsetSet()).add(offset);
    }

    private boolean isInUse(int disk, long offset) {
        if (offset % GRANULE_BYTES == 0 && store.parts().isAllocated(disk, offset)) {
            return true;
        }
        problem(
                "leads to offset "
                        + offset
                        + (disk < 0 || disk == Buffers.Place.REMOTE ? "" : " of disk " + disk)
                        + ", where nothing is");
        return false;
    }

    @Override
    public void owned(long offset) {
        if (isInUse(-1, offset)) {
            if (reach(-1, offset)) {
                toVisit.push(offset);
            } else {
                problem("owns what begins at " + offset + ", and so does another");
            }
        }
    }

    @Override
    public void slot(long owner, long at, List<Medium> tiers) {
        long slot = store.word(at);
        Buffers.Place leads = Buffers.place(slot);
        if (leads == null || !isInUse(leads.disk(), leads.offset())) {
            return;
        }
        boolean isRemote = leads.disk() == Buffers.Place.REMOTE;
        if (!reach(isRemote ? -1 : leads.disk(), leads.offset())) {
            problem("owns the buffer at " + leads.offset() + ", and so does another");
            return;
        }
        take(leads.disk(), leads.offset());
        String wrong = pool.buffers().verify(slot);
        if (wrong != null) {
            problem(wrong);
        }
    }

    @Override
    public void reference(long reference) {
        if (reference == 0) {
            return;
        }
        long record = References.recordOf(reference);
        if (!References.leadsTo(reference, store.header(record))) {
            staleReferences++;
        } else if (isInUse(-1, record) && reach(-1, record)) {
            toVisit.push(record);
        }
    }

    private void visit(long record) {
        int type = Headers.type(store.word(record));
        place = pool.name() + ": " + nameOf(type) + " at " + record;
        owner = null;
        if (!store.hasHeader(record)) {
            problem("the header is damaged");
            return;
        }
        if (Types.isClass(type)) {
            objects.merge(nameOf(type), 1L, Long::sum);
        }
        if (Types.formOf(type) != 0) {
            StoredType stored = pool.storedType(Types.formOf(type));
            owner = stored.name();
            take(-1, record);
            if (!isWhereItsTypeLies(record, type, stored.layout())) {
                problem("its chunk is not cut for such objects");
                return;
            }
        } else if (CollectionRecords.isCollection(type)) {
            objects.merge(nameOf(type), 1L, Long::sum);
        }
        int before = problems.size();
        try {
            if (Remains.isRecord(type)) {
                Remains.links(pool.heap(), record, this);
            } else {
                Records.links(pool, record, this);
            }
            if (problems.size() == before) {
                ValueCheck.run(pool, record);
            }
        } catch (StoreFailure.Damaged | IndexOutOfBoundsException e) {
            problem(String.valueOf(e.getMessage()));
        }
    }

    private boolean isWhereItsTypeLies(long record, int type, Layout layout) {
        return layout.isInColumns()
                ? store.parts().isInColumnsOf(record, type, layout.bytes())
                : !store.parts().isInColumns(record);
    }

    /// Counts the part at this offset for its owner.
    private void take(int disk, long offset) {
        if (owner != null) {
            bytes.merge(owner, store.parts().sizeOf(disk, offset), Long::sum);
        }
    }

    private String nameOf(int type) {
        if (Types.formOf(type) == 0) {
            String name = CollectionRecords.nameOf(type);
            return name == null ? BUFFER : name;
        }
        try {
            String name = pool.storedType(Types.formOf(type)).name();
            return Types.isClass(type) ? name : "extensions of " + name;
        } catch (StoreFailure.Damaged e) {
            problem("has type " + type + ", which the pool does not know");
            return "objects of unknown type";
        }
    }

    private void findLeaks() {
        for (long offset = store.parts().nextAllocated(0);
                offset >= 0;
                offset = store.parts().nextAllocated(offset + 1)) {
            if (reach(-1, offset)) {
                int type = Headers.type(store.word(offset));
                place = pool.name() + ": offset " + offset;
                leak(
                        store.remote().isValue(offset) ? Buffers.Place.REMOTE : -1,
                        offset,
                        nameOf(type));
            }
        }
        for (int disk = 0; disk < store.diskCount(); disk++) {
            for (long offset = store.parts().nextOnDisk(disk, 0);
                    offset >= 0;
                    offset = store.parts().nextOnDisk(disk, offset + 1)) {
                if (reach(disk, offset)) {
                    leak(disk, offset, BUFFER);
                }
            }
        }
        leaks = new Leaks(pool, leakedPlaces);
        leaks.orphans()
                .forEach(orphan -> {
                    place = pool.name();
                    problem(
                            "nothing owns what begins at "
                                    + orphan.offset()
                                    + (orphan.disk() < 0 ? "" : " of disk " + orphan.disk())
                                    + ": what led there is damaged");
                });
    }

    private void leak(int disk, long offset, String name) {
        leaked.merge(name, 1L, Long::sum);
        leakedBytes += store.parts().sizeOf(disk, offset);
        leakedPlaces.add(new Buffers.Place(disk, offset));
    }
}
