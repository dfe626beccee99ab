package dev.terrace.objects;

import dev.terrace.objects.internal.collections.CollectionRecords;
import dev.terrace.objects.internal.store.Buffers;
import dev.terrace.objects.internal.store.Headers;
import dev.terrace.objects.internal.store.Store;
import dev.terrace.objects.internal.store.StoreFailure;
import dev.terrace.objects.internal.store.Text;

/// Checks that the values of an object or a collection are valid for its fields or elements:
/// getters do not check that.
final class ValueCheck {
    private final Pool pool;
    private final Store store;
    private final long record;

    private ValueCheck(Pool pool, long record) {
        this.pool = pool;
        store = pool.store();
        this.record = record;
    }

    /// Checks the object or the collection at `record`, all of whose buffers exist. Fields of
    /// extensions are not checked, because fields that an extension does not hold have no meaning.
    ///
    /// @throws StoreFailure.Damaged for the first damage that is found
    static void run(Pool pool, long record) {
        int type = Headers.type(pool.store().word(record));
        if (Types.isClass(type)) {
            new ValueCheck(pool, record).object(pool.storedType(type));
        } else if (CollectionRecords.isCollection(type)) {
            CollectionRecords.check(pool.heap(), record);
        }
    }

    private void object(StoredType stored) {
        int[] offsets = stored.layout().offsets();
        for (int i = 0; i < offsets.length; i++) {
            FieldSpec field = stored.fields().get(i);
            if (offsets[i] >= 0 && field.isInline()) {
                inline(field, record + offsets[i]);
            } else if (offsets[i] >= 0) {
                slot(field, record + offsets[i]);
            }
        }
    }

    private void inline(FieldSpec field, long at) {
        long word = store.word(at & -Long.BYTES) >>> 8 * (at & Long.BYTES - 1);
        if (field.kind() == FieldKind.BOOLEAN) {
            require(field, (word & 0xff) <= 1);
        } else if (field.kind() == FieldKind.ENUM) {
            require(field, (int) word >= 0 && (int) word <= field.constants().size());
        }
    }

    private void slot(FieldSpec field, long at) {
        Buffers buffers = pool.buffers();
        int length = buffers.length(at);
        if (length < 0) {
            return;
        }
        if (field.kind() == FieldKind.STRING) {
            Text.decode(buffers.get(at));
        } else if (field.kind().isArray()) {
            int width = field.kind().width();
            require(
                    field,
                    field.fixedLength() > 0
                            ? length == field.fixedLength() * width
                            : length % width == 0);
        } else {
            require(field, length == field.kind().width());
        }
    }

    private static void require(FieldSpec field, boolean isOne) {
        if (!isOne) {
            throw new StoreFailure.Damaged(
                    "field " + field.name() + " holds what is no " + field.kind());
        }
    }
}
