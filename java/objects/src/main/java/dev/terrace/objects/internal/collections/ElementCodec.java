package dev.terrace.objects.internal.collections;

import dev.terrace.objects.internal.store.Links;
import dev.terrace.objects.internal.store.Medium;
import dev.terrace.objects.internal.store.Text;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/// How the elements of a collection are stored.
///
/// Each element is a word: numbers lie in it, durable objects are referred to by it, and texts and
/// bytes lie in buffers that it leads to, if they are longer than seven bytes. Numbers are equal if
/// their boxes are: there is one NaN, and 0.0 is not -0.0.
///
/// @param <E> the elements' class
public final class ElementCodec<E> {
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
    public static final ElementCodec<String> STRING =
            new ElementCodec<>(TEXT_CODE, String.class, null);

    /// `Boolean`
    public static final ElementCodec<Boolean> BOOLEAN =
            new ElementCodec<>(BOOLEAN_CODE, Boolean.class, null);

    /// `Byte`
    public static final ElementCodec<Byte> BYTE = new ElementCodec<>(BYTE_CODE, Byte.class, null);

    /// `Short`
    public static final ElementCodec<Short> SHORT =
            new ElementCodec<>(SHORT_CODE, Short.class, null);

    /// `Character`
    public static final ElementCodec<Character> CHARACTER =
            new ElementCodec<>(CHARACTER_CODE, Character.class, null);

    /// `Integer`
    public static final ElementCodec<Integer> INTEGER =
            new ElementCodec<>(INTEGER_CODE, Integer.class, null);

    /// `Long`
    public static final ElementCodec<Long> LONG = new ElementCodec<>(LONG_CODE, Long.class, null);

    /// `Float`
    public static final ElementCodec<Float> FLOAT =
            new ElementCodec<>(FLOAT_CODE, Float.class, null);

    /// `Double`
    public static final ElementCodec<Double> DOUBLE =
            new ElementCodec<>(DOUBLE_CODE, Double.class, null);

    /// `byte[]`: an array is equal only to itself, as everywhere in Java, so it cannot be a key.
    public static final ElementCodec<byte[]> BYTES =
            new ElementCodec<>(BYTES_CODE, byte[].class, null);

    private final int code;
    private final Class<?> type;
    private final @Nullable ObjectElements object;

    private ElementCodec(int code, Class<?> type, @Nullable ObjectElements object) {
        this.code = code;
        this.type = type;
        this.object = object;
    }

    /// References to durable objects, whose handles are of this class.
    public static <D> ElementCodec<D> of(Class<D> handle, ObjectElements objects) {
        return new ElementCodec<>(OBJECT_CODE, handle, objects);
    }

    /// The elements' class, fully qualified.
    public String name() {
        return object == null ? NAMES[code] : object.name();
    }

    /// The number of this type in the format.
    public int code() {
        return code;
    }

    /// The name of elements with this number in messages.
    public static String nameOf(int code, String objectName) {
        return code == OBJECT_CODE
                ? objectName
                : code > 0 && code < NAMES.length ? NAMES[code] : NAMES[0];
    }

    /// The type with this number; null if there is none, or if it is the number of objects, which
    /// have many types.
    public static @Nullable ElementCodec<?> withCode(int code) {
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
    public static void check(int code, Anchor anchor, long at) {
        long word = anchor.store.word(at);
        boolean isOne =
                switch (code) {
                    case TEXT_CODE -> {
                        Text.decode(anchor.heap.buffers().get(at));
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
    public static boolean isObject(int code) {
        return code == OBJECT_CODE;
    }

    /// Whether words of elements with this number may lead to buffers.
    public static boolean isBuffered(int code) {
        return code == TEXT_CODE || code == BYTES_CODE;
    }

    /// Shows the reference in the word at `at`, which belongs to an element with this number in the
    /// node that begins at `owner`.
    public static void links(
            int code, Anchor anchor, long owner, long at, List<Medium> tiers, Links links) {
        if (isBuffered(code)) {
            links.slot(owner, at, tiers);
        } else if (isObject(code)) {
            links.reference(anchor.store.word(at));
        }
    }

    /// Whether elements with this number need a bit beside their word to tell null from a value.
    public static boolean needsPresence(int code) {
        return code == LONG_CODE || code == DOUBLE_CODE;
    }

    public boolean isBuffered() {
        return isBuffered(code);
    }

    /// Whether the elements are durable objects, and their words references.
    public boolean isObject() {
        return code == OBJECT_CODE;
    }

    public boolean needsPresence() {
        return needsPresence(code);
    }

    /// Whether elements that were stored as `storedName` are of this type.
    public boolean isCalled(String storedName) {
        return object != null
                && (object.name().equals(storedName) || object.formerly().contains(storedName));
    }

    public ElementCodec<E> requireKey() {
        if (code == BYTES_CODE) {
            throw new IllegalArgumentException("arrays cannot be keys");
        }
        return this;
    }

    public ElementCodec<E> requireComparable() {
        if (code == OBJECT_CODE) {
            throw new IllegalArgumentException(
                    name() + " has no natural order, which a key of a sorted map needs");
        }
        return requireKey();
    }

    public boolean isInstance(@Nullable Object value) {
        return type.isInstance(value);
    }

    /// @throws ClassCastException if it is not an element, or null
    public Object require(@Nullable Object value) {
        return type.cast(Objects.requireNonNull(value));
    }

    /// The bytes of a string or an array; null for all other values.
    public byte @Nullable [] bytes(@Nullable Object value) {
        if (!isBuffered()) {
            return null;
        }
        return value instanceof String text ? Text.encode(text) : (byte[]) value;
    }

    /// The word of a value without a buffer; 0 for null, and for types that may have buffers.
    public long word(@Nullable Object value) {
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
            default -> Objects.requireNonNull(object).reference(value);
        };
    }

    /// Throws if a value cannot be an element of a collection in this heap.
    public void requireFor(Heap heap, Object value) {
        require(value);
        if (object != null) {
            object.requireFor(heap, value);
        }
    }

    /// Stores a key, and returns its word. In a transaction.
    public long storeKey(Heap heap, @Nullable Object key) {
        return store(heap, key, Anchor.KEY_TIERS);
    }

    /// Stores an element or value of a collection, and returns its word. In a transaction.
    public long store(Anchor anchor, @Nullable Object value) {
        long word = store(anchor.heap, value, anchor.tiers());
        if (isBuffered()) {
            anchor.countWrite(value);
        }
        return word;
    }

    private long store(Heap heap, @Nullable Object value, List<Medium> tiers) {
        if (value == null) {
            return 0;
        }
        requireFor(heap, value);
        byte[] bytes = bytes(value);
        return bytes == null ? word(value) : heap.buffers().put(tiers, bytes);
    }

    /// The element or value of a collection in the word at `at`. It is null only if that word says
    /// so.
    public @Nullable E load(Anchor anchor, long at) {
        E value = load(anchor.heap, at);
        if (isBuffered()) {
            anchor.countRead(value);
        }
        return value;
    }

    /// Like [#load(Anchor, long)], for keys, and for reads that no profile counts.
    @SuppressWarnings("unchecked")
    public @Nullable E load(Heap heap, long at) {
        return (E) value(heap, at);
    }

    private @Nullable Object value(Heap heap, long at) {
        if (isBuffered()) {
            byte[] bytes = heap.buffers().get(at);
            return code == TEXT_CODE ? Text.decode(bytes) : bytes;
        }
        long word = heap.store().word(at);
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
            default -> Objects.requireNonNull(object).handle(heap, word);
        };
    }

    /// Compares a key to the key whose word is at `at`.
    public int compare(Object key, Heap heap, long at) {
        long word = code == TEXT_CODE ? 0 : heap.store().word(at);
        return switch (code) {
            case TEXT_CODE ->
                    ((String) key)
                            .compareTo(Objects.requireNonNull(Text.decode(heap.buffers().get(at))));
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
