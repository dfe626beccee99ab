package dev.terrace.objects.internal.collections;

import dev.terrace.objects.internal.store.Feature;
import dev.terrace.objects.internal.store.Links;
import dev.terrace.objects.internal.store.Medium;
import dev.terrace.objects.internal.store.StoreFailure;
import dev.terrace.objects.internal.store.Text;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.temporal.ChronoField;
import java.util.List;
import java.util.Objects;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/// How the elements of a collection are stored.
///
/// Each element is a word: numbers, dates and times of day lie in it, durable objects are referred
/// to by it, and texts, bytes and [ValueBytes] lie in buffers that it leads to, if they are longer
/// than seven bytes. Numbers are equal if their boxes are: there is one NaN, and 0.0 is not -0.0.
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
    private static final int UUID_CODE = 12;
    private static final int INSTANT_CODE = 13;
    private static final int LOCAL_DATE_CODE = 14;
    private static final int LOCAL_TIME_CODE = 15;
    private static final int LOCAL_DATE_TIME_CODE = 16;
    private static final int DURATION_CODE = 17;
    private static final int BIG_INTEGER_CODE = 18;
    private static final int BIG_DECIMAL_CODE = 19;

    /// The types of all codes but those that there are not, and that of objects.
    private static final @Nullable ElementCodec<?>[] BY_CODE =
            new ElementCodec<?>[BIG_DECIMAL_CODE + 1];

    /// A bit that is set in each word of a number of at most 32 bits, so that no number has the
    /// word of null.
    private static final long IS_THERE = 1L << 32;

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

    /// `UUID`
    public static final ElementCodec<UUID> UUID =
            new ElementCodec<>(UUID_CODE, UUID.class, ValueBytes.OF_UUID);

    /// `Instant`
    public static final ElementCodec<Instant> INSTANT =
            new ElementCodec<>(INSTANT_CODE, Instant.class, ValueBytes.OF_INSTANT);

    /// `LocalDate`
    public static final ElementCodec<LocalDate> LOCAL_DATE =
            new ElementCodec<>(LOCAL_DATE_CODE, LocalDate.class, null);

    /// `LocalTime`
    public static final ElementCodec<LocalTime> LOCAL_TIME =
            new ElementCodec<>(LOCAL_TIME_CODE, LocalTime.class, null);

    /// `LocalDateTime`
    public static final ElementCodec<LocalDateTime> LOCAL_DATE_TIME =
            new ElementCodec<>(
                    LOCAL_DATE_TIME_CODE, LocalDateTime.class, ValueBytes.OF_LOCAL_DATE_TIME);

    /// `Duration`
    public static final ElementCodec<Duration> DURATION =
            new ElementCodec<>(DURATION_CODE, Duration.class, ValueBytes.OF_DURATION);

    /// `BigInteger`
    public static final ElementCodec<BigInteger> BIG_INTEGER =
            new ElementCodec<>(BIG_INTEGER_CODE, BigInteger.class, ValueBytes.OF_BIG_INTEGER);

    /// `BigDecimal`
    public static final ElementCodec<BigDecimal> BIG_DECIMAL =
            new ElementCodec<>(BIG_DECIMAL_CODE, BigDecimal.class, ValueBytes.OF_BIG_DECIMAL);

    static {
        List.of(
                        STRING,
                        BOOLEAN,
                        BYTE,
                        SHORT,
                        CHARACTER,
                        INTEGER,
                        LONG,
                        FLOAT,
                        DOUBLE,
                        BYTES,
                        UUID,
                        INSTANT,
                        LOCAL_DATE,
                        LOCAL_TIME,
                        LOCAL_DATE_TIME,
                        DURATION,
                        BIG_INTEGER,
                        BIG_DECIMAL)
                .forEach(type -> BY_CODE[type.code] = type);
    }

    private final int code;
    private final Class<?> type;
    private final @Nullable ValueBytes<?> form;
    private final @Nullable ObjectElements object;

    private ElementCodec(int code, Class<?> type, @Nullable ValueBytes<?> form) {
        this(code, type, form, null);
    }

    private ElementCodec(
            int code,
            Class<?> type,
            @Nullable ValueBytes<?> form,
            @Nullable ObjectElements object) {
        this.code = code;
        this.type = type;
        this.form = form;
        this.object = object;
    }

    /// References to durable objects, whose handles are of this class.
    public static <D> ElementCodec<D> of(Class<D> handle, ObjectElements objects) {
        return new ElementCodec<>(OBJECT_CODE, handle, null, objects);
    }

    /// The elements' class, fully qualified.
    public String name() {
        return object == null ? type.getTypeName() : object.name();
    }

    /// The number of this type in the format.
    public int code() {
        return code;
    }

    /// Says in the superblock that a collection is about to have elements of this type, if not all
    /// libraries of the pool's version know the type. In a transaction: this thread has the
    /// writer's lock, and nothing else stores the word.
    void announce(Heap heap) {
        if (code > OBJECT_CODE) {
            Feature.VALUE_ELEMENTS.addTo(heap.store().pmem());
        }
    }

    /// The name of elements with this number in messages.
    public static String nameOf(int code, String objectName) {
        ElementCodec<?> known = withCode(code);
        return code == OBJECT_CODE ? objectName : known == null ? "?" : known.name();
    }

    /// The type with this number; null if there is none, or if it is the number of objects, which
    /// have many types.
    public static @Nullable ElementCodec<?> withCode(int code) {
        return code > 0 && code < BY_CODE.length ? BY_CODE[code] : null;
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
                    case LOCAL_DATE_CODE -> word == 0 || isIn(word, ChronoField.EPOCH_DAY);
                    case LOCAL_TIME_CODE -> word == 0 || isIn(word, ChronoField.NANO_OF_DAY);
                    default ->
                            isBuffered(code)
                                    ? isBytes(code, anchor.heap.buffers().get(at))
                                    : word == 0 || word >>> 32 == 1 && isOne(code, (int) word);
                };
        if (!isOne) {
            throw anchor.damaged("holds 0x" + Long.toHexString(word) + " as " + nameOf(code, ""));
        }
    }

    /// Whether a word holds a value of this field.
    private static boolean isIn(long word, ChronoField field) {
        return (word & 1) == 1 && field.range().isValidValue(word >> 1);
    }

    private static long inRange(long word, ChronoField field) {
        if (!isIn(word, field)) {
            throw new StoreFailure.Damaged("what is stored is no " + field);
        }
        return word >> 1;
    }

    private static boolean isBytes(int code, byte @Nullable [] bytes) {
        ElementCodec<?> type = withCode(code);
        return bytes == null || type != null && type.form != null && type.form.areOne(bytes);
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
        ElementCodec<?> type = withCode(code);
        return type != null && type.isBuffered();
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
        return code == TEXT_CODE || code == BYTES_CODE || form != null;
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

    /// The bytes of a value that may have a buffer; null for all other values.
    public byte @Nullable [] bytes(@Nullable Object value) {
        if (form != null) {
            return value == null ? null : form.encode(value);
        }
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
            case LOCAL_DATE_CODE -> ((LocalDate) value).toEpochDay() << 1 | 1;
            case LOCAL_TIME_CODE -> ((LocalTime) value).toNanoOfDay() << 1 | 1;
            default -> object == null ? 0 : object.reference(value);
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
        return store(heap, key, bytes(key), Anchor.KEY_TIERS);
    }

    /// Stores an element or value of a collection, and returns its word. In a transaction.
    public long store(Anchor anchor, @Nullable Object value) {
        byte[] bytes = bytes(value);
        long word = store(anchor.heap, value, bytes, anchor.tiers());
        if (isBuffered()) {
            anchor.countWrite(bytes == null ? 0 : bytes.length);
        }
        return word;
    }

    private long store(
            Heap heap, @Nullable Object value, byte @Nullable [] bytes, List<Medium> tiers) {
        if (value == null) {
            return 0;
        }
        requireFor(heap, value);
        return bytes == null ? word(value) : heap.buffers().put(tiers, bytes);
    }

    /// The element or value of a collection in the word at `at`. It is null only if that word says
    /// so.
    @SuppressWarnings("unchecked")
    public @Nullable E load(Anchor anchor, long at) {
        if (!isBuffered()) {
            return load(anchor.heap, at);
        }
        byte[] bytes = anchor.heap.buffers().get(at);
        anchor.countRead(bytes == null ? 0 : bytes.length);
        return (E) ofBytes(bytes);
    }

    /// Like [#load(Anchor, long)], for keys, and for reads that no profile counts.
    @SuppressWarnings("unchecked")
    public @Nullable E load(Heap heap, long at) {
        return (E) value(heap, at);
    }

    private @Nullable Object ofBytes(byte @Nullable [] bytes) {
        if (bytes == null || form == null) {
            return code == TEXT_CODE ? Text.decode(bytes) : bytes;
        }
        return form.decode(bytes);
    }

    private @Nullable Object value(Heap heap, long at) {
        if (isBuffered()) {
            return ofBytes(heap.buffers().get(at));
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
            case LOCAL_DATE_CODE -> LocalDate.ofEpochDay(inRange(word, ChronoField.EPOCH_DAY));
            case LOCAL_TIME_CODE -> LocalTime.ofNanoOfDay(inRange(word, ChronoField.NANO_OF_DAY));
            default -> Objects.requireNonNull(object).handle(heap, word);
        };
    }

    /// Compares a key to the key whose word is at `at`.
    public int compare(Object key, Heap heap, long at) {
        if (form != null) {
            return form.compare(key, Objects.requireNonNull(heap.buffers().get(at)));
        }
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
            case LOCAL_DATE_CODE -> Long.compare(((LocalDate) key).toEpochDay(), word >> 1);
            case LOCAL_TIME_CODE -> Long.compare(((LocalTime) key).toNanoOfDay(), word >> 1);
            default -> throw new AssertionError(code);
        };
    }
}
