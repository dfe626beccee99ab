package dev.terrace.objects;

import dev.terrace.objects.internal.store.Layout;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/// How the fields of a class are found in objects that were stored in some form of it.
///
/// Permitted: a field that is new (it is zero or null in old objects), one that is gone, one with
/// another name ([Formerly]), other tiers, a wider number, other constants of an enum, a number
/// that may be null or may not. Everything else is refused, with the difference named.
final class TypeMapping {
    final int id;
    final ObjectType<?> type;
    final StoredType form;

    /// Whether objects of this form are laid out as the generated class expects it.
    final boolean isNative;

    final int bytes;
    private final int[] offsets;
    private final int[] presence;
    private final @Nullable FieldSpec[] stored;

    /// A form as it is, for who looks at that alone.
    TypeMapping(StoredType form) {
        this(
                ObjectType.of(form),
                form,
                form.fields().stream().map(field -> Set.of(field.name())).toList(),
                new HashSet<>());
    }

    /// @param names of each field of the class all names that it has had, the latest first
    /// @param differences takes those that are not permitted
    TypeMapping(
            ObjectType<?> type, StoredType form, List<Set<String>> names, Set<String> differences) {
        id = form.id();
        this.type = type;
        this.form = form;
        Layout layout = form.layout();
        bytes = layout.bytes();
        int count = type.fields().size();
        offsets = new int[count];
        presence = new int[count];
        stored = new FieldSpec[count];
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
        if (now.kind() != then.kind() && !widens(then.kind(), now.kind())) {
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

    /// Which collection a field leads to, if it leads to one. What is in it, or what class an
    /// object is of that a field leads to, is looked at when it is read: that class may have
    /// another name now.
    private static String collectionOf(FieldSpec field) {
        int types = field.target().indexOf('<');
        return types < 0 ? "" : field.target().substring(0, types);
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

    /// Whether a field that was stored like this is one that looks like that now, its former names
    /// aside.
    private static boolean describes(FieldSpec then, FieldSpec now) {
        return then.formerly(new String[0]).equals(now.formerly(new String[0]));
    }

    /// Whether a field of this kind, with these constants, takes the values of another as they are.
    static boolean isAlike(FieldSpec one, FieldSpec other) {
        return one.kind() == other.kind() && one.constants().equals(other.constants());
    }

    /// Whether a record of this form holds a field as the class has it.
    boolean holds(int field) {
        FieldSpec then = stored[field];
        return then != null && isAlike(then, field(field));
    }

    /// Whether an extension of this form holds a field that a record before it holds as `before`,
    /// or does not hold if that is null. It does if its values are not alike: who made it has taken
    /// them over; and if it did not know that the field was called so: it was another one then.
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

    /// Byte of a field in a record; -1 if it has none.
    int offset(int field) {
        return offsets[field];
    }

    /// The bit, from the record's begin, that says whether a field is there; -1 if it needs none.
    int presence(int field) {
        return presence[field];
    }

    /// A field as it was stored; null if it was not.
    @Nullable FieldSpec stored(int field) {
        return stored[field];
    }

    /// A field as the class has it.
    FieldSpec field(int field) {
        return type.fields().get(field);
    }
}
