package dev.terrace.objects;

import dev.terrace.objects.internal.store.StoreFailure;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;

/// A form of a class as a pool has stored it: objects with this form's number in their headers have
/// this layout.
///
/// @param id the number
/// @param name the tagged class, fully qualified
/// @param formerly all former names of the class
/// @param fields the fields as they were when the pool first stored this form, each with all its
///   former names
/// @param listsNames whether former names are known; false if an early version of this library has
///   stored the form
/// @param columnar whether its objects lie in columns ([Columnar])
public record StoredType(
        int id,
        String name,
        List<String> formerly,
        List<FieldSpec> fields,
        boolean listsNames,
        boolean columnar) {
    /// Set in the byte of a grouped field's kind: libraries that do not know groups know no such
    /// kind.
    private static final int GROUPED = 0x80;

    /// The offsets of the fields, which follow from their kinds.
    public Layout layout() {
        return Layout.of(fields, columnar);
    }

    /// Whether some of its fields share slots.
    boolean hasGroups() {
        return fields.stream().anyMatch(FieldSpec::grouped);
    }

    /// The same class in another form.
    StoredType with(int otherId, List<FieldSpec> otherFields) {
        return new StoredType(otherId, name, formerly, otherFields, listsNames, columnar);
    }

    byte[] encode() {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (DataOutputStream out = new DataOutputStream(bytes)) {
            out.writeShort(id);
            out.writeUTF(name);
            out.writeInt(fields.size());
            for (FieldSpec field : fields) {
                out.writeUTF(field.name());
                out.writeByte(field.kind().ordinal() | (field.grouped() ? GROUPED : 0));
                out.writeInt(field.fixedLength());
                out.writeBoolean(field.nullable());
                out.writeByte(field.tiers().size());
                for (StorageTier tier : field.tiers()) {
                    out.writeByte(tier.ordinal());
                }
                out.writeUTF(field.target());
                out.writeInt(field.constants().size());
                for (String constant : field.constants()) {
                    out.writeUTF(constant);
                }
            }
            encodeNames(out, formerly);
            for (FieldSpec field : fields) {
                encodeNames(out, field.formerly());
            }
            if (columnar) {
                out.writeBoolean(true);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return bytes.toByteArray();
    }

    private static void encodeNames(DataOutputStream out, List<String> names) throws IOException {
        out.writeInt(names.size());
        for (String name : names) {
            out.writeUTF(name);
        }
    }

    static StoredType decode(byte[] bytes) {
        try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes))) {
            int id = in.readUnsignedShort();
            String name = in.readUTF();
            int count = in.readInt();
            List<FieldSpec> fields = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                fields.add(decodeField(in));
            }
            boolean listsNames = in.available() > 0;
            List<String> formerly = listsNames ? decodeNames(in) : List.of();
            for (int i = 0; listsNames && i < count; i++) {
                fields.set(i, fields.get(i).formerly(decodeNames(in).toArray(new String[0])));
            }
            boolean columnar = in.available() > 0 && in.readBoolean();
            return new StoredType(id, name, formerly, List.copyOf(fields), listsNames, columnar);
        } catch (IOException | IllegalArgumentException | ArrayIndexOutOfBoundsException e) {
            throw new StoreFailure.Damaged("a stored type is damaged", e);
        }
    }

    private static FieldSpec decodeField(DataInputStream in) throws IOException {
        String name = in.readUTF();
        int kindByte = in.readUnsignedByte();
        FieldKind kind = FieldKind.values()[kindByte & ~GROUPED];
        int fixedLength = in.readInt();
        boolean nullable = in.readBoolean();
        List<StorageTier> tiers = new ArrayList<>();
        for (int i = in.readUnsignedByte(); i > 0; i--) {
            tiers.add(StorageTier.values()[in.readUnsignedByte()]);
        }
        String target = in.readUTF();
        List<String> constants = decodeNames(in);
        return new FieldSpec(
                name,
                kind,
                fixedLength,
                nullable,
                tiers,
                target,
                constants,
                List.of(),
                (kindByte & GROUPED) != 0);
    }

    private static List<String> decodeNames(DataInputStream in) throws IOException {
        List<String> names = new ArrayList<>();
        for (int i = in.readInt(); i > 0; i--) {
            names.add(in.readUTF());
        }
        return List.copyOf(names);
    }
}
