package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.internal.store.Headers;
import dev.terrace.objects.internal.store.References;
import dev.terrace.objects.internal.store.Store;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.Set;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// Builds of one program use one pool in any order, one after the other and at the same time: each
/// reads what was set last, by whichever build, or is refused.
///
/// Longer than 600 lines: two tests share the builds, their histories and what each must read.
class SkewTest {
    private static final PoolOptions SMALL = PoolOptions.defaults().extents(1 << 20);
    private static final int OBJECTS = 3;
    private static final int STEPS = 40;
    private static final boolean IS_LONG = Boolean.getBoolean("terrace.long");
    private static final int SEEDS = IS_LONG ? 200 : 6;
    private static final int CHAINS = IS_LONG ? 5000 : 100;

    @TempDir(factory = InMemory.class)
    Path dir;

    enum Letter {
        A,
        B,
        C,
        D
    }

    /// A field of some build: the same number in all builds.
    private record Field(int number, FieldSpec spec) {}

    /// A class as it is in some build.
    private static final class Build {
        final String name;
        final List<String> formerly;
        final List<Field> fields;
        final ObjectType<Handle> type;

        Build(String name, List<String> formerly, List<Field> fields) {
            this.name = name;
            this.formerly = formerly;
            this.fields = fields;
            FieldSpec[] specs = fields.stream().map(Field::spec).toArray(FieldSpec[]::new);
            type = ObjectType.of(name, Handle.class, Handle::new, formerly, specs);
        }

        /// The same, with another field of some number.
        Build with(int number, UnaryOperator<FieldSpec> change) {
            return new Build(
                    name,
                    formerly,
                    fields.stream()
                            .map(field ->
                                    field.number == number
                                            ? new Field(number, change.apply(field.spec))
                                            : field)
                            .toList());
        }

        @Override
        public String toString() {
            return name + fields.stream().map(Field::spec).toList();
        }
    }

    /// What the generated class of any build does.
    static final class Handle extends DurableObject {
        private int at(int field) {
            return mapping().type.offset(field);
        }

        private FieldSpec spec(int field) {
            return mapping().field(field);
        }

        private Letter[] letters(int field) {
            return spec(field).constants().stream().map(Letter::valueOf).toArray(Letter[]::new);
        }

        @Nullable Object get(int field) {
            boolean isBoxed = spec(field).nullable();
            return switch (spec(field).kind()) {
                case BYTE -> getByte(field, at(field));
                case SHORT -> getShort(field, at(field));
                case INT ->
                        isBoxed
                                ? (Object) getBoxedInt(field, at(field))
                                : (Object) getInt(field, at(field));
                case LONG ->
                        isBoxed
                                ? (Object) getBoxedLong(field, at(field))
                                : (Object) getLong(field, at(field));
                case ENUM -> getEnum(field, at(field), letters(field));
                case STRING -> getString(field, at(field));
                case LONGS ->
                        Arrays.stream(Objects.requireNonNull(getLongs(field, at(field))))
                                .boxed()
                                .toList();
                default -> throw new AssertionError(spec(field));
            };
        }

        /// Sets a field to something new, and returns what.
        @Nullable Object set(int field, Random random) {
            int number = random.nextInt(100);
            boolean isNull = spec(field).nullable() && random.nextInt(4) == 0;
            boolean isBoxed = spec(field).nullable();
            switch (spec(field).kind()) {
                case BYTE -> setByte(field, at(field), (byte) number);
                case SHORT -> setShort(field, at(field), (short) number);
                case INT -> {
                    if (isBoxed) {
                        setBoxedInt(field, at(field), isNull ? null : number);
                    } else {
                        setInt(field, at(field), number);
                    }
                }
                case LONG -> {
                    if (isBoxed) {
                        setBoxedLong(field, at(field), isNull ? null : (long) number);
                    } else {
                        setLong(field, at(field), number);
                    }
                }
                case ENUM -> {
                    Letter letter = letters(field)[number % letters(field).length];
                    setEnum(field, at(field), isNull ? null : letter);
                    return isNull ? null : letter;
                }
                case STRING -> {
                    String text = "text " + number + " of some length";
                    setString(field, at(field), isNull ? null : text);
                    return isNull ? null : text;
                }
                case LONGS -> {
                    setLongs(field, at(field), LongStreams.from(number));
                    setLongAt(field, at(field), 1, number);
                    return List.of((long) number, (long) number, (long) number);
                }
                default -> throw new AssertionError(spec(field));
            }
            return isNull ? null : number;
        }
    }

    private static final class LongStreams {
        static long[] from(int number) {
            return new long[] {number, -number, number};
        }
    }

    private static final int NUMBER = 0;
    private static final int LETTER = 1;
    private static final int TEXT = 2;
    private static final int MAYBE = 3;
    private static final int FAR = 4;
    private static final int ROW = 5;

    private static Build first() {
        return new Build(
                "Thing",
                List.of(),
                List.of(
                        new Field(NUMBER, FieldSpec.of("number", FieldKind.INT)),
                        new Field(
                                LETTER,
                                FieldSpec.of("letter", FieldKind.ENUM)
                                        .among("Letter", "A", "B")
                                        .orNull()),
                        new Field(
                                TEXT,
                                FieldSpec.of("text", FieldKind.STRING)
                                        .on(StorageTier.PMEM, StorageTier.DISK)
                                        .orNull()),
                        new Field(MAYBE, FieldSpec.of("maybe", FieldKind.INT).orNull()),
                        new Field(FAR, FieldSpec.of("far", FieldKind.SHORT).on(StorageTier.DISK)),
                        new Field(ROW, FieldSpec.of("row", FieldKind.LONGS).ofLength(3))));
    }

    /// What becomes of a build that an older or a newer one has left its objects to.
    private enum Fate {
        WORKS,
        /// Some values are not for it.
        WORKS_BUT_FOR_VALUES,
        IS_REFUSED
    }

    private static FieldSpec ofKind(FieldSpec field, FieldKind kind) {
        return new FieldSpec(
                field.name(),
                kind,
                field.fixedLength(),
                field.nullable(),
                field.tiers(),
                field.target(),
                field.constants(),
                field.formerly(),
                field.grouped());
    }

    private static FieldSpec notNull(FieldSpec field) {
        return new FieldSpec(
                field.name(),
                field.kind(),
                field.fixedLength(),
                false,
                field.tiers(),
                field.target(),
                field.constants(),
                field.formerly(),
                field.grouped());
    }

    private static FieldSpec renamed(FieldSpec field) {
        List<String> before =
                Stream.concat(Stream.of(field.name()), field.formerly().stream()).toList();
        return new FieldSpec(
                field.name() + "_",
                field.kind(),
                field.fixedLength(),
                field.nullable(),
                field.tiers(),
                field.target(),
                field.constants(),
                before,
                field.grouped());
    }

    /// The same build, with the fields that may be grouped on one disk.
    private static Build ofFarFields(Build build, UnaryOperator<FieldSpec> change) {
        UnaryOperator<FieldSpec> onDisk = field -> change.apply(field.on(StorageTier.DISK));
        return build.with(FAR, onDisk).with(TEXT, onDisk).with(MAYBE, onDisk);
    }

    private static FieldSpec among(FieldSpec field, Stream<String> constants) {
        return field.among("Letter", constants.distinct().toArray(String[]::new));
    }

    private static FieldKind wider(FieldKind kind) {
        return switch (kind) {
            case BYTE -> FieldKind.SHORT;
            case SHORT -> FieldKind.INT;
            default -> FieldKind.LONG;
        };
    }

    private static FieldKind narrower(FieldKind kind) {
        return switch (kind) {
            case LONG -> FieldKind.INT;
            case INT -> FieldKind.SHORT;
            default -> FieldKind.BYTE;
        };
    }

    /// What may be different in the next build. Applied to the first build, it is seen in all that
    /// are made of it.
    private enum Change {
        NOTHING(Fate.WORKS, Fate.WORKS, build -> build),
        FIELD_ADDED(
                Fate.WORKS,
                Fate.WORKS,
                build -> {
                    List<Field> fields = new ArrayList<>(build.fields);
                    int number =
                            10 + (int) fields.stream().filter(field -> field.number >= 10).count();
                    fields.add(
                            1, new Field(number, FieldSpec.of("added" + number, FieldKind.LONG)));
                    return new Build(build.name, build.formerly, fields);
                }),
        FIELD_REMOVED(
                Fate.WORKS,
                Fate.WORKS,
                build ->
                        new Build(
                                build.name,
                                build.formerly,
                                build.fields.stream()
                                        .filter(field -> field.number != TEXT)
                                        .toList())),
        FIELDS_MADE_A_SUPERCLASS(
                Fate.WORKS,
                Fate.WORKS,
                build -> new Build(build.name, build.formerly, build.fields.reversed())),
        FIELD_WIDENED(
                Fate.IS_REFUSED,
                Fate.WORKS,
                build -> build.with(NUMBER, field -> ofKind(field, wider(field.kind())))),
        FAR_FIELD_WIDENED(
                Fate.IS_REFUSED,
                Fate.WORKS,
                build -> build.with(FAR, field -> ofKind(field, wider(field.kind())))),
        FIELD_THAT_MAY_BE_NULL_WIDENED(
                Fate.IS_REFUSED,
                Fate.WORKS,
                build -> build.with(MAYBE, field -> ofKind(field, FieldKind.LONG))),
        FIELD_NARROWED(
                Fate.WORKS,
                Fate.IS_REFUSED,
                build -> build.with(NUMBER, field -> ofKind(field, narrower(field.kind())))),
        FIELD_OF_ANOTHER_KIND(
                Fate.WORKS,
                Fate.IS_REFUSED,
                build -> build.with(FAR, field -> ofKind(field, FieldKind.STRING).orNull())),
        ARRAY_OF_ANOTHER_LENGTH(
                Fate.WORKS, Fate.IS_REFUSED, build -> build.with(ROW, field -> field.ofLength(4))),
        FIELDS_GROUPED(Fate.WORKS, Fate.WORKS, build -> ofFarFields(build, FieldSpec::inGroup)),
        FIELDS_APART(Fate.WORKS, Fate.WORKS, build -> ofFarFields(build, field -> field)),
        FIELD_RENAMED(Fate.IS_REFUSED, Fate.WORKS, build -> build.with(NUMBER, SkewTest::renamed)),
        FIELD_RENAMED_AND_WIDENED(
                Fate.IS_REFUSED,
                Fate.WORKS,
                build -> build.with(NUMBER, field -> renamed(ofKind(field, wider(field.kind()))))),
        TEXT_RENAMED(Fate.IS_REFUSED, Fate.WORKS, build -> build.with(TEXT, SkewTest::renamed)),
        CLASS_RENAMED(
                Fate.IS_REFUSED,
                Fate.WORKS,
                build ->
                        new Build(
                                build.name + "_",
                                Stream.concat(Stream.of(build.name), build.formerly.stream())
                                        .toList(),
                                build.fields)),
        CONSTANT_ADDED(
                Fate.WORKS_BUT_FOR_VALUES,
                Fate.WORKS,
                build ->
                        build.with(
                                LETTER,
                                field ->
                                        among(
                                                field,
                                                Stream.concat(
                                                        field.constants().stream(),
                                                        Stream.of("C"))))),
        CONSTANT_ADDED_IN_FRONT(
                Fate.WORKS_BUT_FOR_VALUES,
                Fate.WORKS,
                build ->
                        build.with(
                                LETTER,
                                field ->
                                        among(
                                                field,
                                                Stream.concat(
                                                        Stream.of("D"),
                                                        field.constants().stream())))),
        CONSTANT_REMOVED(
                Fate.WORKS,
                Fate.WORKS_BUT_FOR_VALUES,
                build ->
                        build.with(
                                LETTER,
                                field ->
                                        among(
                                                field,
                                                field.constants().stream()
                                                        .filter(name -> !name.equals("A"))))),
        CONSTANTS_REORDERED(
                Fate.WORKS,
                Fate.WORKS,
                build ->
                        build.with(
                                LETTER,
                                field -> among(field, field.constants().reversed().stream()))),
        TO_DISK(
                Fate.WORKS,
                Fate.WORKS,
                build -> build.with(NUMBER, field -> field.on(StorageTier.DISK))),
        ENUM_TO_DISK(
                Fate.WORKS,
                Fate.WORKS,
                build -> build.with(LETTER, field -> field.on(StorageTier.DISK))),
        TO_PMEM(
                Fate.WORKS,
                Fate.WORKS,
                build ->
                        build.with(FAR, field -> field.on(StorageTier.PMEM))
                                .with(TEXT, field -> field.on(StorageTier.PMEM))),
        TO_DRAM(
                Fate.WORKS,
                Fate.WORKS,
                build -> build.with(NUMBER, field -> field.on(StorageTier.DRAM))),
        MAY_BE_NULL(
                Fate.WORKS_BUT_FOR_VALUES,
                Fate.WORKS_BUT_FOR_VALUES,
                build -> build.with(NUMBER, FieldSpec::orNull)),
        MAY_NOT_BE_NULL(
                Fate.WORKS_BUT_FOR_VALUES,
                Fate.WORKS_BUT_FOR_VALUES,
                build -> build.with(MAYBE, SkewTest::notNull));

        final Fate older;
        final Fate newer;
        final UnaryOperator<Build> next;

        Change(Fate older, Fate newer, UnaryOperator<Build> next) {
            this.older = older;
            this.newer = newer;
            this.next = next;
        }
    }

    /// What was set in objects, and never was.
    private static final class Model {
        private final List<Map<Integer, @Nullable Object>> objects = new ArrayList<>();

        void expect(int object, Field field, @Nullable Object value, String what) {
            Map<Integer, @Nullable Object> values = objects.get(object);
            Object expected = values.get(field.number);
            if (values.containsKey(field.number)) {
                assertEquals(plain(expected), plain(value), what);
            } else if (value != null) {
                List<Long> zeros = List.of(0L, 0L, 0L);
                assertTrue(
                        plain(value).equals("0") || value.equals(zeros),
                        () -> what + " was never set, and is " + value);
            }
        }

        private static String plain(@Nullable Object value) {
            return value instanceof Number number
                    ? Long.toString(number.longValue())
                    : String.valueOf(value);
        }
    }

    /// Builds that use one pool, and what they have set in it.
    private final class Play {
        final List<Build> builds;
        final Random random;
        final Path place;
        final Model model = new Model();
        final List<String> done = new ArrayList<>();
        int refused;
        int unbound;
        int looks;

        Play(List<Build> builds, long seed) throws IOException {
            this.builds = builds;
            random = new Random(seed);
            place = Files.createTempDirectory(dir, "pool");
        }

        private void create(Pool pool, Build build) {
            int object = model.objects.size();
            try {
                Handle made = pool.create(build.type);
                pool.setRoot("object " + object, made);
                model.objects.add(new HashMap<>());
                done.add("created by " + builds.indexOf(build));
            } catch (SchemaMismatchException e) {
                refused++;
            }
        }

        /// A handle; null if the build is refused.
        @Nullable Handle bind(Pool pool, Build build, int object) {
            try {
                return Objects.requireNonNull(pool.root("object " + object, build.type).get());
            } catch (SchemaMismatchException e) {
                unbound++;
                done.add(builds.indexOf(build) + " is refused");
                return null;
            }
        }

        void set(Handle handle, Build build, int object) {
            set(handle, build, object, random.nextInt(build.fields.size()));
        }

        private void set(Handle handle, Build build, int object, int field) {
            Field which = build.fields.get(field);
            if (!which.spec.isVolatile()) {
                try {
                    Object value = handle.set(field, random);
                    model.objects.get(object).put(which.number, value);
                    done.add(
                            builds.indexOf(build)
                                    + " set "
                                    + which.spec.name()
                                    + " of "
                                    + object
                                    + " to "
                                    + value);
                } catch (SchemaMismatchException e) {
                    refused++;
                }
            }
        }

        void look(Handle handle, Build build, int object) {
            for (int field = 0; field < build.fields.size(); field++) {
                Field which = build.fields.get(field);
                if (!which.spec.isVolatile()) {
                    try {
                        Object value = handle.get(field);
                        looks++;
                        model.expect(
                                object,
                                which,
                                value,
                                builds.indexOf(build)
                                        + " reads "
                                        + which.spec.name()
                                        + " of "
                                        + object
                                        + ": "
                                        + done
                                        + " "
                                        + builds);
                    } catch (SchemaMismatchException e) {
                        refused++;
                    }
                }
            }
        }

        /// A build opens the pool, and looks at and sets what there is.
        void meets(Fate fate, Build build) throws IOException {
            refused = 0;
            unbound = 0;
            int before = looks;
            try (Pool pool = Pool.open(place, SMALL)) {
                act(pool, build);
                act(pool, build);
                if (fate == Fate.IS_REFUSED) {
                    SchemaMismatchException e =
                            assertThrows(
                                    SchemaMismatchException.class, () -> pool.cursor(build.type));
                    assertTrue(
                            e.getMessage().startsWith(build.name + " is not what " + place),
                            e::getMessage);
                    assertTrue(e.getMessage().contains("in the pool"), e::getMessage);
                }
            }
            assertEquals(fate == Fate.IS_REFUSED, unbound > 0, done::toString);
            assertEquals(fate != Fate.IS_REFUSED, looks > before, done::toString);
            assertTrue(fate != Fate.WORKS || refused == 0, done::toString);
        }

        /// One build after the other opens the pool.
        void takeTurns(int turns) throws IOException {
            for (int turn = 0; turn < turns; turn++) {
                Build build =
                        builds.get(turn < builds.size() ? turn : random.nextInt(builds.size()));
                try (Pool pool = Pool.open(place, SMALL)) {
                    act(pool, build);
                    assertEquals(List.of(), pool.check().problems(), done::toString);
                }
            }
        }

        /// Each build in turn sets all fields of one object.
        void setAllInTurn(int turns) throws IOException {
            try (Pool pool = Pool.open(place, SMALL)) {
                create(pool, builds.getFirst());
                for (int turn = 0; turn < turns; turn++) {
                    Build build = builds.get(turn % builds.size());
                    Handle handle = bind(pool, build, 0);
                    for (int field = 0; handle != null && field < build.fields.size(); field++) {
                        set(handle, build, 0, field);
                        look(handle, build, 0);
                    }
                }
                assertTrue(
                        extensions(pool) <= mostExtensions(),
                        () -> extensions(pool) + " extensions: " + builds);
                assertEquals(List.of(), pool.check().problems(), done::toString);
            }
        }

        private int extensions(Pool pool) {
            int count = -1;
            for (long record = References.recordOf(pool.rootReference("object 0"));
                    record != 0;
                    count++) {
                record = pool.store().word(record + Layout.EXTENSION_AT);
            }
            return count;
        }

        /// Each has a field, a wider one or a constant that neither the first build had nor an
        /// extension before it.
        private long mostExtensions() {
            Set<String> first = has(builds.getFirst()).collect(Collectors.toSet());
            return builds.stream()
                    .flatMap(this::has)
                    .filter(each -> !first.contains(each))
                    .distinct()
                    .count();
        }

        private Stream<String> has(Build build) {
            return build.fields.stream()
                    .map(Field::spec)
                    .flatMap(spec ->
                            Stream.concat(
                                    Stream.of(spec.name() + spec.kind()),
                                    spec.constants().stream()));
        }

        private void act(Pool pool, Build build) {
            if (model.objects.size() < OBJECTS) {
                create(pool, build);
            }
            for (int object = 0; object < model.objects.size(); object++) {
                Handle handle = bind(pool, build, object);
                if (handle != null) {
                    look(handle, build, object);
                    set(handle, build, object);
                    look(handle, build, object);
                }
            }
        }

        /// All have the pool open in one process, in which each has bound the class before; another
        /// process reads it.
        void all(int steps) throws IOException {
            try (Pool pool = Pool.open(place, SMALL)) {
                create(pool, builds.getFirst());
                PoolFiles others = PoolFiles.open(place, SMALL.toRead());
                Pool reader = Pool.on(others);
                try {
                    Map<String, Handle> bound = new HashMap<>();
                    for (int step = 0; step < steps; step++) {
                        Build build = builds.get(random.nextInt(builds.size()));
                        if (model.objects.size() < OBJECTS && random.nextInt(8) == 0) {
                            create(pool, build);
                        }
                        int object = random.nextInt(model.objects.size());
                        boolean writes = random.nextBoolean();
                        Pool mine = writes ? pool : reader;
                        String key = builds.indexOf(build) + " " + object + " " + writes;
                        Handle handle = bound.computeIfAbsent(key, _ -> bind(mine, build, object));
                        if (handle != null) {
                            look(handle, build, object);
                            if (writes) {
                                set(handle, build, object);
                            }
                        }
                    }
                    assertEquals(List.of(), pool.check().problems(), done::toString);
                } finally {
                    reader.closeNow(others);
                }
            }
        }
    }

    private static List<Build> chain(List<Change> changes) {
        List<Build> builds = new ArrayList<>(List.of(first()));
        changes.forEach(change -> builds.add(change.next.apply(builds.getLast())));
        return builds;
    }

    /// One play, that begins with turns or with all at once; both in a long run.
    private void play(List<Build> builds, int seed) throws IOException {
        for (boolean turnsFirst :
                IS_LONG ? new boolean[] {true, false} : new boolean[] {seed % 2 == 0}) {
            Play play = new Play(builds, seed);
            if (turnsFirst) {
                play.takeTurns(2 * builds.size());
            }
            play.all(STEPS);
            play.takeTurns(builds.size());
            assertTrue(play.looks > 0);
            remove(play.place);
        }
    }

    /// What each build of a pair may do after the other has written all fields.
    @ParameterizedTest
    @EnumSource
    void ofTwoBuildsEachReadsWhatTheOtherHasSetOrIsRefused(Change change) throws IOException {
        List<Build> builds = chain(List.of(change));
        for (int seed = 0; seed < SEEDS; seed++) {
            Play play = new Play(builds, seed);
            play.meets(Fate.WORKS, builds.getFirst());
            play.meets(change.newer, builds.getLast());
            if (change.newer != Fate.IS_REFUSED) {
                play.meets(change.older, builds.getFirst());
            }
            remove(play.place);
        }
    }

    @ParameterizedTest
    @EnumSource
    void ofThreeBuildsEachReadsWhatTheOthersHaveSetOrIsRefused(Change first) throws IOException {
        for (Change second : Change.values()) {
            play(chain(List.of(first, second)), first.ordinal() + second.ordinal());
        }
    }

    /// Two builds that come from the same one, neither of which is the newer.
    @ParameterizedTest
    @EnumSource
    void buildsThatTakeTurnsDoNotMakeObjectsGrow(Change first) throws IOException {
        for (Change second : EnumSet.range(Change.NOTHING, first)) {
            List<Build> builds =
                    List.of(first(), first.next.apply(first()), second.next.apply(first()));
            Play play = new Play(builds, first.ordinal() + second.ordinal());
            play.setAllInTurn(IS_LONG ? 2000 : 30);
            assertTrue(play.looks > 0);
            remove(play.place);
        }
    }

    private static Build oneField(int number) {
        return new Build(
                "Thing",
                List.of(),
                List.of(new Field(number, FieldSpec.of("field" + number, FieldKind.INT))));
    }

    /// The object keeps what it has, whatever is refused to the build that comes once too often.
    @Test
    void anObjectTakesNoMoreExtensionsThanAreRead() throws IOException {
        Play play = new Play(IntStream.range(0, 5).mapToObj(SkewTest::oneField).toList(), 7);
        try (Pool pool = Pool.open(play.place, SMALL)) {
            play.create(pool, play.builds.getFirst());
            for (Build build : play.builds) {
                play.set(Objects.requireNonNull(play.bind(pool, build, 0)), build, 0);
                if (build == play.builds.get(1)) {
                    extend(pool, Extensions.MAX - 2 - play.extensions(pool));
                }
            }
            assertEquals(Extensions.MAX, play.extensions(pool));
            assertEquals(1, play.refused);
            for (Build build : play.builds) {
                play.look(Objects.requireNonNull(play.bind(pool, build, 0)), build, 0);
            }
            assertEquals(play.builds.size(), play.looks);
            assertEquals(List.of(), pool.check().problems());
        }
    }

    /// Gives the object extensions like its last one, which take nothing over.
    private static void extend(Pool pool, int count) {
        Store store = pool.store();
        pool.transact(() -> {
            long last = References.recordOf(pool.rootReference("object 0"));
            while (store.word(last + Layout.EXTENSION_AT) != 0) {
                last = store.word(last + Layout.EXTENSION_AT);
            }
            int type = Headers.type(store.word(last));
            int bytes = pool.storedType(Types.formOf(type)).layout().bytes();
            for (int i = 0; i < count; i++) {
                long record = store.allocate(bytes, type);
                store.putWord(last, last + Layout.EXTENSION_AT, record);
                last = record;
            }
        });
    }

    /// The sort of chain that no list names.
    @Test
    void ofManyBuildsEachReadsWhatTheOthersHaveSetOrIsRefused() throws IOException {
        Random random = new Random(5);
        for (int i = 0; i < CHAINS; i++) {
            List<Change> changes =
                    IntStream.range(0, 2 + random.nextInt(5))
                            .mapToObj(_ -> Change.values()[random.nextInt(Change.values().length)])
                            .toList();
            play(chain(changes), i);
        }
    }

    /// Memory is not to fill with what is done with.
    private static void remove(Path place) throws IOException {
        try (Stream<Path> files = Files.list(place)) {
            for (Path file : files.toList()) {
                Files.delete(file);
            }
        }
        Files.delete(place);
    }
}
