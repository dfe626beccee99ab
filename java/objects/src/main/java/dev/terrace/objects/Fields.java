package dev.terrace.objects;

import dev.terrace.objects.internal.store.Headers;
import dev.terrace.objects.internal.store.Store;
import dev.terrace.objects.internal.store.StoreFailure;
import dev.terrace.objects.internal.store.Text;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/// The slow path of [DurableObject]: access to fields of objects in any form, with the words of the
/// overlay.
final class Fields {
    /// Volatile access: other threads see a value with all its contents.
    private static final VarHandle VOLATILE = MethodHandles.arrayElementVarHandle(Object[].class);

    private final Pool pool;
    private final Store store;
    private final SlotFields slots;
    private final Extensions extensions;

    /// The fields that are kept in this process only, by the reference of the object.
    private final ConcurrentHashMap<Long, @Nullable Object[]> volatiles = new ConcurrentHashMap<>();

    Fields(Pool pool) {
        this.pool = pool;
        store = pool.store();
        slots = new SlotFields(pool, this);
        extensions = new Extensions(pool, this);
    }

    boolean isAlive(DurableObject object) {
        return guarded(() -> store.word(object.record()) == object.header());
    }

    /// Throws an exception if an object no longer exists.
    void check(DurableObject object) {
        if (store.word(object.record()) != object.header()) {
            throw store.stale(object.record());
        }
    }

    /// Runs a read or a write, and translates failures that occur because the pool was closed or a
    /// file was cut off.
    private <T extends @Nullable Object> T guarded(Supplier<T> work) {
        try {
            return work.get();
        } catch (StoreFailure | IllegalStateException | InternalError e) {
            throw pool.explain(e);
        }
    }

    /// Reads a value of an object that takes more than one word.
    private <T extends @Nullable Object> T read(DurableObject object, Supplier<T> work) {
        return guarded(() ->
                store.read(() -> {
                    check(object);
                    return work.get();
                }));
    }

    /// Reads a value of an object that is always of one commit. If the object no longer exists, the
    /// exception says so, whatever was read in its place.
    ///
    /// A commit stores its words one after the other. Between them, a buffer may already be free
    /// while the object that leads to it still seems to exist. Therefore a failure only counts if a
    /// consistent read meets it, too.
    <T extends @Nullable Object> T readAlone(DurableObject object, Supplier<T> work) {
        return guarded(() -> {
            T found;
            try {
                found = work.get();
            } catch (StoreFailure.Unavailable | StoreFailure.Busy e) {
                check(object);
                throw e;
            } catch (TerraceException
                    | StoreFailure
                    | IndexOutOfBoundsException
                    | InternalError e) {
                return read(object, work);
            }
            VarHandle.loadLoadFence();
            check(object);
            return found;
        });
    }

    /// The fields behind slots.
    SlotFields slots() {
        return slots;
    }

    /// Changes an object in a transaction.
    void change(DurableObject object, Runnable work) {
        pool.change(() -> {
            check(object);
            work.run();
            return null;
        });
    }

    void delete(DurableObject object) {
        change(
                object,
                () -> {
                    forgetVolatiles(object);
                    for (long record = object.record(); record != 0; ) {
                        long extension = store.word(record + Layout.EXTENSION_AT);
                        StoredType stored =
                                pool.storedType(Types.formOf(Headers.type(store.word(record))));
                        slots.free(stored, record);
                        store.free(record);
                        record = extension;
                    }
                });
    }

    private void forgetVolatiles(DurableObject object) {
        @Nullable Object[] gone = volatiles.remove(object.reference());
        if (gone != null) {
            store.afterRollback(() -> volatiles.put(object.reference(), gone));
        }
    }

    // Scalars

    /// The bits of a field as a value of the kind that the class has.
    long getBits(DurableObject object, int field, FieldKind kind) {
        return getStoredNumber(toRead(object, field), field, kind);
    }

    /// The record from which a field of an object is read.
    DurableObject toRead(DurableObject object, int field) {
        return guarded(() -> extensions.toRead(object, field));
    }

    /// The record to which a field of an object is written. Valid only while no other thread
    /// writes, because another build of the class may move the field.
    DurableObject toWrite(DurableObject object, int field) {
        return guarded(() -> extensions.toWrite(object, field));
    }

    /// Runs a write to the record that [#toWrite] returns.
    void write(Runnable work) {
        guarded(() -> {
            store.requireWritable();
            return store.alone(() -> {
                work.run();
                return true;
            });
        });
    }

    /// Like [#getStoredBits], for a number that is not nullable now, but may have been stored as
    /// nullable.
    ///
    /// @throws SchemaMismatchException if it is null
    long getStoredNumber(DurableObject object, int field, FieldKind kind) {
        FieldSpec stored = object.mapping().stored(field);
        boolean mayBeNull =
                stored != null && stored.nullable() && kind.ordinal() < FieldKind.ENUM.ordinal();
        if (!mayBeNull || object.mapping().field(field).nullable()) {
            return getStoredBits(object, field, kind);
        }
        Object value = getStoredBoxed(object, field);
        if (value == null) {
            throw new SchemaMismatchException(
                    "field "
                            + object.mapping().field(field).name()
                            + " is null, as it might be when the object was stored: set it first,"
                            + " or let it be null again");
        }
        return unbox(value);
    }

    /// Like [#getBits(DurableObject, int, FieldKind)], for this record itself.
    long getStoredBits(DurableObject object, int field, FieldKind kind) {
        return readAlone(
                object,
                () -> {
                    FieldSpec stored = object.mapping().stored(field);
                    long bits = 0;
                    if (stored != null && stored.isInline()) {
                        bits = bitsAt(object.place(field), stored.kind().width());
                    } else if (stored != null) {
                        byte[] bytes = slots.stored(object, field);
                        bits = bytes == null ? 0 : fromBytes(bytes);
                    }
                    return stored == null ? 0 : widen(bits, stored.kind(), kind);
                });
    }

    /// The bits of a value of so many bytes within one word.
    private long bitsAt(long at, int width) {
        long word = store.word(at & -Long.BYTES) >>> 8 * (at & Long.BYTES - 1);
        return word & mask(width);
    }

    private static long mask(int width) {
        return width == Long.BYTES ? -1 : (1L << 8 * width) - 1;
    }

    /// The bits of a part of a record.
    ///
    /// @param at the place of the bits
    long getBitsAt(DurableObject object, long at, int width) {
        return readAlone(object, () -> bitsAt(at, width));
    }

    /// Sets the bits of a part of a record.
    ///
    /// @param at the place of the bits
    void setBitsAt(DurableObject object, long at, int width, long bits) {
        int shift = 8 * (int) (at & Long.BYTES - 1);
        guarded(() -> {
            store.putBits(
                    object.record(),
                    object.header(),
                    at & -Long.BYTES,
                    mask(width) << shift,
                    bits << shift);
            return null;
        });
    }

    /// The bytes of a part of a record, of one commit.
    ///
    /// @param at the place of the first, at a word
    byte[] readWords(DurableObject object, long at, int length) {
        return read(
                object,
                () -> {
                    byte[] bytes = new byte[length];
                    for (int i = 0; i < length; i += Long.BYTES) {
                        long word = store.word(at + i);
                        for (int j = i; j < Math.min(length, i + Long.BYTES); j++) {
                            bytes[j] = (byte) (word >>> 8 * (j - i));
                        }
                    }
                    return bytes;
                });
    }

    private static long fromBytes(byte[] bytes) {
        return fromBytes(bytes, 0, bytes.length);
    }

    /// The bits of a value of so many bytes.
    static long fromBytes(byte[] bytes, int from, int width) {
        long bits = 0;
        for (int i = 0; i < width; i++) {
            bits |= (bytes[from + i] & 0xffL) << 8 * i;
        }
        return bits;
    }

    static byte[] toBytes(long bits, int width) {
        byte[] bytes = new byte[width];
        for (int i = 0; i < width; i++) {
            bytes[i] = (byte) (bits >>> 8 * i);
        }
        return bytes;
    }

    private static long widen(long bits, FieldKind from, FieldKind to) {
        long number =
                switch (from) {
                    case BYTE -> (byte) bits;
                    case SHORT -> (short) bits;
                    case INT, ENUM -> (int) bits;
                    default -> bits;
                };
        if (to != FieldKind.DOUBLE || from == FieldKind.DOUBLE) {
            return number;
        }
        double value = from == FieldKind.FLOAT ? Float.intBitsToFloat((int) bits) : number;
        return Double.doubleToRawLongBits(value);
    }

    void setBits(DurableObject object, int field, FieldKind kind, long bits) {
        write(() -> {
            DurableObject holder = toWrite(object, field);
            if (holder.mapping().presence(field) < 0) {
                setStoredBits(holder, field, kind, bits);
            } else {
                setStoredBoxed(holder, field, box(bits, kind));
            }
        });
    }

    /// Like [#setBits(DurableObject, int, FieldKind, long)], for this record itself.
    void setStoredBits(DurableObject object, int field, FieldKind kind, long bits) {
        guarded(() -> {
            if (stored(object, field).isInline()) {
                setBitsAt(object, object.place(field), kind.width(), bits);
            } else {
                slots.setStored(object, field, toBytes(bits, kind.width()));
            }
            return null;
        });
    }

    /// The stored form of a field in a record that has it.
    static FieldSpec stored(DurableObject object, int field) {
        return Objects.requireNonNull(object.mapping().stored(field));
    }

    // Boxed values

    @Nullable Object getBoxed(DurableObject object, int field) {
        return getStoredBoxed(toRead(object, field), field);
    }

    /// Like [#getBoxed(DurableObject, int)], for this record itself.
    @Nullable Object getStoredBoxed(DurableObject object, int field) {
        FieldSpec stored = object.mapping().stored(field);
        FieldKind kind = object.mapping().field(field).kind();
        if (stored == null) {
            return null;
        }
        if (!stored.isInline()) {
            byte[] bytes = readAlone(object, () -> slots.stored(object, field));
            if (bytes == null) {
                // A group of zeros is null, and its numbers are none the less zeros.
                return stored.grouped() && !stored.nullable() ? box(0, kind) : null;
            }
            return box(widen(fromBytes(bytes), stored.kind(), kind), kind);
        }
        return read(
                object,
                () -> {
                    boolean isThere = object.mapping().presence(field) < 0 || bit(object, field);
                    return isThere ? box(getStoredBits(object, field, kind), kind) : null;
                });
    }

    /// The bit that tells a value of a field from null.
    private boolean bit(DurableObject object, int field) {
        TypeMapping mapping = object.mapping();
        long word = store.word(mapping.placeOfPresence(object.record(), field));
        return (word >>> mapping.presence(field) & 1) != 0;
    }

    void setBoxed(DurableObject object, int field, @Nullable Object value) {
        write(() -> setStoredBoxed(toWrite(object, field), field, value));
    }

    /// Like [#setBoxed(DurableObject, int, Object)], for this record itself.
    void setStoredBoxed(DurableObject object, int field, @Nullable Object value) {
        FieldKind kind = object.mapping().field(field).kind();
        FieldSpec stored = stored(object, field);
        if (value == null && !stored.nullable()) {
            throw new SchemaMismatchException(
                    "field "
                            + object.mapping().field(field).name()
                            + " was stored without the possibility of null in this object");
        }
        if (!stored.isInline()) {
            slots.setStored(
                    object, field, value == null ? null : toBytes(unbox(value), kind.width()));
            return;
        }
        change(
                object,
                () -> {
                    int bit = object.mapping().presence(field);
                    if (bit >= 0) {
                        store.putBits(
                                object.record(),
                                object.header(),
                                object.mapping().placeOfPresence(object.record(), field),
                                1L << bit,
                                value == null ? 0 : -1L);
                    }
                    setStoredBits(object, field, kind, value == null ? 0 : unbox(value));
                });
    }

    static Object box(long bits, FieldKind kind) {
        return switch (kind) {
            case BOOLEAN -> bits != 0;
            case BYTE -> (byte) bits;
            case SHORT -> (short) bits;
            case CHAR -> (char) bits;
            case INT -> (int) bits;
            case FLOAT -> Float.intBitsToFloat((int) bits);
            case LONG -> bits;
            case DOUBLE -> Double.longBitsToDouble(bits);
            default -> throw new AssertionError(kind);
        };
    }

    private static long unbox(Object value) {
        return switch (value) {
            case Boolean b -> b ? 1 : 0;
            case Character c -> c;
            case Float f -> Float.floatToRawIntBits(f) & 0xffffffffL;
            case Double d -> Double.doubleToRawLongBits(d);
            case Number n -> n.longValue();
            default -> throw new AssertionError(value);
        };
    }

    // Strings and enums

    @Nullable String getString(DurableObject object, int field) {
        return guarded(() -> Text.decode(slots.get(object, field)));
    }

    void setString(DurableObject object, int field, @Nullable String value) {
        slots.set(object, field, value == null ? null : guarded(() -> Text.encode(value)));
    }

    <E extends Enum<E>> @Nullable E getEnum(DurableObject object, int field, E[] constants) {
        String name = getConstant(object, field);
        if (name == null) {
            return null;
        }
        for (E constant : constants) {
            if (constant.name().equals(name)) {
                return constant;
            }
        }
        FieldSpec now = object.mapping().field(field);
        throw new SchemaMismatchException(
                "field " + now.name() + " is " + name + ", which " + now.target() + " has not");
    }

    /// The name of an enum's constant, also of one that the class no longer has; null for null.
    @Nullable String getConstant(DurableObject object, int field) {
        DurableObject holder = toRead(object, field);
        int number = (int) getStoredBits(holder, field, FieldKind.ENUM);
        if (number == 0) {
            return null;
        }
        FieldSpec stored = stored(holder, field);
        if (number > stored.constants().size()) {
            throw new PoolDamagedException(
                    "field " + stored.name() + ": " + number + " is no constant");
        }
        return stored.constants().get(number - 1);
    }

    void setEnum(DurableObject object, int field, @Nullable Enum<?> value) {
        FieldSpec now = object.mapping().field(field);
        if (value != null && !now.constants().contains(value.name())) {
            throw new IllegalArgumentException(value + " is no constant of " + now.target());
        }
        write(() -> {
            DurableObject holder = toRead(object, field);
            FieldSpec stored = holder.mapping().stored(field);
            if (stored != null && (value == null || stored.constants().contains(value.name()))) {
                setStoredEnum(holder, field, value);
            } else {
                // Making an extension and setting it is one transaction.
                pool.change(() -> {
                    setStoredEnum(toWrite(object, field), field, value);
                    return null;
                });
            }
        });
    }

    private void setStoredEnum(DurableObject holder, int field, @Nullable Enum<?> value) {
        int number =
                value == null ? 0 : 1 + stored(holder, field).constants().indexOf(value.name());
        setStoredBits(holder, field, FieldKind.ENUM, number);
    }

    // References

    <D extends DurableObject> @Nullable D getReference(
            DurableObject object, int field, ObjectType<D> type) {
        long reference = getBits(object, field, FieldKind.REFERENCE);
        return reference == 0 ? null : guarded(() -> pool.handle(type, reference));
    }

    void setReference(DurableObject object, int field, @Nullable DurableObject value) {
        if (value != null && value.pool() != pool) {
            throw new IllegalArgumentException("an object of another pool cannot be referred to");
        }
        if (value != null && !isAlive(value)) {
            throw Failures.told(store.stale(value.record()));
        }
        setBits(object, field, FieldKind.REFERENCE, value == null ? 0 : value.reference());
    }

    // Values that are kept in this process only

    @Nullable Object getVolatile(DurableObject object, int field) {
        guarded(() -> {
            check(object);
            return null;
        });
        @Nullable Object[] values = volatiles.get(object.reference());
        return values == null ? null : VOLATILE.getAcquire(values, field);
    }

    void setVolatile(DurableObject object, int field, @Nullable Object value) {
        guarded(() -> {
            check(object);
            return null;
        });
        @Nullable Object[] values =
                volatiles.computeIfAbsent(
                        object.reference(),
                        _ -> new @Nullable Object[object.mapping().type.fields().size()]);
        Object before = values[field];
        store.afterRead(() -> VOLATILE.setRelease(values, field, value));
        if (store.inTransaction()) {
            store.afterRollback(() -> VOLATILE.setRelease(values, field, before));
        }
    }
}
