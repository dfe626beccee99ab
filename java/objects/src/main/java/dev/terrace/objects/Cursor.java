package dev.terrace.objects;

import org.jspecify.annotations.Nullable;

/// Walks over all objects of a class, in the order in which they lie in persistent memory, with one handle for all of them: a walk over
/// a million objects makes no garbage.
///
/// Objects that are made or deleted meanwhile may be met or not. For one thread.
///
/// @param <D> the class
public final class Cursor<D extends DurableObject> {
    private final Pool pool;
    private final ObjectType<D> type;
    private final D handle;
    private final @Nullable TypeMapping[] mappings;
    private long next;

    Cursor(Pool pool, ObjectType<D> type) {
        this.pool = pool;
        this.type = type;
        handle = type.newHandle();
        mappings = pool.mappingsOf(type);
    }

    /// Goes to the next object, if there is one.
    public boolean next() {
        while (true) {
            long record = pool.store().nextAllocated(next);
            if (record < 0) {
                return false;
            }
            next = record + 1;
            long header = pool.store().word(record);
            int id = Pool.typeOf(header);
            TypeMapping mapping = id < mappings.length ? mappings[id] : null;
            if (mapping != null) {
                handle.bind(pool, mapping, record, header);
                return true;
            }
        }
    }

    /// The object that this is at: the same handle each time. Who wants to keep it keeps a [#copy()].
    public D get() {
        return handle;
    }

    /// A handle of its own of the object that this is at.
    public D copy() {
        return pool.handle(type, handle.reference());
    }
}
