package dev.terrace.objects;

import org.jspecify.annotations.Nullable;

/// A durable object of a class that is known only at run time. Its fields have numbers, in the
/// order in which its [ObjectType] lists them.
///
/// ```java
/// ObjectType<DurableRecord> type = ObjectType.of("Reading",
///         FieldSpec.of("time", FieldKind.LONG),
///         FieldSpec.of("image", FieldKind.BYTES).on(StorageTier.DISK).orNull());
/// DurableRecord reading = pool.create(type);
/// reading.setLong(0, time);
/// reading.setArray(1, image);
/// ```
///
/// A program can also read objects of a class that it no longer has: a [StoredType] gives the
/// class's name and fields. Each method throws `IllegalArgumentException` if the field has another
/// kind, and `IndexOutOfBoundsException` if there is no such field. References and constants of
/// enums can be read, not set; for collections use generated classes or [PoolDump].
public final class DurableRecord extends DurableObject {
    DurableRecord() {}

    /// The place of a field, if it is of this kind.
    private int at(int field, FieldKind kind) {
        require(field, kind);
        return mapping().type.offset(field);
    }

    private FieldSpec spec(int field) {
        return mapping().field(field);
    }

    private void require(int field, FieldKind kind) {
        FieldSpec spec = spec(field);
        if (spec.kind() != kind) {
            throw new IllegalArgumentException(
                    mapping().type
                            + ": field "
                            + spec.name()
                            + " holds "
                            + spec.kind()
                            + ", not "
                            + kind);
        }
        if (spec.nullable() && kind.ordinal() <= FieldKind.DOUBLE.ordinal()) {
            throw new IllegalArgumentException(
                    mapping().type
                            + ": field "
                            + spec.name()
                            + " may be null: use getBoxed and setBoxed");
        }
        requireStored(spec);
    }

    private void requireStored(FieldSpec spec) {
        if (spec.isVolatile()) {
            throw new IllegalArgumentException(
                    mapping().type
                            + ": field "
                            + spec.name()
                            + " is in DRAM: only a generated class has such fields");
        }
    }

    private FieldSpec requireArray(int field) {
        FieldSpec spec = spec(field);
        if (!spec.kind().isArray()) {
            throw new IllegalArgumentException(
                    mapping().type
                            + ": field "
                            + spec.name()
                            + " holds "
                            + spec.kind()
                            + ", no array");
        }
        require(field, spec.kind());
        return spec;
    }

    /// The value of a field.
    public boolean getBoolean(int field) {
        return getBoolean(field, at(field, FieldKind.BOOLEAN));
    }

    /// Sets a field.
    public void setBoolean(int field, boolean value) {
        setBoolean(field, at(field, FieldKind.BOOLEAN), value);
    }

    /// The value of a field.
    public byte getByte(int field) {
        return getByte(field, at(field, FieldKind.BYTE));
    }

    /// Sets a field.
    public void setByte(int field, byte value) {
        setByte(field, at(field, FieldKind.BYTE), value);
    }

    /// The value of a field.
    public short getShort(int field) {
        return getShort(field, at(field, FieldKind.SHORT));
    }

    /// Sets a field.
    public void setShort(int field, short value) {
        setShort(field, at(field, FieldKind.SHORT), value);
    }

    /// The value of a field.
    public char getChar(int field) {
        return getChar(field, at(field, FieldKind.CHAR));
    }

    /// Sets a field.
    public void setChar(int field, char value) {
        setChar(field, at(field, FieldKind.CHAR), value);
    }

    /// The value of a field.
    public int getInt(int field) {
        return getInt(field, at(field, FieldKind.INT));
    }

    /// Sets a field.
    public void setInt(int field, int value) {
        setInt(field, at(field, FieldKind.INT), value);
    }

    /// The value of a field.
    public long getLong(int field) {
        return getLong(field, at(field, FieldKind.LONG));
    }

    /// Sets a field.
    public void setLong(int field, long value) {
        setLong(field, at(field, FieldKind.LONG), value);
    }

    /// The value of a field.
    public float getFloat(int field) {
        return getFloat(field, at(field, FieldKind.FLOAT));
    }

    /// Sets a field.
    public void setFloat(int field, float value) {
        setFloat(field, at(field, FieldKind.FLOAT), value);
    }

    /// The value of a field.
    public double getDouble(int field) {
        return getDouble(field, at(field, FieldKind.DOUBLE));
    }

    /// Sets a field.
    public void setDouble(int field, double value) {
        setDouble(field, at(field, FieldKind.DOUBLE), value);
    }

    /// The number, boolean or character of a field that may be null.
    public @Nullable Object getBoxed(int field) {
        FieldKind kind = requireBoxed(field).kind();
        int at = mapping().type.offset(field);
        return switch (kind) {
            case BOOLEAN -> getBoxedBoolean(field, at);
            case BYTE -> getBoxedByte(field, at);
            case SHORT -> getBoxedShort(field, at);
            case CHAR -> getBoxedChar(field, at);
            case INT -> getBoxedInt(field, at);
            case LONG -> getBoxedLong(field, at);
            case FLOAT -> getBoxedFloat(field, at);
            case DOUBLE -> getBoxedDouble(field, at);
            default -> throw new AssertionError(kind);
        };
    }

    /// Sets a field that may be null to a number, boolean or character of its kind, or to null.
    public void setBoxed(int field, @Nullable Object value) {
        FieldKind kind = requireBoxed(field).kind();
        if (value != null && value.getClass() != boxOf(kind)) {
            throw new IllegalArgumentException(
                    mapping().type
                            + ": field "
                            + spec(field).name()
                            + " holds "
                            + kind
                            + ", and this is a "
                            + value.getClass().getSimpleName());
        }
        int at = mapping().type.offset(field);
        switch (kind) {
            case BOOLEAN -> setBoxedBoolean(field, at, (@Nullable Boolean) value);
            case BYTE -> setBoxedByte(field, at, (@Nullable Byte) value);
            case SHORT -> setBoxedShort(field, at, (@Nullable Short) value);
            case CHAR -> setBoxedChar(field, at, (@Nullable Character) value);
            case INT -> setBoxedInt(field, at, (@Nullable Integer) value);
            case LONG -> setBoxedLong(field, at, (@Nullable Long) value);
            case FLOAT -> setBoxedFloat(field, at, (@Nullable Float) value);
            case DOUBLE -> setBoxedDouble(field, at, (@Nullable Double) value);
            default -> throw new AssertionError(kind);
        }
    }

    private static Class<?> boxOf(FieldKind kind) {
        return Fields.box(0, kind).getClass();
    }

    private FieldSpec requireBoxed(int field) {
        FieldSpec spec = spec(field);
        if (!spec.nullable() || spec.kind().ordinal() > FieldKind.DOUBLE.ordinal()) {
            throw new IllegalArgumentException(
                    mapping().type
                            + ": field "
                            + spec.name()
                            + " is no number that may be null, but "
                            + spec.kind());
        }
        requireStored(spec);
        return spec;
    }

    /// The text of a field, or null.
    public @Nullable String getString(int field) {
        return getString(field, at(field, FieldKind.STRING));
    }

    /// Whether the text of a field is equal to this one, without decoding it; null is equal to null
    /// only.
    public boolean equalsString(int field, @Nullable String text) {
        return equalsString(field, at(field, FieldKind.STRING), text);
    }

    /// Whether the array of a field holds these bytes; null is equal to null only.
    public boolean equalsBytes(int field, byte @Nullable [] bytes) {
        return equalsBytes(field, at(field, FieldKind.BYTES), bytes);
    }

    /// Sets the text of a field.
    public void setString(int field, @Nullable String value) {
        setString(field, at(field, FieldKind.STRING), value);
    }

    /// The name of the constant of an enum in a field, also of one that the class no longer has;
    /// null if it is null.
    public @Nullable String getConstant(int field) {
        require(field, FieldKind.ENUM);
        String name = pool().fields().getConstant(this, field);
        Profiling.read(this, field, name);
        return name;
    }

    /// The reference in a field, as [DurableObject#reference()] and
    /// [dev.terrace.objects.collections.DurableCollection#reference()] say it, whether or not its
    /// target has been deleted; 0 if it is null.
    public long getReference(int field) {
        require(field, FieldKind.REFERENCE);
        long reference = pool().fields().getBits(this, field, FieldKind.REFERENCE);
        Profiling.read(this, field, reference);
        return reference;
    }

    /// A copy of the array of a field, of the primitives that it holds; null if it is null.
    public @Nullable Object getArray(int field) {
        FieldKind kind = requireArray(field).kind();
        int at = mapping().type.offset(field);
        return switch (kind) {
            case BOOLEANS -> getBooleans(field, at);
            case BYTES -> getBytes(field, at);
            case SHORTS -> getShorts(field, at);
            case CHARS -> getChars(field, at);
            case INTS -> getInts(field, at);
            case LONGS -> getLongs(field, at);
            case FLOATS -> getFloats(field, at);
            case DOUBLES -> getDoubles(field, at);
            default -> throw new AssertionError(kind);
        };
    }

    /// Sets the array of a field: one of the primitives that it holds, or null.
    public void setArray(int field, @Nullable Object array) {
        FieldKind kind = requireArray(field).kind();
        requireSame(spec(field), array);
        int at = mapping().type.offset(field);
        switch (kind) {
            case BOOLEANS -> setBooleans(field, at, (boolean @Nullable []) array);
            case BYTES -> setBytes(field, at, (byte @Nullable []) array);
            case SHORTS -> setShorts(field, at, (short @Nullable []) array);
            case CHARS -> setChars(field, at, (char @Nullable []) array);
            case INTS -> setInts(field, at, (int @Nullable []) array);
            case LONGS -> setLongs(field, at, (long @Nullable []) array);
            case FLOATS -> setFloats(field, at, (float @Nullable []) array);
            case DOUBLES -> setDoubles(field, at, (double @Nullable []) array);
            default -> throw new AssertionError(kind);
        }
    }

    /// Copies elements of the array of a field into an array of the same primitives, as many as
    /// there are and fit.
    ///
    /// @return how many; -1 if it is null
    public int copyArray(int field, Object into) {
        FieldSpec spec = requireArray(field);
        requireSame(spec, into);
        int at = mapping().type.offset(field);
        int length = spec.fixedLength();
        return switch (into) {
            case boolean[] array -> copyBooleans(field, at, length, array);
            case byte[] array -> copyBytes(field, at, length, array);
            case short[] array -> copyShorts(field, at, length, array);
            case char[] array -> copyChars(field, at, length, array);
            case int[] array -> copyInts(field, at, length, array);
            case long[] array -> copyLongs(field, at, length, array);
            case float[] array -> copyFloats(field, at, length, array);
            case double[] array -> copyDoubles(field, at, length, array);
            default -> throw new AssertionError(into.getClass());
        };
    }

    /// How many elements the array of a field has, without reading them; -1 if it is null.
    public int getArrayLength(int field) {
        requireArray(field);
        return pool().arrays().length(this, field);
    }

    private void requireSame(FieldSpec spec, @Nullable Object array) {
        if (array != null && array.getClass() != ArrayFields.elementOf(spec.kind()).arrayType()) {
            throw new IllegalArgumentException(
                    mapping().type
                            + ": field "
                            + spec.name()
                            + " holds "
                            + spec.kind()
                            + ", and this is a "
                            + array.getClass().getSimpleName());
        }
    }
}
