package dev.terrace.objects;

import dev.terrace.objects.collections.Remains;
import dev.terrace.objects.internal.store.Buffers;
import dev.terrace.objects.internal.store.Chain;
import dev.terrace.objects.internal.store.Links;
import dev.terrace.objects.internal.store.Store;
import dev.terrace.objects.internal.store.Superblock;
import dev.terrace.objects.internal.store.Text;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.function.IntFunction;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/// A pool of durable objects.
///
/// Any number of threads may use it. One process writes, one of its threads at a time; others, and
/// other processes, see what has been committed.
public final class Pool implements AutoCloseable {
    /// Objects that are freed in one transaction.
    private static final int COLLECTED_AT_ONCE = 1000;

    private final @Nullable PoolFiles files;
    private final Store store;
    private final Buffers buffers;
    private final Types types;
    private final Placements placements;
    private final Chain roots;
    private final Fields fields;
    private final ArrayFields arrays;
    private final CollectionFields collections;
    private final Balancer balancer;
    private final Compactor compactor;
    private final Remains remains;
    private volatile @Nullable Profiling profiling;
    private volatile boolean closed;

    private Pool(Store store, @Nullable PoolFiles files) {
        this.files = files;
        this.store = store;
        buffers = new Buffers(store);
        placements = new Placements(store, new Chain(store, buffers, Superblock.PLACEMENTS_AT));
        types = new Types(this, new Chain(store, buffers, Superblock.TYPES_AT), placements);
        roots = new Chain(store, buffers, Superblock.ROOTS_AT);
        fields = new Fields(this);
        arrays = new ArrayFields(this);
        collections = new CollectionFields(this);
        balancer = new Balancer(this);
        compactor = new Compactor(this);
        remains = new Remains(this);
        store.prepare();
    }

    /// The pool in these files.
    static Pool on(PoolFiles files) {
        return new Pool(files.store(), files);
    }

    /// The pool in this store, which is no file's.
    static Pool on(Store store) {
        return new Pool(store, null);
    }

    /// Opens a pool, or makes it.
    ///
    /// A pool that is open in this process already is shared, and closed when it has been closed as
    /// often as it was opened. Who opens one to be read that is open to be written gets another,
    /// which sees what has been committed.
    ///
    /// @param directory that its file in persistent memory lies in
    /// @throws IOException if its files cannot be opened
    /// @throws PoolLockedException if another process writes to it, or it is open in this process
    ///   with other options
    /// @throws PoolFormatException if this is no pool, or one of a version that this library does
    ///   not know
    /// @throws PoolDamagedException if its files are not what they were
    /// @throws PoolFullException if there is no room to make it
    public static Pool open(Path directory, PoolOptions options) throws IOException {
        return OpenPools.open(directory, options);
    }

    /// As [#open(Path, PoolOptions)], as the defaults say.
    ///
    /// @throws IOException if its files cannot be opened
    public static Pool open(Path directory) throws IOException {
        return open(directory, PoolOptions.defaults());
    }

    /// Runs `work` as a transaction: all that it changes lasts, or, if it throws or the process
    /// ends meanwhile, nothing. Within another transaction it is a part of that one. Transactions
    /// of other threads wait.
    ///
    /// @throws PoolFullException if a tier has no room. Values that may also lie elsewhere have
    ///   made some then: another try may find it
    public <T extends @Nullable Object> T transact(Supplier<T> work) {
        return guarded(() -> {
            try {
                T result = store.transact(work);
                remains.tidy();
                return result;
            } catch (PoolFullException e) {
                if (!store.inTransaction() && !remains.freeAll()) {
                    balancer.makeRoom();
                }
                throw e;
            }
        });
    }

    /// As [#transact(Supplier)], of work that may be done again after it has found no room. For
    /// this library's own packages.
    public <T extends @Nullable Object> T change(Supplier<T> work) {
        return guarded(() -> {
            while (true) {
                try {
                    T result = store.transact(work);
                    remains.tidy();
                    return result;
                } catch (PoolFullException e) {
                    // What has moved leaves whole chunks free only with its neighbours.
                    if (store.inTransaction() || !remains.freeAll() && !balancer.makeRoom()) {
                        throw e;
                    }
                }
            }
        });
    }

    /// As [#transact(Supplier)], of work that has no result.
    public void transact(Runnable work) {
        transact(() -> {
            work.run();
            return null;
        });
    }

    /// Runs `work` so that all that it reads is of one committed state. It may be run more than
    /// once, and must not write.
    ///
    /// Where another process writes, a number that is set outside of a transaction may change
    /// between two looks at it: such a commit is of that one word.
    public <T extends @Nullable Object> T read(Supplier<T> work) {
        return guarded(() -> store.read(work));
    }

    /// A new object, all fields zero or null.
    public <D extends DurableObject> D create(ObjectType<D> type) {
        return change(() -> {
            TypeMapping mapping = types.current(type);
            long record = store.allocate(mapping.bytes, mapping.id);
            D object = type.newHandle();
            object.bind(this, mapping, record, store.word(record));
            return object;
        });
    }

    /// Walks over all objects of a class.
    public <D extends DurableObject> Cursor<D> cursor(ObjectType<D> type) {
        return guarded(() -> new Cursor<>(this, type));
    }

    /// Begins to count what this process does with fields. Until that is closed nothing is read in
    /// place, so all is slower.
    ///
    /// @throws IllegalStateException if that is being done already
    public Profiling profile() {
        return Profiling.begin(this);
    }

    /// Who counts what is done with fields; null if nobody does.
    @Nullable Profiling profiling() {
        return profiling;
    }

    void setProfiling(@Nullable Profiling newProfiling) {
        profiling = newProfiling;
    }

    /// What has happened since the pool was opened, and what is in use.
    public PoolStatistics statistics() {
        return guarded(store.usage()::statistics);
    }

    /// Bytes of fields with several tags that came back to persistent memory since the pool was
    /// opened.
    public long promotedBytes() {
        return balancer.promotedBytes();
    }

    /// Bytes of fields with several tags that had to leave persistent memory since the pool was
    /// opened.
    public long demotedBytes() {
        return balancer.demotedBytes();
    }

    /// The root of this name.
    public <D extends DurableObject> Root<D> root(String name, ObjectType<D> type) {
        return new Root<>(this, name, type);
    }

    /// The root of this name.
    public <D extends DurableObject> Root<D> root(String name, Class<D> handle) {
        return root(name, ObjectType.of(handle));
    }

    /// The names of all roots.
    public List<String> rootNames() {
        return read(() -> {
            List<String> names = new ArrayList<>();
            roots.forEach((key, valueAt) -> {
                names.add(String.valueOf(Text.decode(key)));
                return true;
            });
            return names;
        });
    }

    /// Where a root leads to; 0 if nowhere. For this library's own packages.
    public long rootReference(String name) {
        return read(() -> {
            long at = roots.find(Text.encode(name));
            return at < 0 ? 0L : store.word(at);
        });
    }

    void setRoot(String name, @Nullable DurableObject object) {
        if (object != null && object.pool() != this) {
            throw new IllegalArgumentException(
                    "an object of another pool cannot be a root of this one");
        }
        change(() -> {
            if (object != null && !object.isAlive()) {
                throw store.stale(object.record());
            }
            setRootReference(name, object == null ? 0 : object.reference());
            return null;
        });
    }

    /// Has a root lead to what is there; 0: nowhere. For this library's own packages.
    public void setRootReference(String name, long reference) {
        change(() -> {
            byte[] key = Text.encode(name);
            long at = roots.find(key);
            if (reference == 0) {
                roots.remove(key);
            } else if (at < 0) {
                roots.add(key, reference);
            } else {
                roots.set(at, reference);
            }
            return null;
        });
    }

    /// Looks at all of the pool: whether it is sound, and what no root reaches. Others cannot write
    /// meanwhile.
    public PoolReport check() {
        return guarded(() ->
                store.alone(() -> {
                    PoolReport report = new Survey(this).run();
                    store.requireKnownFormat();
                    return report;
                }));
    }

    /// Frees what no root reaches. Handles of such objects lead nowhere afterwards.
    ///
    /// @return what there was
    /// @throws PoolDamagedException if the pool is not sound: what is reachable cannot be told then
    public PoolReport collect() {
        return guarded(() ->
                store.alone(() -> {
                    freeRemains();
                    Survey survey = new Survey(this);
                    PoolReport report = survey.run();
                    if (!report.problems().isEmpty()) {
                        throw new PoolDamagedException(
                                "the pool is damaged, so nothing of it is freed: "
                                        + report.problems().getFirst());
                    }
                    List<Buffers.Place> leaks = survey.leaks();
                    for (int from = 0; from < leaks.size(); from += COLLECTED_AT_ONCE) {
                        List<Buffers.Place> some =
                                leaks.subList(
                                        from, Math.min(leaks.size(), from + COLLECTED_AT_ONCE));
                        transact(
                                () -> some.forEach(leak -> store.free(leak.disk(), leak.offset())));
                    }
                    return report;
                }));
    }

    /// Moves strings, arrays and other values closer together, each on its tier, so that chunks of
    /// which little was in use come free for other sizes, disks' files get shorter, and segments of
    /// a remote tier of which little was in use are deleted. Objects stay where they are, and the
    /// file in persistent memory as long as it is. A value that is damaged stays, too, for
    /// [#check()] to tell of. Others read and write meanwhile; whatever ends this in the middle,
    /// the pool is sound, and the next call goes on.
    ///
    /// @return what it has done
    /// @throws IllegalStateException in a transaction
    /// @throws PoolReadOnlyException if the pool was opened to be read, or in a consistent read
    /// @throws TierUnavailableException if the remote tier cannot be reached; the others have been
    ///   compacted then
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

    /// Brings values of a class that were stored while its tags were others to the tiers that they
    /// name now: each to the first that has room, also those in collections that its objects own.
    /// What lies within a record stays there, as objects do not move, and so does a value that is
    /// damaged. Others read and write meanwhile; whatever ends this in the middle, the pool is
    /// sound, and the next call goes on.
    ///
    /// @return what it has done
    /// @throws IllegalStateException in a transaction
    /// @throws SchemaMismatchException if the class is not what the pool has stored of it
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

    /// Has values of a class lie on other tiers than its tags say, from now on and for all
    /// programs, and brings those there are to them, as [#retier(ObjectType)] does. Of each field
    /// the tiers that are named hold, of others the tags again; without any all tags do. Fields
    /// that lie within the records cannot be named, since objects do not move. Others read and
    /// write meanwhile; if this ends in the middle, [#retier] goes on.
    ///
    /// From then on libraries that do not know this only read the pool.
    ///
    /// @param type the tagged class, fully qualified
    /// @param fields of each field the tiers, the best first; of a collection those of the texts
    ///   and bytes in it
    /// @return what it has done
    /// @throws IllegalStateException in a transaction
    /// @throws SchemaMismatchException if the pool knows no such class, or it has no such field
    /// @throws IllegalArgumentException if a field cannot lie on these tiers; nothing is changed
    ///   then
    /// @throws TierUnavailableException if it needs the remote tier, and that cannot be reached
    public RetierReport place(String type, Map<String, List<StorageTier>> fields) {
        return place(Map.of(type, fields));
    }

    /// As [#place(String, Map)], of several classes at once: of all, or, if one cannot be, of none.
    ///
    /// @param types of each class the tiers of its fields
    public RetierReport place(Map<String, Map<String, List<StorageTier>>> types) {
        if (store.inTransaction()) {
            throw new IllegalStateException(
                    "values cannot be brought to other tiers within a transaction: that takes"
                            + " many");
        }
        return guarded(() -> {
            store.requireWritable();
            types.forEach(
                    (type, fields) -> this.types.requirePlaceable(type, fields, buffers::isThere));
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

    /// The tiers that hold instead of tags, by class and field: what [#place] was told.
    public Map<String, Map<String, List<StorageTier>>> placements() {
        return guarded(placements::all);
    }

    private void freeRemains() {
        if (!store.inTransaction()) {
            remains.freeAll();
        }
    }

    /// What is left of collections that were cleared or deleted. For this library's own packages.
    public Remains remains() {
        return remains;
    }

    /// Shows what the pool itself owns, and where its roots lead.
    void links(Links links) {
        types.links(links);
        placements.links(links);
        roots.links(links, true);
    }

    /// Whether what a reference leads to has this header. For this library's own packages.
    public static boolean leadsTo(long reference, long header) {
        return (header & 0xffffff) == reference >>> 40 && typeOf(header) != 0;
    }

    /// The number of what has this header: of a class, or of something that the library keeps. For
    /// this library's own packages.
    public static int typeOf(long header) {
        return (int) (header >>> 24) & 0xffff;
    }

    /// Where the object with this header is, and which of those that have been there. For this
    /// library's own packages.
    public static long reference(long record, long header) {
        return (header & 0xffffff) << 40 | record >>> 4;
    }

    /// Where the object that a reference leads to begins. For this library's own packages.
    public static long recordOf(long reference) {
        return (reference & (1L << 40) - 1) << 4;
    }

    /// A handle of the object that a reference leads to. For this library's own packages.
    ///
    /// @throws StaleReferenceException if it has been deleted
    public <D extends DurableObject> D handle(ObjectType<D> type, long reference) {
        D handle = type.newHandle();
        bind(handle, type, reference);
        return handle;
    }

    /// Binds a handle to the object that a reference leads to.
    void bind(DurableObject handle, ObjectType<?> type, long reference) {
        long record = recordOf(reference);
        long header = store.header(record);
        if (!leadsTo(reference, header)) {
            throw store.stale(record);
        }
        store.requireBelongs(record, header);
        handle.bind(this, types.stored(type, typeOf(header)), record, header);
    }

    @Nullable TypeMapping[] mappingsOf(ObjectType<?> type) {
        return types.mappingsOf(type);
    }

    TypeMapping mapping(ObjectType<?> type, int form) {
        return types.stored(type, form);
    }

    /// How new objects of a class are stored. In a transaction.
    TypeMapping currentMapping(ObjectType<?> type) {
        return types.current(type);
    }

    /// How a new extension of an object of a class is stored. In a transaction.
    ///
    /// @param held how each field is held by what the object has already; null if it is not
    TypeMapping extendingMapping(ObjectType<?> type, IntFunction<@Nullable FieldSpec> held) {
        return types.extending(type, held);
    }

    /// The classes that the pool knows, each in all its forms.
    List<StoredType> storedTypes() {
        return types.all();
    }

    /// Where values of each field of a form may lie by the tags that its class has now.
    List<List<StorageTier>> tiers(StoredType stored) {
        return types.tiers(stored);
    }

    /// Where values of a field may lie, the best first.
    List<StorageTier> tiers(TypeMapping mapping, int field) {
        return types.tiers(mapping.type, mapping.field(field));
    }

    /// A number that is another after [#place] has said something.
    int placementChanges() {
        return placements.changes();
    }

    StoredType storedType(int id) {
        return types.byId(id);
    }

    /// The pool's bytes. For this library's own packages.
    public Store store() {
        return store;
    }

    /// The pool's buffers. For this library's own packages.
    public Buffers buffers() {
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

    CollectionFields collections() {
        return collections;
    }

    <T extends @Nullable Object> T guarded(Supplier<T> work) {
        try {
            return work.get();
        } catch (IllegalStateException | InternalError e) {
            throw explain(e);
        }
    }

    /// What a failure to reach the pool's memory means; anything else is thrown as it is.
    TerraceException explain(Throwable failure) {
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

    /// Closes the pool, if it has been closed as often as it was opened: from then on handles throw
    /// [PoolClosedException].
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

    /// Throws if this thread is in the middle of something: whoever waits for that to end would
    /// wait for itself.
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
