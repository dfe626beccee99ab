package dev.terrace.objects;

import dev.terrace.objects.internal.store.Epoch;
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

    final int bytes;
    private final int[] offsets;
    private final int[] presence;
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
        Layout layout = form.layout();
        bytes = layout.bytes();
        int count = type.fields().size();
        offsets = new int[count];
        presence = new int[count];
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
            offsets[i] = then == null ? -1 : layout.offsets()[from];
            presence[i] = then == null ? -1 : layout.presence()[from];
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

    /// The offset of a field, or of the slot that leads to its value or its group's, in a record;
    /// -1 if the record does not have it.
    int offset(int field) {
        return offsets[field];
    }

    /// The bit, counted from the record's begin, that tells a value of the field from null; -1 if
    /// it has none.
    int presence(int field) {
        return presence[field];
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
