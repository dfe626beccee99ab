package dev.terrace.objects;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/// The forms and names of a class in a pool, as the program's class sees them.
///
/// Invariants:
/// * A class that cannot read each stored form is refused. So the class of an older build is
///   refused before it reads anything, if a newer build has widened or renamed a field.
/// * A stored form lists all former names: those in the class and those in earlier forms.
final class Forms {
    private final ObjectType<?> type;
    private final int ofTypes;
    private final Set<String> names;
    private final List<Set<String>> fieldNames;
    private final Map<Integer, TypeMapping> mappings = new TreeMap<>();

    /// @param known all forms in the pool, of all classes
    /// @throws SchemaMismatchException if the class does not match its stored forms
    Forms(Pool pool, ObjectType<?> type, Collection<StoredType> known) {
        this.type = type;
        ofTypes = known.size();
        names = names(type, known);
        List<StoredType> forms =
                known.stream()
                        .filter(form -> names.contains(form.name()))
                        .sorted(Comparator.comparing(StoredType::id))
                        .toList();
        fieldNames = type.fields().stream().map(field -> names(field, forms)).toList();
        Set<String> differences = new LinkedHashSet<>();
        known.stream()
                .filter(form ->
                        form.formerly().contains(type.name()) && !names.contains(form.name()))
                .forEach(form -> differences.add("it is called " + form.name() + " in the pool"));
        for (StoredType form : forms) {
            findRenamed(form, differences);
            mappings.put(form.id(), new TypeMapping(pool, type, form, fieldNames, differences));
        }
        if (!differences.isEmpty()) {
            throw new SchemaMismatchException(
                    type.name()
                            + " is not what "
                            + pool.store().pmem().name()
                            + " has stored of it: "
                            + String.join("; ", differences)
                            + ". Use the build of the program that has stored it, or undo the"
                            + " change: what has another type needs another field, what has another"
                            + " name says what it was called");
        }
    }

    /// All names of a class, from the class itself and from its stored forms.
    static Set<String> names(ObjectType<?> type, Collection<StoredType> known) {
        Set<String> names = new LinkedHashSet<>(type.formerly());
        names.add(type.name());
        while (known.stream()
                .anyMatch(form -> names.contains(form.name()) && names.addAll(form.formerly()))) {
            continue;
        }
        return names;
    }

    /// All names of a field, its own first.
    private static Set<String> names(FieldSpec field, List<StoredType> forms) {
        Set<String> names = new LinkedHashSet<>();
        names.add(field.name());
        names.addAll(field.formerly());
        while (forms.stream()
                .flatMap(form -> form.fields().stream())
                .anyMatch(
                        there -> names.contains(there.name()) && names.addAll(there.formerly()))) {
            continue;
        }
        return names;
    }

    private void findRenamed(StoredType form, Set<String> differences) {
        for (int i = 0; i < fieldNames.size(); i++) {
            String name = type.fields().get(i).name();
            for (FieldSpec there : form.fields()) {
                if (there.formerly().contains(name) && !fieldNames.get(i).contains(there.name())) {
                    differences.add(
                            "field " + name + " is called " + there.name() + " in the pool");
                }
            }
        }
    }

    /// The mapping of fields for objects of the form with this number; null if there is no such
    /// form, or it is newer than this object.
    @Nullable TypeMapping mapping(int id) {
        return mappings.get(id);
    }

    /// The number of forms of all classes in the pool when this object was made.
    int ofTypes() {
        return ofTypes;
    }

    /// All forms, the oldest first.
    Collection<TypeMapping> mappings() {
        return mappings.values();
    }

    /// The form of new objects; null if no stored form has this layout and lists all former names.
    @Nullable TypeMapping current() {
        return mappings.values().stream()
                .filter(mapping ->
                        mapping.isNative
                                && mapping.form.columnar() == type.isColumnar()
                                && listsNames(mapping.form))
                .max(Comparator.comparing(mapping -> mapping.id))
                .orElse(null);
    }

    private boolean listsNames(StoredType form) {
        boolean lists = form.formerly().containsAll(others(names, form.name()));
        for (int i = 0; i < fieldNames.size(); i++) {
            FieldSpec field = form.fields().get(i);
            lists &= field.formerly().containsAll(others(fieldNames.get(i), field.name()));
        }
        return lists;
    }

    /// The present form of the class, to be stored.
    StoredType toStore(int id) {
        List<FieldSpec> fields = new ArrayList<>();
        for (int i = 0; i < fieldNames.size(); i++) {
            FieldSpec field = type.fields().get(i);
            fields.add(
                    field.formerly(others(fieldNames.get(i), field.name()).toArray(new String[0])));
        }
        return new StoredType(
                id,
                type.name(),
                List.copyOf(others(names, type.name())),
                List.copyOf(fields),
                true,
                type.isColumnar());
    }

    private static Set<String> others(Set<String> names, String than) {
        Set<String> others = new HashSet<>(names);
        others.remove(than);
        return others;
    }
}
