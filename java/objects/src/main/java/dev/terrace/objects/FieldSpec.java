package dev.terrace.objects;

import java.util.List;
import java.util.Objects;

/// The description of a field in the generated class.
///
/// @param name as in the tagged class; fields of an embedded object are `outer.inner`
/// @param kind the kind of its values
/// @param fixedLength the number of elements of an array within the record, or 0
/// @param nullable whether it may be null: boxed values, strings, arrays, references, enums
/// @param tiers where its value may be kept, the best first
/// @param target the fully qualified name of the class that a reference leads to, of the enum, or
///   of the [ValueType]; else empty
/// @param constants the names of the enum's constants in their order; else empty
/// @param formerly former names of the field
/// @param grouped whether its value lies in one buffer with those of the other such fields of the
///   class that have the same tiers: its group
public record FieldSpec(
        String name,
        FieldKind kind,
        int fixedLength,
        boolean nullable,
        List<StorageTier> tiers,
        String target,
        List<String> constants,
        List<String> formerly,
        boolean grouped) {

    /// Rejects fields that no schema allows.
    public FieldSpec {
        Objects.requireNonNull(name);
        tiers = List.copyOf(tiers);
        constants = List.copyOf(constants);
        formerly = List.copyOf(formerly);
        if (tiers.isEmpty()) {
            throw new IllegalArgumentException("field " + name + " has no tier");
        }
        if (fixedLength < 0 || fixedLength > 0 && !kind.isArray()) {
            throw new IllegalArgumentException(
                    "field " + name + ": a fixed length is for arrays, and positive");
        }
        if (grouped && !mayBeGrouped(kind, fixedLength, tiers)) {
            throw new IllegalArgumentException(
                    "field "
                            + name
                            + " cannot be in a group: it is a reference, an array of any"
                            + " length, or in memory, or it lies within the record");
        }
    }

    private static boolean mayBeGrouped(FieldKind kind, int fixedLength, List<StorageTier> tiers) {
        return kind != FieldKind.REFERENCE
                && (!kind.isArray() || fixedLength > 0)
                && !tiers.contains(StorageTier.DRAM)
                && !isInline(kind, fixedLength, tiers);
    }

    /// A field in PMEM that is never null.
    public static FieldSpec of(String name, FieldKind kind) {
        return new FieldSpec(
                name, kind, 0, false, List.of(StorageTier.PMEM), "", List.of(), List.of(), false);
    }

    /// The same field, on these tiers, in a buffer of its own.
    public FieldSpec on(StorageTier... newTiers) {
        return new FieldSpec(
                name,
                kind,
                fixedLength,
                nullable,
                List.of(newTiers),
                target,
                constants,
                formerly,
                false);
    }

    /// The same field, which may be null.
    public FieldSpec orNull() {
        return new FieldSpec(
                name, kind, fixedLength, true, tiers, target, constants, formerly, grouped);
    }

    /// The same array, always of this length.
    public FieldSpec ofLength(int elements) {
        return new FieldSpec(
                name, kind, elements, nullable, tiers, target, constants, formerly, grouped);
    }

    /// The same field, of this type: the class of a reference's objects, or a [ValueType].
    public FieldSpec to(String type) {
        return new FieldSpec(
                name, kind, fixedLength, nullable, tiers, type, constants, formerly, grouped);
    }

    /// The same field, of an enum.
    public FieldSpec among(String type, String... names) {
        return new FieldSpec(
                name, kind, fixedLength, nullable, tiers, type, List.of(names), formerly, grouped);
    }

    /// The same field, with former names.
    public FieldSpec formerly(String... names) {
        return new FieldSpec(
                name,
                kind,
                fixedLength,
                nullable,
                tiers,
                target,
                constants,
                List.of(names),
                grouped);
    }

    /// The same field, in the group of its tiers.
    public FieldSpec inGroup() {
        return new FieldSpec(
                name, kind, fixedLength, nullable, tiers, target, constants, formerly, true);
    }

    /// Whether its value is kept in this process only.
    public boolean isVolatile() {
        return tiers.getFirst() == StorageTier.DRAM;
    }

    /// Whether it is a collection, which the object owns, and not a reference to another object.
    public boolean isCollection() {
        return kind == FieldKind.REFERENCE && target.startsWith("java.util.");
    }

    /// Whether its value lies within the record: it has a single tier, PMEM, and a fixed length.
    /// References always lie within the record; the tiers of such a field are for the buffers of a
    /// collection.
    public boolean isInline() {
        return isInline(kind, fixedLength, tiers);
    }

    private static boolean isInline(FieldKind kind, int fixedLength, List<StorageTier> tiers) {
        return kind == FieldKind.REFERENCE && tiers.getFirst() != StorageTier.DRAM
                || tiers.size() == 1
                        && tiers.getFirst() == StorageTier.PMEM
                        && (kind.isFixed() || fixedLength > 0);
    }

    /// The number of bytes of a value within the record, the same for all values.
    long inlineBytes() {
        return (long) Math.max(1, fixedLength) * kind.width();
    }
}
