package dev.terrace.objects;

import dev.terrace.objects.internal.store.Columns;
import dev.terrace.objects.internal.store.Comparand;
import dev.terrace.objects.internal.store.Epoch;
import dev.terrace.objects.internal.store.Headers;
import dev.terrace.objects.internal.store.References;
import dev.terrace.objects.internal.store.Region;
import dev.terrace.objects.internal.store.Store;
import dev.terrace.objects.internal.store.Text;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.function.IntFunction;
import java.util.function.LongFunction;
import java.util.function.Supplier;
import java.util.function.ToLongFunction;
import org.jspecify.annotations.Nullable;

/// A handle of an object in a pool: the superclass of all generated classes.
///
/// Getters read the pool in place. They read the value first, and then the pool's [Epoch], which
/// says whether anything has changed since the object's header was last compared. If so, they
/// compare the header again. Getters go through [Fields] if the bytes in place are not the whole
/// value, if the object has extensions, or if it was stored in another form of its class; [Fields]
/// also reports errors. The only state of a handle is the place of its object, the epoch in which
/// that place was checked, and a value that never changes, so any number of threads may use it.
///
/// Two handles are equal if they lead to the same object in the same pool.
///
/// Longer than 600 lines: generated classes inherit getters and setters for each kind of field.
public abstract class DurableObject {
    static final ValueLayout.OfShort SHORT =
            ValueLayout.JAVA_SHORT.withOrder(ByteOrder.LITTLE_ENDIAN);
    static final ValueLayout.OfChar CHAR = ValueLayout.JAVA_CHAR.withOrder(ByteOrder.LITTLE_ENDIAN);
    static final ValueLayout.OfInt INT = ValueLayout.JAVA_INT.withOrder(ByteOrder.LITTLE_ENDIAN);
    static final ValueLayout.OfFloat FLOAT =
            ValueLayout.JAVA_FLOAT.withOrder(ByteOrder.LITTLE_ENDIAN);
    static final ValueLayout.OfDouble DOUBLE =
            ValueLayout.JAVA_DOUBLE.withOrder(ByteOrder.LITTLE_ENDIAN);

    /// No epoch.
    static final long NEVER = -2;

    /// No reference: it has more generations than there are.
    private static final long ANY = -1;

    // A new handle leads nowhere. The pool binds it before any other thread sees it.
    private @Nullable TypeMapping mapping;
    private MemorySegment memory = MemorySegment.NULL;
    private long begin;
    private long record;
    private long header;

    /// The epoch in which the header was last compared. Threads may overwrite each other's values;
    /// each value is correct.
    private long compared = NEVER;

    /// The group that was read last, so that its fields are decoded from memory. Threads may
    /// overwrite each other's; each is correct.
    private @Nullable KeptGroup kept;

    /// A handle that leads nowhere yet.
    protected DurableObject() {}

    /// Binds this handle to the object whose record is at this offset of persistent memory.
    final void bind(TypeMapping newMapping, long newRecord, long newHeader) {
        Region pmem = newMapping.store.pmem();
        mapping = newMapping;
        memory = pmem.extentOf(newRecord);
        begin = pmem.within(newRecord);
        record = newRecord;
        header = newHeader;
        compared = NEVER;
    }

    /// Moves this handle to the object at another offset. The handle is bound to an object in the
    /// form that getters expect. The other object must lie in the same extent, have the same form,
    /// and have been there when the epoch's changes were `changes`. If a fast check cannot show
    /// that, nothing happens.
    final boolean moveTo(long newRecord, int id, long changes) {
        return moveTo(newRecord, id, changes, ANY);
    }

    /// Like [#moveTo(long, int, long)], to the object that a reference leads to.
    final boolean moveTo(long newRecord, int id, long changes, long reference) {
        if ((newRecord ^ record) >= memory.byteSize() || !epoch().isPlain()) {
            return false;
        }
        long now = epoch().now();
        long newBegin = begin + newRecord - record;
        long newHeader = memory.get(Region.LONG, newBegin);
        boolean isExtended = memory.get(Region.LONG, newBegin + Layout.EXTENSION_AT) != 0;
        if (isExtended
                || Headers.type(newHeader) != id
                || reference != ANY && !References.leadsTo(reference, newHeader)
                || !store().belongs(newRecord, newHeader)
                || !epoch().isStill(changes)) {
            return false;
        }
        begin = newBegin;
        record = newRecord;
        header = newHeader;
        compared = now == Epoch.UNKNOWN ? NEVER : now;
        return true;
    }

    /// The pool that the object is in.
    public final Pool pool() {
        return mapping().pool;
    }

    final Store store() {
        return mapping().store;
    }

    private Epoch epoch() {
        return mapping().epoch;
    }

    final TypeMapping mapping() {
        return Objects.requireNonNull(mapping, "a handle that leads nowhere");
    }

    final long record() {
        return record;
    }

    /// The place of a field, or of the slot that leads to its value or its group's, in the record,
    /// which has it.
    final long place(int field) {
        return mapping().place(record, field);
    }

    final @Nullable KeptGroup kept() {
        return kept;
    }

    final void keep(KeptGroup group) {
        kept = group;
    }

    final long header() {
        return header;
    }

    /// The object's place and the generation of that place. No two objects of a pool ever have the
    /// same reference.
    public final long reference() {
        return References.of(record, header);
    }

    /// Whether the object exists, that is, has not been deleted.
    public final boolean isAlive() {
        return fields().isAlive(this);
    }

    /// Deletes the object, with its strings, arrays and collections. Objects that it leads to stay.
    ///
    /// @throws StaleReferenceException if it has been deleted before
    public final void delete() {
        fields().delete(this);
    }

    /// Sets several fields in one transaction. Fields that share a buffer, because they are small
    /// and have the same tags, are stored once, at the end, and not anew for each of them.
    ///
    /// @param setters calls this object's setters
    public final void setTogether(Runnable setters) {
        fields().slots().setTogether(this, setters);
    }

    @Override
    public final boolean equals(@Nullable Object other) {
        return other instanceof DurableObject that
                && isInPoolOf(that)
                && record == that.record
                && header == that.header;
    }

    private boolean isInPoolOf(DurableObject that) {
        return mapping == that.mapping
                || mapping != null && that.mapping != null && mapping.pool == that.mapping.pool;
    }

    @Override
    public final int hashCode() {
        return Long.hashCode(reference() * 0x9e3779b97f4a7c15L);
    }

    /// The text of an object: its class and its fields. It is for debuggers and logs, so for a
    /// field that cannot be read it gives the reason instead of throwing an exception.
    ///
    /// @param values the text or value of each of the fields, by their numbers among `fields`
    protected static String describe(
            String type, List<String> fields, IntFunction<@Nullable Object> values) {
        StringBuilder text = new StringBuilder(type).append('[');
        String because = "";
        for (int i = 0; i < fields.size(); i++) {
            text.append(i == 0 ? "" : ", ").append(fields.get(i)).append('=');
            try {
                text.append(values.apply(i));
            } catch (RuntimeException | InternalError e) {
                text.append(Text.UNREADABLE);
                because = Text.because(e);
            }
        }
        return text.append(']').append(because).toString();
    }

    private Fields fields() {
        return pool().fields();
    }

    /// The place in the extent of a field that has `width` bytes at byte `at` of a record.
    private long place(int at, int width) {
        int objects = mapping().objectsPerChunk;
        return objects == 1 ? begin + at : Columns.place(begin, objects, at, width);
    }

    /// Whether the value just read in place is this object's current value, as this thread must see
    /// it.
    private boolean isSettled() {
        VarHandle.loadLoadFence();
        return epoch().now() == compared || isSettledNow();
    }

    private boolean isSettledNow() {
        long now = epoch().now();
        VarHandle.loadLoadFence();
        boolean isSettled =
                mapping().isNative
                        && store().isInPlace()
                        && memory.get(Region.LONG, begin) == header
                        && memory.get(Region.LONG, begin + Layout.EXTENSION_AT) == 0
                        && pool().profiling() == null;
        if (isSettled && now != Epoch.UNKNOWN) {
            compared = now;
        }
        return isSettled;
    }

    // The slow path, which counts accesses while a profile is being made

    private long bits(int field, FieldKind kind) {
        long bits = fields().getBits(this, field, kind);
        Profiling.read(this, field, kind.width());
        return bits;
    }

    private void setBits(int field, FieldKind kind, long bits) {
        fields().setBits(this, field, kind, bits);
        Profiling.written(this, field, kind.width());
    }

    private long element(int field, int index) {
        long bits = arrays().getElement(this, field, index);
        Profiling.readElement(this, field);
        return bits;
    }

    private void setElement(int field, int index, long bits) {
        arrays().setElement(this, field, index, bits);
        Profiling.writtenElement(this, field);
    }

    private int copyArray(int field, Object into) {
        int count = arrays().copy(this, field, into);
        Profiling.read(this, field, Math.max(0L, count) * mapping().field(field).kind().width());
        return count;
    }

    private <T extends @Nullable Object> T counted(int field, T value) {
        Profiling.read(this, field, value);
        return value;
    }

    /// The value of field `field`, which lies at byte `at` of the record, or, if that is -1,
    /// elsewhere.
    protected final boolean getBoolean(int field, int at) {
        if (at >= 0) {
            try {
                boolean value = memory.get(Region.BYTE, place(at, Byte.BYTES)) != 0;
                if (isSettled()) {
                    return value;
                }
            } catch (RuntimeException | InternalError elsewhere) {
                // The pool is closed, a file was cut off, or the form is another: the slow path
                // finds out which.
            }
        }
        return bits(field, FieldKind.BOOLEAN) != 0;
    }

    /// Sets field `field`, which lies at byte `at` of the record, or, if that is -1, elsewhere.
    protected final void setBoolean(int field, int at, boolean value) {
        setBits(field, FieldKind.BOOLEAN, value ? 1 : 0);
    }

    /// The value of field `field`, or null.
    protected final @Nullable Boolean getBoxedBoolean(int field, int at) {
        return (Boolean) counted(field, fields().getBoxed(this, field));
    }

    /// Sets field `field`.
    protected final void setBoxedBoolean(int field, int at, @Nullable Boolean value) {
        fields().setBoxed(this, field, value);
        Profiling.written(this, field, value);
    }

    /// The value of field `field`, which lies at byte `at` of the record, or, if that is -1,
    /// elsewhere.
    protected final byte getByte(int field, int at) {
        if (at >= 0) {
            try {
                byte value = memory.get(Region.BYTE, place(at, Byte.BYTES));
                if (isSettled()) {
                    return value;
                }
            } catch (RuntimeException | InternalError elsewhere) {
                // The pool is closed, a file was cut off, or the form is another: the slow path
                // finds out which.
            }
        }
        return (byte) bits(field, FieldKind.BYTE);
    }

    /// Sets field `field`, which lies at byte `at` of the record, or, if that is -1, elsewhere.
    protected final void setByte(int field, int at, byte value) {
        setBits(field, FieldKind.BYTE, value);
    }

    /// The value of field `field`, or null.
    protected final @Nullable Byte getBoxedByte(int field, int at) {
        return (Byte) counted(field, fields().getBoxed(this, field));
    }

    /// Sets field `field`.
    protected final void setBoxedByte(int field, int at, @Nullable Byte value) {
        fields().setBoxed(this, field, value);
        Profiling.written(this, field, value);
    }

    /// The value of field `field`, which lies at byte `at` of the record, or, if that is -1,
    /// elsewhere.
    protected final short getShort(int field, int at) {
        if (at >= 0) {
            try {
                short value = memory.get(SHORT, place(at, Short.BYTES));
                if (isSettled()) {
                    return value;
                }
            } catch (RuntimeException | InternalError elsewhere) {
                // The pool is closed, a file was cut off, or the form is another: the slow path
                // finds out which.
            }
        }
        return (short) bits(field, FieldKind.SHORT);
    }

    /// Sets field `field`, which lies at byte `at` of the record, or, if that is -1, elsewhere.
    protected final void setShort(int field, int at, short value) {
        setBits(field, FieldKind.SHORT, value);
    }

    /// The value of field `field`, or null.
    protected final @Nullable Short getBoxedShort(int field, int at) {
        return (Short) counted(field, fields().getBoxed(this, field));
    }

    /// Sets field `field`.
    protected final void setBoxedShort(int field, int at, @Nullable Short value) {
        fields().setBoxed(this, field, value);
        Profiling.written(this, field, value);
    }

    /// The value of field `field`, which lies at byte `at` of the record, or, if that is -1,
    /// elsewhere.
    protected final char getChar(int field, int at) {
        if (at >= 0) {
            try {
                char value = memory.get(CHAR, place(at, Character.BYTES));
                if (isSettled()) {
                    return value;
                }
            } catch (RuntimeException | InternalError elsewhere) {
                // The pool is closed, a file was cut off, or the form is another: the slow path
                // finds out which.
            }
        }
        return (char) bits(field, FieldKind.CHAR);
    }

    /// Sets field `field`, which lies at byte `at` of the record, or, if that is -1, elsewhere.
    protected final void setChar(int field, int at, char value) {
        setBits(field, FieldKind.CHAR, value);
    }

    /// The value of field `field`, or null.
    protected final @Nullable Character getBoxedChar(int field, int at) {
        return (Character) counted(field, fields().getBoxed(this, field));
    }

    /// Sets field `field`.
    protected final void setBoxedChar(int field, int at, @Nullable Character value) {
        fields().setBoxed(this, field, value);
        Profiling.written(this, field, value);
    }

    /// The value of field `field`, which lies at byte `at` of the record, or, if that is -1,
    /// elsewhere.
    protected final int getInt(int field, int at) {
        if (at >= 0) {
            try {
                int value = memory.get(INT, place(at, Integer.BYTES));
                if (isSettled()) {
                    return value;
                }
            } catch (RuntimeException | InternalError elsewhere) {
                // The pool is closed, a file was cut off, or the form is another: the slow path
                // finds out which.
            }
        }
        return (int) bits(field, FieldKind.INT);
    }

    /// Sets field `field`, which lies at byte `at` of the record, or, if that is -1, elsewhere.
    protected final void setInt(int field, int at, int value) {
        setBits(field, FieldKind.INT, value);
    }

    /// The value of field `field`, or null.
    protected final @Nullable Integer getBoxedInt(int field, int at) {
        return (Integer) counted(field, fields().getBoxed(this, field));
    }

    /// Sets field `field`.
    protected final void setBoxedInt(int field, int at, @Nullable Integer value) {
        fields().setBoxed(this, field, value);
        Profiling.written(this, field, value);
    }

    /// The value of field `field`, which lies at byte `at` of the record, or, if that is -1,
    /// elsewhere.
    protected final long getLong(int field, int at) {
        if (at >= 0) {
            try {
                long value = memory.get(Region.LONG, place(at, Long.BYTES));
                if (isSettled()) {
                    return value;
                }
            } catch (RuntimeException | InternalError elsewhere) {
                // The pool is closed, a file was cut off, or the form is another: the slow path
                // finds out which.
            }
        }
        return bits(field, FieldKind.LONG);
    }

    /// Sets field `field`, which lies at byte `at` of the record, or, if that is -1, elsewhere.
    protected final void setLong(int field, int at, long value) {
        setBits(field, FieldKind.LONG, value);
    }

    /// The value of field `field`, or null.
    protected final @Nullable Long getBoxedLong(int field, int at) {
        return (Long) counted(field, fields().getBoxed(this, field));
    }

    /// Sets field `field`.
    protected final void setBoxedLong(int field, int at, @Nullable Long value) {
        fields().setBoxed(this, field, value);
        Profiling.written(this, field, value);
    }

    /// The value of field `field`, which lies at byte `at` of the record, or, if that is -1,
    /// elsewhere.
    protected final float getFloat(int field, int at) {
        if (at >= 0) {
            try {
                float value = memory.get(FLOAT, place(at, Float.BYTES));
                if (isSettled()) {
                    return value;
                }
            } catch (RuntimeException | InternalError elsewhere) {
                // The pool is closed, a file was cut off, or the form is another: the slow path
                // finds out which.
            }
        }
        return Float.intBitsToFloat((int) bits(field, FieldKind.FLOAT));
    }

    /// Sets field `field`, which lies at byte `at` of the record, or, if that is -1, elsewhere.
    protected final void setFloat(int field, int at, float value) {
        setBits(field, FieldKind.FLOAT, Float.floatToRawIntBits(value));
    }

    /// The value of field `field`, or null.
    protected final @Nullable Float getBoxedFloat(int field, int at) {
        return (Float) counted(field, fields().getBoxed(this, field));
    }

    /// Sets field `field`.
    protected final void setBoxedFloat(int field, int at, @Nullable Float value) {
        fields().setBoxed(this, field, value);
        Profiling.written(this, field, value);
    }

    /// The value of field `field`, which lies at byte `at` of the record, or, if that is -1,
    /// elsewhere.
    protected final double getDouble(int field, int at) {
        if (at >= 0) {
            try {
                double value = memory.get(DOUBLE, place(at, Double.BYTES));
                if (isSettled()) {
                    return value;
                }
            } catch (RuntimeException | InternalError elsewhere) {
                // The pool is closed, a file was cut off, or the form is another: the slow path
                // finds out which.
            }
        }
        return Double.longBitsToDouble(bits(field, FieldKind.DOUBLE));
    }

    /// Sets field `field`, which lies at byte `at` of the record, or, if that is -1, elsewhere.
    protected final void setDouble(int field, int at, double value) {
        setBits(field, FieldKind.DOUBLE, Double.doubleToRawLongBits(value));
    }

    /// The value of field `field`, or null.
    protected final @Nullable Double getBoxedDouble(int field, int at) {
        return (Double) counted(field, fields().getBoxed(this, field));
    }

    /// Sets field `field`.
    protected final void setBoxedDouble(int field, int at, @Nullable Double value) {
        fields().setBoxed(this, field, value);
        Profiling.written(this, field, value);
    }

    /// The text of field `field`, or null.
    protected final @Nullable String getString(int field, int at) {
        return counted(field, fields().getString(this, field));
    }

    /// Sets field `field`.
    protected final void setString(int field, int at, @Nullable String value) {
        fields().setString(this, field, value);
        Profiling.written(this, field, value);
    }

    /// Whether the text of field `field` is equal to this one, without decoding it; null is equal
    /// to null only.
    protected final boolean equalsString(int field, int at, @Nullable String text) {
        Comparand value = text == null ? null : comparisons().of(text);
        return isEqual(field, text == null, value);
    }

    /// Whether the array of field `field` holds these bytes; null is equal to null only. An array
    /// without a fixed length is not copied.
    protected final boolean equalsBytes(int field, int at, byte @Nullable [] bytes) {
        if (mapping().field(field).fixedLength() > 0) {
            return Arrays.equals(getBytes(field, at), bytes);
        }
        return isEqual(field, bytes == null, bytes == null ? null : Comparand.ofBytes(bytes));
    }

    private boolean isEqual(int field, boolean isNullSought, @Nullable Comparand value) {
        int found = value == null ? -1 : isEqualInPlace(field, value);
        return found >= 0 ? found == 1 : comparisons().isEqual(this, field, isNullSought, value);
    }

    private Comparisons comparisons() {
        return pool().comparisons();
    }

    /// Whether the value behind a slot is this one, all of it read of one commit: 1 if it is, 0 if
    /// it is not, -1 if the slow path must find out.
    private int isEqualInPlace(int field, Comparand value) {
        try {
            TypeMapping known = mapping();
            if (known.isNative && known.group(field) == null) {
                long changes = epoch().changes();
                long slot = memory.get(Region.LONG, known.place(begin, field));
                int found = pool().buffers().isEqualInPlace(slot, value);
                return isSettled() && epoch().isStill(changes) ? found : -1;
            }
        } catch (RuntimeException | InternalError elsewhere) {
            // As for getters of numbers. Or the slot, read between two words of a commit, leads to
            // the middle of another value, or nowhere.
        }
        return -1;
    }

    /// The constant of field `field`, or null.
    protected final <E extends Enum<E>> @Nullable E getEnum(int field, int at, E[] constants) {
        return counted(field, fields().getEnum(this, field, constants));
    }

    /// Sets field `field`.
    protected final <E extends Enum<E>> void setEnum(int field, int at, @Nullable E value) {
        fields().setEnum(this, field, value);
        Profiling.written(this, field, value);
    }

    /// The value of field `field`, or null.
    protected final <T> @Nullable T getValue(int field, int at, ValueType<T> type) {
        return type.decode(
                switch (type.kind()) {
                    case LONG -> getBoxedLong(field, at);
                    case LONGS -> getLongs(field, at);
                    default -> getBytes(field, at);
                });
    }

    /// Sets field `field`.
    protected final <T> void setValue(int field, int at, ValueType<T> type, @Nullable T value) {
        Object stored = type.encode(value);
        switch (type.kind()) {
            case LONG -> setBoxedLong(field, at, (Long) stored);
            case LONGS -> setLongs(field, at, (long[]) stored);
            default -> setBytes(field, at, (byte[]) stored);
        }
    }

    /// The object that field `field` leads to, or null.
    ///
    /// @throws StaleReferenceException if it has been deleted
    protected final <D extends DurableObject> @Nullable D getReference(
            int field, int at, ObjectType<D> type) {
        return counted(field, fields().getReference(this, field, type));
    }

    /// Sets field `field`.
    protected final void setReference(int field, int at, @Nullable DurableObject value) {
        fields().setReference(this, field, value);
        Profiling.written(this, field, value);
    }

    /// The value of field `field`, which lives in this process only; null if it was not set since
    /// the pool was opened.
    protected final @Nullable Object getVolatile(int field) {
        return counted(field, fields().getVolatile(this, field));
    }

    /// Sets field `field`, which lives in this process only.
    protected final void setVolatile(int field, @Nullable Object value) {
        fields().setVolatile(this, field, value);
        Profiling.written(this, field, value);
    }

    /// Computes the value of field `field`, of one committed state, and keeps it in this process.
    protected final <T extends @Nullable Object> T recompute(int field, Supplier<T> how) {
        T value = Profiling.recompute(this, field, () -> pool().read(how));
        fields().setVolatile(this, field, value);
        return value;
    }

    /// The collection of field `field`, opened by its reference; null if there is none.
    protected final <C> @Nullable C getCollection(int field, LongFunction<C> open) {
        return pool().collections().get(this, field, open);
    }

    /// Sets field `field` to a new collection with what `value` holds, which the object owns, and
    /// deletes the one it had.
    ///
    /// @param copy makes the collection, and returns its reference
    protected final <T> void setCollection(
            int field, @Nullable T value, ToLongFunction<? super T> copy) {
        pool().collections().set(this, field, value, copy);
    }

    /// The tiers on which values of field `field` may lie, the best first.
    protected final List<StorageTier> tiersOf(int field) {
        return pool().tiers(mapping(), field);
    }

    /// A value of so many bytes in the collection of field `field` was read.
    protected final void countRead(int field, long bytes) {
        Profiling.read(this, field, bytes);
    }

    /// A value of so many bytes in the collection of field `field` was written.
    protected final void countWritten(int field, long bytes) {
        Profiling.written(this, field, bytes);
    }

    /// How many elements the array of field `field` has; -1 if it is null.
    protected final int getLength(int field, int at) {
        return arrays().length(this, field);
    }

    private ArrayFields arrays() {
        return pool().arrays();
    }

    /// The bits of an element of an array, the other bits zero. An element within the record never
    /// crosses a word.
    private long elementBits(int field, int at, int length, int width, int index) {
        if (at >= 0) {
            int element = Objects.checkIndex(index, length) * width;
            try {
                long array = place(at, arrayBytes(length, width));
                long word = memory.get(Region.LONG, array + (element & -Long.BYTES));
                if (isSettled()) {
                    return word >>> 8 * (element & Long.BYTES - 1)
                            & -1L >>> 8 * (Long.BYTES - width);
                }
            } catch (RuntimeException | InternalError elsewhere) {
                // As for getters of numbers.
            }
        }
        return element(field, index);
    }

    /// Bytes of an array within the record.
    private static int arrayBytes(int length, int width) {
        return length * width + Long.BYTES - 1 & -Long.BYTES;
    }

    /// Copies elements of an array within the record, all of one commit; false if the slow path
    /// must do it. It makes no garbage, however it is compiled.
    private boolean copyInPlace(int at, int length, ValueLayout element, Object into, int count) {
        if (at >= 0) {
            try {
                long changes = epoch().changes();
                int bytes = arrayBytes(length, (int) element.byteSize());
                MemorySegment.copy(memory, element, place(at, bytes), into, 0, count);
                return isSettled() && epoch().isStill(changes);
            } catch (RuntimeException | InternalError elsewhere) {
                // As for getters of numbers.
            }
        }
        return false;
    }

    /// The array of field `field`, or null.
    protected final boolean @Nullable [] getBooleans(int field, int at) {
        return (boolean[]) counted(field, arrays().get(this, field));
    }

    /// Sets the array of field `field`.
    protected final void setBooleans(int field, int at, boolean @Nullable [] value) {
        arrays().set(this, field, value);
        Profiling.written(this, field, value);
    }

    /// Copies elements of the array of field `field` into `into`, as many as there are and fit, and
    /// returns how many; -1 if it is null.
    protected final int copyBooleans(int field, int at, int length, boolean[] into) {
        return copyArray(field, into);
    }

    /// An element of the array of field `field`.
    ///
    /// @throws IndexOutOfBoundsException if there is none
    protected final boolean getBooleanAt(int field, int at, int length, int index) {
        return elementBits(field, at, length, 1, index) != 0;
    }

    /// Sets an element of the array of field `field`.
    ///
    /// @throws IndexOutOfBoundsException if there is none
    protected final void setBooleanAt(int field, int at, int index, boolean value) {
        setElement(field, index, value ? 1 : 0);
    }

    /// The array of field `field`, or null.
    protected final byte @Nullable [] getBytes(int field, int at) {
        return (byte[]) counted(field, arrays().get(this, field));
    }

    /// Sets the array of field `field`.
    protected final void setBytes(int field, int at, byte @Nullable [] value) {
        arrays().set(this, field, value);
        Profiling.written(this, field, value);
    }

    /// Copies elements of the array of field `field` into `into`, as many as there are and fit, and
    /// returns how many; -1 if it is null.
    protected final int copyBytes(int field, int at, int length, byte[] into) {
        int count = Math.min(length, into.length);
        return copyInPlace(at, length, Region.BYTE, into, count) ? count : copyArray(field, into);
    }

    /// An element of the array of field `field`.
    ///
    /// @throws IndexOutOfBoundsException if there is none
    protected final byte getByteAt(int field, int at, int length, int index) {
        return (byte) elementBits(field, at, length, 1, index);
    }

    /// Sets an element of the array of field `field`.
    ///
    /// @throws IndexOutOfBoundsException if there is none
    protected final void setByteAt(int field, int at, int index, byte value) {
        setElement(field, index, value);
    }

    /// The array of field `field`, or null.
    protected final short @Nullable [] getShorts(int field, int at) {
        return (short[]) counted(field, arrays().get(this, field));
    }

    /// Sets the array of field `field`.
    protected final void setShorts(int field, int at, short @Nullable [] value) {
        arrays().set(this, field, value);
        Profiling.written(this, field, value);
    }

    /// Copies elements of the array of field `field` into `into`, as many as there are and fit, and
    /// returns how many; -1 if it is null.
    protected final int copyShorts(int field, int at, int length, short[] into) {
        int count = Math.min(length, into.length);
        return copyInPlace(at, length, SHORT, into, count) ? count : copyArray(field, into);
    }

    /// An element of the array of field `field`.
    ///
    /// @throws IndexOutOfBoundsException if there is none
    protected final short getShortAt(int field, int at, int length, int index) {
        return (short) elementBits(field, at, length, Short.BYTES, index);
    }

    /// Sets an element of the array of field `field`.
    ///
    /// @throws IndexOutOfBoundsException if there is none
    protected final void setShortAt(int field, int at, int index, short value) {
        setElement(field, index, value);
    }

    /// The array of field `field`, or null.
    protected final char @Nullable [] getChars(int field, int at) {
        return (char[]) counted(field, arrays().get(this, field));
    }

    /// Sets the array of field `field`.
    protected final void setChars(int field, int at, char @Nullable [] value) {
        arrays().set(this, field, value);
        Profiling.written(this, field, value);
    }

    /// Copies elements of the array of field `field` into `into`, as many as there are and fit, and
    /// returns how many; -1 if it is null.
    protected final int copyChars(int field, int at, int length, char[] into) {
        int count = Math.min(length, into.length);
        return copyInPlace(at, length, CHAR, into, count) ? count : copyArray(field, into);
    }

    /// An element of the array of field `field`.
    ///
    /// @throws IndexOutOfBoundsException if there is none
    protected final char getCharAt(int field, int at, int length, int index) {
        return (char) elementBits(field, at, length, Character.BYTES, index);
    }

    /// Sets an element of the array of field `field`.
    ///
    /// @throws IndexOutOfBoundsException if there is none
    protected final void setCharAt(int field, int at, int index, char value) {
        setElement(field, index, value);
    }

    /// The array of field `field`, or null.
    protected final int @Nullable [] getInts(int field, int at) {
        return (int[]) counted(field, arrays().get(this, field));
    }

    /// Sets the array of field `field`.
    protected final void setInts(int field, int at, int @Nullable [] value) {
        arrays().set(this, field, value);
        Profiling.written(this, field, value);
    }

    /// Copies elements of the array of field `field` into `into`, as many as there are and fit, and
    /// returns how many; -1 if it is null.
    protected final int copyInts(int field, int at, int length, int[] into) {
        int count = Math.min(length, into.length);
        return copyInPlace(at, length, INT, into, count) ? count : copyArray(field, into);
    }

    /// An element of the array of field `field`.
    ///
    /// @throws IndexOutOfBoundsException if there is none
    protected final int getIntAt(int field, int at, int length, int index) {
        return (int) elementBits(field, at, length, Integer.BYTES, index);
    }

    /// Sets an element of the array of field `field`.
    ///
    /// @throws IndexOutOfBoundsException if there is none
    protected final void setIntAt(int field, int at, int index, int value) {
        setElement(field, index, value);
    }

    /// The array of field `field`, or null.
    protected final long @Nullable [] getLongs(int field, int at) {
        return (long[]) counted(field, arrays().get(this, field));
    }

    /// Sets the array of field `field`.
    protected final void setLongs(int field, int at, long @Nullable [] value) {
        arrays().set(this, field, value);
        Profiling.written(this, field, value);
    }

    /// Copies elements of the array of field `field` into `into`, as many as there are and fit, and
    /// returns how many; -1 if it is null.
    protected final int copyLongs(int field, int at, int length, long[] into) {
        int count = Math.min(length, into.length);
        return copyInPlace(at, length, Region.LONG, into, count) ? count : copyArray(field, into);
    }

    /// An element of the array of field `field`.
    ///
    /// @throws IndexOutOfBoundsException if there is none
    protected final long getLongAt(int field, int at, int length, int index) {
        return elementBits(field, at, length, Long.BYTES, index);
    }

    /// Sets an element of the array of field `field`.
    ///
    /// @throws IndexOutOfBoundsException if there is none
    protected final void setLongAt(int field, int at, int index, long value) {
        setElement(field, index, value);
    }

    /// The array of field `field`, or null.
    protected final float @Nullable [] getFloats(int field, int at) {
        return (float[]) counted(field, arrays().get(this, field));
    }

    /// Sets the array of field `field`.
    protected final void setFloats(int field, int at, float @Nullable [] value) {
        arrays().set(this, field, value);
        Profiling.written(this, field, value);
    }

    /// Copies elements of the array of field `field` into `into`, as many as there are and fit, and
    /// returns how many; -1 if it is null.
    protected final int copyFloats(int field, int at, int length, float[] into) {
        int count = Math.min(length, into.length);
        return copyInPlace(at, length, FLOAT, into, count) ? count : copyArray(field, into);
    }

    /// An element of the array of field `field`.
    ///
    /// @throws IndexOutOfBoundsException if there is none
    protected final float getFloatAt(int field, int at, int length, int index) {
        return Float.intBitsToFloat((int) elementBits(field, at, length, Float.BYTES, index));
    }

    /// Sets an element of the array of field `field`.
    ///
    /// @throws IndexOutOfBoundsException if there is none
    protected final void setFloatAt(int field, int at, int index, float value) {
        setElement(field, index, Float.floatToRawIntBits(value));
    }

    /// The array of field `field`, or null.
    protected final double @Nullable [] getDoubles(int field, int at) {
        return (double[]) counted(field, arrays().get(this, field));
    }

    /// Sets the array of field `field`.
    protected final void setDoubles(int field, int at, double @Nullable [] value) {
        arrays().set(this, field, value);
        Profiling.written(this, field, value);
    }

    /// Copies elements of the array of field `field` into `into`, as many as there are and fit, and
    /// returns how many; -1 if it is null.
    protected final int copyDoubles(int field, int at, int length, double[] into) {
        int count = Math.min(length, into.length);
        return copyInPlace(at, length, DOUBLE, into, count) ? count : copyArray(field, into);
    }

    /// An element of the array of field `field`.
    ///
    /// @throws IndexOutOfBoundsException if there is none
    protected final double getDoubleAt(int field, int at, int length, int index) {
        return Double.longBitsToDouble(elementBits(field, at, length, Double.BYTES, index));
    }

    /// Sets an element of the array of field `field`.
    ///
    /// @throws IndexOutOfBoundsException if there is none
    protected final void setDoubleAt(int field, int at, int index, double value) {
        setElement(field, index, Double.doubleToRawLongBits(value));
    }
}
