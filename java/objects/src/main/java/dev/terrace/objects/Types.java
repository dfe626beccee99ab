package dev.terrace.objects;

import dev.terrace.objects.internal.store.Chain;
import dev.terrace.objects.internal.store.Feature;
import dev.terrace.objects.internal.store.Links;
import dev.terrace.objects.internal.store.Medium;
import dev.terrace.objects.internal.store.Store;
import dev.terrace.objects.internal.store.StoreFailure;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.IntFunction;
import java.util.function.Predicate;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/// The classes of a pool, each in all forms in which objects of it were made.
final class Types {
    /// The bit that is set in the type of an extension.
    static final int EXTENSION = 0x8000;

    /// Numbers above this one belong to collections and buffers, also without [#EXTENSION].
    private static final int ID_MAX = 0x7eff;

    private final Pool pool;
    private final Store store;
    private final Chain chain;
    private final Placements placements;
    private final Map<Integer, StoredType> byId = new ConcurrentHashMap<>();
    private final Map<ObjectType<?>, TypeMapping> current = new ConcurrentHashMap<>();
    private final Map<ObjectType<?>, Forms> forms = new ConcurrentHashMap<>();
    private final Map<Integer, List<List<Medium>>> media = new ConcurrentHashMap<>();

    Types(Pool pool, Chain chain, Placements placements) {
        this.pool = pool;
        store = pool.store();
        this.chain = chain;
        this.placements = placements;
    }

    /// The form of new objects of a class. In a transaction.
    TypeMapping current(ObjectType<?> type) {
        TypeMapping known = current.get(type);
        if (known != null) {
            return known;
        }
        Forms its = look(type);
        TypeMapping found = its.current();
        TypeMapping mapping = found == null ? add(type, its::toStore) : found;
        current.put(type, mapping);
        media.clear();
        store.afterRollback(() -> {
            current.remove(type);
            media.clear();
        });
        return mapping;
    }

    /// The form of a new extension of an object: the present form of the class, with enums that
    /// also have the constants of the object's records. In a transaction.
    ///
    /// @param held the form of each field in the object's existing records; null if none of them
    ///   holds the field
    TypeMapping extending(ObjectType<?> type, IntFunction<@Nullable FieldSpec> held) {
        StoredType now = current(type).form;
        List<FieldSpec> fields =
                IntStream.range(0, now.fields().size())
                        .mapToObj(field -> among(now.fields().get(field), held.apply(field)))
                        .toList();
        for (TypeMapping mapping : look(type).mappings()) {
            if (mapping.form.equals(now.with(mapping.id, fields))) {
                return mapping;
            }
        }
        return add(type, id -> now.with(id, fields));
    }

    /// The same field, with constants that take all values of another.
    private static FieldSpec among(FieldSpec field, @Nullable FieldSpec other) {
        if (other == null || field.kind() != FieldKind.ENUM) {
            return field;
        }
        Stream<String> all = Stream.concat(other.constants().stream(), field.constants().stream());
        return field.among(field.target(), all.distinct().toArray(String[]::new));
    }

    /// Reads the forms of a class.
    private Forms look(ObjectType<?> type) {
        load();
        List<StoredType> known = List.copyOf(byId.values());
        Forms its = forms.get(type);
        if (its == null || its.ofTypes() != known.size()) {
            its = new Forms(pool, type, known);
            forms.put(type, its);
        }
        return its;
    }

    private TypeMapping add(ObjectType<?> type, IntFunction<StoredType> form) {
        int id = byId.keySet().stream().mapToInt(Integer::intValue).max().orElse(0) + 1;
        if (id > ID_MAX) {
            throw new StoreFailure.Full("the pool knows " + ID_MAX + " types: it takes no more");
        }
        StoredType stored = form.apply(id);
        if (stored.hasGroups()) {
            // This thread has the writer's lock, and nothing else stores the word.
            Feature.GROUPS.addTo(store.pmem());
        }
        if (stored.columnar()) {
            Feature.COLUMNS.addTo(store.pmem());
        }
        chain.add(stored.encode(), id);
        byId.put(id, stored);
        store.afterRollback(() -> {
            // The number may be given to another form, which a class that has met this one must not
            // confuse with it.
            forms.clear();
            byId.clear();
        });
        return stored(type, id);
    }

    /// The tiers of each field of a form: by the pool's placement, or by the present tags of its
    /// class. These are the tags of the program's class if it has used that class, else the tags of
    /// the newest form.
    List<List<Medium>> media(StoredType stored) {
        return media.computeIfAbsent(stored.id(), _ -> findMedia(stored));
    }

    private List<List<Medium>> findMedia(StoredType stored) {
        ObjectType<?> now = current(stored);
        Forms its = forms.get(now);
        TypeMapping mapping = its == null ? null : its.mapping(stored.id());
        int[] slots = stored.layout().slots();
        List<List<Medium>> found = new ArrayList<>();
        for (int slot : slots) {
            List<FieldSpec> sharing =
                    IntStream.range(0, slots.length)
                            .filter(field -> slots[field] == slot)
                            .mapToObj(stored.fields()::get)
                            .toList();
            found.add(Medium.named(tiers(sharing, now, mapping)));
        }
        return List.copyOf(found);
    }

    /// The present class, if the program has used it.
    private ObjectType<?> current(StoredType stored) {
        return current.values().stream()
                .filter(mapping -> isFormOf(stored, mapping.type))
                .max(Comparator.comparingInt(mapping -> mapping.id))
                .<ObjectType<?>>map(mapping -> mapping.type)
                .orElseGet(() -> ObjectType.of(newest(stored.name())));
    }

    /// The tiers of the value of a stored field, or of several that share a buffer: those of the
    /// first that the class still has.
    ///
    /// @param mapping null: fields are found by the names that the class knows
    private List<StorageTier> tiers(
            List<FieldSpec> stored, ObjectType<?> now, @Nullable TypeMapping mapping) {
        for (FieldSpec then : stored) {
            for (int i = 0; i < now.fields().size(); i++) {
                FieldSpec field = now.fields().get(i);
                boolean isSame =
                        mapping != null
                                ? then.equals(mapping.stored(i))
                                : field.name().equals(then.name())
                                        || field.formerly().contains(then.name());
                if (isSame && !field.isVolatile()) {
                    return tiers(now, field);
                }
            }
        }
        return stored.getFirst().tiers();
    }

    /// The tiers of the value of a field, or of its group, in records of a form, the best first.
    List<StorageTier> tiers(TypeMapping mapping, int field) {
        Group group = mapping.group(field);
        return group == null
                ? tiers(mapping.type, mapping.field(field))
                : tiers(group.members(), mapping.type, mapping);
    }

    /// The tiers of a field of a class, the best first.
    private List<StorageTier> tiers(ObjectType<?> type, FieldSpec field) {
        List<StorageTier> placed = placements.tiers(type, field);
        return placed == null ? field.tiers() : placed;
    }

    /// Throws an exception if these tiers are not possible for fields of a class.
    ///
    /// @throws StoreFailure.Mismatch if the pool knows no such class, or it has no such field
    /// @throws IllegalArgumentException if a field can lie nowhere else, or not on one of these
    ///   tiers
    void requirePlaceable(
            String name, Map<String, List<StorageTier>> fields, Predicate<StorageTier> isThere) {
        load();
        ObjectType<?> type = current(newest(name));
        requireWholeGroups(type, fields);
        fields.forEach((field, its) -> requirePlaceable(type, field, its, isThere));
    }

    /// Throws an exception if these tiers are not the same for all fields of a group, which lie in
    /// one buffer.
    private static void requireWholeGroups(
            ObjectType<?> type, Map<String, List<StorageTier>> fields) {
        int[] slots = type.layout().slots();
        for (int i = 0; i < slots.length; i++) {
            int slot = slots[i];
            FieldSpec field = type.fields().get(i);
            FieldSpec first = type.fields().get(slot);
            if (!Objects.equals(fields.get(field.name()), fields.get(first.name()))) {
                throw new IllegalArgumentException(
                        "fields "
                                + first.name()
                                + " and "
                                + field.name()
                                + " of "
                                + type.name()
                                + " share a buffer: name all of "
                                + IntStream.range(0, slots.length)
                                        .filter(each -> slots[each] == slot)
                                        .mapToObj(each -> type.fields().get(each).name())
                                        .toList()
                                + " with the same tiers, or none");
            }
        }
    }

    /// Sets the placement of a class, which overrides its tags. In a transaction.
    void place(String name, Map<String, List<StorageTier>> fields) {
        placements.set(current(newest(name)), fields);
        media.clear();
        store.afterRollback(media::clear);
    }

    private static void requirePlaceable(
            ObjectType<?> type,
            String name,
            List<StorageTier> tiers,
            Predicate<StorageTier> isThere) {
        FieldSpec field =
                type.fields().stream()
                        .filter(its -> its.name().equals(name))
                        .findAny()
                        .orElseThrow(() ->
                                new SchemaMismatchException(type.name() + " has no field " + name));
        String which = "field " + name + " of " + type.name();
        if (field.isVolatile()) {
            throw new IllegalArgumentException(
                    which + " lives in memory only: only another tag can change that");
        }
        if (field.isInline() && !field.isCollection()) {
            throw new IllegalArgumentException(
                    which
                            + " lies within the records, and objects do not move: only another tag"
                            + " can change that, for new objects");
        }
        if (tiers.isEmpty()
                || tiers.contains(StorageTier.DRAM)
                || Set.copyOf(tiers).size() != tiers.size()) {
            throw new IllegalArgumentException(
                    which + " cannot lie on " + tiers + ": name durable tiers, each once");
        }
        for (StorageTier tier : tiers) {
            if (!isThere.test(tier)) {
                throw new IllegalArgumentException(
                        which
                                + ": the pool has no tier "
                                + tier
                                + ": name it when the pool is opened");
            }
        }
    }

    /// The newest form of a class.
    ///
    /// @throws SchemaMismatchException if the pool knows none
    private StoredType newest(String name) {
        return byId.values().stream()
                .filter(form -> form.name().equals(name))
                .max(Comparator.comparing(StoredType::id))
                .orElseThrow(() ->
                        new SchemaMismatchException(
                                "the pool knows no class "
                                        + name
                                        + ", but "
                                        + byId.values().stream()
                                                .map(StoredType::name)
                                                .distinct()
                                                .sorted()
                                                .toList()));
    }

    /// The numbers of all forms of a class, under all its names.
    BitSet formsOf(String name) {
        load();
        return formsOf(current(newest(name)));
    }

    /// The numbers of all forms of a class, under all its names.
    BitSet formsOf(ObjectType<?> type) {
        load();
        BitSet forms = new BitSet();
        byId.values().stream()
                .filter(stored -> isFormOf(stored, type))
                .forEach(stored -> forms.set(stored.id()));
        return forms;
    }

    private boolean isFormOf(StoredType stored, ObjectType<?> type) {
        return Forms.names(type, byId.values()).contains(stored.name());
    }

    /// The mapping of a class's fields for objects of the form with this number.
    ///
    /// @throws StoreFailure.Mismatch if that is a form of another class, or this class does not
    ///   match its stored forms
    TypeMapping stored(ObjectType<?> type, int id) {
        Forms its = forms.get(type);
        TypeMapping known = its == null ? null : its.mapping(id);
        if (known != null) {
            return known;
        }
        StoredType stored = byId(id);
        TypeMapping mapping = look(type).mapping(id);
        if (mapping == null) {
            throw new SchemaMismatchException(
                    "this is an object of " + stored.name() + ", not of " + type.name());
        }
        return mapping;
    }

    /// Whether a type number belongs to a class, and not to a structure of the library.
    static boolean isClass(int id) {
        return id > 0 && id <= ID_MAX;
    }

    /// The number of the form of an object or an extension; 0 for any other record.
    static int formOf(int type) {
        int form = type & ~EXTENSION;
        return isClass(form) ? form : 0;
    }

    /// Shows the links and slots that the table of types owns.
    void links(Links links) {
        chain.links(links, false);
    }

    /// The mappings of a class's fields for each of its forms, by the forms' numbers.
    @Nullable TypeMapping[] mappingsOf(ObjectType<?> type) {
        Collection<TypeMapping> its = look(type).mappings();
        @Nullable TypeMapping[] found =
                new @Nullable
                        TypeMapping
                        [1 + its.stream().mapToInt(mapping -> mapping.id).max().orElse(0)];
        its.forEach(mapping -> found[mapping.id] = mapping);
        return found;
    }

    /// All forms of all classes, by their numbers.
    List<StoredType> all() {
        load();
        return byId.values().stream().sorted(Comparator.comparing(StoredType::id)).toList();
    }

    /// The form with this number.
    ///
    /// @throws StoreFailure.Mismatch if it is a number of collections
    /// @throws StoreFailure.Damaged if there is none
    StoredType byId(int id) {
        if (id > ID_MAX) {
            throw new SchemaMismatchException("this is a collection, not an object");
        }
        StoredType known = byId.get(id);
        if (known == null) {
            load();
            known = byId.get(id);
        }
        if (known == null) {
            throw new StoreFailure.Damaged("the pool knows no type " + id);
        }
        return known;
    }

    private void load() {
        @Nullable Object done =
                store.read(() -> {
                    chain.forEach((key, valueAt) -> {
                        StoredType stored = StoredType.decode(key);
                        byId.putIfAbsent(stored.id(), stored);
                        return true;
                    });
                    return null;
                });
        assert done == null;
    }
}
