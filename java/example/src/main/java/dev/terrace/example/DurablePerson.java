package dev.terrace.example;

import dev.terrace.objects.DurableObject;
import dev.terrace.objects.FieldKind;
import dev.terrace.objects.FieldSpec;
import dev.terrace.objects.ObjectType;
import dev.terrace.objects.Pool;
import dev.terrace.objects.StorageTier;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/// A [Person] in a pool.
final class DurablePerson extends DurableObject {
    static final ObjectType<DurablePerson> TYPE = ObjectType.of(
            "dev.terrace.example.Person",
            DurablePerson.class,
            DurablePerson::new,
            List.of(),
            FieldSpec.of("age", FieldKind.INT),
            FieldSpec.of("place", FieldKind.STRING).orNull(),
            FieldSpec.of("name", FieldKind.STRING).on(StorageTier.PMEM, StorageTier.DISK).orNull(),
            FieldSpec.of("image", FieldKind.BYTES).on(StorageTier.DISK).ofLength(Person.IMAGE_BYTES),
            FieldSpec.of("score", FieldKind.DOUBLE).on(StorageTier.DRAM));

    private static final int AGE_AT = TYPE.offset(0);
    private static final int PLACE_AT = TYPE.offset(1);
    private static final int NAME_AT = TYPE.offset(2);
    private static final int IMAGE_AT = TYPE.offset(3);

    static DurablePerson create(Pool pool) {
        return pool.create(TYPE);
    }

    int getAge() {
        return getInt(0, AGE_AT);
    }

    void setAge(int age) {
        setInt(0, AGE_AT, age);
    }

    @Nullable String getPlace() {
        return getString(1, PLACE_AT);
    }

    void setPlace(@Nullable String place) {
        setString(1, PLACE_AT, place);
    }

    @Nullable String getName() {
        return getString(2, NAME_AT);
    }

    void setName(@Nullable String name) {
        setString(2, NAME_AT, name);
    }

    byte[] getImage() {
        return Objects.requireNonNull(getBytes(3, IMAGE_AT));
    }

    void setImage(byte[] image) {
        setBytes(3, IMAGE_AT, image);
    }

    double getScore() {
        Object known = getVolatile(4);
        if (known instanceof Double score) {
            return score;
        }
        double score = Person.score(this);
        setVolatile(4, score);
        return score;
    }
}
