package dev.terrace.objects.collections;

import dev.terrace.objects.DurableObject;
import dev.terrace.objects.ObjectType;
import dev.terrace.objects.Pool;
import dev.terrace.objects.internal.collections.ElementCodec;
import dev.terrace.objects.internal.collections.Heap;
import dev.terrace.objects.internal.collections.ObjectElements;
import dev.terrace.objects.internal.store.References;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.List;
import java.util.UUID;

/// The type of a collection's elements.
///
/// Each element is a word. The word holds a number, a date, a time of day, a reference to a durable
/// object, or a string, byte array or other value of up to seven bytes; longer ones lie in buffers
/// that the word leads to. Numbers are equal if their boxes are equal: there is one NaN, and 0.0 is
/// not -0.0.
///
/// @param <E> the elements' class
public final class ElementType<E> {
    /// `String`
    public static final ElementType<String> STRING = new ElementType<>(ElementCodec.STRING);

    /// `Boolean`
    public static final ElementType<Boolean> BOOLEAN = new ElementType<>(ElementCodec.BOOLEAN);

    /// `Byte`
    public static final ElementType<Byte> BYTE = new ElementType<>(ElementCodec.BYTE);

    /// `Short`
    public static final ElementType<Short> SHORT = new ElementType<>(ElementCodec.SHORT);

    /// `Character`
    public static final ElementType<Character> CHARACTER =
            new ElementType<>(ElementCodec.CHARACTER);

    /// `Integer`
    public static final ElementType<Integer> INTEGER = new ElementType<>(ElementCodec.INTEGER);

    /// `Long`
    public static final ElementType<Long> LONG = new ElementType<>(ElementCodec.LONG);

    /// `Float`
    public static final ElementType<Float> FLOAT = new ElementType<>(ElementCodec.FLOAT);

    /// `Double`
    public static final ElementType<Double> DOUBLE = new ElementType<>(ElementCodec.DOUBLE);

    /// `byte[]`: an array is equal only to itself, as everywhere in Java, so it cannot be a key.
    public static final ElementType<byte[]> BYTES = new ElementType<>(ElementCodec.BYTES);

    /// `java.util.UUID`, in sorted maps in the order of `compareTo`, in which the halves are signed
    public static final ElementType<UUID> UUID = new ElementType<>(ElementCodec.UUID);

    /// `java.time.Instant`
    public static final ElementType<Instant> INSTANT = new ElementType<>(ElementCodec.INSTANT);

    /// `java.time.LocalDate`
    public static final ElementType<LocalDate> LOCAL_DATE =
            new ElementType<>(ElementCodec.LOCAL_DATE);

    /// `java.time.LocalTime`
    public static final ElementType<LocalTime> LOCAL_TIME =
            new ElementType<>(ElementCodec.LOCAL_TIME);

    /// `java.time.LocalDateTime`
    public static final ElementType<LocalDateTime> LOCAL_DATE_TIME =
            new ElementType<>(ElementCodec.LOCAL_DATE_TIME);

    /// `java.time.Duration`
    public static final ElementType<Duration> DURATION = new ElementType<>(ElementCodec.DURATION);

    /// `java.math.BigInteger`
    public static final ElementType<BigInteger> BIG_INTEGER =
            new ElementType<>(ElementCodec.BIG_INTEGER);

    /// `java.math.BigDecimal`: as in `java.util`, 2.0 and 2.00 are different keys of a hash map or
    /// elements of a set, because `equals` says so, and the same key of a sorted map or element of
    /// a sorted set, because `compareTo` says so. A stored number keeps its scale.
    public static final ElementType<BigDecimal> BIG_DECIMAL =
            new ElementType<>(ElementCodec.BIG_DECIMAL);

    final ElementCodec<E> codec;

    private ElementType(ElementCodec<E> codec) {
        this.codec = codec;
    }

    /// References to durable objects of this type.
    public static <D extends DurableObject> ElementType<D> of(ObjectType<D> type) {
        return new ElementType<>(ElementCodec.of(type.handle(), new Objects(type)));
    }

    /// The elements' class, fully qualified.
    public String name() {
        return codec.name();
    }

    @Override
    public String toString() {
        return name();
    }

    /// Objects of a type, as collections see them.
    private record Objects(ObjectType<?> type) implements ObjectElements {
        @Override
        public String name() {
            return type.name();
        }

        @Override
        public List<String> formerly() {
            return type.formerly();
        }

        @Override
        public long reference(Object element) {
            return ((DurableObject) element).reference();
        }

        @Override
        public void requireFor(Heap heap, Object element) {
            DurableObject object = (DurableObject) element;
            if (object.pool() != heap.owner()) {
                throw new IllegalArgumentException(
                        "an object of another pool cannot be an element");
            }
            if (!object.isAlive()) {
                throw heap.told(heap.store().stale(References.recordOf(object.reference())));
            }
        }

        @Override
        public Object handle(Heap heap, long reference) {
            return ((Pool) heap.owner()).object(type, reference);
        }
    }
}
