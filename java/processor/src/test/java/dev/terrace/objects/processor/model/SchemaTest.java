package dev.terrace.objects.processor.model;

import static dev.terrace.objects.StorageTier.DISK;
import static dev.terrace.objects.StorageTier.DRAM;
import static dev.terrace.objects.StorageTier.PMEM;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.FieldKind;
import dev.terrace.objects.FieldSpec;
import dev.terrace.objects.ObjectType;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;

class SchemaTest {
    private static FieldSpec field(ObjectType<?> type, String name) {
        return type.fields().stream()
                .filter(each -> each.name().equals(name))
                .findFirst()
                .orElseThrow();
    }

    private static List<String> names(ObjectType<?> type) {
        return type.fields().stream().map(FieldSpec::name).toList();
    }

    private static boolean isPublic(Class<?> type, String method) {
        Method found =
                Arrays.stream(type.getDeclaredMethods())
                        .filter(each -> each.getName().equals(method))
                        .findFirst()
                        .orElseThrow();
        return Modifier.isPublic(found.getModifiers());
    }

    @Test
    void fieldsAreDescribedInTheOrderOfTheSource() {
        assertEquals("dev.terrace.objects.processor.model.Person", DurablePerson.TYPE.name());
        assertEquals(
                List.of("dev.terrace.objects.processor.model.Human"),
                DurablePerson.TYPE.formerly());
        List<String> expected =
                List.of(
                        "age",
                        "isMember",
                        "initial",
                        "luckyNumber",
                        "image",
                        "name",
                        "marks",
                        "color",
                        "home",
                        "home.street",
                        "home.zip",
                        "home.open",
                        "home.geo",
                        "home.geo.lat",
                        "home.geo.lon",
                        "home.bounds",
                        "home.owner",
                        "boss",
                        "friends",
                        "words",
                        "counts",
                        "byNumber",
                        "byTime",
                        "blobs",
                        "score",
                        "cache",
                        "visits");
        assertEquals(expected, names(DurablePerson.TYPE));
    }

    @Test
    void fieldsAreDescribedWithAllTheirTags() {
        ObjectType<DurablePerson> type = DurablePerson.TYPE;
        assertEquals(FieldSpec.of("age", FieldKind.INT), field(type, "age"));
        assertEquals(
                FieldSpec.of("luckyNumber", FieldKind.INT).orNull(), field(type, "luckyNumber"));
        assertEquals(
                FieldSpec.of("image", FieldKind.BYTES).ofLength(8).on(DISK).inGroup(),
                field(type, "image"));
        assertEquals(
                FieldSpec.of("name", FieldKind.STRING).orNull().on(PMEM, DISK).formerly("label"),
                field(type, "name"));
        assertEquals(
                FieldSpec.of("color", FieldKind.ENUM)
                        .among("dev.terrace.objects.processor.model.Person.Color", "RED", "GREEN")
                        .orNull(),
                field(type, "color"));
        assertEquals(
                FieldSpec.of("boss", FieldKind.REFERENCE).to(DurablePerson.TYPE.name()).orNull(),
                field(type, "boss"));
        assertEquals(
                "java.util.List<dev.terrace.objects.processor.model.Person>",
                field(type, "friends").target());
        assertEquals(
                "java.util.Map<java.lang.String, java.lang.Long>", field(type, "counts").target());
        assertEquals(
                "java.util.SortedMap<java.lang.String, byte[]>", field(type, "blobs").target());
        assertEquals(FieldSpec.of("score", FieldKind.DOUBLE).on(DRAM), field(type, "score"));
        assertEquals(
                FieldSpec.of("cache", FieldKind.REFERENCE).orNull().on(DRAM), field(type, "cache"));
    }

    @Test
    void embeddedFieldsTakeTheTierOfWhereTheyLie() {
        ObjectType<DurablePerson> type = DurablePerson.TYPE;
        assertEquals(FieldSpec.of("home", FieldKind.BOOLEAN), field(type, "home"));
        assertEquals(
                FieldSpec.of("home.street", FieldKind.STRING)
                        .orNull()
                        .on(DISK)
                        .inGroup()
                        .formerly("home.road"),
                field(type, "home.street"));
        assertEquals(FieldSpec.of("home.zip", FieldKind.INT), field(type, "home.zip"));
        assertEquals(
                FieldSpec.of("home.geo.lat", FieldKind.DOUBLE).on(DISK).inGroup(),
                field(type, "home.geo.lat"));
    }

    @Test
    void smallFieldsWithTheSameTiersAreGrouped() {
        assertEquals(
                List.of("pages", "year", "cover", "box.label", "box.weight", "grade", "binding"),
                DurableShelf.TYPE.fields().stream()
                        .filter(FieldSpec::grouped)
                        .map(FieldSpec::name)
                        .toList());
    }

    @Test
    void inheritedFieldsComeFirst() {
        assertEquals(
                List.of("id", "label", "weight", "spokes", "axle", "spare"),
                names(DurableWheel.TYPE));
        assertEquals(
                "dev.terrace.objects.processor.model.Wheel.Spare",
                field(DurableWheel.TYPE, "spare").target());
        assertEquals(
                "dev.terrace.objects.processor.model.Wheel.Spare", DurableWheelSpare.TYPE.name());
    }

    @Test
    void whatIsGeneratedIsAsVisibleAsWhatItIsFor() {
        assertTrue(Modifier.isPublic(DurablePerson.class.getModifiers()));
        assertTrue(Modifier.isFinal(DurablePerson.class.getModifiers()));
        assertFalse(Modifier.isPublic(DurableNode.class.getModifiers()));
        assertTrue(isPublic(DurablePerson.class, "getHomeStreet"));
        assertFalse(isPublic(DurablePerson.class, "getHomeGeo"));
    }

    @Test
    void booleansThatBeginWithIsKeepTheirName() {
        assertTrue(isPublic(DurablePerson.class, "isMember"));
        assertTrue(isPublic(DurablePerson.class, "setMember"));
        assertTrue(isPublic(DurableAddress.class, "isOpen"));
    }
}
