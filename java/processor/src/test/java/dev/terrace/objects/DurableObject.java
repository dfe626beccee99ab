package dev.terrace.objects;

import dev.terrace.objects.collections.DurableList;
import dev.terrace.objects.collections.DurableMap;
import dev.terrace.objects.collections.DurableTree;
import dev.terrace.objects.collections.ElementType;
import java.lang.reflect.Array;
import java.util.Collection;
import java.util.Map;
import org.jspecify.annotations.NullMarked;
import org.jspecify.annotations.Nullable;

/// Stand-in: fields in an array on the heap.
@NullMarked
public abstract class DurableObject {
    @Nullable Pool pool;
    @Nullable Object[] values = {};

    public final Pool pool() {
        Pool bound = pool;
        if (bound == null) {
            throw new IllegalStateException("leads to no object");
        }
        return bound;
    }

    public final boolean isAlive() {
        return pool != null;
    }

    public final void delete() {
        pool = null;
    }

    @Override
    public final boolean equals(@Nullable Object other) {
        return other instanceof DurableObject object && object.values == values;
    }

    @Override
    public final int hashCode() {
        return System.identityHashCode(values);
    }

    private @Nullable Object get(int field, int at) {
        if (at != 8 * field) {
            throw new AssertionError("field " + field + " is not at " + at);
        }
        return values[field];
    }

    private void set(int field, int at, @Nullable Object value) {
        get(field, at);
        Object old = values[field];
        values[field] = value;
        pool().changed(() -> values[field] = old);
    }

    private Object array(int field, int at) {
        Object array = get(field, at);
        if (array == null) {
            throw new NullPointerException("the array is null");
        }
        return array;
    }

    private static @Nullable Object copy(@Nullable Object array) {
        if (array == null) {
            return null;
        }
        int length = Array.getLength(array);
        Object copy = Array.newInstance(array.getClass().componentType(), length);
        System.arraycopy(array, 0, copy, 0, length);
        return copy;
    }

    private int copy(int field, int at, Object into) {
        Object array = get(field, at);
        if (array == null) {
            return -1;
        }
        int length = Math.min(Array.getLength(array), Array.getLength(into));
        System.arraycopy(array, 0, into, 0, length);
        return length;
    }

    protected final int getLength(int field, int at) {
        Object array = get(field, at);
        return array == null ? -1 : Array.getLength(array);
    }

    protected final @Nullable String getString(int field, int at) {
        return (String) get(field, at);
    }

    protected final void setString(int field, int at, @Nullable String value) {
        set(field, at, value);
    }

    protected final <E extends Enum<E>> @Nullable E getEnum(int field, int at, E[] constants) {
        Integer ordinal = (Integer) get(field, at);
        return ordinal == null ? null : constants[ordinal];
    }

    protected final <E extends Enum<E>> void setEnum(int field, int at, @Nullable E value) {
        set(field, at, value == null ? null : value.ordinal());
    }

    protected final <D extends DurableObject> @Nullable D getReference(int field, int at, ObjectType<D> type) {
        DurableObject target = (DurableObject) get(field, at);
        return target == null ? null : type.handle(target);
    }

    protected final void setReference(int field, int at, @Nullable DurableObject value) {
        set(field, at, value);
    }

    protected final @Nullable Object getVolatile(int field) {
        return values[field];
    }

    protected final void setVolatile(int field, @Nullable Object value) {
        values[field] = value;
    }

    @SuppressWarnings("unchecked")
    protected final <E> @Nullable DurableList<E> getList(int field, int at, ElementType<E> e) {
        return (DurableList<E>) get(field, at);
    }

    protected final <E> void setList(int field, int at, ElementType<E> e, @Nullable Collection<? extends E> value) {
        set(field, at, value == null ? null : new DurableList<>(value));
    }

    @SuppressWarnings("unchecked")
    protected final <K, V> @Nullable DurableMap<K, V> getMap(int field, int at, ElementType<K> k, ElementType<V> v) {
        return (DurableMap<K, V>) get(field, at);
    }

    protected final <K, V> void setMap(
            int field, int at, ElementType<K> k, ElementType<V> v, @Nullable Map<? extends K, ? extends V> value) {
        set(field, at, value == null ? null : new DurableMap<>(value));
    }

    @SuppressWarnings("unchecked")
    protected final <K, V> @Nullable DurableTree<K, V> getTree(int field, int at, ElementType<K> k, ElementType<V> v) {
        return (DurableTree<K, V>) get(field, at);
    }

    protected final <K, V> void setTree(
            int field, int at, ElementType<K> k, ElementType<V> v, @Nullable Map<? extends K, ? extends V> value) {
        set(field, at, value == null ? null : new DurableTree<>(value));
    }

    protected final boolean getBoolean(int field, int at) {
        Object value = get(field, at);
        return value == null ? false : (Boolean) value;
    }

    protected final void setBoolean(int field, int at, boolean value) {
        set(field, at, value);
    }

    protected final @Nullable Boolean getBoxedBoolean(int field, int at) {
        return (Boolean) get(field, at);
    }

    protected final void setBoxedBoolean(int field, int at, @Nullable Boolean value) {
        set(field, at, value);
    }

    protected final boolean @Nullable [] getBooleans(int field, int at) {
        return (boolean[]) copy(get(field, at));
    }

    protected final void setBooleans(int field, int at, boolean @Nullable [] value) {
        set(field, at, copy(value));
    }

    protected final int copyBooleans(int field, int at, boolean[] into) {
        return copy(field, at, into);
    }

    protected final boolean getBooleanAt(int field, int at, int index) {
        return ((boolean[]) array(field, at))[index];
    }

    protected final void setBooleanAt(int field, int at, int index, boolean value) {
        Array.set(array(field, at), index, value);
    }

    protected final byte getByte(int field, int at) {
        Object value = get(field, at);
        return value == null ? (byte) 0 : (Byte) value;
    }

    protected final void setByte(int field, int at, byte value) {
        set(field, at, value);
    }

    protected final @Nullable Byte getBoxedByte(int field, int at) {
        return (Byte) get(field, at);
    }

    protected final void setBoxedByte(int field, int at, @Nullable Byte value) {
        set(field, at, value);
    }

    protected final byte @Nullable [] getBytes(int field, int at) {
        return (byte[]) copy(get(field, at));
    }

    protected final void setBytes(int field, int at, byte @Nullable [] value) {
        set(field, at, copy(value));
    }

    protected final int copyBytes(int field, int at, byte[] into) {
        return copy(field, at, into);
    }

    protected final byte getByteAt(int field, int at, int index) {
        return ((byte[]) array(field, at))[index];
    }

    protected final void setByteAt(int field, int at, int index, byte value) {
        Array.set(array(field, at), index, value);
    }

    protected final short getShort(int field, int at) {
        Object value = get(field, at);
        return value == null ? (short) 0 : (Short) value;
    }

    protected final void setShort(int field, int at, short value) {
        set(field, at, value);
    }

    protected final @Nullable Short getBoxedShort(int field, int at) {
        return (Short) get(field, at);
    }

    protected final void setBoxedShort(int field, int at, @Nullable Short value) {
        set(field, at, value);
    }

    protected final short @Nullable [] getShorts(int field, int at) {
        return (short[]) copy(get(field, at));
    }

    protected final void setShorts(int field, int at, short @Nullable [] value) {
        set(field, at, copy(value));
    }

    protected final int copyShorts(int field, int at, short[] into) {
        return copy(field, at, into);
    }

    protected final short getShortAt(int field, int at, int index) {
        return ((short[]) array(field, at))[index];
    }

    protected final void setShortAt(int field, int at, int index, short value) {
        Array.set(array(field, at), index, value);
    }

    protected final char getChar(int field, int at) {
        Object value = get(field, at);
        return value == null ? '\0' : (Character) value;
    }

    protected final void setChar(int field, int at, char value) {
        set(field, at, value);
    }

    protected final @Nullable Character getBoxedChar(int field, int at) {
        return (Character) get(field, at);
    }

    protected final void setBoxedChar(int field, int at, @Nullable Character value) {
        set(field, at, value);
    }

    protected final char @Nullable [] getChars(int field, int at) {
        return (char[]) copy(get(field, at));
    }

    protected final void setChars(int field, int at, char @Nullable [] value) {
        set(field, at, copy(value));
    }

    protected final int copyChars(int field, int at, char[] into) {
        return copy(field, at, into);
    }

    protected final char getCharAt(int field, int at, int index) {
        return ((char[]) array(field, at))[index];
    }

    protected final void setCharAt(int field, int at, int index, char value) {
        Array.set(array(field, at), index, value);
    }

    protected final int getInt(int field, int at) {
        Object value = get(field, at);
        return value == null ? 0 : (Integer) value;
    }

    protected final void setInt(int field, int at, int value) {
        set(field, at, value);
    }

    protected final @Nullable Integer getBoxedInt(int field, int at) {
        return (Integer) get(field, at);
    }

    protected final void setBoxedInt(int field, int at, @Nullable Integer value) {
        set(field, at, value);
    }

    protected final int @Nullable [] getInts(int field, int at) {
        return (int[]) copy(get(field, at));
    }

    protected final void setInts(int field, int at, int @Nullable [] value) {
        set(field, at, copy(value));
    }

    protected final int copyInts(int field, int at, int[] into) {
        return copy(field, at, into);
    }

    protected final int getIntAt(int field, int at, int index) {
        return ((int[]) array(field, at))[index];
    }

    protected final void setIntAt(int field, int at, int index, int value) {
        Array.set(array(field, at), index, value);
    }

    protected final long getLong(int field, int at) {
        Object value = get(field, at);
        return value == null ? 0L : (Long) value;
    }

    protected final void setLong(int field, int at, long value) {
        set(field, at, value);
    }

    protected final @Nullable Long getBoxedLong(int field, int at) {
        return (Long) get(field, at);
    }

    protected final void setBoxedLong(int field, int at, @Nullable Long value) {
        set(field, at, value);
    }

    protected final long @Nullable [] getLongs(int field, int at) {
        return (long[]) copy(get(field, at));
    }

    protected final void setLongs(int field, int at, long @Nullable [] value) {
        set(field, at, copy(value));
    }

    protected final int copyLongs(int field, int at, long[] into) {
        return copy(field, at, into);
    }

    protected final long getLongAt(int field, int at, int index) {
        return ((long[]) array(field, at))[index];
    }

    protected final void setLongAt(int field, int at, int index, long value) {
        Array.set(array(field, at), index, value);
    }

    protected final float getFloat(int field, int at) {
        Object value = get(field, at);
        return value == null ? 0f : (Float) value;
    }

    protected final void setFloat(int field, int at, float value) {
        set(field, at, value);
    }

    protected final @Nullable Float getBoxedFloat(int field, int at) {
        return (Float) get(field, at);
    }

    protected final void setBoxedFloat(int field, int at, @Nullable Float value) {
        set(field, at, value);
    }

    protected final float @Nullable [] getFloats(int field, int at) {
        return (float[]) copy(get(field, at));
    }

    protected final void setFloats(int field, int at, float @Nullable [] value) {
        set(field, at, copy(value));
    }

    protected final int copyFloats(int field, int at, float[] into) {
        return copy(field, at, into);
    }

    protected final float getFloatAt(int field, int at, int index) {
        return ((float[]) array(field, at))[index];
    }

    protected final void setFloatAt(int field, int at, int index, float value) {
        Array.set(array(field, at), index, value);
    }

    protected final double getDouble(int field, int at) {
        Object value = get(field, at);
        return value == null ? 0.0 : (Double) value;
    }

    protected final void setDouble(int field, int at, double value) {
        set(field, at, value);
    }

    protected final @Nullable Double getBoxedDouble(int field, int at) {
        return (Double) get(field, at);
    }

    protected final void setBoxedDouble(int field, int at, @Nullable Double value) {
        set(field, at, value);
    }

    protected final double @Nullable [] getDoubles(int field, int at) {
        return (double[]) copy(get(field, at));
    }

    protected final void setDoubles(int field, int at, double @Nullable [] value) {
        set(field, at, copy(value));
    }

    protected final int copyDoubles(int field, int at, double[] into) {
        return copy(field, at, into);
    }

    protected final double getDoubleAt(int field, int at, int index) {
        return ((double[]) array(field, at))[index];
    }

    protected final void setDoubleAt(int field, int at, int index, double value) {
        Array.set(array(field, at), index, value);
    }
}
