package dev.terrace.objects.placement;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.ClassProfile;
import dev.terrace.objects.FieldKind;
import dev.terrace.objects.FieldProfile;
import dev.terrace.objects.FieldSpec;
import dev.terrace.objects.Profile;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.placement.Placement.Alternative;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/// Problems that are made of profiles, and what is said of their answers.
class PlacementProblemTest {
    private static final int OBJECTS = 1000;
    private static final int DRAM = 0;
    private static final int PMEM = 1;
    private static final int SSD = 2;

    private final Profile people = Profiles.people(OBJECTS);
    private final Solver solver = new BranchAndBoundSolver();

    private PlacementProblem problem(PlacementOptions options) {
        return PlacementProblem.of(people, Profiles.devices(), options);
    }

    private Choice choice(FieldName field, int device) {
        return choice(problem(PlacementOptions.defaults()), field, device);
    }

    private static Choice choice(PlacementProblem problem, FieldName name, int device) {
        return problem.fields().stream()
                .filter(field -> field.name().equals(name))
                .findFirst()
                .orElseThrow()
                .choices()
                .get(device);
    }

    @Test
    void aNumberTakesItsBytesOfTheRecordAndOnADiskOnlyItsSlot() {
        assertEquals(List.of(0L, 4L * OBJECTS, 0L), choice(Profiles.AGE, PMEM).bytes());
        assertEquals(List.of(0L, 8L * OBJECTS, 0L), choice(Profiles.AGE, SSD).bytes());
    }

    private static FieldProfile profile(FieldSpec field) {
        return new FieldProfile(field, 10, 10, 0, 0, 80, 80, 8, 0, 0);
    }

    /// A class with two numbers that share a buffer, and one that does not.
    private static Profile grouped(StorageTier... tags) {
        FieldSpec field = FieldSpec.of("one", FieldKind.LONG).on(tags);
        return new Profile(
                1000,
                List.of(
                        new ClassProfile(
                                "C",
                                OBJECTS,
                                List.of(
                                        profile(field.inGroup()),
                                        profile(
                                                FieldSpec.of("other", FieldKind.LONG)
                                                        .on(tags)
                                                        .inGroup()),
                                        profile(FieldSpec.of("alone", FieldKind.LONG).on(tags))))));
    }

    @Test
    void inAPoolThatIsThereFieldsThatShareABufferStay() {
        for (StorageTier[] tags :
                new StorageTier[][] {
                    {StorageTier.DISK}, {StorageTier.SSD}, {StorageTier.HDD, StorageTier.SSD}
                }) {
            Profile profile = grouped(tags);
            Placement live =
                    solver.solve(
                            PlacementProblem.of(
                                    profile,
                                    Profiles.devices(),
                                    PlacementOptions.defaults().live(profile)));
            assertEquals(Map.of("C", Map.of("alone", List.of(StorageTier.PMEM))), live.tiers());
            assertEquals(StorageTier.SSD, live.deviceOf(new FieldName("C", "one")).tier());
            Placement free =
                    solver.solve(
                            PlacementProblem.of(
                                    profile, Profiles.devices(), PlacementOptions.defaults()));
            assertEquals(3, free.tiers().get("C").size());
        }
    }

    @Test
    void fieldsThatShareABufferCountWithASlotEach() {
        Profile profile = grouped(StorageTier.SSD);
        PlacementProblem problem =
                PlacementProblem.of(profile, Profiles.devices(), PlacementOptions.defaults());
        // Header, extension, and three slots.
        assertEquals(48L * OBJECTS, problem.bytes(new int[] {SSD, SSD, SSD})[PMEM]);
    }

    @Test
    void aNumberThatLiesInItsSlotIsReadFromPersistentMemory() {
        assertEquals(
                choice(Profiles.AGE, PMEM).accessNanos(), choice(Profiles.AGE, SSD).accessNanos());
    }

    @Test
    void aLongValueTakesASlotOfPersistentMemoryBesideItsPlaceOnADisk() {
        assertEquals(
                List.of(0L, (8L + 10_912) * OBJECTS, 0L), choice(Profiles.IMAGE, PMEM).bytes());
        assertEquals(
                List.of(0L, 8L * OBJECTS, 10_912L * OBJECTS), choice(Profiles.IMAGE, SSD).bytes());
    }

    @Test
    void anArrayOfFixedLengthIsReadByTheElementWhereThatIsPossible() {
        double elements = 10 * OBJECTS * 100 + OBJECTS * 200;
        assertEquals(elements + OBJECTS * 200, choice(Profiles.POSITION, PMEM).accessNanos());
        double whole = 10 * OBJECTS * 10_000.0 + OBJECTS * 20_000;
        assertEquals(whole + OBJECTS * 20_000, choice(Profiles.POSITION, SSD).accessNanos());
        assertFalse(choice(Profiles.POSITION, DRAM).isAllowed());
    }

    @Test
    void aValueOnTheRemoteTierTakesARecordOfPersistentMemory() {
        PlacementProblem problem =
                PlacementProblem.of(
                        people,
                        List.of(
                                Profiles.devices().get(PMEM),
                                Device.of(
                                        StorageTier.REMOTE,
                                        CostTable.constant(1),
                                        CostTable.constant(1))),
                        PlacementOptions.defaults());
        assertEquals(
                List.of((8L + 32) * OBJECTS, 10_008L * OBJECTS),
                choice(problem, Profiles.IMAGE, 1).bytes());
    }

    @Test
    void referencesAndMarksOfEmbeddedObjectsStayInTheRecordAndAreNotTagged() {
        for (FieldName fixed : List.of(Profiles.BOSS, Profiles.HOME)) {
            assertTrue(choice(fixed, PMEM).isAllowed());
            assertFalse(choice(fixed, SSD).isAllowed());
            assertFalse(choice(fixed, DRAM).isAllowed());
        }
        Placement placement = solver.solve(problem(PlacementOptions.defaults()));
        assertEquals(
                List.of("age", "home.street", "image", "position", "score"),
                List.copyOf(placement.tiers().get(Profiles.PERSON).keySet()));
    }

    @Test
    void ourModelChargesAFailureOnceForAnObjectAndThePapersForEachAccess() {
        assertEquals(OBJECTS * 2000 * 0.01, choice(Profiles.SCORE, DRAM).failureNanos());
        PlacementProblem paper = problem(PlacementOptions.defaults().model(CostModel.PAPER));
        assertEquals(
                50 * OBJECTS * 2000 * 0.01, choice(paper, Profiles.SCORE, DRAM).failureNanos());
    }

    @Test
    void whatNothingComputesAgainIsKeptOutOfMemoryUnlessTheUserSaysSo() {
        assertEquals(
                "nothing computes it again when it is lost", choice(Profiles.AGE, DRAM).refusal());
        PlacementOptions said = PlacementOptions.defaults().mayBeLost(Profiles.AGE);
        assertTrue(choice(problem(said), Profiles.AGE, DRAM).isAllowed());
        assertEquals(StorageTier.DRAM, solver.solve(problem(said)).deviceOf(Profiles.AGE).tier());
        assertTrue(
                choice(
                                problem(
                                        PlacementOptions.defaults()
                                                .recompute(Profiles.AGE, StorageTier.DRAM, 1)),
                                Profiles.AGE,
                                DRAM)
                        .isAllowed());
        assertTrue(
                choice(
                                problem(PlacementOptions.defaults().model(CostModel.PAPER)),
                                Profiles.AGE,
                                DRAM)
                        .isAllowed());
    }

    @Test
    void rulesKeepFieldsOffDevices() {
        PlacementOptions options =
                PlacementOptions.defaults()
                        .durable(Profiles.SCORE)
                        .never(Profiles.AGE, StorageTier.PMEM)
                        .only(Profiles.STREET, StorageTier.DISK);
        Placement placement = solver.solve(problem(options));
        assertEquals(StorageTier.PMEM, placement.deviceOf(Profiles.SCORE).tier());
        assertEquals(StorageTier.SSD, placement.deviceOf(Profiles.AGE).tier());
        assertEquals(StorageTier.SSD, placement.deviceOf(Profiles.STREET).tier());
    }

    @Test
    void rulesThatContradictEachOtherAreNamed() {
        PlacementOptions options =
                PlacementOptions.defaults()
                        .durable(Profiles.SCORE)
                        .only(Profiles.SCORE, StorageTier.DRAM);
        InfeasibleException thrown =
                assertThrows(InfeasibleException.class, () -> solver.solve(problem(options)));
        assertTrue(
                thrown.getMessage()
                        .contains(
                                "dev.terrace.Person.score may lie nowhere (DRAM: a rule says that"
                                    + " it must be durable; PMEM: a rule keeps it off PMEM; SSD: a"
                                    + " rule keeps it off SSD)"),
                thrown.getMessage());
        assertTrue(thrown.missingBytes().isEmpty());
        assertThrows(
                IllegalArgumentException.class,
                () -> PlacementOptions.defaults().durable(Profiles.AGE).mayBeLost(Profiles.AGE));
    }

    @Test
    void aRuleOfAFieldThatIsNotThereIsRefused() {
        PlacementOptions options =
                PlacementOptions.defaults().durable(new FieldName(Profiles.PERSON, "ages"));
        String message =
                assertThrows(IllegalArgumentException.class, () -> problem(options)).getMessage();
        assertTrue(
                message.contains("dev.terrace.Person.ages")
                        && message.contains("dev.terrace.Person.age,"),
                message);
    }

    @Test
    void withoutPersistentMemoryThereIsNoPlaceForRecords() {
        assertThrows(
                IllegalArgumentException.class,
                () ->
                        PlacementProblem.of(
                                people,
                                Profiles.devices().subList(2, 3),
                                PlacementOptions.defaults()));
    }

    @Test
    void twoDevicesOfATierCannotBeToldApart() {
        Device ssd = Profiles.devices().get(SSD);
        Device other =
                new Device(
                        "other", ssd.tier(), 1, 0, true, false, false, "", ssd.read(), ssd.write());
        List<Device> devices = List.of(Profiles.devices().get(PMEM), ssd, other);
        assertThrows(
                IllegalArgumentException.class,
                () -> PlacementProblem.of(people, devices, PlacementOptions.defaults()));
    }

    /// Persistent memory has room for all but the images, to the byte; and for one byte less than
    /// that.
    @Test
    void theExplanationSaysWhatTheOthersCostAndWhatDoesNotFit() {
        Placement roomy =
                solver.solve(
                        problem(PlacementOptions.defaults().only(Profiles.IMAGE, StorageTier.SSD)));
        long needed = roomy.uses().get(PMEM).bytes();
        List<Device> devices =
                List.of(
                        Profiles.devices().get(DRAM),
                        Profiles.devices().get(PMEM).capacity(needed),
                        Profiles.devices().get(SSD).asSimulated());
        Placement placement =
                solver.solve(PlacementProblem.of(people, devices, PlacementOptions.defaults()));
        assertEquals(StorageTier.SSD, placement.deviceOf(Profiles.IMAGE).tier());
        Placement.Explanation image = placement.explain().get(1);
        assertEquals(Profiles.IMAGE, image.field());
        Alternative dram = image.alternatives().get(0);
        assertEquals("nothing computes it again when it is lost", dram.obstacle());
        Alternative pmem = image.alternatives().get(1);
        assertEquals(
                "does not fit: PMEM has " + 10_912 * OBJECTS + " bytes too few", pmem.obstacle());
        assertEquals(
                choice(Profiles.IMAGE, PMEM).nanos() - choice(Profiles.IMAGE, SSD).nanos(),
                pmem.differenceNanos());
        assertEquals("SSD (simulated)", image.device().label());
        Alternative score = placement.explain().get(2).alternatives().getFirst();
        assertTrue(
                score.obstacle().contains("PMEM has") && score.differenceNanos() > 0,
                score.toString());

        devices =
                List.of(
                        devices.get(DRAM),
                        devices.get(PMEM).capacity(needed - 1),
                        devices.get(SSD));
        PlacementProblem tight =
                PlacementProblem.of(
                        people,
                        devices,
                        PlacementOptions.defaults()
                                .only(Profiles.POSITION, StorageTier.PMEM)
                                .only(Profiles.STREET, StorageTier.SSD)
                                .only(Profiles.AGE, StorageTier.PMEM));
        long fewest =
                solver.solve(
                                PlacementProblem.of(
                                        people,
                                        Profiles.devices(),
                                        PlacementOptions.defaults()
                                                .only(Profiles.IMAGE, StorageTier.SSD)
                                                .only(Profiles.POSITION, StorageTier.PMEM)
                                                .only(Profiles.STREET, StorageTier.SSD)
                                                .only(Profiles.AGE, StorageTier.PMEM)))
                        .uses()
                        .get(PMEM)
                        .bytes();
        List<Device> tooSmall =
                List.of(
                        devices.get(DRAM),
                        devices.get(PMEM).capacity(fewest - 5),
                        devices.get(SSD));
        PlacementProblem infeasible =
                new PlacementProblem(tooSmall, tight.reservedBytes(), tight.fields());
        InfeasibleException thrown =
                assertThrows(InfeasibleException.class, () -> solver.solve(infeasible));
        assertEquals(5, thrown.missingBytes().get("PMEM"), thrown.getMessage());
        assertTrue(
                thrown.getMessage()
                        .contains("PMEM has room for " + (fewest - 5) + " bytes, 5 too few"),
                thrown.getMessage());
    }

    @Test
    void aNameMayBeAsShortAsItIsClear() {
        assertEquals(Profiles.AGE, FieldName.in(people, "age"));
        assertEquals(Profiles.STREET, FieldName.in(people, "home.street"));
        assertEquals(Profiles.AGE, FieldName.in(people, "Person.age"));
        assertEquals(Profiles.AGE, FieldName.in(people, "dev.terrace.Person.age"));
        assertEquals(Profiles.STREET, FieldName.in(people, "street"));
        assertThrows(IllegalArgumentException.class, () -> FieldName.in(people, "erson.age"));
    }

    @Test
    void aTableOfCostsIsLinearBetweenItsPointsAndBehindThem() {
        CostTable table =
                new CostTable(
                        List.of(
                                new CostTable.Point(8, 10),
                                new CostTable.Point(16, 30),
                                new CostTable.Point(32, 30),
                                new CostTable.Point(64, 94)));
        assertEquals(10, table.nanos(0));
        assertEquals(20, table.nanos(12));
        assertEquals(30, table.nanos(20));
        assertEquals(94 + 2 * 64, table.nanos(128));
        CostTable falling =
                new CostTable(List.of(new CostTable.Point(1, 10), new CostTable.Point(2, 5)));
        assertEquals(0, falling.nanos(100));
        assertThrows(IllegalArgumentException.class, () -> new CostTable(List.of()));
        assertThrows(
                IllegalArgumentException.class,
                () -> new CostTable(List.of(new CostTable.Point(2, 1), new CostTable.Point(2, 1))));
        assertThrows(IllegalArgumentException.class, () -> new CostTable.Point(1, Double.NaN));
    }

    @Test
    void aDeviceThatCannotBeIsRefused() {
        Device pmem = Profiles.devices().get(PMEM);
        assertThrows(IllegalArgumentException.class, () -> pmem.capacity(-1));
        assertThrows(IllegalArgumentException.class, () -> pmem.failure(1.5));
        assertThrows(
                IllegalArgumentException.class,
                () -> Device.of(StorageTier.DISK, pmem.read(), pmem.write()));
    }
}
