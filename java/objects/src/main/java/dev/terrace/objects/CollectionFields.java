package dev.terrace.objects;

import dev.terrace.objects.internal.collections.CollectionRecords;
import dev.terrace.objects.internal.store.References;
import java.util.function.LongFunction;
import java.util.function.ToLongFunction;
import org.jspecify.annotations.Nullable;

/// Fields that are collections: references to what the object owns. A collection is deleted when
/// its object is deleted, or another is set.
final class CollectionFields {
    private final Pool pool;
    private final Fields fields;

    CollectionFields(Pool pool) {
        this.pool = pool;
        fields = pool.fields();
    }

    /// The collection of a field, opened by its reference; null if there is none.
    <C> @Nullable C get(DurableObject object, int field, LongFunction<C> open) {
        return pool.read(() -> {
            long reference = fields.getBits(object, field, FieldKind.REFERENCE);
            return reference == 0 ? null : open.apply(reference);
        });
    }

    /// Sets a field to a new collection. It is made before the old one is deleted, of which it may
    /// be a copy.
    ///
    /// @param copy makes the collection, and returns its reference
    <T> void set(
            DurableObject object, int field, @Nullable T value, ToLongFunction<? super T> copy) {
        fields.change(
                object,
                () -> {
                    long old = fields.getBits(object, field, FieldKind.REFERENCE);
                    long made = value == null ? 0 : copy.applyAsLong(value);
                    fields.setBits(object, field, FieldKind.REFERENCE, made);
                    delete(old);
                });
    }

    /// Deletes the old collection of a field, unless it has already been deleted. In a transaction.
    void delete(long reference) {
        if (reference != 0
                && References.leadsTo(
                        reference, pool.store().header(References.recordOf(reference)))) {
            CollectionRecords.delete(pool.heap(), reference);
        }
    }
}
