package dev.terrace.objects;

import dev.terrace.objects.internal.store.Text;
import java.lang.reflect.Array;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/// Counts the accesses of this process to the fields of a pool's objects, in all threads, from
/// [Pool#profile()] until it is closed: the instrumented run of the paper's section 3.4. No class
/// is generated for it. Meanwhile getters do not read in place, but take the slow path, which
/// counts them. Without a profile, counting costs nothing.
///
/// In collections, only strings, byte arrays and other values of more than a word that are read or
/// written as elements or values are counted, for the field that leads to the collection: the
/// field's tiers apply to them. All other values in a collection lie in persistent memory.
public final class Profiling implements AutoCloseable {
    private final Pool pool;
    private final long since = System.nanoTime();
    private final Map<ObjectType<?>, Counts[]> classes = new ConcurrentHashMap<>();
    private boolean closed;

    private static final class Counts {
        final LongAdder reads = new LongAdder();
        final LongAdder writes = new LongAdder();
        final LongAdder elementReads = new LongAdder();
        final LongAdder elementWrites = new LongAdder();
        final LongAdder bytesRead = new LongAdder();
        final LongAdder bytesWritten = new LongAdder();
        final LongAdder recomputations = new LongAdder();
        final LongAdder recomputeNanos = new LongAdder();

        void add(Counts other) {
            reads.add(other.reads.sum());
            writes.add(other.writes.sum());
            elementReads.add(other.elementReads.sum());
            elementWrites.add(other.elementWrites.sum());
            bytesRead.add(other.bytesRead.sum());
            bytesWritten.add(other.bytesWritten.sum());
            recomputations.add(other.recomputations.sum());
            recomputeNanos.add(other.recomputeNanos.sum());
        }

        FieldProfile profile(FieldSpec field, double bytesStored) {
            return new FieldProfile(
                    field,
                    reads.sum(),
                    writes.sum(),
                    elementReads.sum(),
                    elementWrites.sum(),
                    bytesRead.sum(),
                    bytesWritten.sum(),
                    bytesStored,
                    recomputations.sum(),
                    recomputeNanos.sum());
        }
    }

    private Profiling(Pool pool) {
        this.pool = pool;
    }

    static Profiling begin(Pool pool) {
        synchronized (pool) {
            if (pool.profiling() != null) {
                throw new IllegalStateException(
                        pool.name() + " is being profiled already: close that profiling first");
            }
            Profiling profiling = new Profiling(pool);
            pool.setProfiling(profiling);
            pool.store().distrust();
            return profiling;
        }
    }

    /// Ends the counting. [#profile()] still gives the counts, as long as the pool is open.
    @Override
    public void close() {
        synchronized (pool) {
            if (!closed) {
                closed = true;
                pool.setProfiling(null);
                pool.store().trust();
            }
        }
    }

    static void read(DurableObject object, int field, long bytes) {
        Counts counts = countsOf(object, field);
        if (counts != null) {
            counts.reads.increment();
            counts.bytesRead.add(bytes);
        }
    }

    /// A value of a field was read.
    static void read(DurableObject object, int field, @Nullable Object value) {
        if (object.pool().profiling() != null) {
            read(object, field, bytesOf(object.mapping().field(field), value));
        }
    }

    static void written(DurableObject object, int field, long bytes) {
        Counts counts = countsOf(object, field);
        if (counts != null) {
            counts.writes.increment();
            counts.bytesWritten.add(bytes);
        }
    }

    /// A value of a field was written.
    static void written(DurableObject object, int field, @Nullable Object value) {
        if (object.pool().profiling() != null) {
            written(object, field, bytesOf(object.mapping().field(field), value));
        }
    }

    static void readElement(DurableObject object, int field) {
        Counts counts = countsOf(object, field);
        if (counts != null) {
            counts.elementReads.increment();
        }
    }

    static void writtenElement(DurableObject object, int field) {
        Counts counts = countsOf(object, field);
        if (counts != null) {
            counts.elementWrites.increment();
        }
    }

    /// Computes a value, and measures the time if a profile is being made.
    static <T extends @Nullable Object> T recompute(
            DurableObject object, int field, Supplier<T> how) {
        Counts counts = countsOf(object, field);
        if (counts == null) {
            return how.get();
        }
        long since = System.nanoTime();
        T value = how.get();
        counts.recomputations.increment();
        counts.recomputeNanos.add(System.nanoTime() - since);
        return value;
    }

    /// The counts of a field; null if no profile is being made.
    private static @Nullable Counts countsOf(DurableObject object, int field) {
        Profiling profiling = object.pool().profiling();
        return profiling == null ? null : profiling.counts(object, field);
    }

    private Counts counts(DurableObject object, int field) {
        ObjectType<?> type = object.mapping().type;
        Counts[] known = classes.get(type);
        return (known == null ? classes.computeIfAbsent(type, Profiling::newCounts) : known)[field];
    }

    private static Counts[] newCounts(ObjectType<?> type) {
        return Stream.generate(Counts::new).limit(type.fields().size()).toArray(Counts[]::new);
    }

    /// Bytes of a value where it is stored; none for null.
    static long bytesOf(FieldSpec field, @Nullable Object value) {
        return switch (value) {
            case null -> 0;
            case String text -> Text.encode(text).length;
            case byte[] bytes -> bytes.length;
            case Object array when array.getClass().isArray() && field.kind().isArray() ->
                    (long) Array.getLength(array) * field.kind().width();
            default -> field.kind().width();
        };
    }

    /// The counts so far, with the present number and sizes of objects, for which it walks over the
    /// whole pool.
    ///
    /// @throws PoolClosedException if the pool has been closed
    /// @throws PoolBusyException if the pool is read-only, and another process commits all the time
    public Profile profile() {
        long nanos = System.nanoTime() - since;
        return new Profile(nanos, pool.guarded(this::classProfiles));
    }

    private List<ClassProfile> classProfiles() {
        Map<Integer, Inventory.Stock> stocks = Inventory.of(pool);
        Map<String, List<StoredType>> forms = new TreeMap<>();
        pool.storedTypes()
                .forEach(form ->
                        forms.computeIfAbsent(nameOf(form), _ -> new ArrayList<>()).add(form));
        Map<String, List<FieldSpec>> fields = new TreeMap<>();
        forms.forEach((name, its) -> fields.put(name, its.getLast().fields()));
        // The fields that the program's class has now, which may not be those that the pool has
        // stored.
        classes.keySet().forEach(type -> fields.put(type.name(), type.fields()));
        List<ClassProfile> found = new ArrayList<>();
        fields.forEach((name, its) ->
                found.add(classProfile(name, its, forms.getOrDefault(name, List.of()), stocks)));
        return found;
    }

    /// The present name of a class that a pool has stored.
    private String nameOf(StoredType stored) {
        return classes.keySet().stream()
                .filter(type -> type.formerly().contains(stored.name()))
                .map(ObjectType::name)
                .findAny()
                .orElse(stored.name());
    }

    private ClassProfile classProfile(
            String name,
            List<FieldSpec> fields,
            List<StoredType> forms,
            Map<Integer, Inventory.Stock> stocks) {
        Map<String, Counts> counted = new HashMap<>();
        classes.forEach((type, counts) -> {
            for (int i = 0; i < counts.length && type.name().equals(name); i++) {
                counted.computeIfAbsent(type.fields().get(i).name(), _ -> new Counts())
                        .add(counts[i]);
            }
        });
        List<FieldProfile> profiles = new ArrayList<>();
        for (FieldSpec field : fields) {
            boolean isOfOneLength = field.isInline() && !field.isCollection() || field.isVolatile();
            double bytes = isOfOneLength ? field.inlineBytes() : meanBytes(field, forms, stocks);
            profiles.add(counted.getOrDefault(field.name(), new Counts()).profile(field, bytes));
        }
        long objects = stocksOf(forms, stocks).mapToLong(Inventory.Stock::objects).sum();
        return new ClassProfile(name, objects, profiles);
    }

    private static Stream<Inventory.Stock> stocksOf(
            List<StoredType> forms, Map<Integer, Inventory.Stock> stocks) {
        return forms.stream().map(StoredType::id).filter(stocks::containsKey).map(stocks::get);
    }

    /// Bytes that a field takes in an object, in any form of its class and under any of its names.
    private static double meanBytes(
            FieldSpec field, List<StoredType> forms, Map<Integer, Inventory.Stock> stocks) {
        double bytes = 0;
        for (StoredType form : forms) {
            Inventory.Stock stock = stocks.get(form.id());
            for (int i = 0; i < form.fields().size() && stock != null; i++) {
                String then = form.fields().get(i).name();
                bytes +=
                        then.equals(field.name()) || field.formerly().contains(then)
                                ? stock.bytes(i)
                                : 0;
            }
        }
        long measured = stocksOf(forms, stocks).mapToLong(Inventory.Stock::measured).sum();
        return bytes / Math.max(1, measured);
    }
}
