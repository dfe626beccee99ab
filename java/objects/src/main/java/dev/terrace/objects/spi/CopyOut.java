package dev.terrace.objects.spi;

import dev.terrace.objects.DurableObject;
import dev.terrace.objects.Pool;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.NavigableSet;
import java.util.Set;
import java.util.SortedMap;
import java.util.SortedSet;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/// A single copy operation of durable objects into plain ones. It remembers the objects that it has
/// copied. For generated code.
public final class CopyOut {
    private final Map<DurableObject, Object> copies = new HashMap<>();
    private final Set<DurableObject> inTheMaking = new HashSet<>();
    private final Deque<Runnable> unfilled = new ArrayDeque<>();

    private CopyOut() {}

    /// Copies the objects that `start` asks for and all objects that they lead to, as of one
    /// committed state.
    public static <T extends @Nullable Object> T run(
            Pool pool, Function<? super CopyOut, ? extends T> start) {
        return pool.read(() -> {
            CopyOut copies = new CopyOut();
            T result = start.apply(copies);
            for (Runnable next = copies.unfilled.poll();
                    next != null;
                    next = copies.unfilled.poll()) {
                next.run();
            }
            return result;
        });
    }

    /// The plain copy of an object.
    ///
    /// @throws IllegalStateException for a record that leads back to itself
    public <P, D extends DurableObject> @Nullable P object(@Nullable D from, Copier<P, D> copier) {
        return from == null ? null : required(from, copier);
    }

    /// A list of a collection's elements.
    public <E> @Nullable List<E> list(@Nullable Collection<E> from) {
        return from == null ? null : new ArrayList<>(from);
    }

    /// A list of the plain copies of a collection's elements.
    public <P, D extends DurableObject> @Nullable List<@Nullable P> list(
            @Nullable Collection<D> from, Copier<P, D> copier) {
        if (from == null) {
            return null;
        }
        List<@Nullable P> out = new ArrayList<>(from.size());
        for (D each : from) {
            out.add(object(each, copier));
        }
        return out;
    }

    /// A set of a set's elements.
    public <E> @Nullable Set<E> set(@Nullable Set<E> from) {
        return from == null ? null : new HashSet<>(from);
    }

    /// A sorted set of a sorted set's elements.
    public <E> @Nullable NavigableSet<E> sortedSet(@Nullable SortedSet<E> from) {
        return from == null ? null : new TreeSet<>(from);
    }

    /// A map of a map's entries.
    public <K, V> @Nullable Map<K, V> map(@Nullable Map<K, V> from) {
        return from == null ? null : new HashMap<>(from);
    }

    /// A map of the plain copies of a map's values, at the same keys.
    public <K, P, D extends DurableObject> @Nullable Map<K, @Nullable P> map(
            @Nullable Map<K, D> from, Copier<P, D> copier) {
        if (from == null) {
            return null;
        }
        Map<K, @Nullable P> out = HashMap.newHashMap(from.size());
        from.forEach((key, value) -> out.put(key, object(value, copier)));
        return out;
    }

    /// A sorted map of a sorted map's entries.
    public <K, V> @Nullable NavigableMap<K, V> tree(@Nullable SortedMap<K, V> from) {
        return from == null ? null : new TreeMap<>(from);
    }

    /// A sorted map of the plain copies of a sorted map's values, at the same keys.
    public <K, P, D extends DurableObject> @Nullable NavigableMap<K, @Nullable P> tree(
            @Nullable SortedMap<K, D> from, Copier<P, D> copier) {
        if (from == null) {
            return null;
        }
        NavigableMap<K, @Nullable P> out = new TreeMap<>(from.comparator());
        from.forEach((key, value) -> out.put(key, object(value, copier)));
        return out;
    }

    <P, D extends DurableObject> P required(D from, Copier<P, D> copier) {
        Object known = copies.get(from);
        if (known != null) {
            return copier.plain().cast(known);
        }
        if (!inTheMaking.add(from)) {
            throw new IllegalStateException(
                    "a "
                            + copier.plain().getName()
                            + " leads back to itself: a record cannot be made before what it"
                            + " holds");
        }
        P made = copier.make(from, this);
        inTheMaking.remove(from);
        copies.put(from, made);
        unfilled.add(() -> copier.load(from, made, this));
        return made;
    }
}
