package dev.terrace.objects;

import dev.terrace.objects.store.Chain;
import dev.terrace.objects.store.Links;
import dev.terrace.objects.store.Store;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/// The classes that a pool knows, each in every form that it had when objects of it were made.
final class Types {
    /// Set in the type of a record that is an extension.
    static final int EXTENSION = 0x8000;

    /// Numbers above are those of collections and of buffers, also without [#EXTENSION].
    private static final int ID_MAX = 0x7eff;

    private final Store store;
    private final Chain chain;
    private final Map<Integer, StoredType> byId = new ConcurrentHashMap<>();
    private final Map<ObjectType<?>, TypeMapping> current = new ConcurrentHashMap<>();
    private final Map<ObjectType<?>, Map<Integer, TypeMapping>> mappings = new ConcurrentHashMap<>();
    private final Map<Integer, List<List<StorageTier>>> tiers = new ConcurrentHashMap<>();

    Types(Pool pool, Chain chain) {
        store = pool.store();
        this.chain = chain;
    }

    /// The form in which new objects of a class are made. In a transaction.
    TypeMapping current(ObjectType<?> type) {
        TypeMapping known = current.get(type);
        if (known != null) {
            return known;
        }
        load();
        TypeMapping found = null;
        for (StoredType stored : byId.values()) {
            if (isFormOf(stored, type)) {
                TypeMapping mapping = stored(type, stored.id());
                found = mapping.isNative ? mapping : found;
            }
        }
        TypeMapping mapping = found == null ? add(type) : found;
        current.put(type, mapping);
        tiers.clear();
        store.afterRollback(() -> {
            current.remove(type);
            tiers.clear();
            mappings.remove(type);
            byId.clear();
        });
        return mapping;
    }

    private TypeMapping add(ObjectType<?> type) {
        int id = byId.keySet().stream().mapToInt(Integer::intValue).max().orElse(0) + 1;
        if (id > ID_MAX) {
            throw new PoolFullException("the pool knows " + ID_MAX + " types: it takes no more");
        }
        StoredType stored = new StoredType(id, type.name(), type.fields());
        chain.add(stored.encode(), id);
        byId.put(id, stored);
        return stored(type, id);
    }

    /// Where values of each field of a form may lie by the tags that its class has now: those that the program gives it, as far as it
    /// has made objects of it; else those of its newest form.
    List<List<StorageTier>> tiers(StoredType stored) {
        return tiers.computeIfAbsent(stored.id(), _ -> findTiers(stored));
    }

    private List<List<StorageTier>> findTiers(StoredType stored) {
        List<FieldSpec> now = current.values().stream()
                .filter(mapping -> isFormOf(stored, mapping.type))
                .max(Comparator.comparingInt(mapping -> mapping.id))
                .map(mapping -> mapping.type.fields())
                .orElseGet(() -> byId.values().stream()
                        .filter(form -> form.name().equals(stored.name()))
                        .max(Comparator.comparing(StoredType::id))
                        .orElse(stored)
                        .fields());
        return stored.fields().stream().map(field -> tiers(field, now)).toList();
    }

    private static List<StorageTier> tiers(FieldSpec stored, List<FieldSpec> now) {
        for (FieldSpec field : now) {
            boolean isSame = field.name().equals(stored.name()) || field.formerly().contains(stored.name());
            if (isSame && !field.isVolatile()) {
                return field.tiers();
            }
        }
        return stored.tiers();
    }

    private static boolean isFormOf(StoredType stored, ObjectType<?> type) {
        return stored.name().equals(type.name()) || type.formerly().contains(stored.name());
    }

    /// How fields of a class are found in objects of the form with this number.
    ///
    /// @throws SchemaMismatchException if that is a form of another class, or one that this class cannot be
    TypeMapping stored(ObjectType<?> type, int id) {
        Map<Integer, TypeMapping> ofType = mappings.computeIfAbsent(type, _ -> new ConcurrentHashMap<>());
        TypeMapping known = ofType.get(id);
        if (known != null) {
            return known;
        }
        StoredType stored = byId(id);
        if (!isFormOf(stored, type)) {
            throw new SchemaMismatchException("this is an object of " + stored.name() + ", not of " + type.name());
        }
        TypeMapping mapping = new TypeMapping(type, stored);
        ofType.put(id, mapping);
        return mapping;
    }

    /// Whether a type's number is that of a class, not of something that the library keeps for itself.
    static boolean isClass(int id) {
        return id > 0 && id <= ID_MAX;
    }

    /// The form that an object, or an extension of one, is stored in; 0 for anything else.
    static int formOf(int type) {
        int form = type & ~EXTENSION;
        return isClass(form) ? form : 0;
    }

    /// Shows what the table of types owns.
    void links(Links links) {
        chain.links(links, false);
    }

    /// How fields of a class are found in objects of each form of it, by the forms' numbers.
    @Nullable TypeMapping[] mappingsOf(ObjectType<?> type) {
        load();
        int last = byId.keySet().stream().mapToInt(Integer::intValue).max().orElse(0);
        @Nullable TypeMapping[] found = new @Nullable TypeMapping[last + 1];
        for (StoredType stored : byId.values()) {
            if (isFormOf(stored, type)) {
                found[stored.id()] = stored(type, stored.id());
            }
        }
        return found;
    }

    /// All forms of all classes, by their numbers.
    List<StoredType> all() {
        load();
        return byId.values().stream().sorted(Comparator.comparing(StoredType::id)).toList();
    }

    /// The form with this number.
    ///
    /// @throws SchemaMismatchException if it is one that collections have
    /// @throws PoolDamagedException if there is none
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
            throw new PoolDamagedException("the pool knows no type " + id);
        }
        return known;
    }

    private void load() {
        @Nullable Object done = store.read(() -> {
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
