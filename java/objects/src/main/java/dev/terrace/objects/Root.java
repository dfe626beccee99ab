package dev.terrace.objects;

import org.jspecify.annotations.Nullable;

/// A name in a pool that leads to an object.
///
/// @param <D> the class of the object
public final class Root<D extends DurableObject> {
    private final Pool pool;
    private final String name;
    private final ObjectType<D> type;

    Root(Pool pool, String name, ObjectType<D> type) {
        this.pool = pool;
        this.name = name;
        this.type = type;
    }

    /// The object, or null.
    ///
    /// @throws StaleReferenceException if it has been deleted
    /// @throws SchemaMismatchException if the name leads to an object of another class
    public @Nullable D get() {
        long reference = pool.rootReference(name);
        return reference == 0 ? null : pool.object(type, reference);
    }

    /// Sets the object that the name leads to; null: none.
    public void set(@Nullable D object) {
        pool.setRoot(name, object);
    }
}
