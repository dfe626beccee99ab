package dev.terrace.objects;

import dev.terrace.objects.store.MappedRegion;
import dev.terrace.objects.store.Superblock;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.zip.GZIPInputStream;
import java.util.zip.GZIPOutputStream;
import org.jspecify.annotations.Nullable;

/// A pool that was made when the format was, kept among the tests: what was written then is read for good.
public final class GoldenPool {
    /// What the superblock was made of.
    public static final Superblock SUPERBLOCK = new Superblock(new UUID(0x0102030405060708L, 0x1112131415161718L), 0x5eed, 20, 1 << 16);

    /// The class.
    public static final String CLASS = "dev.terrace.golden.Thing";
    static final String LONG_TEXT = "a text that is longer than a slot \u65e5\u672c \ud83d";
    /// How it was made.
    public static final PoolOptions OPTIONS = PoolOptions.defaults().extents(1 << 20);

    private static final List<String> FILES = List.of("pool", "disk-0");
    private static final int COUNT_OF_FIXED = FieldKind.REFERENCE.ordinal();

    /// A field of each kind inline, of each that may be null, of each on a disk, and arrays of each kind.
    static final class Thing extends DurableObject {
        static final ObjectType<Thing> TYPE = ObjectType.of(CLASS, Thing.class, Thing::new, List.of(), specs());

        static int indexOf(String field) {
            return TYPE.fields().stream().map(FieldSpec::name).toList().indexOf(field);
        }

        private static FieldSpec[] specs() {
            List<FieldSpec> specs = new java.util.ArrayList<>();
            for (FieldKind kind : FieldKind.values()) {
                FieldSpec plain = FieldSpec.of(kind.name().toLowerCase(java.util.Locale.ROOT), kind);
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
                    prefix + field.name(), field.kind(), field.fixedLength(), field.nullable(), field.tiers(), field.target(),
                    field.constants(), List.of());
        }

        private static FieldSpec onDisk(FieldSpec field) {
            FieldSpec moved = renamed(field, "disk_").on(StorageTier.PMEM, StorageTier.DISK).ofLength(0).orNull();
            return field.kind() == FieldKind.STRING || field.kind().isArray() ? moved.on(StorageTier.SSD) : moved;
        }

        private void fill(int seed) {
            for (int i = 0; i < TYPE.fields().size(); i++) {
                FieldSpec field = TYPE.fields().get(i);
                if (!field.isVolatile()) {
                    set(i, field, value(field, seed));
                }
            }
        }

        private void set(int i, FieldSpec field, @Nullable Object value) {
            switch (value) {
                case String text -> setString(i, -1, text);
                case PoolDump.Constant constant -> pool().fields().setBits(this, i, field.kind(),
                        1 + field.constants().indexOf(constant.name()));
                case null -> setReference(i, -1, this);
                default -> {
                    if (field.kind().isArray()) {
                        pool().arrays().set(this, i, value);
                    } else {
                        pool().fields().setBoxed(this, i, value);
                    }
                }
            }
        }
    }

    /// The class as it was before: one field, of another kind.
    static final class OldThing extends DurableObject {
        static final ObjectType<OldThing> TYPE =
                ObjectType.of(CLASS, OldThing.class, OldThing::new, List.of(), FieldSpec.of("long", FieldKind.INT));

        void setNumber(int number) {
            setInt(0, TYPE.offset(0), number);
        }
    }

    private GoldenPool() {}

    /// What a field of the object with this number holds; null for the reference, which leads to the object itself.
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
    static Map<String, @Nullable Object> expected(int seed, PoolDump.@Nullable Reference self) {
        Map<String, @Nullable Object> expected = new LinkedHashMap<>();
        for (FieldSpec field : Thing.TYPE.fields()) {
            if (!field.isVolatile()) {
                expected.put(field.name(), field.kind() == FieldKind.REFERENCE ? self : value(field, seed));
            }
        }
        return expected;
    }

    /// Makes the pool, in this directory's files, compressed. For a new version of the format.
    public static void main(String[] arguments) throws IOException {
        Path into = Path.of(arguments[0]);
        Path dir = Files.createTempDirectory("terrace-golden-");
        try {
            make(dir);
            for (String file : FILES) {
                try (OutputStream out = new GZIPOutputStream(Files.newOutputStream(into.resolve(file + ".gz")))) {
                    Files.copy(dir.resolve(file), out);
                }
            }
        } finally {
            SharedMemory.delete(dir);
        }
    }

    private static void make(Path dir) throws IOException {
        Path file = Files.createFile(dir.resolve("pool"));
        try (Arena arena = Arena.ofShared()) {
            SUPERBLOCK.format(new MappedRegion(file, SUPERBLOCK.extentShift(), 0, Long.MAX_VALUE, false, arena));
        }
        try (Pool pool = Pool.open(dir, OPTIONS)) {
            OldThing old = pool.create(OldThing.TYPE);
            old.setNumber(-7);
            pool.root("old", OldThing.TYPE).set(old);
            OldThing extended = pool.create(OldThing.TYPE);
            extended.setNumber(-8);
            pool.root("extended", OldThing.TYPE).set(extended);
            for (int seed = 0; seed < 3; seed++) {
                int number = seed;
                pool.transact(() -> {
                    Thing thing = pool.create(Thing.TYPE);
                    thing.fill(number);
                    pool.root("thing " + number, Thing.TYPE).set(thing);
                });
            }
            Thing widened = Objects.requireNonNull(pool.root("extended", Thing.TYPE).get());
            widened.set(Thing.indexOf("string"), Thing.TYPE.fields().get(Thing.indexOf("string")), LONG_TEXT);
            pool.create(Thing.TYPE).delete();
            Thing blank = pool.create(Thing.TYPE);
            pool.root("blank \u65e5", Thing.TYPE).set(blank);
        }
    }

    /// Puts the pool's files into a directory.
    public static void extract(Path dir) throws IOException {
        for (String file : FILES) {
            InputStream stored = GoldenPool.class.getResourceAsStream("/golden-1/" + file + ".gz");
            try (InputStream in = new GZIPInputStream(Objects.requireNonNull(stored))) {
                Files.copy(in, dir.resolve(file));
            }
        }
    }
}
