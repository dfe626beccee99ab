package dev.terrace.objects;

import java.util.List;
import org.jspecify.annotations.Nullable;

/// What the annotation processor makes of a class with a field of each kind.
final class DurablePerson extends DurableObject {
    enum Mood {
        GOOD,
        BAD
    }

    static final ObjectType<DurablePerson> TYPE =
            ObjectType.of(
                    "dev.terrace.objects.Person",
                    DurablePerson.class,
                    DurablePerson::new,
                    List.of(),
                    FieldSpec.of("age", FieldKind.INT),
                    FieldSpec.of("image", FieldKind.BYTES).on(StorageTier.DISK).orNull(),
                    FieldSpec.of("place", FieldKind.STRING).orNull(),
                    FieldSpec.of("name", FieldKind.STRING)
                            .on(StorageTier.PMEM, StorageTier.DISK)
                            .orNull(),
                    FieldSpec.of("score", FieldKind.DOUBLE).on(StorageTier.DRAM),
                    FieldSpec.of("height", FieldKind.SHORT).orNull(),
                    FieldSpec.of("row", FieldKind.DOUBLES).ofLength(12),
                    FieldSpec.of("friend", FieldKind.REFERENCE)
                            .to("dev.terrace.objects.Person")
                            .orNull(),
                    FieldSpec.of("mood", FieldKind.ENUM).among("Mood", "GOOD", "BAD").orNull(),
                    FieldSpec.of("balance", FieldKind.LONG).on(StorageTier.DISK),
                    FieldSpec.of("active", FieldKind.BOOLEAN));

    static DurablePerson create(Pool pool) {
        return pool.create(TYPE);
    }

    int getAge() {
        return getInt(0, AGE_AT);
    }

    void setAge(int age) {
        setInt(0, AGE_AT, age);
    }

    private static final int AGE_AT = TYPE.offset(0);
    private static final int ROW_AT = TYPE.offset(6);

    byte @Nullable [] getImage() {
        return getBytes(1, TYPE.offset(1));
    }

    boolean imageEquals(byte @Nullable [] image) {
        return equalsBytes(1, TYPE.offset(1), image);
    }

    void setImage(byte @Nullable [] image) {
        setBytes(1, TYPE.offset(1), image);
    }

    @Nullable String getPlace() {
        return getString(2, TYPE.offset(2));
    }

    boolean placeEquals(@Nullable String place) {
        return equalsString(2, TYPE.offset(2), place);
    }

    void setPlace(@Nullable String place) {
        setString(2, TYPE.offset(2), place);
    }

    @Nullable String getName() {
        return getString(3, TYPE.offset(3));
    }

    boolean nameEquals(@Nullable String name) {
        return equalsString(3, TYPE.offset(3), name);
    }

    void setName(@Nullable String name) {
        setString(3, TYPE.offset(3), name);
    }

    @Nullable Object getScore() {
        return getVolatile(4);
    }

    void setScore(double score) {
        setVolatile(4, score);
    }

    @Nullable Short getHeight() {
        return getBoxedShort(5, TYPE.offset(5));
    }

    void setHeight(@Nullable Short height) {
        setBoxedShort(5, TYPE.offset(5), height);
    }

    double @Nullable [] getRow() {
        return getDoubles(6, ROW_AT);
    }

    int copyRow(double[] into) {
        return copyDoubles(6, ROW_AT, 12, into);
    }

    void setRow(double[] row) {
        setDoubles(6, ROW_AT, row);
    }

    double getRow(int index) {
        return getDoubleAt(6, ROW_AT, 12, index);
    }

    void setRow(int index, double value) {
        setDoubleAt(6, ROW_AT, index, value);
    }

    @Nullable DurablePerson getFriend() {
        return getReference(7, TYPE.offset(7), TYPE);
    }

    void setFriend(@Nullable DurablePerson friend) {
        setReference(7, TYPE.offset(7), friend);
    }

    @Nullable Mood getMood() {
        return getEnum(8, TYPE.offset(8), Mood.values());
    }

    void setMood(@Nullable Mood mood) {
        setEnum(8, TYPE.offset(8), mood);
    }

    long getBalance() {
        return getLong(9, TYPE.offset(9));
    }

    void setBalance(long balance) {
        setLong(9, TYPE.offset(9), balance);
    }

    boolean isActive() {
        return getBoolean(10, TYPE.offset(10));
    }

    void setActive(boolean active) {
        setBoolean(10, TYPE.offset(10), active);
    }

    /// All that it holds, to compare.
    String contents() {
        return getAge()
                + " "
                + java.util.Arrays.hashCode(getImage())
                + " "
                + getPlace()
                + " "
                + getName()
                + " "
                + getHeight()
                + " "
                + java.util.Arrays.hashCode(getRow())
                + " "
                + getMood()
                + " "
                + getBalance()
                + " "
                + isActive();
    }
}
