package dev.terrace.objects;

import dev.terrace.objects.store.Layout;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// How the fields of a class are found in objects that were stored in some form of it.
///
/// Permitted: a field that is new (it is zero or null in old objects), one that is gone, one with another name ([Formerly]), other tiers,
/// a wider number, other constants of an enum. Everything else is refused, with the difference named.
final class TypeMapping {
    final int id;
    final ObjectType<?> type;
    /// Whether objects of this form are laid out as the generated class expects it.
    final boolean isNative;
    final int bytes;
    private final int[] offsets;
    private final int[] presence;
    private final @Nullable FieldSpec[] stored;

    TypeMapping(ObjectType<?> type, StoredType storedType) {
        id = storedType.id();
        this.type = type;
        Layout layout = storedType.layout();
        bytes = layout.bytes();
        int count = type.fields().size();
        offsets = new int[count];
        presence = new int[count];
        stored = new FieldSpec[count];
        boolean same = storedType.fields().size() == count;
        List<String> differences = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            FieldSpec field = type.fields().get(i);
            int from = find(storedType.fields(), field);
            offsets[i] = from < 0 ? -1 : layout.offsets()[from];
            presence[i] = from < 0 ? -1 : layout.presence()[from];
            stored[i] = from < 0 ? null : storedType.fields().get(from);
            if (from >= 0) {
                compare(field, storedType.fields().get(from), differences);
            }
            same &= from == i && describes(storedType.fields().get(from), field);
        }
        if (!differences.isEmpty()) {
            throw new SchemaMismatchException(
                    type.name() + " is not what the pool has stored of it: " + String.join("; ", differences));
        }
        isNative = same;
    }

    private static int find(List<FieldSpec> fields, FieldSpec wanted) {
        for (int i = 0; i < fields.size(); i++) {
            if (fields.get(i).name().equals(wanted.name())) {
                return i;
            }
        }
        for (int i = 0; i < fields.size(); i++) {
            if (wanted.formerly().contains(fields.get(i).name())) {
                return i;
            }
        }
        return -1;
    }

    private static void compare(FieldSpec now, FieldSpec then, List<String> differences) {
        if (now.kind() != then.kind() && !widens(then.kind(), now.kind())) {
            differences.add("field " + now.name() + " was " + then.kind() + " and is " + now.kind());
        } else if (now.fixedLength() != then.fixedLength()) {
            differences.add("field " + now.name() + " had " + lengthOf(then) + " and has " + lengthOf(now));
        } else if (!collectionOf(now).equals(collectionOf(then))) {
            differences.add("field " + now.name() + " led to " + then.target() + " and leads to " + now.target());
        }
    }

    /// Which collection a field leads to, if it leads to one. What is in it, or what class an object is of that a field leads to, is
    /// looked at when it is read: that class may have another name now.
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

    /// Whether a field that was stored like this is one that looks like that now, its former names aside.
    private static boolean describes(FieldSpec then, FieldSpec now) {
        return then.equals(now.formerly(new String[0]));
    }

    /// Whether what is written to a field goes to the record's extension: the record has no such field, or none as wide, or an enum's
    /// constants were others.
    boolean isExtended(int field) {
        FieldSpec then = stored[field];
        FieldSpec now = field(field);
        return !now.isVolatile()
                && (then == null || then.kind() != now.kind() || !then.constants().equals(now.constants()));
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
