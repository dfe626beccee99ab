package dev.terrace.objects;

import dev.terrace.objects.internal.store.Feature;
import dev.terrace.objects.internal.store.MappedRegion;
import dev.terrace.objects.internal.store.RecordingSegmentStore;
import dev.terrace.objects.internal.store.Superblock;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.function.UnaryOperator;
import java.util.zip.GZIPInputStream;
import java.util.zip.GZIPOutputStream;
import org.jspecify.annotations.Nullable;

/// Pools that were made when a version or a feature of the format was, kept among the tests: what
/// was written then is read for good.
public final class GoldenPool {
    /// What the superblock was made of.
    public static final Superblock SUPERBLOCK =
            new Superblock(new UUID(0x0102030405060708L, 0x1112131415161718L), 0x5eed, 20, 1 << 16);

    /// The class.
    public static final String CLASS = "dev.terrace.golden.Thing";

    static final String LONG_TEXT = "a text that is longer than a slot \u65e5\u672c \ud83d";

    /// How it was made.
    public static final PoolOptions OPTIONS = PoolOptions.defaults().extents(1 << 20);

    /// What is on the remote tier, where there is one.
    static final String FAR_TEXT = "a text that is far away";

    /// The tiers that the pool was told for a field, where it was told any.
    static final Map<String, Map<String, List<StorageTier>>> PLACED =
            Map.of(CLASS, Map.of("string", List.of(StorageTier.SSD, StorageTier.PMEM)));

    private static final List<String> FILES = List.of("pool", "disk-0");

    /// The label, and one with a value.
    private static final int SEGMENTS = 2;

    /// The number of the object whose fields share slots.
    static final int GROUPED_SEED = 7;

    /// A field of each kind inline, of each that may be null, of each on a disk, and arrays of each
    /// kind.
    static final class Thing extends AnyHandle {
        static final ObjectType<Thing> TYPE =
                ObjectType.of(CLASS, Thing.class, Thing::new, List.of(), specs());

        static int indexOf(String field) {
            return TYPE.fields().stream().map(FieldSpec::name).toList().indexOf(field);
        }

        private static FieldSpec[] specs() {
            List<FieldSpec> specs = new ArrayList<>();
            for (FieldKind kind : FieldKind.values()) {
                FieldSpec plain =
                        FieldSpec.of(kind.name().toLowerCase(java.util.Locale.ROOT), kind);
                if (kind.isArray()) {
                    specs.add(plain.ofLength(3));
                } else if (kind == FieldKind.REFERENCE) {
                    specs.add(plain.to(CLASS).orNull());
                } else if (kind == FieldKind.ENUM) {
                    specs.add(plain.among("dev.terrace.golden.Color", "RED", "GREEN").orNull());
                } else if (kind == FieldKind.STRING) {
                    specs.add(plain.orNull());
                } else {
                    specs.add(plain);
                    specs.add(renamed(plain, "boxed_").orNull());
                }
                if (kind != FieldKind.REFERENCE) {
                    specs.add(onDisk(specs.getLast()));
                }
            }
            specs.add(FieldSpec.of("volatile", FieldKind.LONG).on(StorageTier.DRAM));
            return specs.toArray(FieldSpec[]::new);
        }

        private static FieldSpec renamed(FieldSpec field, String prefix) {
            return new FieldSpec(
                    prefix + field.name(),
                    field.kind(),
                    field.fixedLength(),
                    field.nullable(),
                    field.tiers(),
                    field.target(),
                    field.constants(),
                    List.of(),
                    false);
        }

        private static FieldSpec onDisk(FieldSpec field) {
            FieldSpec moved =
                    renamed(field, "disk_")
                            .on(StorageTier.PMEM, StorageTier.DISK)
                            .ofLength(0)
                            .orNull();
            return field.kind() == FieldKind.STRING || field.kind().isArray()
                    ? moved.on(StorageTier.SSD)
                    : moved;
        }
    }

    /// The class as it was before: one field, of another kind.
    static final class OldThing extends DurableObject {
        static final ObjectType<OldThing> TYPE =
                ObjectType.of(
                        CLASS,
                        OldThing.class,
                        OldThing::new,
                        List.of(),
                        FieldSpec.of("long", FieldKind.INT));

        void setNumber(int number) {
            setInt(0, TYPE.offset(0), number);
        }
    }

    /// A class whose value is on the remote tier.
    static final class Far extends DurableObject {
        static final ObjectType<Far> TYPE =
                ObjectType.of(
                        "dev.terrace.golden.Far",
                        Far.class,
                        Far::new,
                        List.of(),
                        FieldSpec.of("text", FieldKind.STRING).on(StorageTier.REMOTE).orNull());

        @Nullable String getText() {
            return getString(0, TYPE.offset(0));
        }

        void setText(String text) {
            setString(0, TYPE.offset(0), text);
        }
    }

    /// A class with two groups, of a field of each kind that may be in one.
    static final class Grouped extends AnyHandle {
        static final ObjectType<Grouped> TYPE =
                ObjectType.of(
                        "dev.terrace.golden.Grouped",
                        Grouped.class,
                        Grouped::new,
                        List.of(),
                        specs(FieldSpec::inGroup));

        /// @param last makes a field of each
        static FieldSpec[] specs(UnaryOperator<FieldSpec> last) {
            List<FieldSpec> specs = new ArrayList<>();
            for (FieldSpec field : Thing.TYPE.fields()) {
                if (field.kind() != FieldKind.REFERENCE
                        && !field.isVolatile()
                        && !field.name().startsWith("disk_")) {
                    specs.add(last.apply(field.on(StorageTier.DISK)));
                    specs.add(
                            last.apply(
                                    Thing.renamed(field, "near_")
                                            .on(StorageTier.PMEM, StorageTier.DISK)));
                }
            }
            return specs.toArray(FieldSpec[]::new);
        }
    }

    /// The pools that are kept.
    public enum Kept {
        /// Of version 1.
        VERSION_1("golden-1"),
        /// Of version 2, with a remote tier.
        VERSION_2("golden-2", Feature.REMOTE),
        /// Of version 3, with a placement.
        VERSION_3("golden-3", Feature.PLACEMENTS),
        /// Of version 4, with the feature that all have then: checked values on disks.
        CHECKED_DISK("golden-4"),
        /// And checked values in persistent memory.
        CHECKED_PMEM("golden-4-checked-pmem", Feature.CHECKED_PMEM),
        /// And a remote tier.
        REMOTE("golden-4-remote", Feature.REMOTE),
        /// And fields that share slots.
        GROUPS("golden-4-groups", Feature.GROUPS),
        /// And a placement.
        PLACEMENTS("golden-4-placements", Feature.PLACEMENTS),
        /// And a seal.
        SEALED("golden-4-sealed", Feature.SEALED),
        /// Two of these.
        CHECKED_PMEM_REMOTE("golden-4-checked-pmem-remote", Feature.CHECKED_PMEM, Feature.REMOTE),
        /// Two of these.
        CHECKED_PMEM_PLACEMENTS(
                "golden-4-checked-pmem-placements", Feature.CHECKED_PMEM, Feature.PLACEMENTS),
        /// Two of these.
        CHECKED_PMEM_SEALED("golden-4-checked-pmem-sealed", Feature.CHECKED_PMEM, Feature.SEALED),
        /// Two of these.
        REMOTE_PLACEMENTS("golden-4-remote-placements", Feature.REMOTE, Feature.PLACEMENTS),
        /// Two of these.
        REMOTE_SEALED("golden-4-remote-sealed", Feature.REMOTE, Feature.SEALED),
        /// Two of these.
        PLACEMENTS_SEALED("golden-4-placements-sealed", Feature.PLACEMENTS, Feature.SEALED),
        /// Two of these.
        GROUPS_CHECKED_PMEM("golden-4-groups-checked-pmem", Feature.GROUPS, Feature.CHECKED_PMEM),
        /// Two of these.
        GROUPS_REMOTE("golden-4-groups-remote", Feature.GROUPS, Feature.REMOTE),
        /// Two of these.
        GROUPS_PLACEMENTS("golden-4-groups-placements", Feature.GROUPS, Feature.PLACEMENTS),
        /// Two of these.
        GROUPS_SEALED("golden-4-groups-sealed", Feature.GROUPS, Feature.SEALED),
        /// And values of classes of the JDK in collections.
        VALUES("golden-4-values", Feature.VALUE_ELEMENTS),
        /// Two of these.
        VALUES_CHECKED_PMEM(
                "golden-4-values-checked-pmem", Feature.VALUE_ELEMENTS, Feature.CHECKED_PMEM),
        /// Two of these.
        VALUES_REMOTE("golden-4-values-remote", Feature.VALUE_ELEMENTS, Feature.REMOTE),
        /// Two of these.
        VALUES_GROUPS("golden-4-values-groups", Feature.VALUE_ELEMENTS, Feature.GROUPS),
        /// Two of these.
        VALUES_PLACEMENTS("golden-4-values-placements", Feature.VALUE_ELEMENTS, Feature.PLACEMENTS),
        /// Two of these.
        VALUES_SEALED("golden-4-values-sealed", Feature.VALUE_ELEMENTS, Feature.SEALED),
        /// And classes in columns.
        COLUMNS("golden-4-columns", Feature.COLUMNS),
        /// Two of these.
        COLUMNS_CHECKED_PMEM(
                "golden-4-columns-checked-pmem", Feature.COLUMNS, Feature.CHECKED_PMEM),
        /// Two of these.
        COLUMNS_REMOTE("golden-4-columns-remote", Feature.COLUMNS, Feature.REMOTE),
        /// Two of these.
        COLUMNS_GROUPS("golden-4-columns-groups", Feature.COLUMNS, Feature.GROUPS),
        /// Two of these.
        COLUMNS_PLACEMENTS("golden-4-columns-placements", Feature.COLUMNS, Feature.PLACEMENTS),
        /// Two of these.
        COLUMNS_SEALED("golden-4-columns-sealed", Feature.COLUMNS, Feature.SEALED),
        /// Two of these.
        COLUMNS_VALUES("golden-4-columns-values", Feature.COLUMNS, Feature.VALUE_ELEMENTS);

        private final String directory;
        private final Set<Feature> features;

        Kept(String directory, Feature... features) {
            this.directory = directory;
            this.features = Set.of(features);
        }

        /// Whether it has a feature that not all pools of its version have.
        boolean has(Feature feature) {
            return features.contains(feature);
        }

        /// A class as it is stored there.
        private <D extends DurableObject> ObjectType<D> type(ObjectType<D> rows) {
            return has(Feature.COLUMNS) ? rows.inColumns() : rows;
        }
    }

    private GoldenPool() {}

    /// What a field of the object with this number holds; null for the reference, which leads to
    /// the object itself.
    static @Nullable Object value(FieldSpec field, int seed) {
        int sign = seed % 2 == 0 ? 1 : -1;
        return switch (field.kind()) {
            case BOOLEAN -> seed % 2 == 0;
            case BYTE -> (byte) (sign * (100 + seed));
            case SHORT -> (short) (sign * (30_000 + seed));
            case CHAR -> (char) (0x65e5 + seed);
            case INT -> sign * (2_000_000_000 + seed);
            case FLOAT -> sign * (1.5f + seed);
            case LONG -> sign * (Long.MAX_VALUE - seed);
            case DOUBLE -> sign * (Math.PI + seed);
            case ENUM -> new PoolDump.Constant(seed % 2 == 0 ? "RED" : "GREEN");
            case REFERENCE -> null;
            case STRING -> field.tiers().contains(StorageTier.SSD) ? LONG_TEXT + seed : "s" + seed;
            case BOOLEANS -> new boolean[] {true, false, seed % 2 == 0};
            case BYTES -> new byte[] {1, -1, (byte) seed};
            case SHORTS -> new short[] {1, -1, (short) seed};
            case CHARS -> new char[] {'a', 0xffff, (char) seed};
            case INTS -> new int[] {Integer.MIN_VALUE, -1, seed};
            case FLOATS -> new float[] {Float.NaN, -0f, seed};
            case LONGS -> new long[] {Long.MIN_VALUE, -1, seed};
            case DOUBLES -> new double[] {Double.NEGATIVE_INFINITY, -0.0, seed};
        };
    }

    /// What an object with this number holds.
    static Map<String, @Nullable Object> expected(
            ObjectType<?> type, int seed, PoolDump.@Nullable Reference self) {
        Map<String, @Nullable Object> expected = new LinkedHashMap<>();
        for (FieldSpec field : type.fields()) {
            if (!field.isVolatile()) {
                expected.put(
                        field.name(),
                        field.kind() == FieldKind.REFERENCE ? self : value(field, seed));
            }
        }
        return expected;
    }

    /// Makes a pool, in this directory's files, compressed. For a new version of the format, or a
    /// new feature.
    public static void main(String[] arguments) throws IOException {
        Kept kept = Kept.valueOf(arguments[0]);
        Path into = Files.createDirectories(Path.of(arguments[1]).resolve(kept.directory));
        Path dir = Files.createTempDirectory("terrace-golden-");
        try {
            make(dir, kept);
            for (Path file : files(dir)) {
                try (OutputStream out =
                        new GZIPOutputStream(
                                Files.newOutputStream(into.resolve(file.getFileName() + ".gz")))) {
                    Files.copy(file, out);
                }
            }
        } finally {
            SharedMemory.delete(dir);
        }
    }

    private static List<Path> files(Path dir) throws IOException {
        try (var all = Files.list(dir)) {
            return all.filter(file -> !file.endsWith("lock")).toList();
        }
    }

    private static void make(Path dir, Kept kept) throws IOException {
        Path file = Files.createFile(dir.resolve("pool"));
        try (Arena arena = Arena.ofShared()) {
            SUPERBLOCK.format(
                    new MappedRegion(
                            file, SUPERBLOCK.extentShift(), 0, Long.MAX_VALUE, false, arena));
        }
        RecordingSegmentStore segments = new RecordingSegmentStore(new ArrayList<>());
        PoolOptions options = kept.has(Feature.REMOTE) ? OPTIONS.remote(segments) : OPTIONS;
        try (Pool pool =
                Pool.open(
                        dir,
                        kept.has(Feature.CHECKED_PMEM) ? options.withPmemChecksums() : options)) {
            fill(pool, kept.type(Thing.TYPE));
            if (kept.has(Feature.REMOTE)) {
                Far far = pool.create(Far.TYPE);
                far.setText(FAR_TEXT);
                pool.root("far", Far.TYPE).set(far);
            }
            if (kept.has(Feature.GROUPS)) {
                ObjectType<Grouped> type = kept.type(Grouped.TYPE);
                Grouped grouped = pool.create(type);
                grouped.fill(GROUPED_SEED);
                pool.root("grouped", type).set(grouped);
                pool.root("grouped blank", type).set(pool.create(type));
            }
            if (kept.has(Feature.VALUE_ELEMENTS)) {
                GoldenValues.ALL.forEach(values -> values.make(pool));
            }
            if (kept.has(Feature.PLACEMENTS)) {
                pool.place(PLACED);
            }
            if (kept.has(Feature.SEALED)) {
                pool.seal();
            }
        }
        for (Map.Entry<String, byte[]> segment : segments.segments().entrySet()) {
            Files.write(dir.resolve(segment.getKey()), segment.getValue());
        }
    }

    private static void fill(Pool pool, ObjectType<Thing> type) {
        OldThing old = pool.create(OldThing.TYPE);
        old.setNumber(-7);
        pool.root("old", OldThing.TYPE).set(old);
        OldThing extended = pool.create(OldThing.TYPE);
        extended.setNumber(-8);
        pool.root("extended", OldThing.TYPE).set(extended);
        for (int seed = 0; seed < 3; seed++) {
            int number = seed;
            pool.transact(() -> {
                Thing thing = pool.create(type);
                thing.fill(number);
                pool.root("thing " + number, type).set(thing);
            });
        }
        Thing widened = Objects.requireNonNull(pool.root("extended", type).get());
        widened.set(Thing.indexOf("string"), LONG_TEXT);
        pool.create(type).delete();
        Thing blank = pool.create(type);
        pool.root("blank \u65e5", type).set(blank);
    }

    /// Puts a pool's files into a directory, and returns how it is opened.
    public static PoolOptions extract(Kept kept, Path dir) throws IOException {
        for (String file : FILES) {
            Files.write(dir.resolve(file), stored(kept, file));
        }
        return kept.has(Feature.REMOTE) ? OPTIONS.remote(segments(kept)) : OPTIONS;
    }

    private static RecordingSegmentStore segments(Kept kept) throws IOException {
        Map<String, byte[]> segments = new LinkedHashMap<>();
        for (int number = 0; number < SEGMENTS; number++) {
            String name = "terrace-" + SUPERBLOCK.id() + "-000000000000000" + number + ".segment";
            segments.put(name, stored(kept, name));
        }
        return new RecordingSegmentStore(new ArrayList<>(), segments);
    }

    private static byte[] stored(Kept kept, String file) throws IOException {
        InputStream stored =
                GoldenPool.class.getResourceAsStream("/" + kept.directory + "/" + file + ".gz");
        try (InputStream in = new GZIPInputStream(Objects.requireNonNull(stored))) {
            return in.readAllBytes();
        }
    }
}
