package dev.terrace.objects.placement;

import dev.terrace.objects.FieldProfile;
import dev.terrace.objects.FieldSpec;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.StoredSize;

/// The bytes of a field of one object on each tier: B of the paper's section 3.4, with headers and
/// rounding.
///
/// @param spec the field
/// @param valueBytes of a value, the mean
/// @param values how many there are: of a collection as many as it has texts or bytes, else one
record FieldFootprint(FieldSpec spec, double valueBytes, double values) {
    /// Around a value in memory: what leads to it from its object, and its header. Objects with
    /// several such values share the first, which is counted for each. Measured on JDK 25, as what
    /// 200,000 of a class with two such fields grow the heap by: 125 bytes for a `long`, 104 more
    /// for an array of 96.
    private static final long HEAP_BYTES = 120;

    static FieldFootprint of(FieldProfile field) {
        double bytes = valueBytes(field);
        double values =
                field.field().isCollection() ? bytes == 0 ? 0 : field.bytesStored() / bytes : 1;
        return new FieldFootprint(field.field(), bytes, values);
    }

    /// Where nothing is stored now, as in memory, and of collections, of which only the sum is
    /// known, the mean of what was written, or read.
    private static double valueBytes(FieldProfile profile) {
        FieldSpec spec = profile.field();
        if (isFixed(spec)) {
            return (double) spec.kind().width() * Math.max(1, spec.fixedLength());
        }
        if (profile.bytesStored() > 0 && !spec.isCollection()) {
            return profile.bytesStored();
        }
        if (profile.writes() > 0) {
            return (double) profile.bytesWritten() / profile.writes();
        }
        return profile.reads() > 0
                ? (double) profile.bytesRead() / profile.reads()
                : profile.bytesStored();
    }

    /// Whether all values have one length.
    private static boolean isFixed(FieldSpec spec) {
        return spec.kind().isFixed() && !spec.isCollection() || spec.fixedLength() > 0;
    }

    /// Whether it lies within the record if it is in persistent memory.
    boolean isInlineOnPmem() {
        return spec.on(StorageTier.PMEM).isInline() && !spec.isCollection();
    }

    /// Whether a value of so many bytes is read from where it is tagged to be, and not from its
    /// slot.
    boolean isOutside(StorageTier tier, double bytes) {
        return tier != StorageTier.DRAM && tier != StorageTier.PMEM && !StoredSize.isInSlot(bytes);
    }

    /// The bytes in persistent memory of a field that lies on a tier.
    long pmemBytes(StorageTier tier) {
        return StoredSize.inRecord(spec.on(tier))
                + switch (tier) {
                    case PMEM -> isInlineOnPmem() ? 0 : all(StoredSize.inPmem(wholeBytes()));
                    case REMOTE -> isOutside(tier, valueBytes) ? all(StoredSize.REMOTE_RECORD) : 0;
                    default -> 0;
                };
    }

    /// The bytes of a field on its tier, for tiers other than persistent memory.
    long bytesOn(StorageTier tier) {
        return switch (tier) {
            case DRAM -> HEAP_BYTES + wholeBytes();
            case PMEM -> 0;
            case REMOTE -> all(StoredSize.onRemote(wholeBytes()));
            default -> all(StoredSize.onDisk(wholeBytes()));
        };
    }

    private long all(long bytesOfOne) {
        return (long) Math.ceil(values * bytesOfOne);
    }

    private long wholeBytes() {
        return (long) Math.ceil(valueBytes);
    }

    /// Bytes of a single element of an array; of others, of the value.
    double elementBytes() {
        return spec.kind().isArray() ? spec.kind().width() : valueBytes;
    }
}
