package dev.terrace.objects;

import dev.terrace.objects.internal.collections.CollectionRecords;
import dev.terrace.objects.internal.store.Buffers;
import dev.terrace.objects.internal.store.Headers;
import dev.terrace.objects.internal.store.Store;
import dev.terrace.objects.internal.store.StoreFailure;
import dev.terrace.objects.internal.store.Text;
import org.jspecify.annotations.Nullable;

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
        Layout layout = stored.layout();
        for (int i = 0; i < stored.fields().size(); i++) {
            FieldSpec field = stored.fields().get(i);
            if (!layout.hasPlace(i)) {
                continue;
            }
            long at = layout.place(record, i);
            ValueType<?> type = ValueType.of(field);
            if (field.isInline() && type != null) {
                decode(field, type, inlineValue(field, at, layout, i));
            } else if (field.isInline()) {
                bits(field, store.word(at & -Long.BYTES) >>> 8 * (at & Long.BYTES - 1));
            } else if (field.grouped()) {
                group(Group.of(stored, layout, i), at);
            } else {
                slot(field, at);
            }
        }
    }

    /// The value of a field of a [ValueType] within the record.
    private @Nullable Object inlineValue(FieldSpec field, long at, Layout layout, int index) {
        if (field.kind() == FieldKind.LONGS) {
            return new long[] {store.word(at), store.word(at + Long.BYTES)};
        }
        int presence = layout.presence()[index];
        long bits = store.word(layout.placeOfBit(record, presence));
        return (bits >>> presence & 1) == 0 ? null : store.word(at);
    }

    private static @Nullable Object fromBytes(FieldSpec field, byte @Nullable [] bytes) {
        if (bytes == null || field.kind() == FieldKind.BYTES) {
            return bytes;
        }
        long first = Fields.fromBytes(bytes, 0, Long.BYTES);
        return field.kind() == FieldKind.LONG
                ? (Object) first
                : new long[] {first, Fields.fromBytes(bytes, Long.BYTES, Long.BYTES)};
    }

    private static void decode(FieldSpec field, ValueType<?> type, @Nullable Object stored) {
        try {
            Object value = type.decode(stored);
            assert value == null || value.getClass().getName().equals(type.name()) : field;
        } catch (PoolDamagedException e) {
            throw new StoreFailure.Damaged("field " + field.name() + ": " + e.getMessage(), e);
        }
    }

    private static void bits(FieldSpec field, long bits) {
        if (field.kind() == FieldKind.BOOLEAN) {
            require(field, (bits & 0xff) <= 1);
        } else if (field.kind() == FieldKind.ENUM) {
            require(field, (int) bits >= 0 && (int) bits <= field.constants().size());
        }
    }

    private void group(Group group, long at) {
        byte @Nullable [][] values = group.split(pool.buffers().get(at));
        for (int i = 0; i < values.length; i++) {
            FieldSpec field = group.members().get(i);
            byte[] value = values[i];
            ValueType<?> type = ValueType.of(field);
            if (type != null) {
                decode(field, type, fromBytes(field, value));
            } else if (field.kind() == FieldKind.STRING) {
                Text.decode(value);
            } else if (value != null && !field.kind().isArray()) {
                bits(field, Fields.fromBytes(value, 0, value.length));
            }
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
        ValueType<?> type = ValueType.of(field);
        if (type != null) {
            decode(field, type, fromBytes(field, buffers.get(at)));
        }
    }

    private static void require(FieldSpec field, boolean isOne) {
        if (!isOne) {
            throw new StoreFailure.Damaged(
                    "field " + field.name() + " holds what is no " + field.kind());
        }
    }
}
