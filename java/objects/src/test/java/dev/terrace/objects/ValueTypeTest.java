package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Values of the JDK's classes are what they were, from the least to the greatest.
class ValueTypeTest {
    private static final PoolOptions SMALL = PoolOptions.defaults().extents(1 << 20);

    /// The one that cannot be stored.
    private static final UUID NULLS = UUID.fromString("8f1c6e0b-5a2d-4973-e6b0-4d9f3c7a5128");

    @TempDir(factory = InMemory.class)
    Path dir;

    /// A handle with a field of each class, in PMEM, and then on a disk.
    static final class Values extends DurableObject {
        static final ObjectType<Values> TYPE =
                ObjectType.of("Values", Values.class, Values::new, List.of(), fields());

        private static FieldSpec[] fields() {
            List<FieldSpec> fields = new ArrayList<>();
            for (ValueType<?> type : ValueType.all()) {
                FieldSpec field = type.field("near" + fields.size());
                fields.add(field);
                FieldSpec far = type.field("far" + fields.size()).on(StorageTier.DISK);
                fields.add(type.kind() == FieldKind.BYTES ? far : far.inGroup());
            }
            return fields.toArray(FieldSpec[]::new);
        }

        @SuppressWarnings("unchecked")
        private static ValueType<Object> type(int field) {
            return (ValueType<Object>) ValueType.all().get(field / 2);
        }

        @Nullable Object get(int field) {
            return getValue(field, TYPE.offset(field), type(field));
        }

        void set(int field, @Nullable Object value) {
            setValue(field, TYPE.offset(field), type(field), value);
        }
    }

    /// Values of a class: the extremes, and random ones.
    private static List<Object> values(ValueType<?> type, Random random) {
        List<Object> values = new ArrayList<>();
        if (type == ValueType.LOCAL_DATE) {
            values.addAll(List.of(LocalDate.MIN, LocalDate.MAX, LocalDate.EPOCH));
            values.add(LocalDate.ofEpochDay(random.nextInt()));
        } else if (type == ValueType.LOCAL_TIME) {
            values.addAll(List.of(LocalTime.MIN, LocalTime.MAX, LocalTime.NOON));
        } else if (type == ValueType.INSTANT) {
            values.addAll(List.of(Instant.MIN, Instant.MAX, Instant.EPOCH));
            values.add(Instant.ofEpochSecond(random.nextInt(), random.nextInt(1_000_000_000)));
            values.add(Instant.EPOCH.minusNanos(1));
        } else if (type == ValueType.DURATION) {
            values.addAll(
                    List.of(
                            Duration.ZERO,
                            Duration.ofSeconds(Long.MIN_VALUE),
                            Duration.ofSeconds(Long.MAX_VALUE, 999_999_999),
                            Duration.ofNanos(-1)));
        } else if (type == ValueType.LOCAL_DATE_TIME) {
            values.addAll(
                    List.of(
                            LocalDateTime.MIN,
                            LocalDateTime.MAX,
                            LocalDate.EPOCH.atStartOfDay(),
                            LocalDateTime.of(2026, 11, 29, 1, 2, 3, 4)));
        } else if (type == ValueType.UUID) {
            values.addAll(
                    List.of(
                            new UUID(0, 0),
                            new UUID(-1, -1),
                            UUID.randomUUID(),
                            new UUID(NULLS.getMostSignificantBits(), 0),
                            new UUID(0, NULLS.getLeastSignificantBits())));
        } else if (type == ValueType.BIG_INTEGER) {
            values.addAll(
                    List.of(
                            BigInteger.ZERO,
                            BigInteger.valueOf(-1),
                            BigInteger.TWO.pow(4000).negate(),
                            new BigInteger(random.nextInt(200), random)));
        } else {
            for (int scale : new int[] {0, 2, -127, -128, -129, 127, 128, 1 << 31, (1 << 31) - 1}) {
                values.add(new BigDecimal(BigInteger.ZERO, scale));
                values.add(new BigDecimal(new BigInteger(random.nextInt(200), random), scale));
                values.add(new BigDecimal(BigInteger.TEN.pow(30).negate(), scale));
            }
        }
        return values;
    }

    @Test
    void eachValueIsWhatItWas() throws IOException {
        Random random = new Random(5);
        try (Pool pool = Pool.open(dir, SMALL)) {
            Values thing = pool.create(Values.TYPE);
            pool.root("thing", Values.TYPE).set(thing);
            for (int i = 0; i < Values.TYPE.fields().size(); i++) {
                assertNull(thing.get(i));
                for (Object value : values(Values.type(i), random)) {
                    thing.set(i, value);
                    assertEquals(value, thing.get(i));
                    Map<String, @Nullable Object> dumped = dump(pool);
                    assertEquals(value, dumped.get(Values.TYPE.fields().get(i).name()));
                    assertEquals(List.of(), pool.check().problems());
                }
                thing.set(i, null);
                assertNull(thing.get(i));
                thing.set(i, values(Values.type(i), random).getLast());
            }
        }
        try (Pool pool = Pool.open(dir, SMALL.toRead())) {
            assertEquals(List.of(), pool.check().problems());
            assertTrue(dump(pool).values().stream().allMatch(value -> value != null));
        }
    }

    private static Map<String, @Nullable Object> dump(Pool pool) {
        List<PoolDump.GenericObject> all = new ArrayList<>();
        new PoolDump(pool).forEach(null, 10, all::add);
        return all.getFirst().fields();
    }

    @Test
    void theUuidThatStandsForNullIsRefused() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            Values thing = pool.create(Values.TYPE);
            int field = 2 * ValueType.all().indexOf(ValueType.UUID);
            UUID before = new UUID(1, 2);
            thing.set(field, before);
            assertThrows(IllegalArgumentException.class, () -> thing.set(field, NULLS));
            assertEquals(before, thing.get(field));
        }
    }

    @Test
    void whatIsNoValueIsDamage() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            Values thing = pool.create(Values.TYPE);
            pool.root("thing", Values.TYPE).set(thing);
            Map<ValueType<?>, Object> wrong =
                    Map.of(
                            ValueType.LOCAL_DATE, Long.MAX_VALUE,
                            ValueType.LOCAL_TIME, -1L,
                            ValueType.INSTANT, new long[] {5, 0},
                            ValueType.DURATION, new long[] {5, 1_000_000_001},
                            ValueType.LOCAL_DATE_TIME, new long[] {Long.MIN_VALUE, 1},
                            ValueType.BIG_INTEGER, new byte[0],
                            ValueType.BIG_DECIMAL, new byte[] {-128, 1, 2});
            for (int i = 0; i < Values.TYPE.fields().size(); i++) {
                int field = i;
                Object stored = wrong.get(Values.type(i));
                if (stored == null) {
                    continue;
                }
                if (stored instanceof Long) {
                    pool.fields().setBoxed(thing, i, stored);
                } else {
                    pool.arrays().set(thing, i, stored);
                }
                assertThrows(PoolDamagedException.class, () -> thing.get(field));
                List<String> problems = pool.check().problems();
                assertTrue(
                        problems.size() == 1 && problems.getFirst().contains(Values.type(i).name()),
                        problems::toString);
                thing.set(i, null);
            }
        }
    }

    @Test
    void aFieldDoesNotBecomeAnotherClass() throws IOException {
        List<FieldSpec> fields =
                List.of(
                        FieldSpec.of("it", FieldKind.LONG).orNull(),
                        FieldSpec.of("it", FieldKind.INT).orNull(),
                        FieldSpec.of("it", FieldKind.LONGS).ofLength(2),
                        FieldSpec.of("it", FieldKind.BYTES).orNull(),
                        ValueType.LOCAL_DATE.field("it"),
                        ValueType.LOCAL_TIME.field("it"),
                        ValueType.INSTANT.field("it"),
                        ValueType.UUID.field("it"),
                        ValueType.BIG_DECIMAL.field("it"));
        for (int then = 0; then < fields.size(); then++) {
            for (int now = 0; now < fields.size(); now++) {
                boolean isSame = then == now || then == 1 && now == 0;
                String name = "Thing" + then + "of" + now;
                try (Pool pool = Pool.open(dir, SMALL)) {
                    pool.create(ObjectType.of(name, fields.get(then)));
                    ObjectType<DurableRecord> type = ObjectType.of(name, fields.get(now));
                    if (isSame) {
                        pool.create(type);
                    } else {
                        assertThrows(SchemaMismatchException.class, () -> pool.create(type), name);
                    }
                }
            }
        }
    }

    @Test
    void thePageListsTheClassesWithTheirKinds() throws IOException {
        String page = Files.readString(Path.of("..", "docs", "POOL-FORMAT.md"));
        for (ValueType<?> type : ValueType.all()) {
            String kind =
                    switch (type.kind()) {
                        case LONGS -> "two `LONGS`";
                        default -> "`" + type.kind() + "` or null";
                    };
            assertTrue(page.contains("| `" + type.name() + "` | " + kind + " | "), type.name());
        }
        assertTrue(page.contains(Long.toHexString(NULLS.getMostSignificantBits())));
        assertTrue(page.contains(Long.toHexString(NULLS.getLeastSignificantBits())));
    }

    @Test
    void theTableOfTheClassesIsTrue() {
        assertEquals(
                Arrays.asList(
                        19716L,
                        List.of(5L, 8L),
                        List.of(-1L, 1_000_000_000L),
                        List.of((byte) 2, (byte) 4, (byte) -46)),
                Arrays.asList(
                        ValueType.LOCAL_DATE.encode(LocalDate.of(2023, 12, 25)),
                        GoldenPoolTest.comparable(
                                ValueType.INSTANT.encode(Instant.ofEpochSecond(5, 7))),
                        GoldenPoolTest.comparable(ValueType.DURATION.encode(Duration.ofNanos(-1))),
                        GoldenPoolTest.comparable(
                                ValueType.BIG_DECIMAL.encode(new BigDecimal("12.34")))));
    }
}
