package dev.terrace.objects.placement;

import dev.terrace.objects.ClassProfile;
import dev.terrace.objects.FieldKind;
import dev.terrace.objects.FieldProfile;
import dev.terrace.objects.FieldSpec;
import dev.terrace.objects.Profile;
import dev.terrace.objects.StorageTier;
import java.util.List;

/// A profile of people who are searched by age and place, and seldom looked at.
final class Profiles {
    static final String PERSON = "dev.terrace.Person";
    static final FieldName AGE = new FieldName(PERSON, "age");
    static final FieldName IMAGE = new FieldName(PERSON, "image");
    static final FieldName SCORE = new FieldName(PERSON, "score");
    static final FieldName POSITION = new FieldName(PERSON, "position");
    static final FieldName BOSS = new FieldName(PERSON, "boss");
    static final FieldName HOME = new FieldName(PERSON, "home");
    static final FieldName STREET = new FieldName(PERSON, "home.street");

    private Profiles() {}

    /// Of so many people.
    static Profile people(long objects) {
        return new Profile(
                1_000_000,
                List.of(
                        new ClassProfile(
                                PERSON,
                                objects,
                                List.of(
                                        field(
                                                FieldSpec.of("age", FieldKind.INT),
                                                100 * objects,
                                                objects,
                                                4),
                                        field(
                                                FieldSpec.of("image", FieldKind.BYTES)
                                                        .on(StorageTier.DISK)
                                                        .orNull(),
                                                objects / 10,
                                                objects,
                                                10_000),
                                        new FieldProfile(
                                                FieldSpec.of("score", FieldKind.DOUBLE)
                                                        .on(StorageTier.DRAM),
                                                50 * objects,
                                                0,
                                                0,
                                                0,
                                                400 * objects,
                                                0,
                                                0,
                                                objects,
                                                objects * 2000),
                                        new FieldProfile(
                                                FieldSpec.of("position", FieldKind.DOUBLES)
                                                        .ofLength(3),
                                                0,
                                                objects,
                                                10 * objects,
                                                objects,
                                                0,
                                                24 * objects,
                                                24,
                                                0,
                                                0),
                                        field(
                                                FieldSpec.of("boss", FieldKind.REFERENCE)
                                                        .to(PERSON)
                                                        .orNull(),
                                                objects,
                                                objects,
                                                8),
                                        field(
                                                FieldSpec.of("home", FieldKind.BOOLEAN),
                                                objects,
                                                objects,
                                                1),
                                        field(
                                                FieldSpec.of("home.street", FieldKind.STRING)
                                                        .orNull(),
                                                objects,
                                                objects,
                                                20)))));
    }

    static FieldProfile field(FieldSpec spec, long reads, long writes, double bytes) {
        return new FieldProfile(
                spec,
                reads,
                writes,
                0,
                0,
                (long) (reads * bytes),
                (long) (writes * bytes),
                bytes,
                0,
                0);
    }

    /// Memory, persistent memory and a disk, with costs that are easy to reckon with.
    static List<Device> devices() {
        return List.of(
                Device.of(StorageTier.DRAM, CostTable.constant(10), CostTable.constant(10))
                        .failure(0.01),
                Device.of(StorageTier.PMEM, CostTable.constant(100), CostTable.constant(200)),
                Device.of(StorageTier.SSD, CostTable.constant(10_000), CostTable.constant(20_000)));
    }
}
