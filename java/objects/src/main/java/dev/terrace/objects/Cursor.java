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
/// over a million objects makes no garbage. It also reads fields of some dozen objects together
/// ([#nextBatch()]).
///
/// The walk may or may not meet objects that are made or deleted meanwhile. For one thread.
///
/// @param <D> the class
public final class Cursor<D extends DurableObject> {
    /// The greatest number of objects of a batch.
    public static final int BATCH_MAX = Batch.OBJECTS_MAX;

    private final Pool pool;
    private final ObjectType<D> type;
    private final D handle;
    private final @Nullable TypeMapping[] mappings;
    private final Store store;
    private final Epoch epoch;

    /// The chunks that may hold objects of the class: a walk skips all others.
    private final Parts.Wanted chunks = new Parts.Wanted();

    /// The objects that are read together; null until there were any.
    private @Nullable Batch batch;

    private long at = -1;

    /// A bit for each slot behind `at` that is in use; bit 0 is the next slot. The bits were copied
    /// when the epoch's changes were `copiedIn`.
    private long ahead;

    /// Bytes from the begin of a slot to that of the next.
    private long step;

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
        for (TypeMapping mapping : mappings) {
            if (mapping != null) {
                mapping.addTo(chunks);
            }
        }
        epoch = store.epoch();
    }

    /// Goes to the next object, if there is one. If not, the call after that begins anew.
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
        at += slots * step;
        ahead = ahead >>> slots - 1 >>> 1;
    }

    private boolean search() {
        while (true) {
            if (ahead != 0) {
                skip();
            } else {
                copiedIn = epoch.changes();
                at = store.parts().nextAllocated(at + 1, chunks);
                if (at < 0) {
                    return false;
                }
                step = store.parts().stepAt(at);
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
            header = committedHeader();
            if (header == 0) {
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
        handle.bind(mapping, at, header);
        bound = mapping.isNative ? mapping : null;
        return true;
    }

    /// The header of the part at `at`; 0 if none is in use. In place there may be the header of an
    /// object that is not committed, since the slot may have been free for a moment.
    private long committedHeader() {
        return store.read(() -> store.parts().isAllocated(-1, at) ? store.word(at) : 0L);
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

    /// Has the walk go on behind the place of an object, whether or not the object still exists. So
    /// a walk can be interrupted, and a part of it repeated.
    ///
    /// @param reference as [DurableObject#reference()] or [#reference(int)] said it; 0: the walk
    ///   begins anew
    public void goOnBehind(long reference) {
        at = reference == 0 ? -1 : References.recordOf(reference);
        ahead = 0;
    }

    /// Goes to the next objects, to read fields of all of them together: some that lie close to
    /// each other, [#BATCH_MAX] at most. Generated classes have a method for each field that can be
    /// read so, as `DurablePerson.copyAge(cursor, ages, 0)`; [#copyInts(int, int[], int)] and its
    /// like take the field's number.
    ///
    /// Values that lie within the objects' records, of 16 KiB at most, are of one commit: the last
    /// one when the batch was read. All other values are read when they are copied, and so are
    /// those of a batch with a single object; that object may have been deleted by then. In a
    /// transaction each batch has a single object, with what the transaction has made of it.
    ///
    /// Of a class in columns ([Columnar]), the values of each field within the records are of one
    /// commit: that of the batch, or if another came between, the last one when they are copied.
    ///
    /// [#get()] leads to the first of the objects. The walk goes on behind the last.
    ///
    /// @return how many; 0 if there are no more objects. The call after that begins anew
    public int nextBatch() {
        Batch objects = batch();
        objects.clear();
        if (next()) {
            take(objects);
        }
        return objects.count();
    }

    private void take(Batch objects) {
        try {
            if (bound == null) {
                objects.take(handle);
                return;
            }
            int slots = objects.take(handle, bound, step, ahead, copiedIn);
            at += slots * step;
            ahead = slots == 0 ? ahead : ahead >>> slots - 1 >>> 1;
        } catch (StoreFailure | IllegalStateException | InternalError e) {
            throw pool.explain(e);
        }
    }

    private Batch batch() {
        Batch known = batch;
        if (known == null) {
            known = new Batch(pool, type, mappings);
            batch = known;
        }
        return known;
    }

    /// The reference of an object of the batch, as [DurableObject#reference()] says it.
    ///
    /// @param index its number in the batch, from 0 on
    public long reference(int index) {
        return batch().reference(index);
    }

    /// Copies a field of the batch's objects into an array, the value of one object behind that of
    /// the other. The field is a primitive that is never null, or an array of a fixed length.
    ///
    /// @param field the number of the field, as [ObjectType#fields()] lists it
    /// @param from the element of `into` to begin with
    /// @return how many elements were copied
    /// @throws IllegalArgumentException if the field holds something else
    /// @throws IndexOutOfBoundsException if they do not fit into the array; nothing was copied then
    /// @throws StaleReferenceException if a value was read only now, and its object has been
    ///   deleted
    public int copyBooleans(int field, boolean[] into, int from) {
        return copy(field, FieldKind.BOOLEAN, into, from, into.length);
    }

    /// As [#copyBooleans(int, boolean[], int)].
    public int copyBytes(int field, byte[] into, int from) {
        return copy(field, FieldKind.BYTE, into, from, into.length);
    }

    /// As [#copyBooleans(int, boolean[], int)].
    public int copyShorts(int field, short[] into, int from) {
        return copy(field, FieldKind.SHORT, into, from, into.length);
    }

    /// As [#copyBooleans(int, boolean[], int)].
    public int copyChars(int field, char[] into, int from) {
        return copy(field, FieldKind.CHAR, into, from, into.length);
    }

    /// As [#copyBooleans(int, boolean[], int)].
    public int copyInts(int field, int[] into, int from) {
        return copy(field, FieldKind.INT, into, from, into.length);
    }

    /// As [#copyBooleans(int, boolean[], int)].
    public int copyFloats(int field, float[] into, int from) {
        return copy(field, FieldKind.FLOAT, into, from, into.length);
    }

    /// As [#copyBooleans(int, boolean[], int)].
    public int copyLongs(int field, long[] into, int from) {
        return copy(field, FieldKind.LONG, into, from, into.length);
    }

    /// As [#copyBooleans(int, boolean[], int)].
    public int copyDoubles(int field, double[] into, int from) {
        return copy(field, FieldKind.DOUBLE, into, from, into.length);
    }

    private int copy(int field, FieldKind kind, Object into, int from, int length) {
        try {
            return batch().copy(field, kind, into, from, length);
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
