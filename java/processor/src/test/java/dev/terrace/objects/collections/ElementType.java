package dev.terrace.objects.collections;

import dev.terrace.objects.DurableObject;
import dev.terrace.objects.ObjectType;

/// Stand-in.
public final class ElementType<E> {
    public static final ElementType<String> STRING = new ElementType<>();
    public static final ElementType<Boolean> BOOLEAN = new ElementType<>();
    public static final ElementType<Byte> BYTE = new ElementType<>();
    public static final ElementType<Short> SHORT = new ElementType<>();
    public static final ElementType<Character> CHARACTER = new ElementType<>();
    public static final ElementType<Integer> INTEGER = new ElementType<>();
    public static final ElementType<Long> LONG = new ElementType<>();
    public static final ElementType<Float> FLOAT = new ElementType<>();
    public static final ElementType<Double> DOUBLE = new ElementType<>();
    public static final ElementType<byte[]> BYTES = new ElementType<>();

    private ElementType() {}

    public static <D extends DurableObject> ElementType<D> of(ObjectType<D> type) {
        return new ElementType<>();
    }
}
