package dev.terrace.objects.placement;

import dev.terrace.objects.DurableObject;
import dev.terrace.objects.FieldKind;
import dev.terrace.objects.FieldSpec;
import dev.terrace.objects.ObjectType;
import dev.terrace.objects.StorageTier;
import java.util.List;
import java.util.Objects;

/// An object whose accesses are measured. It has the form that the annotation processor generates
/// for a class with a number and bytes on one tier.
final class Probed extends DurableObject {
    private static final int NUMBER = 0;
    private static final int BYTES = 1;

    private final StorageTier tier;
    private final int numberAt;

    private Probed(StorageTier tier) {
        this.tier = tier;
        numberAt = tier == StorageTier.PMEM ? on(tier).offset(NUMBER) : -1;
    }

    /// The class whose fields lie on this tier.
    static ObjectType<Probed> on(StorageTier tier) {
        return Types.of(tier);
    }

    /// Made when it is first needed, once for each tier.
    private static final class Types {
        private static final ObjectType<?>[] ALL = new ObjectType<?>[StorageTier.values().length];

        @SuppressWarnings("unchecked")
        static synchronized ObjectType<Probed> of(StorageTier tier) {
            ObjectType<?> known = ALL[tier.ordinal()];
            if (known == null) {
                known =
                        ObjectType.of(
                                Probed.class.getName() + tier,
                                Probed.class,
                                () -> new Probed(tier),
                                List.of(),
                                FieldSpec.of("number", FieldKind.LONG).on(tier),
                                FieldSpec.of("bytes", FieldKind.BYTES).on(tier).orNull());
                ALL[tier.ordinal()] = known;
            }
            return (ObjectType<Probed>) known;
        }
    }

    long getNumber() {
        return tier == StorageTier.DRAM
                ? (long) Objects.requireNonNull(getVolatile(NUMBER))
                : getLong(NUMBER, numberAt);
    }

    void setNumber(long number) {
        if (tier == StorageTier.DRAM) {
            setVolatile(NUMBER, number);
        } else {
            setLong(NUMBER, numberAt, number);
        }
    }

    byte[] getBytes() {
        Object bytes = tier == StorageTier.DRAM ? getVolatile(BYTES) : getBytes(BYTES, -1);
        return (byte[]) Objects.requireNonNull(bytes);
    }

    void setBytes(byte[] bytes) {
        if (tier == StorageTier.DRAM) {
            setVolatile(BYTES, bytes);
        } else {
            setBytes(BYTES, -1, bytes);
        }
    }
}
