package dev.terrace.objects;

import dev.terrace.objects.internal.collections.CollectionElements;
import dev.terrace.objects.internal.collections.CollectionRecords;
import dev.terrace.objects.internal.store.Headers;
import dev.terrace.objects.internal.store.References;
import dev.terrace.objects.internal.store.Store;
import dev.terrace.objects.internal.store.StoreFailure;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/// Shows the contents of a pool to programs without the classes that it was written with.
///
/// It works on read-only pools, too, also while another process writes. For one thread.
public final class PoolDump {

    private final Pool pool;
    private final Store store;
    private final int elementsMax;

    /// By the number of the form.
    private final Map<Integer, TypeMapping> mappings = new HashMap<>();

    /// The target of a field or a root.
    ///
    /// @param reference the reference (POOL-FORMAT.md)
    /// @param type the target: a class, or a collection and the number of its elements; null: it
    ///   has been deleted
    /// @param elements the elements of a collection, if they are wanted
    public record Reference(long reference, @Nullable String type, @Nullable Elements elements) {
        /// A reference to an object, or to a collection whose elements are not wanted.
        public Reference(long reference, @Nullable String type) {
            this(reference, type, null);
        }
    }

    /// The first elements of a collection.
    ///
    /// @param count how many elements it has
    /// @param areEntries whether they are keys with values
    /// @param first keys and values in turn, or elements: boxed values, strings, byte arrays,
    ///   [Reference], null. References in this list show no elements
    public record Elements(long count, boolean areEntries, List<@Nullable Object> first) {}

    /// A constant of an enum.
    public record Constant(String name) {}

    /// An object as it is stored.
    ///
    /// @param reference its reference
    /// @param type its class, in the form in which it was made
    /// @param fields its fields in their order, without those in DRAM: boxed values, strings,
    ///   arrays of primitives, values of a [ValueType], [Constant], [Reference], null
    /// @param extension fields that were added or widened in the class after the object was made;
    ///   they override the fields here. null: no such field has been written
    public record GenericObject(
            long reference,
            StoredType type,
            Map<String, @Nullable Object> fields,
            @Nullable GenericObject extension) {}

    /// The next record from an offset on.
    private record Found(long record, @Nullable GenericObject object) {}

    /// Shows this pool, without the elements of collections.
    public PoolDump(Pool pool) {
        this(pool, 0);
    }

    /// Shows this pool.
    ///
    /// @param elementsMax how many elements of each collection are shown
    public PoolDump(Pool pool, int elementsMax) {
        this.pool = pool;
        this.elementsMax = elementsMax;
        store = pool.store();
    }

    /// The classes that the pool stores, each in all its forms, the oldest first.
    public List<StoredType> types() {
        return pool.guarded(pool::storedTypes);
    }

    /// The target of each root.
    public Map<String, Reference> roots() {
        return pool.read(() -> {
            Map<String, Reference> roots = new LinkedHashMap<>();
            for (String name : pool.rootNames().stream().sorted().toList()) {
                roots.put(name, reference(pool.rootReference(name)));
            }
            return roots;
        });
    }

    /// Shows objects in the order in which they lie in persistent memory, each as of one committed
    /// state.
    ///
    /// @param className the class of the objects; null: all classes
    /// @param limit the greatest number of objects
    public void forEach(@Nullable String className, long limit, Consumer<GenericObject> action) {
        long next = 0;
        for (long count = 0; count < limit; ) {
            long from = next;
            Found found = pool.read(() -> find(from, className));
            if (found.record < 0) {
                return;
            }
            if (found.object != null) {
                action.accept(found.object);
                count++;
            }
            next = found.record + 1;
        }
    }

    /// The first record in use from an offset on; with the object, if the record is an object of
    /// the class.
    private Found find(long from, @Nullable String className) {
        long record = store.parts().nextAllocated(from);
        int id = record < 0 ? 0 : Headers.type(store.word(record));
        if (!Types.isClass(id)) {
            return new Found(record, null);
        }
        TypeMapping mapping = mapping(id);
        boolean isWanted = className == null || className.equals(mapping.type.name());
        return new Found(record, isWanted ? object(mapping, record, List.of(), 0) : null);
    }

    private TypeMapping mapping(int id) {
        TypeMapping known = mappings.get(id);
        if (known == null) {
            known = new TypeMapping(pool, pool.storedType(id));
            mappings.put(id, known);
        }
        return known;
    }

    /// The object, or extension, that begins there, without the fields that earlier records of the
    /// object hold.
    private GenericObject object(
            TypeMapping mapping, long record, List<FieldSpec> held, int depth) {
        Part handle = Part.at(pool, mapping, record, store.word(record));
        Map<String, @Nullable Object> fields = new LinkedHashMap<>();
        List<FieldSpec> specs = mapping.type.fields();
        List<FieldSpec> holds = new ArrayList<>(held);
        for (int i = 0; i < specs.size(); i++) {
            FieldSpec spec = specs.get(i);
            FieldSpec before = find(holds, spec);
            if (!spec.isVolatile() && (before == null || !TypeMapping.isAlike(before, spec))) {
                fields.put(spec.name(), value(handle, i, spec));
                holds.remove(before);
                holds.add(spec);
            }
        }
        return new GenericObject(
                handle.reference(),
                pool.storedType(mapping.id),
                Collections.unmodifiableMap(fields),
                extension(record, holds, depth));
    }

    private @Nullable GenericObject extension(long record, List<FieldSpec> held, int depth) {
        long extension = store.word(record + Layout.EXTENSION_AT);
        if (extension == 0) {
            return null;
        }
        int form = Types.formOf(Headers.type(store.header(extension)));
        if (form == 0 || depth == Extensions.MAX) {
            throw new StoreFailure.Damaged(
                    pool.name() + ": the object at " + record + " leads to no extension");
        }
        return object(mapping(form), extension, held, depth + 1);
    }

    /// The form of a field in an earlier record that holds it; null if there is none.
    private static @Nullable FieldSpec find(List<FieldSpec> held, FieldSpec wanted) {
        return held.stream()
                .filter(field ->
                        field.name().equals(wanted.name())
                                || wanted.formerly().contains(field.name()))
                .findFirst()
                .orElse(null);
    }

    private @Nullable Object value(Part handle, int field, FieldSpec spec) {
        ValueType<?> type = ValueType.of(spec);
        Object stored = storedValue(handle, field, spec);
        return type == null ? stored : type.decode(stored);
    }

    private @Nullable Object storedValue(Part handle, int field, FieldSpec spec) {
        FieldKind kind = spec.kind();
        if (kind.isArray()) {
            return pool.arrays().get(handle, field);
        }
        return switch (kind) {
            case STRING -> pool.fields().getString(handle, field);
            case ENUM -> constant(spec, (int) pool.fields().getBits(handle, field, kind));
            case REFERENCE -> {
                long reference = pool.fields().getBits(handle, field, kind);
                yield reference == 0 ? null : reference(reference);
            }
            default ->
                    spec.nullable()
                            ? pool.fields().getBoxed(handle, field)
                            : Fields.box(pool.fields().getBits(handle, field, kind), kind);
        };
    }

    private static @Nullable Constant constant(FieldSpec spec, int number) {
        if (number < 0 || number > spec.constants().size()) {
            throw new StoreFailure.Damaged(
                    "field " + spec.name() + ": " + number + " is no constant");
        }
        return number == 0 ? null : new Constant(spec.constants().get(number - 1));
    }

    private Reference reference(long reference) {
        long record = References.recordOf(reference);
        long header = store.header(record);
        String type =
                References.leadsTo(reference, header)
                        ? describe(record, Headers.type(header))
                        : null;
        boolean hasElements =
                type != null
                        && elementsMax > 0
                        && CollectionRecords.isCollection(Headers.type(header));
        return new Reference(reference, type, hasElements ? elements(record) : null);
    }

    private Elements elements(long record) {
        boolean areEntries = CollectionElements.areEntries(pool.heap(), record);
        List<@Nullable Object> first = new ArrayList<>();
        CollectionElements.forEach(
                pool.heap(),
                record,
                elementsMax,
                (key, value) -> {
                    if (areEntries) {
                        first.add(element(key));
                    }
                    first.add(element(value));
                });
        return new Elements(
                CollectionElements.count(pool.heap(), record),
                areEntries,
                Collections.unmodifiableList(first));
    }

    private @Nullable Object element(@Nullable Object value) {
        if (!(value instanceof CollectionElements.ObjectElement element)) {
            return value;
        }
        long record = References.recordOf(element.reference());
        long header = store.header(record);
        boolean isThere = References.leadsTo(element.reference(), header);
        return new Reference(
                element.reference(), isThere ? describe(record, Headers.type(header)) : null);
    }

    private String describe(long record, int type) {
        if (CollectionRecords.isCollection(type)) {
            return CollectionRecords.describe(pool.heap(), record);
        }
        return Types.isClass(type)
                ? pool.storedType(type).name()
                : "type 0x" + Integer.toHexString(type);
    }

    /// The forms of each class, by its name.
    public Map<String, List<StoredType>> forms() {
        Map<String, List<StoredType>> forms = new TreeMap<>();
        types().forEach(type ->
                forms.computeIfAbsent(type.name(), _ -> new ArrayList<>()).add(type));
        return forms;
    }
}
