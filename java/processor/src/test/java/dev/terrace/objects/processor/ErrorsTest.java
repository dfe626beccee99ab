package dev.terrace.objects.processor;

import static com.google.testing.compile.CompilationSubject.assertThat;

import com.google.testing.compile.Compilation;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/// Each error, with the line that it is reported at.
class ErrorsTest {
    private static final String FRIEND = "@Durable class Friend { int age; }";

    /// A line that ends in this is the one at fault.
    private static final String HERE = "// here";

    private static Arguments of(String message, String... sources) {
        return Arguments.of(message, List.of(sources));
    }

    private static Arguments field(String message, String field) {
        return of(message, person(field), FRIEND);
    }

    private static String person(String field) {
        return "@Durable class Person {\n    int before;\n    " + field + " " + HERE + "\n}";
    }

    static Stream<Arguments> unsupportedTypes() {
        return Stream.of(
                field("declare the field with the class of what it holds", "Object any;"),
                field("say List<String>", "@SuppressWarnings(\"rawtypes\") List raw;"),
                field("say Map<String, Long>", "@SuppressWarnings(\"rawtypes\") Map raw;"),
                field("does not say what it holds", "List<?> unknown;"),
                field("does not say what it holds", "List<? extends String> unknown;"),
                field("put the inner List into a @Durable class", "List<List<String>> nested;"),
                field(
                        "put the inner Map into a @Durable class",
                        "Map<String, Map<String, Long>> nested;"),
                field("use List<String>", "String[] texts;"),
                field("use one array and compute the index", "double[][] matrix;"),
                field("use byte[]", "List<int[]> arrays;"),
                field("use String with name()", "List<Thread.State> states;"),
                field(
                        "a key of a map is a String, a boxed value or one such as a UUID,"
                                + " not a Friend",
                        "Map<Friend, String> keys;"),
                field(
                        "a key of a map is a String, a boxed value or one such as a UUID,"
                                + " not a byte[]",
                        "SortedMap<byte[], String> keys;"),
                field("declare the field as Set", "HashSet<String> set;"),
                field("declare the field as SortedSet", "TreeSet<String> set;"),
                field("say Set<String>", "@SuppressWarnings(\"rawtypes\") Set raw;"),
                field(
                        "an element of a set is a String, a boxed value or one such as a UUID,"
                                + " not a Friend",
                        "Set<Friend> friends;"),
                field("an element of a set is", "SortedSet<byte[]> sorted;"),
                field("put the inner Set into a @Durable class", "List<Set<String>> sets;"),
                field("the elements of a set lie in PMEM always", "@Tier(DISK) Set<String> set;"),
                field("declare the field as List", "ArrayList<String> list;"),
                field(
                        "declare the field as SortedMap or NavigableMap",
                        "TreeMap<String, String> tree;"),
                field("use List", "Collection<String> some;"),
                field("a field may be null", "Optional<String> maybe;"),
                field("use String with toString() and parse()", "java.time.YearMonth month;"),
                field(
                        "use String with toString() and parse()",
                        "List<java.time.ZonedDateTime> times;"),
                field("@Embedded is for objects", "@Embedded UUID id;"),
                field("keep it in DRAM with @Tier(DRAM)", "java.net.URI address;"),
                of("tag the class with @Durable", person("Plain plain;"), "class Plain {}"),
                of(
                        "a reference leads to objects of exactly one class",
                        person("Base base;"),
                        "@Durable abstract class Base { int id; }"),
                of("tag the class with @Durable", person("List<Plain> list;"), "class Plain {}"),
                field(
                        "use the class that DurableFriend was generated for",
                        "DurableFriend friend;"));
    }

    static Stream<Arguments> tags() {
        return Stream.of(
                field("DRAM cannot be one of several tiers", "@Tier({PMEM, DRAM}) int x;"),
                field("@Tier names PMEM twice", "@Tier({PMEM, DISK, PMEM}) int x;"),
                field(
                        "DISK is the pool's SSD, or its HDD if it has no SSD, so that @Tier names a"
                                + " disk twice",
                        "@Tier({SSD, DISK}) long x;"),
                field("use DISK alone, or SSD and HDD", "@Tier({PMEM, DISK, HDD}) String x;"),
                field(
                        "@Tier(DISK) has no effect: a reference lies in the object's record",
                        "@Tier(DISK) Friend x;"),
                field("@Tier({PMEM, REMOTE}) has no effect", "@Tier({PMEM, REMOTE}) Friend x;"),
                field(
                        "@Tier(SSD) has no effect: a collection's tag says where its texts, bytes"
                                + " and other values of more than a word lie, and this one holds"
                                + " java.lang.Integer",
                        "@Tier(SSD) List<Integer> x;"),
                field(
                        "this one holds java.time.LocalDate, which is in PMEM always",
                        "@Tier(SSD) Map<UUID, java.time.LocalDate> x;"),
                field(
                        "Friend, which is in PMEM always. Remove the tag",
                        "@Tier(SSD) List<Friend> x;"),
                field("this one holds java.lang.Long", "@Tier(DISK) Map<String, Long> x;"),
                field("@Tier names no tier", "@Tier({}) int x;"),
                field(
                        "@FixedLength is for arrays of primitives, and this is a java.lang.String",
                        "@FixedLength(3) String x;"),
                field("a length is at least 1", "@FixedLength(0) int[] x;"),
                field("a length is at least 1", "@FixedLength(-5) int[] x;"),
                field("16777224 bytes, and at most 16777216", "@FixedLength(2097153) double[] x;"),
                field(
                        "@FixedLength says how an array is stored",
                        "@Tier(DRAM) @FixedLength(3) int[] x;"),
                field("@Apart has no effect", "@Apart int x;"),
                field("@Apart has no effect", "@Tier(DISK) @Apart String x;"),
                field("@Apart has no effect", "@Tier(DRAM) @Apart int x;"),
                field("@Apart has no effect", "@Tier(DISK) @FixedLength(257) @Apart byte[] x;"),
                field("@Apart has no effect", "@Apart Friend x;"),
                field("@Embedded says how an object is stored", "@Tier(DRAM) @Embedded Friend x;"),
                field(
                        "@Embedded is for objects of @Durable classes and records, and this is a"
                                + " int",
                        "@Embedded int x;"),
                field(
                        "@Embedded is for objects of @Durable classes and records",
                        "@Embedded List<String> x;"),
                field("@FixedLength is for arrays", "@Embedded @FixedLength(2) Friend x;"),
                field("@Recompute is for fields that are lost", "@Recompute(\"f\") int x;"),
                field(
                        "Person has no such method: add static int f(DurablePerson)",
                        "@Tier(DRAM) @Recompute(\"f\") int x;"),
                field(
                        "the method has to be static int f(DurablePerson)",
                        "@Tier(DRAM) @Recompute(\"f\") int x; static long f(DurablePerson p) {"
                                + " return 1; }"),
                field(
                        "the method has to be static int f(DurablePerson)",
                        "@Tier(DRAM) @Recompute(\"f\") int x; private static int f(DurablePerson p)"
                                + " { return 1; }"),
                field(
                        "the method has to be static int f(DurablePerson)",
                        "@Tier(DRAM) @Recompute(\"f\") int x; static int f(Person p) { return 1;"
                                + " }"),
                field(
                        "the method has to be",
                        "@Tier(DRAM) @Recompute(\"f\") int x; "
                                + "static int f(DurablePerson p) throws Exception { return 1; }"),
                field(
                        "Person has no such method",
                        "@Tier(DRAM) @Recompute(\"f\") int x; int f(DurablePerson p) { return 1;"
                                + " }"),
                of(
                        "x is recomputed, but the method has to be static int f(DurablePerson)",
                        "@Durable class Person extends Base { int y; } " + HERE,
                        "@Durable class Base { @Tier(DRAM) @Recompute(\"f\") int x; "
                                + "static int f(DurableBase b) { return 1; } }"),
                field("what the field was called before, not \"x\"", "@Formerly(\"x\") int x;"),
                field("that is the name of another field now", "@Formerly(\"before\") int x;"),
                field("static and transient fields are not stored", "@Tier(DISK) static int x;"),
                field(
                        "static and transient fields are not stored",
                        "@FixedLength(3) transient int[] x;"),
                of("claimed by x too", person("@Formerly(\"z\") int x, y;")),
                of(
                        "because Plain is not @Durable",
                        "class Plain {\n    @Tier(DISK) int x; " + HERE + "\n}"),
                of(
                        "Person > Inner > Person",
                        "@Durable class Person {\n    @Embedded Inner inner;\n}",
                        "@Durable class Inner {\n    @Embedded Person person; " + HERE + "\n}"),
                of(
                        "Person > Person",
                        "@Durable class Person {\n    @Embedded Person inner; " + HERE + "\n}"),
                of(
                        "its field x is recomputed from an object of its own",
                        person("@Embedded Inner inner;"),
                        "@Durable class Inner { @Tier(DRAM) @Recompute(\"f\") int x; "
                                + "static int f(DurableInner i) { return 1; } }"),
                of(
                        "Address cannot be embedded because of the errors in it",
                        person("@Embedded dev.terrace.objects.processor.model.Address home;")),
                of(
                        "score is recomputed, but Special has no such method: add static double"
                                + " score(DurableSpecial)",
                        "@Durable class Special extends dev.terrace.objects.processor.model.Base {}"
                                + " "
                                + HERE),
                of(
                        "Box is generic",
                        person("@Embedded Box<String> inner;"),
                        "record Box<T>(T held) {}"),
                of(
                        "Base is abstract",
                        person("@Embedded Base inner;"),
                        "@Durable abstract class Base { int x; }"),
                of(
                        "Inner cannot be embedded because of the errors in it",
                        person("@Embedded Inner inner;"),
                        "record Inner(Object any) {}"));
    }

    static Stream<Arguments> access() {
        return Stream.of(
                field(
                        "cannot read x: make it package-private, or add getX() and setX(int)",
                        "private int x;"),
                field(
                        "cannot write x: make it package-private, or add setX(int)",
                        "private int x; int getX() { return x; }"),
                field(
                        "cannot read x: make it package-private, or add getX()",
                        "private int x; void setX(int v) { x = v; }"),
                field(
                        "cannot read x",
                        "private int x; long getX() { return x; } void setX(int v) { x = v; }"),
                field(
                        "cannot read x",
                        "private int x; private int getX() { return x; } void setX(int v) { x = v;"
                                + " }"),
                field(
                        "cannot read x",
                        "private int x; static int getX() { return 1; } void setX(int v) { x = v;"
                                + " }"),
                field(
                        "cannot read x",
                        "private int x; int getX() throws Exception { return x; } void setX(int v)"
                                + " { x = v; }"),
                field(
                        "cannot write x",
                        "private int x; int getX() { return x; } void setX(long v) { x = 1; }"),
                field("x is final, so that it cannot be set", "final int x = 1;"),
                field("cannot see com.acme.Person.Hidden", "Hidden x; private enum Hidden { A }"),
                field("cannot see", "@Tier(DRAM) List<Hidden> x; private static class Hidden {}"),
                of(
                        "cannot read x",
                        "@Durable class Person extends far.Base { int y; }",
                        "package far; @Durable public class Base {\n    protected int x; "
                                + HERE
                                + "\n}"),
                of(
                        "Person needs a constructor without arguments",
                        "@Durable class Person { " + HERE + "\n    Person(int x) {}\n}"),
                of(
                        "Person needs a constructor without arguments",
                        "@Durable class Person { " + HERE + "\n    private Person() {}\n}"),
                of(
                        "Person needs a constructor without arguments",
                        "@Durable class Person { "
                                + HERE
                                + "\n    Person() throws java.io.IOException {}\n}"));
    }

    static Stream<Arguments> classes() {
        return Stream.of(
                of(
                        "a generic class cannot be @Durable",
                        "@Durable class Person<T> { " + HERE + "\n    int x;\n}"),
                of("an interface has no fields", "@Durable interface Person {} " + HERE),
                of(
                        "an enum's constants are stored as they are",
                        "@Durable enum Person { A } " + HERE),
                of("an interface has no fields", "@Durable @interface Person {} " + HERE),
                of(
                        "Inner needs an object of the class around it",
                        "class Person {\n    @Durable class Inner { int x; } " + HERE + "\n}"),
                of(
                        "the generated class cannot see Inner",
                        "class Person {\n    @Durable private static class Inner { int x; } "
                                + HERE
                                + "\n}"),
                of(
                        "the superclass Base has the field x, but is not @Durable",
                        "@Durable class Person extends Base { int y; } " + HERE,
                        "class Base { int x; }"),
                of(
                        "@Columnar has no effect, because Plain is not @Durable",
                        "@Columnar class Plain { int x; } " + HERE),
                of(
                        "@Columnar has no effect, because Base is abstract",
                        "@Durable @Columnar abstract class Base { int x; } " + HERE),
                of(
                        "choose a name that does not begin with Durable",
                        "@Durable class DurableThing { int x; } " + HERE),
                of(
                        "formerly is what the class was called before, not \"com.acme.Person\"",
                        "@Durable(formerly = \"com.acme.Person\") class Person { int x; } " + HERE),
                of(
                        "the class DurablePerson to be generated exists already",
                        "@Durable class Person { int x; } " + HERE,
                        "class DurablePerson {}"));
    }

    static Stream<Arguments> names() {
        return Stream.of(
                of(
                        "Name and name differ only in upper and lower case",
                        "@Durable class Person {\n    int name;\n    int Name; " + HERE + "\n}"),
                of(
                        "x is also a field of a superclass",
                        "@Durable class Person extends Base {\n    int x; " + HERE + "\n}",
                        "@Durable class Base { int x; }"),
                field("getClass() of field Class is one that Object has already", "int Class;"),
                field(
                        "isAlive() of field alive is one that DurableObject has already",
                        "boolean alive;"),
                of(
                        "getXLength() of field xLength is one that the field x has already",
                        "@Durable class Person {\n    int[] x;\n    int xLength; " + HERE + "\n}"),
                of(
                        "isOpen() of field open is one that the field isOpen has already",
                        "@Durable class Person {\n    boolean isOpen;\n    boolean open; "
                                + HERE
                                + "\n}"),
                of(
                        "getHomeZip() of field homeZip is one that the field home.zip has already",
                        "@Durable class Person {\n    @Embedded Home home;\n    int homeZip; "
                                + HERE
                                + "\n}",
                        "record Home(int zip) {}"),
                of(
                        "getHomeZip() of field home.zip is one that the field homeZip has already",
                        "@Durable class Person {\n    int homeZip;\n    @Embedded Home home; "
                                + HERE
                                + "\n}",
                        "record Home(int zip) {}"));
    }

    @ParameterizedTest
    @MethodSource({"unsupportedTypes", "tags", "access", "classes", "names"})
    void isReportedWhereItIs(String message, List<String> sources) {
        Compilation compilation = Sources.compile(sources.toArray(String[]::new));
        String culprit =
                sources.stream().filter(each -> each.contains(HERE)).findFirst().orElseThrow();
        List<String> lines = culprit.lines().toList();
        int line =
                1
                        + IntStream.range(0, lines.size())
                                .filter(i -> lines.get(i).contains(HERE))
                                .findFirst()
                                .orElseThrow();
        assertThat(compilation).failed();
        assertThat(compilation)
                .hadErrorContaining(message)
                .inFile(Sources.file(culprit))
                .onLine(line);
    }

    @Test
    void allErrorsAreReportedAtOnceAndEachOnce() {
        Compilation compilation =
                Sources.compile(
                        "@Durable class Person extends Base { Object a; @Tier({}) int b; private"
                                + " int c; }",
                        "@Durable class Base { Optional<String> id; }");
        assertThat(compilation).failed();
        assertThat(compilation).hadErrorCount(4);
    }

    @Test
    void anUnknownTierIsLeftToTheCompiler() {
        Compilation compilation =
                Sources.compile("@Durable class Person {\n    @Tier(TAPE) int x;\n}");
        assertThat(compilation).failed();
        assertThat(compilation)
                .hadErrorContaining("must be an enum constant")
                .inFile(Sources.file("class Person {}"))
                .onLine(2);
    }

    @Test
    void anUnknownTypeIsLeftToTheCompiler() {
        Compilation compilation =
                Sources.compile("@Durable class Person {\n    Missing missing;\n}");
        assertThat(compilation).failed();
        assertThat(compilation).hadErrorCount(1);
        assertThat(compilation)
                .hadErrorContaining("cannot find symbol")
                .inFile(Sources.file("class Person {}"))
                .onLine(2);
    }
}
