package dev.terrace.objects.spi;

import dev.terrace.objects.DurableObject;
import dev.terrace.objects.Pool;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/// A single copy operation of plain objects into a pool. It remembers the objects that it has
/// copied. For generated code.
public final class CopyIn {
    private final Pool pool;
    private final Map<Object, DurableObject> copies = new IdentityHashMap<>();
    private final Deque<Runnable> unfilled = new ArrayDeque<>();

    private CopyIn(Pool pool) {
        this.pool = pool;
    }

    /// Copies, in one transaction, the objects that `start` asks for and all objects that they lead
    /// to.
    public static <T> T run(Pool pool, Function<? super CopyIn, ? extends T> start) {
        return pool.transact(() -> {
            CopyIn copies = new CopyIn(pool);
            T result = start.apply(copies);
            for (Runnable next = copies.unfilled.poll();
                    next != null;
                    next = copies.unfilled.poll()) {
                next.run();
            }
            return result;
        });
    }

    /// The durable copy of an object.
    public <P, D extends DurableObject> @Nullable D object(@Nullable P from, Copier<P, D> copier) {
        return from == null ? null : required(from, copier);
    }

    /// The durable copies of a collection's elements.
    public <P, D extends DurableObject> @Nullable List<@Nullable D> list(
            @Nullable Collection<? extends @Nullable P> from, Copier<P, D> copier) {
        if (from == null) {
            return null;
        }
        List<@Nullable D> out = new ArrayList<>(from.size());
        for (P each : from) {
            out.add(object(each, copier));
        }
        return out;
    }

    /// The durable copies of a map's values, at the same keys in the same order.
    public <K, P, D extends DurableObject> @Nullable Map<K, @Nullable D> map(
            @Nullable Map<K, ? extends @Nullable P> from, Copier<P, D> copier) {
        if (from == null) {
            return null;
        }
        Map<K, @Nullable D> out = LinkedHashMap.newLinkedHashMap(from.size());
        from.forEach((key, value) -> out.put(key, object(value, copier)));
        return out;
    }

    /// The durable copies of a sorted map's values, at the same keys in the same order.
    public <K, P, D extends DurableObject> @Nullable SortedMap<K, @Nullable D> tree(
            @Nullable SortedMap<K, ? extends @Nullable P> from, Copier<P, D> copier) {
        if (from == null) {
            return null;
        }
        SortedMap<K, @Nullable D> out = new TreeMap<>(from.comparator());
        from.forEach((key, value) -> out.put(key, object(value, copier)));
        return out;
    }

    <P, D extends DurableObject> D required(P from, Copier<P, D> copier) {
        DurableObject known = copies.get(from);
        if (known != null) {
            // An object has one class, and a class one copier.
            @SuppressWarnings("unchecked")
            D copy = (D) known;
            return copy;
        }
        Copier.exactly(copier.plain(), from);
        D into = pool.create(copier.type());
        copyTo(into, from, copier);
        return into;
    }

    <P, D extends DurableObject> void copyTo(D into, P from, Copier<P, D> copier) {
        Copier.exactly(copier.plain(), from);
        copies.put(from, into);
        unfilled.add(() -> copier.store(into, from, this));
    }
}
