package dev.terrace.objects;

import java.lang.invoke.MethodHandles;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.function.Supplier;

/// The description of a class of durable objects by its generated class.
///
/// @param <D> the generated class
public final class ObjectType<D extends DurableObject> {
    private static final ClassValue<Holder> BY_HANDLE =
            new ClassValue<>() {
                @Override
                protected Holder computeValue(Class<?> handle) {
                    return new Holder();
                }
            };

    private final String name;
    private final Class<D> handle;
    private final Supplier<D> maker;
    private final List<String> formerly;
    private final List<FieldSpec> fields;
    private final boolean columnar;
    private final Layout layout;

    private static final class Holder {
        @org.jspecify.annotations.Nullable volatile ObjectType<?> type;
    }

    private ObjectType(
            String name,
            Class<D> handle,
            Supplier<D> maker,
            List<String> formerly,
            List<FieldSpec> fields,
            boolean columnar) {
        this.name = name;
        this.handle = handle;
        this.maker = maker;
        this.formerly = List.copyOf(formerly);
        this.fields = List.copyOf(fields);
        Set<String> names = new HashSet<>();
        for (FieldSpec field : fields) {
            if (!names.add(field.name().toLowerCase(Locale.ROOT))) {
                throw new IllegalArgumentException(name + " has two fields " + field.name());
            }
        }
        this.columnar = columnar;
        layout = Layout.of(this.fields, columnar);
    }

    /// Describes a class.
    ///
    /// @param name the tagged class, fully qualified
    /// @param handle the generated class
    /// @param maker makes a handle that is not bound to an object yet
    /// @param formerly former names of the class
    /// @param fields in the order in which the generated class numbers them
    public static <D extends DurableObject> ObjectType<D> of(
            String name,
            Class<D> handle,
            Supplier<D> maker,
            List<String> formerly,
            FieldSpec... fields) {
        return described(new ObjectType<>(name, handle, maker, formerly, List.of(fields), false));
    }

    /// Describes a class whose new objects lie in columns ([Columnar]), as [#of(String, Class,
    /// Supplier, List, FieldSpec...)] describes others.
    public static <D extends DurableObject> ObjectType<D> columnar(
            String name,
            Class<D> handle,
            Supplier<D> maker,
            List<String> formerly,
            FieldSpec... fields) {
        return described(new ObjectType<>(name, handle, maker, formerly, List.of(fields), true));
    }

    private static <D extends DurableObject> ObjectType<D> described(ObjectType<D> type) {
        BY_HANDLE.get(type.handle).type = type;
        return type;
    }

    /// Describes a class that is known only at run time. Two types are equal only if they are the
    /// same object, so keep one for each class while the pool is open.
    ///
    /// @param name the name of the class in the pool
    /// @param fields in the order of their numbers
    public static ObjectType<DurableRecord> of(String name, FieldSpec... fields) {
        return new ObjectType<>(
                name, DurableRecord.class, DurableRecord::new, List.of(), List.of(fields), false);
    }

    /// A class as a pool has stored it, for programs without its generated class.
    public static ObjectType<DurableRecord> of(StoredType stored) {
        return new ObjectType<>(
                stored.name(),
                DurableRecord.class,
                DurableRecord::new,
                stored.formerly(),
                stored.fields(),
                stored.columnar());
    }

    /// The same class, whose new objects lie in columns ([Columnar]). It is another type: keep it,
    /// and use it in place of this one.
    public ObjectType<D> inColumns() {
        return new ObjectType<>(name, handle, maker, formerly, fields, true);
    }

    /// The type that a generated class describes.
    ///
    /// @throws IllegalArgumentException if the class describes no type
    @SuppressWarnings("unchecked")
    public static <D extends DurableObject> ObjectType<D> of(Class<D> handle) {
        try {
            MethodHandles.privateLookupIn(handle, MethodHandles.lookup()).ensureInitialized(handle);
        } catch (IllegalAccessException e) {
            throw new IllegalArgumentException(handle + " cannot be accessed", e);
        }
        ObjectType<?> type = BY_HANDLE.get(handle).type;
        if (type == null) {
            throw new IllegalArgumentException(handle + " was not generated from a durable class");
        }
        return (ObjectType<D>) type;
    }

    /// The tagged class, fully qualified.
    public String name() {
        return name;
    }

    /// The generated class.
    public Class<D> handle() {
        return handle;
    }

    /// Former names of the class.
    public List<String> formerly() {
        return formerly;
    }

    /// Its fields.
    public List<FieldSpec> fields() {
        return fields;
    }

    /// Whether new objects lie in columns ([Columnar]).
    public boolean isColumnar() {
        return columnar;
    }

    /// Byte of a field in a record that is laid out as the class is now; -1 for a field whose value
    /// lies elsewhere. In columns it says where the field's column is.
    public int offset(int field) {
        return fields.get(field).isInline() ? layout.offsets()[field] : -1;
    }

    Layout layout() {
        return layout;
    }

    D newHandle() {
        return maker.get();
    }

    @Override
    public String toString() {
        return name;
    }
}
