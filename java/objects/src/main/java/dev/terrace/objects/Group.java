package dev.terrace.objects;

import dev.terrace.objects.internal.store.StoreFailure;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/// A group of fields: those of a form that are tagged alike, and share one buffer and one slot. So
/// many small values on a disk take the eight bytes of a single slot in persistent memory, and are
/// read together.
///
/// The value of a group begins with a bit for each boxed value, filled up to whole bytes, which is
/// 1 if it is not null. The values of one length follow, in the fields' order; then, for each text,
/// the number of its bytes, in four bytes, 0 for null; then the texts' bytes. The values are what
/// slots of their own would lead to. A group all of whose fields are zero or null is null.
final class Group {
    /// The number of a text's bytes.
    private static final int LENGTH_BYTES = Integer.BYTES;

    private final List<FieldSpec> members;

    /// The place of each field among the form's.
    private final int[] fields;

    /// The byte of each field's value, or of a text's length.
    private final int[] places;

    /// The bit of each field that tells its value from null; -1 if it has none.
    private final int[] bits;

    /// The bytes before the first text.
    private final int frontBytes;

    private Group(StoredType form, int[] fields) {
        this.fields = fields;
        members = IntStream.of(fields).mapToObj(form.fields()::get).toList();
        places = new int[members.size()];
        bits = new int[members.size()];
        int bit = 0;
        for (int i = 0; i < bits.length; i++) {
            bits[i] = hasBit(members.get(i)) ? bit++ : -1;
        }
        int at = (bit + Byte.SIZE - 1) / Byte.SIZE;
        for (int i = 0; i < places.length; i++) {
            if (!isText(i)) {
                places[i] = at;
                at = Math.addExact(at, Math.toIntExact(members.get(i).inlineBytes()));
            }
        }
        for (int i = 0; i < places.length; i++) {
            if (isText(i)) {
                places[i] = at;
                at += LENGTH_BYTES;
            }
        }
        frontBytes = at;
    }

    /// The group of a form whose first field this is.
    static Group of(StoredType form, Layout layout, int first) {
        return new Group(
                form,
                IntStream.range(first, form.fields().size())
                        .filter(field -> layout.slots()[field] == first)
                        .toArray());
    }

    private static boolean hasBit(FieldSpec field) {
        return field.nullable() && field.kind().ordinal() < FieldKind.ENUM.ordinal();
    }

    /// Whether the values of a field are texts.
    boolean isText(int member) {
        return members.get(member).kind() == FieldKind.STRING;
    }

    /// The fields, in their order.
    List<FieldSpec> members() {
        return members;
    }

    /// The place of a field of the form among the group's.
    int memberOf(int field) {
        return Arrays.binarySearch(fields, field);
    }

    /// The place of a field of the group among the form's.
    int field(int member) {
        return fields[member];
    }

    /// The bytes before those of the texts.
    int frontBytes() {
        return frontBytes;
    }

    /// The value of a field; null if it is null, or the whole group is.
    ///
    /// @throws StoreFailure.Damaged if the group's value is none
    byte @Nullable [] get(byte @Nullable [] whole, int member) {
        if (whole == null) {
            return null;
        }
        require(whole);
        return valueIn(whole, member);
    }

    /// Like [#get(byte[], int)], of a group's value whose length is right.
    private byte @Nullable [] valueIn(byte[] whole, int member) {
        int bit = bits[member];
        if (bit >= 0 && (whole[bit / Byte.SIZE] >>> bit % Byte.SIZE & 1) == 0) {
            return null;
        }
        if (!isText(member)) {
            int length = Math.toIntExact(members.get(member).inlineBytes());
            return Arrays.copyOfRange(whole, places[member], places[member] + length);
        }
        int from = frontBytes;
        for (int i = 0; i < member; i++) {
            from += isText(i) ? length(whole, i) : 0;
        }
        int length = length(whole, member);
        return length == 0 ? null : Arrays.copyOfRange(whole, from, from + length);
    }

    /// The values of all fields.
    ///
    /// @throws StoreFailure.Damaged if the group's value is none
    byte @Nullable [][] split(byte @Nullable [] whole) {
        byte @Nullable [][] values = new byte @Nullable [members.size()][];
        if (whole == null) {
            return values;
        }
        require(whole);
        for (int i = 0; i < values.length; i++) {
            values[i] = valueIn(whole, i);
        }
        return values;
    }

    /// The value of a group with these values of its fields; null if all of them are zero or null.
    ///
    /// @throws StoreFailure.Full if the texts are too long for one value
    byte @Nullable [] join(byte @Nullable [][] values) {
        byte[] whole = new byte[bytesOf(values)];
        int end = frontBytes;
        boolean isNull = true;
        for (int i = 0; i < values.length; i++) {
            byte[] value = values[i];
            if (value == null) {
                continue;
            }
            if (bits[i] >= 0) {
                whole[bits[i] / Byte.SIZE] |= (byte) (1 << bits[i] % Byte.SIZE);
                isNull = false;
            }
            if (isText(i)) {
                isNull = false;
                byte[] length = Fields.toBytes(value.length, LENGTH_BYTES);
                System.arraycopy(length, 0, whole, places[i], LENGTH_BYTES);
                System.arraycopy(value, 0, whole, end, value.length);
                end += value.length;
            } else {
                assert value.length == members.get(i).inlineBytes() : members.get(i).name();
                System.arraycopy(value, 0, whole, places[i], value.length);
                isNull &= isZero(value);
            }
        }
        return isNull ? null : whole;
    }

    private int bytesOf(byte @Nullable [][] values) {
        long bytes = frontBytes;
        for (int i = 0; i < values.length; i++) {
            byte[] value = values[i];
            bytes += value != null && isText(i) ? value.length : 0;
        }
        if (bytes > ArrayFields.BYTES_MAX) {
            throw new StoreFailure.Full(
                    "the fields that are stored with "
                            + members.getFirst().name()
                            + " take "
                            + bytes
                            + " bytes together: no value has more than "
                            + ArrayFields.BYTES_MAX);
        }
        return (int) bytes;
    }

    private static boolean isZero(byte[] value) {
        for (byte each : value) {
            if (each != 0) {
                return false;
            }
        }
        return true;
    }

    private int length(byte[] whole, int member) {
        return (int) Fields.fromBytes(whole, places[member], LENGTH_BYTES);
    }

    private void require(byte[] whole) {
        long bytes = frontBytes;
        for (int i = 0; i < places.length && whole.length >= frontBytes && bytes >= 0; i++) {
            int length = isText(i) ? length(whole, i) : 0;
            bytes = length < 0 ? -1 : bytes + length;
        }
        if (bytes != whole.length) {
            throw new StoreFailure.Damaged(
                    "the value of the group of field "
                            + members.getFirst().name()
                            + " has "
                            + whole.length
                            + " bytes, which is not what its fields take");
        }
    }
}
