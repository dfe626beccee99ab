package dev.terrace.objects;

import dev.terrace.objects.internal.collections.HeapOwner;
import dev.terrace.objects.internal.collections.Remains;
import dev.terrace.objects.internal.store.Buffers;
import dev.terrace.objects.internal.store.Chain;
import dev.terrace.objects.internal.store.Headers;
import dev.terrace.objects.internal.store.Identity;
import dev.terrace.objects.internal.store.Links;
import dev.terrace.objects.internal.store.Medium;
import dev.terrace.objects.internal.store.References;
import dev.terrace.objects.internal.store.Store;
import dev.terrace.objects.internal.store.StoreFailure;
import dev.terrace.objects.internal.store.Superblock;
import dev.terrace.objects.internal.store.Usage;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.IntFunction;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/// A pool of durable objects.
///
/// Any number of threads may use it. One process writes, with one thread at a time. Other threads
/// and other processes see committed states only.
///
/// Longer than 600 lines: a program finds here all that it can do with a pool as a whole.
@SuppressWarnings("exports") // What it extends hides its heap from programs.
public final class Pool extends HeapOwner implements AutoCloseable {
    /// The number of records and values that are freed in one transaction.
    private static final int COLLECTED_AT_ONCE = 1000;

    private final @Nullable PoolFiles files;
    private final PoolHeap heap;
    private final Store store;
    private final Buffers buffers;
    private final Types types;
    private final Placements placements;
    private final Roots roots;
    private final Fields fields;
    private final ArrayFields arrays;
    private final Comparisons comparisons;
    private final CollectionFields collections;
    private final Balancer balancer;
    private final Compactor compactor;
    private final Remains remains;
    private volatile @Nullable Profiling profiling;
    private volatile boolean closed;

    private Pool(PoolHeap heap, @Nullable PoolFiles files) {
        super(heap);
        heap.bind(this);
        this.heap = heap;
        this.files = files;
        store = heap.store();
        buffers = heap.buffers();
        placements = new Placements(store, new Chain(store, buffers, Superblock.PLACEMENTS_AT));
        types = new Types(this, new Chain(store, buffers, Superblock.TYPES_AT), placements);
        roots = new Roots(this, new Chain(store, buffers, Superblock.ROOTS_AT));
        fields = new Fields(this);
        arrays = new ArrayFields(this);
        comparisons = new Comparisons(fields);
        collections = new CollectionFields(this);
        balancer = new Balancer(this);
        compactor = new Compactor(this);
        remains = new Remains(heap);
        store.prepare();
    }

    /// The pool in these files.
    static Pool on(PoolFiles files) {
        return new Pool(new PoolHeap(files.store()), files);
    }

    /// The pool in this store, which has no file.
    static Pool on(Store store) {
        return new Pool(new PoolHeap(store), null);
    }

    /// Opens a pool, or creates it.
    ///
    /// A pool that is already open in this process is shared: it stays open until it has been
    /// closed as often as it was opened. A pool that is open for writing and is opened again
    /// read-only gives a separate pool, which sees committed states.
    ///
    /// @param directory the directory of its file in persistent memory
    /// @throws IOException if its files cannot be opened
    /// @throws PoolLockedException if another process writes to it, or it is open in this process
    ///   with other options
    /// @throws PoolReadOnlyException if it is sealed, and is not opened read-only
    /// @throws PoolFormatException if this is not a pool, or a pool of a version that this library
    ///   does not know
    /// @throws PoolDamagedException if its files have been changed or damaged
    /// @throws PoolFullException if there is no room to create it
    public static Pool open(Path directory, PoolOptions options) throws IOException {
        return OpenPools.open(directory, options);
    }

    /// Like [#open(Path, PoolOptions)], with the default options.
    ///
    /// @throws IOException if its files cannot be opened
    public static Pool open(Path directory) throws IOException {
        return open(directory, PoolOptions.defaults());
    }

    /// Runs `work` as a transaction: all its changes are made durable together. If it throws, or if
    /// the process ends meanwhile, none of them are. Within another transaction it becomes a part
    /// of that one. Transactions of other threads wait.
    ///
    /// @throws PoolFullException if a tier has no room. Values with several tiers have then been
    ///   moved away to make room, so another try may succeed
    public <T extends @Nullable Object> T transact(Supplier<T> work) {
        return guarded(() -> {
            try {
                return transactOnce(work);
            } catch (PoolFullException e) {
                if (!store.inTransaction() && !remains.freeAll()) {
                    balancer.makeRoom();
                }
                throw e;
            }
        });
    }

    /// Like [#transact(Supplier)], for work that may run again after it has found no room.
    <T extends @Nullable Object> T change(Supplier<T> work) {
        return guarded(() -> {
            while (true) {
                try {
                    return transactOnce(work);
                } catch (PoolFullException e) {
                    // Values that move free whole chunks only together with their neighbours.
                    if (store.inTransaction() || !remains.freeAll() && !balancer.makeRoom()) {
                        throw e;
                    }
                }
            }
        });
    }

    private <T extends @Nullable Object> T transactOnce(Supplier<T> work) {
        T result = Failures.telling(() -> store.transact(work));
        remains.tidy();
        return result;
    }

    /// Like [#transact(Supplier)], for work without a result.
    public void transact(Runnable work) {
        transact(() -> {
            work.run();
            return null;
        });
    }

    /// Runs `work` so that all its reads see one committed state. It may run more than once, and
    /// must not write.
    ///
    /// If another process writes, a number may change between two reads of it if it is all that a
    /// commit changes.
    public <T extends @Nullable Object> T read(Supplier<T> work) {
        return guarded(() -> store.read(() -> Failures.turningBack(work)));
    }

    /// Like [#read(Supplier)], for work that takes long: other threads of this process cannot
    /// commit meanwhile, so that it runs once. In a pool that was opened to be read it may run more
    /// than once, as another process may commit; do not call it there while a consistent read of
    /// this thread is under way.
    ///
    /// @throws PoolBusyException if another process commits so often that the work never sees a
    ///   single commit
    public <T extends @Nullable Object> T readAlone(Supplier<T> work) {
        return guarded(() -> store.alone(() -> Failures.turningBack(work)));
    }

    /// Makes a new object, with all fields zero or null.
    public <D extends DurableObject> D create(ObjectType<D> type) {
        return change(() -> {
            TypeMapping mapping = types.current(type);
            long record = mapping.allocate(mapping.id);
            D object = type.newHandle();
            object.bind(mapping, record, store.word(record));
            return object;
        });
    }

    /// Walks over all objects of a class.
    public <D extends DurableObject> Cursor<D> cursor(ObjectType<D> type) {
        return guarded(() -> new Cursor<>(this, type));
    }

    /// Begins to count this process's accesses to fields. Until the result is closed, no value is
    /// read in place, so all reads are slower.
    ///
    /// @throws IllegalStateException if accesses are already being counted
    public Profiling profile() {
        return Profiling.begin(this);
    }

    /// The profile that is being made; null if there is none.
    @Nullable Profiling profiling() {
        return profiling;
    }

    void setProfiling(@Nullable Profiling newProfiling) {
        profiling = newProfiling;
    }

    /// Counts of events since the pool was opened, and the space in use as of one commit. This
    /// waits for a transaction of another thread only if commits have overtaken it 64 times.
    public PoolStatistics statistics() {
        return guarded(() -> {
            List<Usage.Tier> tiers = store.usage().tiers();
            Usage.Counts counts = store.usage().counts();
            Usage.Requests requests = store.usage().requests();
            return new PoolStatistics(
                    counts.commits(),
                    counts.rollbacks(),
                    counts.logBytes(),
                    tiers.stream().map(Usage.Tier::name).toList(),
                    tiers.stream().map(Usage.Tier::used).toList(),
                    tiers.stream().map(Usage.Tier::capacity).toList(),
                    new PoolStatistics.Requests(
                            requests.reads(),
                            requests.readBytes(),
                            requests.writes(),
                            requests.writtenBytes(),
                            requests.cachedBytes()));
        });
    }

    /// Bytes of values that have returned to persistent memory since the pool was opened, of fields
    /// with several tags.
    public long promotedBytes() {
        return balancer.promotedBytes();
    }

    /// Bytes of values that had to leave persistent memory since the pool was opened, of fields
    /// with several tags.
    public long demotedBytes() {
        return balancer.demotedBytes();
    }

    /// The root with this name.
    public <D extends DurableObject> Root<D> root(String name, ObjectType<D> type) {
        return new Root<>(this, name, type);
    }

    /// The root with this name.
    public <D extends DurableObject> Root<D> root(String name, Class<D> handle) {
        return root(name, ObjectType.of(handle));
    }

    /// The identity of the pool. Its disks and backups have it, too; a pool that was restored from
    /// a backup has one of its own.
    public UUID id() {
        return guarded(() -> Identity.of(store.pmem()));
    }

    /// The names of all roots.
    public List<String> rootNames() {
        return roots.names();
    }

    /// The reference of a root; 0 if it leads nowhere.
    long rootReference(String name) {
        return roots.reference(name);
    }

    void setRoot(String name, @Nullable DurableObject object) {
        roots.set(name, object);
    }

    /// Removes the root of this name, if there is one. The object or collection that it led to is
    /// not deleted; [#collect()] frees it if no other root reaches it.
    public void removeRoot(String name) {
        setRootReference(name, 0);
    }

    /// Sets the reference of a root; 0: it leads nowhere.
    void setRootReference(String name, long reference) {
        roots.setReference(name, reference);
    }

    /// Checks the whole pool: whether it is sound, and which objects no root reaches. Other threads
    /// cannot write meanwhile.
    public PoolReport check() {
        return guarded(() ->
                store.alone(() -> {
                    PoolReport report = new Reachability(this).run();
                    store.requireKnownFormat();
                    return report;
                }));
    }

    /// Frees all objects that no root reaches. Handles of such objects lead nowhere afterwards.
    ///
    /// @return the state of the pool before
    /// @throws PoolDamagedException if the pool is damaged: it is then unknown which objects are
    ///   reachable
    public PoolReport collect() {
        return guarded(() ->
                store.alone(() -> {
                    freeRemains();
                    Reachability reachability = new Reachability(this);
                    PoolReport report = reachability.run();
                    if (!report.problems().isEmpty()) {
                        throw new PoolDamagedException(
                                "the pool is damaged, so nothing of it is freed: "
                                        + report.problems().getFirst());
                    }
                    new Collector(this, COLLECTED_AT_ONCE).free(reachability.leaks());
                    return report;
                }));
    }

    /// Moves strings, arrays and other values closer together, each on its tier. That frees chunks
    /// of which little was in use, makes the files of disks shorter, and deletes segments of a
    /// remote tier of which little was in use. Objects do not move, and the file in persistent
    /// memory keeps its length. A damaged value stays, too, so that [#check()] reports it. Other
    /// threads read and write meanwhile. If the compaction is interrupted, the pool is sound, and
    /// the next call continues.
    ///
    /// @return the result
    /// @throws IllegalStateException in a transaction
    /// @throws PoolReadOnlyException if the pool was opened to be read or is sealed, or in a
    ///   consistent read
    /// @throws TierUnavailableException if the remote tier cannot be reached; the other tiers have
    ///   then been compacted
    public CompactionReport compact() {
        if (store.inTransaction()) {
            throw new IllegalStateException("a pool cannot be compacted within a transaction");
        }
        return guarded(() -> {
            store.requireWritable();
            freeRemains();
            return compactor.run();
        });
    }

    /// Moves values of a class that were stored under other tags to the tiers that its tags name
    /// now: each value to the first tier that has room, including values in collections that its
    /// objects own. Values within records stay, because objects do not move, and so do damaged
    /// values. Other threads read and write meanwhile. If this is interrupted, the pool is sound,
    /// and the next call continues.
    ///
    /// @return the result
    /// @throws IllegalStateException in a transaction
    /// @throws SchemaMismatchException if the class does not match the form that the pool has
    ///   stored
    /// @throws TierUnavailableException if it needs the remote tier, and that cannot be reached
    public RetierReport retier(ObjectType<?> type) {
        if (store.inTransaction()) {
            throw new IllegalStateException(
                    "values cannot be brought to other tiers within a transaction: that takes"
                            + " many");
        }
        return guarded(() -> {
            change(() -> types.current(type));
            return new Retierer(this, types.formsOf(type)).run();
        });
    }

    /// Overrides the tags of a class, from now on and for all programs, and moves the values that
    /// exist, as [#retier(ObjectType)] does. The named fields get the given tiers; all other fields
    /// use their tags again. Without any field, all tags apply again. Fields within the records
    /// cannot be named, because objects do not move. Other threads read and write meanwhile. If
    /// this is interrupted, [#retier] continues.
    ///
    /// From then on, versions of this library without this feature can only read the pool.
    ///
    /// @param type the tagged class, fully qualified
    /// @param fields the tiers of each field, the best first; for a collection, the tiers of the
    ///   strings, byte arrays and other elements of more than a word in it
    /// @return the result
    /// @throws IllegalStateException in a transaction
    /// @throws SchemaMismatchException if the pool knows no such class, or it has no such field
    /// @throws IllegalArgumentException if a field cannot lie on these tiers; nothing has changed
    ///   then
    /// @throws TierUnavailableException if it needs the remote tier, and that cannot be reached
    public RetierReport place(String type, Map<String, List<StorageTier>> fields) {
        return place(Map.of(type, fields));
    }

    /// Like [#place(String, Map)], for several classes at once: for all of them, or, if one of them
    /// is refused, for none.
    ///
    /// @param types the tiers of each class's fields
    public RetierReport place(Map<String, Map<String, List<StorageTier>>> types) {
        if (store.inTransaction()) {
            throw new IllegalStateException(
                    "values cannot be brought to other tiers within a transaction: that takes"
                            + " many");
        }
        return guarded(() -> {
            store.requireWritable();
            types.forEach(
                    (type, fields) -> this.types.requirePlaceable(type, fields, this::hasTier));
            if (types.values().stream().anyMatch(fields -> !fields.isEmpty())) {
                placements.prepare();
            }
            BitSet forms = new BitSet();
            change(() -> {
                types.forEach(this.types::place);
                return null;
            });
            types.keySet().forEach(type -> forms.or(this.types.formsOf(type)));
            return new Retierer(this, forms).run();
        });
    }

    /// The tiers that override tags, by class and field, as [#place] has set them.
    public Map<String, Map<String, List<StorageTier>>> placements() {
        return guarded(placements::all);
    }

    /// Seals the pool, durably: from now on, nothing that it stores ever changes. Each attempt to
    /// change it throws [PoolReadOnlyException], in this process at once. Fields in DRAM are not
    /// stored, so they can still be set, but for those of embedded objects. Processes that do not
    /// have it open yet open it to read, and read faster, because they need not look for changes. A
    /// seal is never taken back.
    ///
    /// Versions of this library that do not know seals can only read the pool.
    ///
    /// @throws IllegalStateException in a transaction
    /// @throws PoolReadOnlyException if the pool was opened to be read or is sealed, or in a
    ///   consistent read
    /// @throws TierUnavailableException if the remote tier has segments to delete and cannot be
    ///   reached; the pool is not sealed then
    public void seal() {
        guarded(() -> {
            store.seal().set(this::freeRemains);
            return null;
        });
    }

    /// Whether the pool is sealed.
    public boolean isSealed() {
        return guarded(() -> store.seal().isThere());
    }

    private void freeRemains() {
        if (!store.inTransaction()) {
            remains.freeAll();
        }
    }

    /// The remains of collections that were cleared or deleted.
    Remains remains() {
        return remains;
    }

    /// Shows the slots that the pool itself owns, and the references of its roots.
    void links(Links links) {
        types.links(links);
        placements.links(links);
        roots.links(links);
    }

    /// A handle of the object that a reference leads to, as [DurableObject#reference()] says it.
    ///
    /// @throws StaleReferenceException if it has been deleted
    /// @throws SchemaMismatchException if it is an object of another class
    public <D extends DurableObject> D object(ObjectType<D> type, long reference) {
        return guarded(() -> handle(type, reference));
    }

    /// As [#object(ObjectType, long)], for who tells what fails.
    <D extends DurableObject> D handle(ObjectType<D> type, long reference) {
        D handle = type.newHandle();
        bind(handle, type, reference);
        return handle;
    }

    /// Binds a handle to the object that a reference leads to.
    void bind(DurableObject handle, ObjectType<?> type, long reference) {
        long record = References.recordOf(reference);
        long header = store.header(record);
        if (!References.leadsTo(reference, header)) {
            throw store.stale(record);
        }
        store.requireBelongs(record, header);
        handle.bind(types.stored(type, Headers.type(header)), record, header);
    }

    @Nullable TypeMapping[] mappingsOf(ObjectType<?> type) {
        return types.mappingsOf(type);
    }

    TypeMapping mapping(ObjectType<?> type, int form) {
        return types.stored(type, form);
    }

    /// The form of new objects of a class. Call it in a transaction.
    TypeMapping currentMapping(ObjectType<?> type) {
        return types.current(type);
    }

    /// The form of a new extension of an object of a class. Call it in a transaction.
    ///
    /// @param held the form of each field in the object's existing records; null if none of them
    ///   holds the field
    TypeMapping extendingMapping(ObjectType<?> type, IntFunction<@Nullable FieldSpec> held) {
        return types.extending(type, held);
    }

    /// The classes that the pool stores, each in all its forms.
    List<StoredType> storedTypes() {
        return types.all();
    }

    /// The tiers that the pool has: persistent memory, then the tier of each disk, then the remote
    /// one, if there is one; as [#statistics()] counts them.
    public List<StorageTier> tiers() {
        return guarded(() -> {
            List<StorageTier> tiers = new ArrayList<>(List.of(StorageTier.PMEM));
            for (int disk = 0; disk < store.diskCount(); disk++) {
                tiers.add(StorageTier.valueOf(store.diskTier(disk).name()));
            }
            if (store.remote().isThere()) {
                tiers.add(StorageTier.REMOTE);
            }
            return tiers;
        });
    }

    private boolean hasTier(StorageTier tier) {
        return buffers.isThere(Medium.named(tier));
    }

    /// The tiers of each field of a form, by the present tags of its class.
    List<List<Medium>> media(StoredType stored) {
        return types.media(stored);
    }

    /// The tiers of a field, the best first.
    List<StorageTier> tiers(TypeMapping mapping, int field) {
        return types.tiers(mapping, field);
    }

    /// A number that changes when [#place] has changed something.
    int placementChanges() {
        return placements.changes();
    }

    StoredType storedType(int id) {
        return types.byId(id);
    }

    /// The pool as collections see it.
    PoolHeap heap() {
        return heap;
    }

    /// The pool's bytes.
    Store store() {
        return store;
    }

    /// The pool's buffers.
    Buffers buffers() {
        return buffers;
    }

    Fields fields() {
        return fields;
    }

    Balancer balancer() {
        return balancer;
    }

    ArrayFields arrays() {
        return arrays;
    }

    Comparisons comparisons() {
        return comparisons;
    }

    CollectionFields collections() {
        return collections;
    }

    <T extends @Nullable Object> T guarded(Supplier<T> work) {
        try {
            return work.get();
        } catch (StoreFailure | IllegalStateException | InternalError e) {
            throw explain(e);
        }
    }

    /// Translates a failure of the store, or to access the pool's memory; any other failure is
    /// thrown as it is.
    TerraceException explain(Throwable failure) {
        if (failure instanceof StoreFailure known) {
            return Failures.told(known);
        }
        if (closed && failure instanceof IllegalStateException) {
            return new PoolClosedException(name() + " has been closed", failure);
        }
        if (failure instanceof InternalError) {
            return new PoolDamagedException(
                    name() + ": a file was cut off, or its device fails: " + failure.getMessage(),
                    failure);
        }
        throw (IllegalStateException) failure;
    }

    /// Closes the pool, once it has been closed as often as it was opened. From then on, handles
    /// throw [PoolClosedException].
    ///
    /// @throws IllegalStateException in a transaction or a consistent read
    @Override
    public void close() {
        OpenPools.close(this);
    }

    @Nullable PoolFiles files() {
        return files;
    }

    String name() {
        return store.pmem().name();
    }

    /// Throws an exception if this thread is in a transaction or a consistent read: the thread
    /// would wait for itself.
    void requireNotAtWork() {
        if (store.isAtWork()) {
            throw new IllegalStateException(
                    name() + " cannot be closed within a transaction or a consistent read");
        }
    }

    void closeNow(PoolFiles its) {
        balancer.stop();
        closed = true;
        its.close();
    }
}
