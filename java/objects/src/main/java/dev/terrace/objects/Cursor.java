package dev.terrace.objects;

import dev.terrace.objects.internal.store.Epoch;
import dev.terrace.objects.internal.store.Headers;
import dev.terrace.objects.internal.store.Parts;
import dev.terrace.objects.internal.store.References;
import dev.terrace.objects.internal.store.Store;
import dev.terrace.objects.internal.store.StoreFailure;
import org.jspecify.annotations.Nullable;

/// Walks over all objects of a class, in the order in which they lie in persistent memory, or goes
/// from one to another by their references ([#at]). It uses one handle for all of them, so a walk
/// over a million objects makes no garbage.
///
/// The walk may or may not meet objects that are made or deleted meanwhile. For one thread.
///
/// @param <D> the class
public final class Cursor<D extends DurableObject> {
    private final Pool pool;
    private final ObjectType<D> type;
    private final D handle;
    private final @Nullable TypeMapping[] mappings;
    private final Store store;
    private final Epoch epoch;

    /// The sizes of chunks that may hold objects of the class: a walk skips all others.
    private final long sizes;

    private long at = -1;

    /// A bit for each slot behind `at` that is in use; bit 0 is the next slot. The bits were copied
    /// when the epoch's changes were `copiedIn`.
    private long ahead;

    private long slotBytes;
    private long copiedIn;

    /// The form of the object that the handle was bound to last. It is null if getters expect
    /// another form, so that the handle is bound to each object anew.
    private @Nullable TypeMapping bound;

    Cursor(Pool pool, ObjectType<D> type) {
        this.pool = pool;
        this.type = type;
        handle = type.newHandle();
        mappings = pool.mappingsOf(type);
        store = pool.store();
        long ofForms = 0;
        for (TypeMapping mapping : mappings) {
            ofForms |= mapping == null ? 0 : Parts.sizeBit(mapping.bytes);
        }
        sizes = ofForms;
        epoch = store.epoch();
    }

    /// Goes to the next object, if there is one.
    public boolean next() {
        try {
            if (ahead != 0 && bound != null) {
                skip();
                return handle.moveTo(at, bound.id, copiedIn) || bind() || search();
            }
            return search();
        } catch (StoreFailure | IllegalStateException | InternalError e) {
            throw pool.explain(e);
        }
    }

    private void skip() {
        int slots = Long.numberOfTrailingZeros(ahead) + 1;
        at += slots * slotBytes;
        ahead = ahead >>> slots - 1 >>> 1;
    }

    private boolean search() {
        while (true) {
            if (ahead != 0) {
                skip();
            } else {
                copiedIn = epoch.changes();
                at = store.parts().nextAllocated(at + 1, sizes);
                if (at < 0) {
                    return false;
                }
                slotBytes = store.parts().sizeOf(-1, at);
                ahead = store.parts().slotsAhead(at);
            }
            if (bind()) {
                return true;
            }
        }
    }

    /// Binds the handle to the object at `at`, if it is of the class.
    private boolean bind() {
        long header = store.word(at);
        if (!epoch.isStill(copiedIn)) {
            ahead = 0;
            if (!store.hasHeader(at)) {
                // The slot no longer exists.
                at--;
                return false;
            }
        }
        int id = Headers.type(header);
        TypeMapping mapping = id < mappings.length ? mappings[id] : null;
        if (mapping == null) {
            return false;
        }
        store.requireBelongs(at, header);
        handle.bind(pool, mapping, at, header);
        bound = mapping.isNative ? mapping : null;
        return true;
    }

    /// Goes to the object that a reference leads to, as [DurableObject#reference()] says it. A walk
    /// goes on behind that object.
    ///
    /// @return the cursor's handle, the same each time
    /// @throws StaleReferenceException if the object has been deleted
    /// @throws SchemaMismatchException if it is of another class
    public D at(long reference) {
        try {
            long record = References.recordOf(reference);
            if (bound == null || !handle.moveTo(record, bound.id, epoch.changes(), reference)) {
                pool.bind(handle, type, reference);
                bound = handle.mapping().isNative ? handle.mapping() : null;
            }
            at = record;
            ahead = 0;
            return handle;
        } catch (StoreFailure | IllegalStateException | InternalError e) {
            throw pool.explain(e);
        }
    }

    /// The pool that it walks in.
    public Pool pool() {
        return pool;
    }

    /// The object at the cursor. The handle is the same each time; use [#copy()] to keep the
    /// object.
    public D get() {
        return handle;
    }

    /// A separate handle of the object at the cursor.
    public D copy() {
        return pool.object(type, handle.reference());
    }
}
