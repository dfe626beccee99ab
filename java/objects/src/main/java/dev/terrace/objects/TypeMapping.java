package dev.terrace.objects;

import dev.terrace.objects.internal.store.Columns;
import dev.terrace.objects.internal.store.Epoch;
import dev.terrace.objects.internal.store.Parts;
import dev.terrace.objects.internal.store.Store;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/// Maps the fields of a class to the fields of a stored form of it.
///
/// These differences are permitted: a new field (zero or null in old objects), a removed field, a
/// renamed field ([Formerly]), other tiers, a wider number, other constants of an enum, and a
/// number that becomes or stops being nullable. All others are refused, and the difference is
/// named.
///
/// It also holds what all handles of such objects share, so that a handle has few fields.
final class TypeMapping {
    final Pool pool;
    final Store store;
    final Epoch epoch;
    final int id;
    final ObjectType<?> type;
    final StoredType form;

    /// Whether objects of this form have the layout that the generated class expects.
    final boolean isNative;

    /// How many objects share columns; 1 if each has its fields side by side.
    final int objectsPerChunk;

    private final Layout layout;
    private final @Nullable Columns columns;

    /// The field of the form for each field of the class; -1 if it was not stored.
    private final int[] indexes;

    private final @Nullable FieldSpec[] stored;

    /// The group of each field; null if its value has a slot of its own, or none.
    private final @Nullable Group[] groups;

    /// The place of each field in its group.
    private final int[] members;

    /// Maps a form to itself.
    TypeMapping(Pool pool, StoredType form) {
        this(
                pool,
                ObjectType.of(form),
                form,
                form.fields().stream().map(field -> Set.of(field.name())).toList(),
                new HashSet<>());
    }

    /// @param names all names of each field of the class, the latest first
    /// @param differences receives differences that are not permitted
    TypeMapping(
            Pool pool,
            ObjectType<?> type,
            StoredType form,
            List<Set<String>> names,
            Set<String> differences) {
        this.pool = pool;
        store = pool.store();
        epoch = store.epoch();
        id = form.id();
        this.type = type;
        this.form = form;
        layout = form.layout();
        objectsPerChunk = layout.objectsPerChunk();
        columns = layout.isInColumns() ? layout.columns() : null;
        int count = type.fields().size();
        indexes = new int[count];
        stored = new FieldSpec[count];
        groups = new Group[count];
        members = new int[count];
        Map<Integer, Group> known = new HashMap<>();
        boolean same = form.fields().size() == count;
        for (int i = 0; i < count; i++) {
            FieldSpec field = type.fields().get(i);
            int from = find(form.fields(), names.get(i));
            same &= from == i && describes(form.fields().get(from), field);
            FieldSpec then =
                    from < 0 || form.fields().get(from).isVolatile()
                            ? null
                            : form.fields().get(from);
            indexes[i] = then == null ? -1 : from;
            stored[i] = then;
            if (then != null && then.grouped()) {
                Group group =
                        known.computeIfAbsent(
                                layout.slots()[from], first -> Group.of(form, layout, first));
                groups[i] = group;
                members[i] = group.memberOf(from);
            }
            if (then != null && !field.isVolatile()) {
                compare(field, then, differences);
            }
        }
        isNative = same;
    }

    private static int find(List<FieldSpec> fields, Set<String> names) {
        for (String name : names) {
            for (int i = 0; i < fields.size(); i++) {
                if (fields.get(i).name().equals(name)) {
                    return i;
                }
            }
        }
        return -1;
    }

    private static void compare(FieldSpec now, FieldSpec then, Set<String> differences) {
        String field = "field " + now.name();
        if (ValueType.of(now) != ValueType.of(then)) {
            differences.add(
                    field
                            + " is "
                            + valueOf(then)
                            + " in the pool and "
                            + valueOf(now)
                            + " in the class");
        } else if (now.kind() != then.kind() && !widens(then.kind(), now.kind())) {
            differences.add(
                    field
                            + " is "
                            + then.kind()
                            + " in the pool and "
                            + now.kind()
                            + " in the class");
        } else if (now.fixedLength() != then.fixedLength()) {
            differences.add(
                    field
                            + " has "
                            + lengthOf(then)
                            + " in the pool and "
                            + lengthOf(now)
                            + " in the class");
        } else if (!collectionOf(now).equals(collectionOf(then))) {
            differences.add(
                    field
                            + " leads to "
                            + then.target()
                            + " in the pool and to "
                            + now.target()
                            + " in the class");
        }
    }

    /// The kind of collection of a field, if it has one. The types of its elements, like the class
    /// of a referenced object, are checked when they are read, because that class may have another
    /// name now.
    private static String collectionOf(FieldSpec field) {
        int types = field.target().indexOf('<');
        return types < 0 ? "" : field.target().substring(0, types);
    }

    /// The class of a field's values, or just their kind: a number that tells days does not become
    /// one that tells nanoseconds.
    private static String valueOf(FieldSpec field) {
        ValueType<?> type = ValueType.of(field);
        return type == null ? field.kind().name() : type.name();
    }

    private static String lengthOf(FieldSpec field) {
        return field.fixedLength() == 0 ? "any length" : field.fixedLength() + " elements";
    }

    private static boolean widens(FieldKind from, FieldKind to) {
        return switch (from) {
            case BYTE -> to == FieldKind.SHORT || to == FieldKind.INT || to == FieldKind.LONG;
            case SHORT -> to == FieldKind.INT || to == FieldKind.LONG;
            case CHAR -> to == FieldKind.INT || to == FieldKind.LONG;
            case INT -> to == FieldKind.LONG || to == FieldKind.DOUBLE;
            case FLOAT -> to == FieldKind.DOUBLE;
            default -> false;
        };
    }

    /// Whether a stored field and a field of the class are equal, except for former names.
    private static boolean describes(FieldSpec then, FieldSpec now) {
        return then.formerly(new String[0]).equals(now.formerly(new String[0]));
    }

    /// Whether a field of this kind, with these constants, can hold the values of another field
    /// unchanged.
    static boolean isAlike(FieldSpec one, FieldSpec other) {
        return one.kind() == other.kind() && one.constants().equals(other.constants());
    }

    /// Whether a record of this form holds a field in the form of the class.
    boolean holds(int field) {
        FieldSpec then = stored[field];
        return then != null && isAlike(then, field(field));
    }

    /// Whether an extension of this form holds a field that an earlier record holds in the form
    /// `before`, or does not hold if that is null. It does if the two forms store values
    /// differently, because the value was taken over when the extension was made. It also does if
    /// its build did not know this name of the field, because it was another field then.
    boolean takesOver(int field, @Nullable FieldSpec before) {
        FieldSpec then = stored[field];
        if (then == null || before == null) {
            return then != null;
        }
        boolean isSame =
                then.name().equals(before.name())
                        || then.formerly().contains(before.name())
                        || !form.listsNames();
        return !isSame || !isAlike(then, before);
    }

    /// The place of a field, or of the slot that leads to its value or its group's, if its object
    /// begins at `record`. The record has it.
    long place(long record, int field) {
        return layout.place(record, indexes[field]);
    }

    /// Whether the values of a field within the records follow each other in its column without
    /// gaps: arrays are filled up to whole words.
    boolean isDense(int field) {
        return layout.widths()[indexes[field]] == field(field).inlineBytes();
    }

    /// The place of the word with bit [#presence(int)] of the record that begins at `record`.
    long placeOfPresence(long record, int field) {
        return layout.placeOfBit(record, presence(field));
    }

    /// The bit, counted from the record's begin, that tells a value of the field from null; -1 if
    /// it has none.
    int presence(int field) {
        return indexes[field] < 0 ? -1 : layout.presence()[indexes[field]];
    }

    /// Allocates a record of this form, all zeros behind its header. In a transaction.
    ///
    /// @param number the form's, or that of its extensions
    long allocate(int number) {
        return columns == null
                ? store.allocate(layout.bytes(), number)
                : store.parts().allocate(columns, number);
    }

    /// Adds the chunks in which objects of this form may lie.
    void addTo(Parts.Wanted chunks) {
        if (columns == null) {
            chunks.addSlots(layout.bytes());
        } else {
            chunks.addColumns(id);
        }
    }

    /// The stored form of a field; null if it was not stored.
    @Nullable FieldSpec stored(int field) {
        return stored[field];
    }

    /// The group of a field in records of this form; null if its value has a slot of its own, or
    /// lies within the record.
    @Nullable Group group(int field) {
        return groups[field];
    }

    /// The place of a field in its group.
    int member(int field) {
        return members[field];
    }

    /// A field in the form of the class.
    FieldSpec field(int field) {
        return type.fields().get(field);
    }
}
