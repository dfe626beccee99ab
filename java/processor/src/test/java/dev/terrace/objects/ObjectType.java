package dev.terrace.objects;

import java.lang.reflect.Array;
import java.util.List;
import java.util.function.Supplier;
import org.jspecify.annotations.NullMarked;
import org.jspecify.annotations.Nullable;

/// Stand-in: each field takes eight bytes.
@NullMarked
public final class ObjectType<D extends DurableObject> {
    private final String name;
    private final List<String> formerly;
    private final List<FieldSpec> fields;
    private final Supplier<D> maker;

    private ObjectType(String name, Supplier<D> maker, List<String> formerly, List<FieldSpec> fields) {
        this.name = name;
        this.maker = maker;
        this.formerly = formerly;
        this.fields = fields;
    }

    public static <D extends DurableObject> ObjectType<D> of(
            String name, Class<D> handle, Supplier<D> maker, List<String> formerly, FieldSpec... fields) {
        return new ObjectType<>(name, maker, formerly, List.of(fields));
    }

    public String name() {
        return name;
    }

    public List<String> formerly() {
        return formerly;
    }

    public List<FieldSpec> fields() {
        return fields;
    }

    public int offset(int field) {
        return 8 * field;
    }

    D make(Pool pool) {
        D made = maker.get();
        made.pool = pool;
        made.values = fields.stream().map(ObjectType::initial).toArray();
        return made;
    }

    D handle(DurableObject other) {
        D made = maker.get();
        made.pool = other.pool;
        made.values = other.values;
        return made;
    }

    private static @Nullable Object initial(FieldSpec field) {
        return switch (field.fixedLength() == 0 ? FieldKind.REFERENCE : field.kind()) {
            case BYTES -> Array.newInstance(byte.class, field.fixedLength());
            case DOUBLES -> Array.newInstance(double.class, field.fixedLength());
            case REFERENCE -> null;
            default -> throw new AssertionError("no test has one of " + field);
        };
    }
}
