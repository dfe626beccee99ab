package dev.terrace.objects;

import java.util.List;
import java.util.Objects;

/// A field as the generated class describes it.
///
/// @param name as in the tagged class; fields of an embedded object are `outer.inner`
/// @param kind what it holds
/// @param fixedLength elements of an array that lies within the record, or 0
/// @param nullable whether it may be null: boxed values, strings, arrays, references, enums
/// @param tiers where its value may be kept, the best first
/// @param target the fully qualified name of what a reference leads to, or of the enum; else empty
/// @param constants the names of the enum's constants in their order; else empty
/// @param formerly names that the field had before
public record FieldSpec(
        String name,
        FieldKind kind,
        int fixedLength,
        boolean nullable,
        List<StorageTier> tiers,
        String target,
        List<String> constants,
        List<String> formerly) {

    /// Checks what no schema allows.
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
    }

    /// A field in PMEM that is never null.
    public static FieldSpec of(String name, FieldKind kind) {
        return new FieldSpec(
                name, kind, 0, false, List.of(StorageTier.PMEM), "", List.of(), List.of());
    }

    /// The same field, on these tiers.
    public FieldSpec on(StorageTier... newTiers) {
        return new FieldSpec(
                name, kind, fixedLength, nullable, List.of(newTiers), target, constants, formerly);
    }

    /// The same field, which may be null.
    public FieldSpec orNull() {
        return new FieldSpec(name, kind, fixedLength, true, tiers, target, constants, formerly);
    }

    /// The same array, always of this length.
    public FieldSpec ofLength(int elements) {
        return new FieldSpec(name, kind, elements, nullable, tiers, target, constants, formerly);
    }

    /// The same reference, to objects of this type.
    public FieldSpec to(String type) {
        return new FieldSpec(name, kind, fixedLength, nullable, tiers, type, constants, formerly);
    }

    /// The same field, of an enum.
    public FieldSpec among(String type, String... names) {
        return new FieldSpec(
                name, kind, fixedLength, nullable, tiers, type, List.of(names), formerly);
    }

    /// The same field, which had other names.
    public FieldSpec formerly(String... names) {
        return new FieldSpec(
                name, kind, fixedLength, nullable, tiers, target, constants, List.of(names));
    }

    /// Whether it lives in this process only.
    public boolean isVolatile() {
        return tiers.getFirst() == StorageTier.DRAM;
    }

    /// Whether it is a collection that the object owns, rather than an object that it leads to.
    public boolean isCollection() {
        return kind == FieldKind.REFERENCE && target.startsWith("java.util.");
    }

    /// Whether its value lies within the record: it has one tier, PMEM, and one length. References
    /// always do: the tiers of such a field are those of the texts and bytes in a collection.
    public boolean isInline() {
        return kind == FieldKind.REFERENCE && !isVolatile()
                || tiers.size() == 1
                        && tiers.getFirst() == StorageTier.PMEM
                        && (kind.isFixed() || fixedLength > 0);
    }

    /// Bytes of a value that lies within the record: all have the same.
    long inlineBytes() {
        return (long) Math.max(1, fixedLength) * kind.width();
    }
}
