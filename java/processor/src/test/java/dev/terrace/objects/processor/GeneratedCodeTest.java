package dev.terrace.objects.processor;

import static com.google.testing.compile.CompilationSubject.assertThat;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Objects;
import org.junit.jupiter.api.Test;

class GeneratedCodeTest {
    private static void compiles(String... sources) {
        assertThat(Sources.compile(sources)).succeededWithoutWarnings();
    }

    @Test
    void everyKindOfFieldCompilesWithoutWarnings() {
        compiles(
                """
                @Durable public class Person {
                    @Tier(PMEM) int age;
                    boolean open; byte b; short s; char c; long l; float f; double d;
                    Boolean boxedBoolean; Byte boxedByte; Short boxedShort;
                    Character boxedChar; Integer boxedInt;
                    Long boxedLong; Float boxedFloat; Double boxedDouble;
                    @Tier(DISK) @FixedLength(10_000) byte[] image;
                    @Tier({PMEM, DISK}) String name;
                    boolean[] booleans; byte[] bytes; short[] shorts; char[] chars;
                    int[] ints;
                    long[] longs; float[] floats; double[] doubles;
                    Color color;
                    @Embedded Address home;
                    Person boss;
                    List<Person> friends; List<String> words; List<byte[]> blobs;
                    Map<String, Long> counts; Map<Integer, Person> byNumber;
                    SortedMap<Long, Person> byTime;
                    NavigableMap<Character, Double> weights;
                    @Tier(DRAM) @Recompute("score") double score;
                    @Tier(DRAM) Map<String, List<Object>> cache;
                    @Tier(DRAM) Object anything; @Tier(DRAM) int counter;
                    @Tier(DRAM) int[] scratch;
                    static double score(DurablePerson person) { return person.getAge() * 2.0; }
                    enum Color { RED, GREEN }
                }
                """,
                """
                @Durable class Address {
                    String street; @Tier(DISK) int zip; @Embedded Geo geo; char floor;
                    @FixedLength(4) double[] bounds;
                    Person owner; List<String> notes; boolean isOpen; Person.Color paint;
                    @Tier(DRAM) long seen;
                    long size; float slope; Map<String, Person> people;
                }
                """,
                "record Geo(double lat, double lon) {}");
    }

    /// As TAGGING.md shows it.
    @Test
    void aClassInColumnsCompilesWithoutWarnings() {
        compiles(
                """
                @Durable
                @Columnar
                class Reading {
                    long time;
                    int sensor;
                    @FixedLength(12) double[] values;
                    static int copy(Cursor<DurableReading> cursor, long[] times) {
                        return DurableReading.copyTime(cursor, times, 0);
                    }
                }
                """);
    }

    @Test
    void bothWaysToNameTheGeneratedClassAreKnown() {
        compiles(
                """
                @Durable class Person {
                    int age; @Tier(DRAM) @Recompute("one") long a;
                    @Tier(DRAM) @Recompute("two") Integer b;
                    static long one(DurablePerson person) { return 1; }
                    static Integer two(com.acme.DurablePerson person) { return 2; }
                }
                """);
    }

    @Test
    void classesMayReferToEachOtherAcrossPackages() {
        compiles(
                "@Durable public class Person { public far.Friend friend; public"
                        + " List<far.Friend> friends; }",
                "package far; @Durable public class Friend { public com.acme.Person"
                        + " person; }");
    }

    @Test
    void compiledClassesMayBeReferredTo() {
        compiles(
                """
                @Durable public class Fan {
                    public dev.terrace.objects.processor.model.Person idol;
                    public Map<String,
                            dev.terrace.objects.processor.model.Person> others;
                }
                """);
    }

    @Test
    void recordsMayHaveAllTags() {
        compiles(
                """
                @Durable(formerly = "com.acme.Old") public record Row(
                        @Tier(DISK) @FixedLength(4) double[] values,
                        @Formerly({"a", "b"}) boolean isOpen,
                        @Embedded Cell cell,
                        @Tier(DRAM) @Recompute("sum") double sum) {
                    static double sum(DurableRow row) {
                        return row.getValues(0) + row.getValues(1);
                    }
                    record Cell(int x, Row row, @Tier(DRAM) Object held, @Embedded Inner inner) {}
                    @Durable public static class Inner { long id; }
                }
                """);
    }

    @Test
    void deprecatedClassesAndRawTypesInDramGiveNoWarnings() {
        compiles(
                """
                @Deprecated(forRemoval = true) @Durable class Person {
                    @Deprecated int age;
                    @SuppressWarnings("rawtypes") @Tier(DRAM) Map raw;
                    @Tier(DRAM) List<?>[] lists;
                    @Tier(DRAM) char letter; @Tier(DRAM) Person other;
                    @Tier(DRAM) DurableFriend friend;
                }
                """,
                "@Durable class Friend { int age; }");
    }

    @Test
    void namesOfTheLibraryAndOfJavaMayBeTaken() {
        compiles(
                """
                @Durable class Pool {
                    int aAt, a, type, typeAt, TYPE_AT, copier, pool, value, from,
                        copies, object, index, into;
                    int other, made; String string;
                    Lazy lazy; enum Lazy { A }
                }
                """);
    }

    @Test
    void emptyClassesAndEnumsAreAllowed() {
        compiles(
                "@Durable class Person { @Embedded None none; Never never; enum" + " Never {} }",
                "record None() {}");
        compiles("@Durable class Person {}");
    }

    @Test
    void aFieldOfATypeGeneratedElsewhereWaits() {
        compiles(
                "@Durable class Person { @Tier(DRAM) List<DurableFriend> friends;" + " int age; }",
                "@Durable class Friend { int age; }");
        compiles(
                "@Durable class Person { @Embedded Inner inner; }",
                "record Inner(@Tier(DRAM) DurableFriend friend) {}",
                "@Durable class Friend { int age; }");
    }

    @Test
    void typesMayBeMarkedAsNullable() {
        compiles(
                """
                @org.jspecify.annotations.NullMarked @Durable class Person {
                    private @org.jspecify.annotations.Nullable String name;
                    @Tier(DRAM) @org.jspecify.annotations.Nullable Object any;
                    byte @org.jspecify.annotations.Nullable [] bytes = {};
                    List<@org.jspecify.annotations.Nullable String> words = List.of();
                    Map<String,
                    @org.jspecify.annotations.Nullable Person> people = Map.of();
                    @org.jspecify.annotations.Nullable Person other;
                    @org.jspecify.annotations.Nullable Integer number;
                    Person.@org.jspecify.annotations.Nullable Color color;
                    enum Color { A }
                    @org.jspecify.annotations.Nullable String getName() { return name; }
                    void setName(@org.jspecify.annotations.Nullable String to) { name = to; }
                }
                """);
    }

    @Test
    void theCompilerAndBuildToolsFindTheProcessor() throws IOException {
        assertEquals(
                List.of(DurableProcessor.class.getName()),
                lines("services/javax.annotation.processing.Processor"));
        assertEquals(
                List.of(DurableProcessor.class.getName() + ",isolating"),
                lines("gradle/incremental.annotation.processors"));
    }

    private static List<String> lines(String resource) throws IOException {
        try (InputStream in = DurableProcessor.class.getResourceAsStream("/META-INF/" + resource)) {
            return new String(Objects.requireNonNull(in).readAllBytes(), StandardCharsets.UTF_8)
                    .lines()
                    .toList();
        }
    }
}
