package dev.terrace.objects;

/// The kinds of values that fields hold.
public enum FieldKind {
    /// `boolean`
    BOOLEAN(1),
    /// `byte`
    BYTE(1),
    /// `short`
    SHORT(2),
    /// `char`
    CHAR(2),
    /// `int`
    INT(4),
    /// `float`
    FLOAT(4),
    /// `long`
    LONG(8),
    /// `double`
    DOUBLE(8),
    /// An enum's constant, stored as its position in the schema's list of names.
    ENUM(4),
    /// Another durable object, or a durable collection.
    REFERENCE(8),
    /// `String`
    STRING(0),
    /// `boolean[]`
    BOOLEANS(1),
    /// `byte[]`
    BYTES(1),
    /// `short[]`
    SHORTS(2),
    /// `char[]`
    CHARS(2),
    /// `int[]`
    INTS(4),
    /// `float[]`
    FLOATS(4),
    /// `long[]`
    LONGS(8),
    /// `double[]`
    DOUBLES(8);

    private final int width;

    FieldKind(int width) {
        this.width = width;
    }

    /// Bytes of a value, or of an array's element; 0 for strings.
    public int width() {
        return width;
    }

    /// Whether it is an array of primitives.
    public boolean isArray() {
        return ordinal() >= BOOLEANS.ordinal();
    }

    /// The kind of an array's elements.
    ///
    /// @throws IllegalStateException if it is no array
    public FieldKind element() {
        if (!isArray()) {
            throw new IllegalStateException(this + " is no array");
        }
        return values()[ordinal() - BOOLEANS.ordinal()];
    }

    /// Whether all values have the same length, so that they can lie within a record. That holds
    /// for all kinds except strings and arrays.
    public boolean isFixed() {
        return ordinal() <= REFERENCE.ordinal();
    }
}
