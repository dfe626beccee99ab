package dev.terrace.objects.collections;

import dev.terrace.objects.DurableObject;
import dev.terrace.objects.ObjectType;
import dev.terrace.objects.Pool;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.internal.store.Links;
import dev.terrace.objects.internal.store.Text;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/// The type of a collection's elements.
///
/// Each element is a word. The word holds a number, a reference to a durable object, or a string or
/// byte array of up to seven bytes; longer strings and byte arrays lie in buffers that the word
/// leads to. Numbers are equal if their boxes are equal: there is one NaN, and 0.0 is not -0.0.
///
/// @param <E> the elements' class
public final class ElementType<E> {
    private static final int TEXT_CODE = 1;
    private static final int BOOLEAN_CODE = 2;
    private static final int BYTE_CODE = 3;
    private static final int SHORT_CODE = 4;
    private static final int CHARACTER_CODE = 5;
    private static final int INTEGER_CODE = 6;
    private static final int LONG_CODE = 7;
    private static final int FLOAT_CODE = 8;
    private static final int DOUBLE_CODE = 9;
    private static final int BYTES_CODE = 10;
    private static final int OBJECT_CODE = 11;

    /// A bit that is set in each word of a number of at most 32 bits, so that no number has the
    /// word of null.
    private static final long IS_THERE = 1L << 32;

    private static final String[] NAMES = {
        "?",
        "java.lang.String",
        "java.lang.Boolean",
        "java.lang.Byte",
        "java.lang.Short",
        "java.lang.Character",
        "java.lang.Integer",
        "java.lang.Long",
        "java.lang.Float",
        "java.lang.Double",
        "byte[]"
    };

    /// `String`
    public static final ElementType<String> STRING =
            new ElementType<>(TEXT_CODE, String.class, null);

    /// `Boolean`
    public static final ElementType<Boolean> BOOLEAN =
            new ElementType<>(BOOLEAN_CODE, Boolean.class, null);

    /// `Byte`
    public static final ElementType<Byte> BYTE = new ElementType<>(BYTE_CODE, Byte.class, null);

    /// `Short`
    public static final ElementType<Short> SHORT = new ElementType<>(SHORT_CODE, Short.class, null);

    /// `Character`
    public static final ElementType<Character> CHARACTER =
            new ElementType<>(CHARACTER_CODE, Character.class, null);

    /// `Integer`
    public static final ElementType<Integer> INTEGER =
            new ElementType<>(INTEGER_CODE, Integer.class, null);

    /// `Long`
    public static final ElementType<Long> LONG = new ElementType<>(LONG_CODE, Long.class, null);

    /// `Float`
    public static final ElementType<Float> FLOAT = new ElementType<>(FLOAT_CODE, Float.class, null);

    /// `Double`
    public static final ElementType<Double> DOUBLE =
            new ElementType<>(DOUBLE_CODE, Double.class, null);

    /// `byte[]`: an array is equal only to itself, as everywhere in Java, so it cannot be a key.
    public static final ElementType<byte[]> BYTES =
            new ElementType<>(BYTES_CODE, byte[].class, null);

    private final int code;
    private final Class<?> type;
    private final @Nullable ObjectType<?> object;

    private ElementType(int code, Class<?> type, @Nullable ObjectType<?> object) {
        this.code = code;
        this.type = type;
        this.object = object;
    }

    /// References to durable objects of this type.
    public static <D extends DurableObject> ElementType<D> of(ObjectType<D> type) {
        return new ElementType<>(OBJECT_CODE, type.handle(), type);
    }

    /// The elements' class, fully qualified.
    public String name() {
        return object == null ? NAMES[code] : object.name();
    }

    @Override
    public String toString() {
        return name();
    }

    /// The number of this type in the format.
    int code() {
        return code;
    }

    /// The name of elements with this number in messages.
    static String nameOf(int code, String objectName) {
        return code == OBJECT_CODE
                ? objectName
                : code > 0 && code < NAMES.length ? NAMES[code] : NAMES[0];
    }

    /// The type with this number; null if there is none, or if it is the number of objects, which
    /// have many types.
    static @Nullable ElementType<?> withCode(int code) {
        return switch (code) {
            case TEXT_CODE -> STRING;
            case BOOLEAN_CODE -> BOOLEAN;
            case BYTE_CODE -> BYTE;
            case SHORT_CODE -> SHORT;
            case CHARACTER_CODE -> CHARACTER;
            case INTEGER_CODE -> INTEGER;
            case LONG_CODE -> LONG;
            case FLOAT_CODE -> FLOAT;
            case DOUBLE_CODE -> DOUBLE;
            case BYTES_CODE -> BYTES;
            default -> null;
        };
    }

    /// Throws an exception if the word at `at` is not a word of an element with this number.
    static void check(int code, Anchor anchor, long at) {
        long word = anchor.store.word(at);
        boolean isOne =
                switch (code) {
                    case TEXT_CODE -> {
                        Text.decode(anchor.pool.buffers().get(at));
                        yield true;
                    }
                    case LONG_CODE, BYTES_CODE, OBJECT_CODE -> true;
                    case DOUBLE_CODE ->
                            word == Double.doubleToLongBits(Double.longBitsToDouble(word));
                    default -> word == 0 || word >>> 32 == 1 && isOne(code, (int) word);
                };
        if (!isOne) {
            throw anchor.damaged("holds 0x" + Long.toHexString(word) + " as " + nameOf(code, ""));
        }
    }

    private static boolean isOne(int code, int bits) {
        return switch (code) {
            case BOOLEAN_CODE -> (bits & ~1) == 0;
            case BYTE_CODE -> bits == (byte) bits;
            case SHORT_CODE -> bits == (short) bits;
            case CHARACTER_CODE -> bits == (char) bits;
            case INTEGER_CODE -> true;
            case FLOAT_CODE -> bits == Float.floatToIntBits(Float.intBitsToFloat(bits));
            default -> false;
        };
    }

    /// Whether elements with this number have class names.
    static boolean isObject(int code) {
        return code == OBJECT_CODE;
    }

    /// Whether words of elements with this number may lead to buffers.
    static boolean isBuffered(int code) {
        return code == TEXT_CODE || code == BYTES_CODE;
    }

    /// Shows the reference in the word at `at`, which belongs to an element with this number in the
    /// node that begins at `owner`.
    static void links(
            int code, Anchor anchor, long owner, long at, List<StorageTier> tiers, Links links) {
        if (isBuffered(code)) {
            links.slot(owner, at, tiers);
        } else if (isObject(code)) {
            links.reference(anchor.store.word(at));
        }
    }

    /// Whether elements with this number need a bit beside their word to tell null from a value.
    static boolean needsPresence(int code) {
        return code == LONG_CODE || code == DOUBLE_CODE;
    }

    boolean isBuffered() {
        return isBuffered(code);
    }

    boolean needsPresence() {
        return needsPresence(code);
    }

    /// Whether elements that were stored as `storedName` are of this type.
    boolean isCalled(String storedName) {
        return object != null
                && (object.name().equals(storedName) || object.formerly().contains(storedName));
    }

    ElementType<E> requireKey() {
        if (code == BYTES_CODE) {
            throw new IllegalArgumentException("arrays cannot be keys");
        }
        return this;
    }

    ElementType<E> requireComparable() {
        if (code == OBJECT_CODE) {
            throw new IllegalArgumentException(
                    this + " has no natural order, which a key of a sorted map needs");
        }
        return requireKey();
    }

    boolean isInstance(@Nullable Object value) {
        return type.isInstance(value);
    }

    /// @throws ClassCastException if it is not an element, or null
    Object require(@Nullable Object value) {
        return type.cast(Objects.requireNonNull(value));
    }

    /// The bytes of a string or an array; null for all other values.
    byte @Nullable [] bytes(@Nullable Object value) {
        if (!isBuffered()) {
            return null;
        }
        return value instanceof String text ? Text.encode(text) : (byte[]) value;
    }

    /// The word of a value without a buffer; 0 for null, and for types that may have buffers.
    long word(@Nullable Object value) {
        return switch (code) {
            case TEXT_CODE, BYTES_CODE -> 0;
            case LONG_CODE -> value == null ? 0 : (Long) value;
            case INTEGER_CODE -> value == null ? 0 : (Integer) value & 0xffffffffL | IS_THERE;
            default -> value == null ? 0 : otherWord(value);
        };
    }

    private long otherWord(Object value) {
        return switch (code) {
            case BOOLEAN_CODE -> ((Boolean) value ? 1 : 0) | IS_THERE;
            case BYTE_CODE -> (Byte) value & 0xffffffffL | IS_THERE;
            case SHORT_CODE -> (Short) value & 0xffffffffL | IS_THERE;
            case CHARACTER_CODE -> (Character) value | IS_THERE;
            case FLOAT_CODE -> Float.floatToIntBits((Float) value) & 0xffffffffL | IS_THERE;
            case DOUBLE_CODE -> Double.doubleToLongBits((Double) value);
            default -> ((DurableObject) value).reference();
        };
    }

    /// Throws an exception if a value cannot be an element of a collection in this pool.
    void requireFor(Pool pool, Object value) {
        require(value);
        if (value instanceof DurableObject target) {
            if (target.pool() != pool) {
                throw new IllegalArgumentException(
                        "an object of another pool cannot be an element");
            }
            if (!target.isAlive()) {
                throw pool.store().stale(Pool.recordOf(target.reference()));
            }
        }
    }

    /// Stores a key, and returns its word. In a transaction.
    long storeKey(Pool pool, @Nullable Object key) {
        return store(pool, key, Anchor.KEY_TIERS);
    }

    /// Stores an element or value of a collection, and returns its word. In a transaction.
    long store(Anchor anchor, @Nullable Object value) {
        long word = store(anchor.pool, value, anchor.tiers());
        if (isBuffered()) {
            anchor.countWrite(value);
        }
        return word;
    }

    private long store(Pool pool, @Nullable Object value, List<StorageTier> tiers) {
        if (value == null) {
            return 0;
        }
        requireFor(pool, value);
        byte[] bytes = bytes(value);
        return bytes == null ? word(value) : pool.buffers().put(tiers, bytes);
    }

    /// The element or value of a collection in the word at `at`. It is null only if that word says
    /// so.
    @Nullable E load(Anchor anchor, long at) {
        E value = load(anchor.pool, at);
        if (isBuffered()) {
            anchor.countRead(value);
        }
        return value;
    }

    /// Like [#load(Anchor, long)], for keys, and for reads that no profile counts.
    @SuppressWarnings("unchecked")
    @Nullable E load(Pool pool, long at) {
        return (E) value(pool, at);
    }

    private @Nullable Object value(Pool pool, long at) {
        if (isBuffered()) {
            byte[] bytes = pool.buffers().get(at);
            return code == TEXT_CODE ? Text.decode(bytes) : bytes;
        }
        long word = pool.store().word(at);
        if (code == LONG_CODE) {
            return word;
        }
        if (code == DOUBLE_CODE) {
            return Double.longBitsToDouble(word);
        }
        if (word == 0) {
            return null;
        }
        return switch (code) {
            case INTEGER_CODE -> (int) word;
            case BOOLEAN_CODE -> (word & 1) != 0;
            case BYTE_CODE -> (byte) word;
            case SHORT_CODE -> (short) word;
            case CHARACTER_CODE -> (char) word;
            case FLOAT_CODE -> Float.intBitsToFloat((int) word);
            default -> pool.handle(Objects.requireNonNull(object), word);
        };
    }

    /// Compares a key to the key whose word is at `at`.
    int compare(Object key, Pool pool, long at) {
        long word = code == TEXT_CODE ? 0 : pool.store().word(at);
        return switch (code) {
            case TEXT_CODE ->
                    ((String) key)
                            .compareTo(Objects.requireNonNull(Text.decode(pool.buffers().get(at))));
            case LONG_CODE -> Long.compare((Long) key, word);
            case INTEGER_CODE -> Integer.compare((Integer) key, (int) word);
            case BOOLEAN_CODE -> Boolean.compare((Boolean) key, (word & 1) != 0);
            case BYTE_CODE -> Byte.compare((Byte) key, (byte) word);
            case SHORT_CODE -> Short.compare((Short) key, (short) word);
            case CHARACTER_CODE -> Character.compare((Character) key, (char) word);
            case FLOAT_CODE -> Float.compare((Float) key, Float.intBitsToFloat((int) word));
            case DOUBLE_CODE -> Double.compare((Double) key, Double.longBitsToDouble(word));
            default -> throw new AssertionError(code);
        };
    }
}
