package dev.terrace.objects;

import dev.terrace.objects.internal.store.Buffers;
import dev.terrace.objects.internal.store.Comparand;
import dev.terrace.objects.internal.store.Medium;
import dev.terrace.objects.internal.store.Store;
import java.lang.foreign.MemorySegment;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.function.Function;
import java.util.function.IntFunction;
import java.util.function.LongFunction;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/// Fields whose values lie behind a slot: each in a buffer of its own, or those of a [Group] in
/// one.
///
/// Invariant: while a thread sets fields together, it alone sees the values in `staged`, because it
/// has the writer's lock. They replace what is stored before its transaction ends.
final class SlotFields {
    private final Pool pool;
    private final Store store;
    private final Buffers buffers;
    private final Fields fields;

    /// The groups of which a thread is setting several fields, by the offsets of their slots; null
    /// if none is. Only for the thread whose transaction is under way.
    private @Nullable Map<Long, Staged> staged;

    /// A group that is being set.
    private static final class Staged {
        /// The record with its slot; not the program's handle, which a cursor may move on.
        final Part holder;

        /// One of its fields.
        final int field;

        final Group group;

        /// Whether each of its fields has been set, and to what.
        final boolean[] isSet;

        final byte @Nullable [][] values;

        Staged(DurableObject of, int field, Group group) {
            holder = Part.at(of.pool(), of.mapping(), of.record(), of.header());
            this.field = field;
            this.group = group;
            isSet = new boolean[group.members().size()];
            values = new byte @Nullable [isSet.length][];
        }

        void set(int member, byte @Nullable [] bytes) {
            isSet[member] = true;
            values[member] = bytes;
        }

        boolean isWhole() {
            return IntStream.range(0, isSet.length).allMatch(i -> isSet[i]);
        }

        /// Takes the values of fields that were not set from what was stored before.
        void fill(byte @Nullable [][] before) {
            for (int i = 0; i < isSet.length; i++) {
                values[i] = isSet[i] ? values[i] : before[i];
            }
        }
    }

    SlotFields(Pool pool, Fields fields) {
        this.pool = pool;
        this.fields = fields;
        store = pool.store();
        buffers = pool.buffers();
    }

    /// The group of a field that this record has; null if its value has a slot of its own.
    private static @Nullable Group groupOf(DurableObject holder, int field) {
        return holder.mapping().group(field);
    }

    // Reading

    /// The bytes of a field's value in this record, which has the field; null if it is null.
    byte @Nullable [] stored(DurableObject holder, int field) {
        Group group = groupOf(holder, field);
        return group == null ? buffers.get(holder.place(field)) : inGroup(holder, field, group);
    }

    private byte @Nullable [] inGroup(DurableObject holder, int field, Group group) {
        long at = holder.place(field);
        int member = holder.mapping().member(field);
        Staged its = stagedAt(at);
        return its != null && its.isSet[member]
                ? its.values[member]
                : group.get(whole(holder, at), member);
    }

    /// The value of a group. The handle keeps it for the fields that are read next.
    private byte @Nullable [] whole(DurableObject holder, long at) {
        long sequence = store.sequence();
        long slot = store.word(at);
        KeptGroup kept = holder.kept();
        if (kept != null && kept.isOf(slot, buffers)) {
            return kept.value();
        }
        byte[] value = buffers.get(at);
        // If the transaction under way is rolled back, another may write another value to the same
        // place, with the same slot.
        if (!store.inTransaction()
                && KeptGroup.isFor(value)
                && store.word(at) == slot
                && buffers.isSameSince(slot, sequence)) {
            holder.keep(new KeptGroup(slot, sequence, value));
        }
        return value;
    }

    private @Nullable Staged stagedAt(long at) {
        Map<Long, Staged> setting = store.inTransaction() ? staged : null;
        return setting == null ? null : setting.get(at);
    }

    /// The bytes of a field's value.
    byte @Nullable [] get(DurableObject object, int field) {
        return read(object, field, null, buffers::get, bytes -> bytes);
    }

    /// Copies the bytes of a field's array, which has no fixed length, as many as fit, and returns
    /// their number; -1 if the field is null.
    ///
    /// @param target given the number of all bytes, the memory to copy to; perhaps several times
    int copy(DurableObject object, int field, IntFunction<MemorySegment> target) {
        return read(
                object,
                field,
                -1,
                at -> buffers.copy(at, target),
                _ -> {
                    throw new AssertionError("an array of any length is in no group");
                });
    }

    /// The number of bytes of a field's value; -1 if the field is null.
    int length(DurableObject object, int field) {
        return read(object, field, -1, buffers::length, bytes -> bytes.length);
    }

    /// Whether a field's value is equal to this one; null is not.
    boolean isEqual(DurableObject object, int field, Comparand value) {
        return read(object, field, false, at -> buffers.isEqual(at, value), value::equalsBytes);
    }

    /// The bits of an element of a field's array. They are zero if the array has a fixed length and
    /// was never set.
    long element(DurableObject object, int field, int index) {
        FieldSpec spec = object.mapping().field(field);
        int width = spec.kind().width();
        Long bits =
                read(
                        object,
                        field,
                        null,
                        at -> buffers.element(at, index, width, spec.fixedLength()),
                        bytes -> {
                            Objects.checkIndex(index, bytes.length / width);
                            return Fields.fromBytes(bytes, index * width, width);
                        });
        if (bits == null) {
            Objects.checkIndex(index, spec.fixedLength());
            return 0;
        }
        return bits;
    }

    /// @param otherwise the result if the field is null, or was not stored
    /// @param ofSlot reads a value with a slot of its own, at this offset
    /// @param ofBytes reads a value that is there
    private <T extends @Nullable Object> T read(
            DurableObject object,
            int field,
            T otherwise,
            LongFunction<T> ofSlot,
            Function<byte[], T> ofBytes) {
        DurableObject holder = fields.toRead(object, field);
        return fields.readAlone(
                holder,
                () -> {
                    if (holder.mapping().stored(field) == null) {
                        return otherwise;
                    }
                    Group group = groupOf(holder, field);
                    if (group == null) {
                        return ofSlot.apply(holder.place(field));
                    }
                    byte[] bytes = inGroup(holder, field, group);
                    return bytes == null ? otherwise : ofBytes.apply(bytes);
                });
    }

    // Writing

    /// Sets the value of a field.
    void set(DurableObject object, int field, byte @Nullable [] bytes) {
        fields.change(object, () -> setStored(fields.toWrite(object, field), field, bytes));
    }

    /// Like [#set(DurableObject, int, byte[])], for this record itself.
    void setStored(DurableObject holder, int field, byte @Nullable [] bytes) {
        Group group = groupOf(holder, field);
        if (group != null && staged != null && store.inTransaction()) {
            setInGroup(holder, field, group, bytes);
            return;
        }
        fields.change(
                holder,
                () -> {
                    if (group == null) {
                        put(holder, field, bytes);
                    } else {
                        setInGroup(holder, field, group, bytes);
                    }
                });
    }

    private void setInGroup(DurableObject holder, int field, Group group, byte @Nullable [] bytes) {
        long at = holder.place(field);
        int member = holder.mapping().member(field);
        Map<Long, Staged> setting = staged;
        if (setting != null) {
            setting.computeIfAbsent(at, _ -> new Staged(holder, field, group)).set(member, bytes);
        } else {
            Staged its = new Staged(holder, field, group);
            its.set(member, bytes);
            storeStaged(at, its);
        }
    }

    /// Stores a group. The earlier value is read only if a field was not set, so a damaged group
    /// can be set anew.
    private void storeStaged(long at, Staged its) {
        if (!its.isWhole()) {
            its.fill(its.group.split(whole(its.holder, at)));
        }
        put(its.holder, its.field, its.group.join(its.values));
    }

    /// Replaces the buffer of a slot.
    private void put(DurableObject holder, int field, byte @Nullable [] bytes) {
        long at = holder.place(field);
        long old = store.word(at);
        long slot =
                bytes == null
                        ? Buffers.NULL
                        : buffers.put(Medium.named(pool.tiers(holder.mapping(), field)), bytes);
        store.putWord(holder.record(), at, slot);
        buffers.free(old);
    }

    /// Sets fields of an object in one transaction. Each group is stored once, however many of its
    /// fields are set.
    void setTogether(DurableObject object, Runnable setters) {
        pool.transact(() -> {
            fields.check(object);
            if (staged != null) {
                setters.run();
                return;
            }
            try {
                Map<Long, Staged> setting = new LinkedHashMap<>();
                staged = setting;
                setters.run();
                setting.forEach(this::storeStaged);
            } finally {
                staged = null;
            }
        });
    }

    /// Frees the values of the slots of a record.
    void free(StoredType stored, long record) {
        Layout layout = stored.layout();
        for (int i = 0; i < stored.fields().size(); i++) {
            if (!layout.hasPlace(i)) {
                continue;
            }
            long at = layout.place(record, i);
            if (staged != null) {
                staged.remove(at);
            }
            if (stored.fields().get(i).isCollection()) {
                pool.collections().delete(store.word(at));
            } else if (!stored.fields().get(i).isInline()) {
                buffers.free(store.word(at));
            }
        }
    }
}
