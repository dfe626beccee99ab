package dev.terrace.objects;

import dev.terrace.objects.internal.store.Chain;
import dev.terrace.objects.internal.store.Links;
import dev.terrace.objects.internal.store.Store;
import dev.terrace.objects.internal.store.Text;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// The roots of a pool: names that lead to objects and collections.
final class Roots {
    private final Pool pool;
    private final Store store;
    private final Chain chain;

    Roots(Pool pool, Chain chain) {
        this.pool = pool;
        this.store = pool.store();
        this.chain = chain;
    }

    /// The names of all roots.
    List<String> names() {
        return pool.read(() -> {
            List<String> names = new ArrayList<>();
            chain.forEach((key, valueAt) -> {
                names.add(String.valueOf(Text.decode(key)));
                return true;
            });
            return names;
        });
    }

    /// The reference of a root; 0 if it leads nowhere.
    long reference(String name) {
        return pool.read(() -> {
            long at = chain.find(Text.encode(name));
            return at < 0 ? 0L : store.word(at);
        });
    }

    /// Makes a root lead to an object, or nowhere.
    void set(String name, @Nullable DurableObject object) {
        if (object != null && object.pool() != pool) {
            throw new IllegalArgumentException(
                    "an object of another pool cannot be a root of this one");
        }
        pool.change(() -> {
            if (object != null && !object.isAlive()) {
                throw store.stale(object.record());
            }
            setReference(name, object == null ? 0 : object.reference());
            return null;
        });
    }

    /// Sets the reference of a root; 0: it leads nowhere.
    void setReference(String name, long reference) {
        pool.change(() -> {
            byte[] key = Text.encode(name);
            long at = chain.find(key);
            if (reference == 0) {
                chain.remove(key);
            } else if (at < 0) {
                chain.add(key, reference);
            } else {
                chain.set(at, reference);
            }
            return null;
        });
    }

    /// Shows the slots of the chain of roots, and the references of the roots.
    void links(Links links) {
        chain.links(links, true);
    }
}
