package dev.terrace.objects;

import dev.terrace.objects.internal.store.Epoch;
import dev.terrace.objects.internal.store.Store;
import org.jspecify.annotations.Nullable;

/// Walks over all objects of a class, in the order in which they lie in persistent memory, with one
/// handle for all of them: a walk over a million objects makes no garbage.
///
/// Objects that are made or deleted meanwhile may be met or not. For one thread.
///
/// @param <D> the class
public final class Cursor<D extends DurableObject> {
    private final Pool pool;
    private final ObjectType<D> type;
    private final D handle;
    private final @Nullable TypeMapping[] mappings;
    private final Store store;
    private final Epoch epoch;

    /// Where objects of the class may be: a walk passes by chunks of other sizes.
    private final long sizes;

    private long at = -1;

    /// Which of the slots behind `at` are in use: bit 0 is the next. That was so when the epoch's
    /// changes were `copiedIn`.
    private long ahead;

    private long slotBytes;
    private long copiedIn;

    /// The form of the object that the handle was bound to last; null if that is not the one that
    /// getters expect, so that each is bound.
    private @Nullable TypeMapping bound;

    Cursor(Pool pool, ObjectType<D> type) {
        this.pool = pool;
        this.type = type;
        handle = type.newHandle();
        mappings = pool.mappingsOf(type);
        store = pool.store();
        long ofForms = 0;
        for (TypeMapping mapping : mappings) {
            ofForms |= mapping == null ? 0 : Store.sizeBit(mapping.bytes);
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
        } catch (IllegalStateException | InternalError e) {
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
                at = store.nextAllocated(at + 1, sizes);
                if (at < 0) {
                    return false;
                }
                slotBytes = store.sizeOf(-1, at);
                ahead = store.slotsAhead(at);
            }
            if (bind()) {
                return true;
            }
        }
    }

    /// Binds the handle to what is at `at`, if it is of the class.
    private boolean bind() {
        long header = store.word(at);
        if (!epoch.isStill(copiedIn)) {
            ahead = 0;
            if (!store.hasHeader(at)) {
                // It was a slot, and is none any more.
                at--;
                return false;
            }
        }
        int id = Pool.typeOf(header);
        TypeMapping mapping = id < mappings.length ? mappings[id] : null;
        if (mapping == null) {
            return false;
        }
        store.requireBelongs(at, header);
        handle.bind(pool, mapping, at, header);
        bound = mapping.isNative ? mapping : null;
        return true;
    }

    /// The object that this is at: the same handle each time. Who wants to keep it keeps a
    /// [#copy()].
    public D get() {
        return handle;
    }

    /// A handle of its own of the object that this is at.
    public D copy() {
        return pool.handle(type, handle.reference());
    }
}
