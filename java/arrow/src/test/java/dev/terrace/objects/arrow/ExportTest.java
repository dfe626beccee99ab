package dev.terrace.objects.arrow;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.DurableRecord;
import dev.terrace.objects.FieldKind;
import dev.terrace.objects.FieldSpec;
import dev.terrace.objects.InMemory;
import dev.terrace.objects.ObjectType;
import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolOptions;
import dev.terrace.objects.SchemaMismatchException;
import dev.terrace.objects.StaleReferenceException;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.collections.DurableArray;
import dev.terrace.objects.collections.DurableList;
import dev.terrace.objects.collections.ElementType;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.complex.ListVector;
import org.apache.arrow.vector.ipc.ArrowReader;
import org.apache.arrow.vector.types.TimeUnit;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.arrow.vector.util.TransferPair;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// The columns of a class, their names, and the fields that have no column.
class ExportTest {
    private static final PoolOptions SMALL = PoolOptions.defaults().extents(1 << 20);
    private static final String NAME = Sample.class.getName();

    @TempDir(factory = InMemory.class)
    private Path dir;

    private Pool pool;

    @BeforeEach
    void open() throws IOException {
        pool = Pool.open(dir.resolve("pool"), SMALL);
    }

    @AfterEach
    void close() {
        pool.close();
    }

    private DurableSample sample(Consumer<Sample> change) {
        Sample sample = new Sample();
        change.accept(sample);
        return DurableSample.of(pool, sample);
    }

    private ArrowExport export() {
        return ArrowExport.of(pool, DurableSample.TYPE);
    }

    @Test
    void theSchemaSaysWhatColumnsHold() throws IOException {
        Schema schema = export().schema();
        assertEquals(
                """
                @id: Int(64, true) not null
                flag: Bool not null
                tiny: Int(8, true) not null
                small: Int(16, true) not null
                sign: Int(16, false) not null
                number: Int(32, true) not null
                large: Int(64, true) not null
                half: FloatingPoint(SINGLE) not null
                whole: FloatingPoint(DOUBLE) not null
                anyFlag: Bool
                anyTiny: Int(8, true)
                anySmall: Int(16, true)
                anySign: Int(16, false)
                anyNumber: Int(32, true)
                anyLarge: Int(64, true)
                anyHalf: FloatingPoint(SINGLE)
                anyWhole: FloatingPoint(DOUBLE)
                text: Utf8
                bytes: Binary
                flags: List<$data$: Bool not null>
                smalls: List<$data$: Int(16, true) not null>
                signs: List<$data$: Int(16, false) not null>
                numbers: List<$data$: Int(32, true) not null>
                larges: List<$data$: Int(64, true) not null>
                halves: List<$data$: FloatingPoint(SINGLE) not null>
                wholes: List<$data$: FloatingPoint(DOUBLE) not null>
                point: FixedSizeList(3)<$data$: FloatingPoint(DOUBLE) not null> not null
                code: FixedSizeBinary(5) not null
                bits: FixedSizeList(11)<$data$: Bool not null> not null
                pair: FixedSizeList(2)<$data$: Int(16, false) not null> not null
                color: Utf8
                uuid: ExtensionType(arrow.uuid, FixedSizeBinary(16))
                instant: Timestamp(NANOSECOND, UTC)
                date: Date(DAY)
                dateTime: Timestamp(NANOSECOND, null)
                time: Time(NANOSECOND, 64)
                duration: Duration(NANOSECOND)
                integer: Utf8
                decimal: Utf8
                place: Struct<street: Utf8, zip: Int(32, true) not null, spot: Struct<east: \
                FloatingPoint(DOUBLE) not null, north: FloatingPoint(DOUBLE), name: Utf8>>
                next: Int(64, true)
                diskNumber: Int(32, true) not null
                diskLarge: Int(64, true)
                diskText: Utf8
                diskInstant: Timestamp(NANOSECOND, UTC)
                anywhere: Binary
                diskPoint: FixedSizeList(4)<$data$: Int(32, true) not null> not null
                diskPlace: Struct<street: Utf8, zip: Int(32, true) not null, spot: Struct<east: \
                FloatingPoint(DOUBLE) not null, north: FloatingPoint(DOUBLE), name: Utf8>>
                """,
                String.join("\n", schema.getFields().stream().map(Field::toString).toList())
                                .replaceAll("ArrowType.", "")
                        + "\n");
        assertEquals(
                Map.of(
                        Columns.CLASS,
                        NAME,
                        Columns.POOL,
                        pool.id().toString(),
                        Columns.LEFT_OUT,
                        "scores,visits"),
                schema.getCustomMetadata());
        assertEquals(Map.of(Columns.LEADS_TO, NAME), schema.findField("next").getMetadata());
        assertEquals(
                Map.of(Columns.TYPE, "java.math.BigDecimal"),
                schema.findField("decimal").getMetadata());
        assertEquals(schema, Read.export(export()).schema());
    }

    @Test
    void aClassWithoutObjectsHasNoRows() throws IOException {
        Path file = dir.resolve("empty");
        assertEquals(0, export().save(file, ArrowFormat.FILE));
        Read found = Read.file(file);
        assertEquals(export().schema(), found.schema());
        assertEquals(List.of(), found.batches());
        SchemaMismatchException unknown =
                assertThrows(SchemaMismatchException.class, () -> ArrowExport.of(pool, NAME));
        assertEquals("the pool has no class " + NAME + "; it has []", unknown.getMessage());
        sample(_ -> {}).delete();
        assertEquals(List.of(), Read.export(ArrowExport.of(pool, NAME)).batches());
    }

    @Test
    void columnsAreNamed() throws IOException {
        sample(sample -> {
            sample.number = 5;
            sample.place = new Sample.Place("High Street", 7, new Sample.Spot(1, 2.0, "x"));
        });
        Read some = Read.export(export().columns("place.spot.east", "number"));
        assertEquals(
                List.of(Map.of("number", 5, "place", Map.of("spot", Map.of("east", 1.0)))),
                some.rows());
        Read whole = Read.export(export().columns(Columns.ID, "place"));
        assertEquals(List.of(Columns.ID, "place"), List.copyOf(whole.rows().getFirst().keySet()));
        assertEquals(3, ((Map<?, ?>) whole.column("place").getFirst()).size());
        for (String name : List.of("plac", "place.zi", "scores", "visits", "")) {
            IllegalArgumentException e =
                    assertThrows(
                            IllegalArgumentException.class, () -> export().columns(name).schema());
            assertTrue(e.getMessage().contains("field " + name), e::getMessage);
        }
        assertThrows(IllegalArgumentException.class, () -> export().columns());
        assertThrows(IllegalArgumentException.class, () -> export().batches(0));
    }

    @Test
    void timesBeyondArrowsAreRefused() throws IOException {
        sample(sample -> {
            sample.instant = Instant.MAX;
            sample.dateTime = LocalDateTime.MIN;
            sample.duration = Duration.ofSeconds(Long.MIN_VALUE);
        });
        for (TimeUnit unit : List.of(TimeUnit.NANOSECOND, TimeUnit.MICROSECOND)) {
            ArrowExport export = export().times(unit);
            for (String column : List.of("instant", "dateTime", "duration")) {
                IllegalArgumentException e =
                        assertThrows(
                                IllegalArgumentException.class,
                                () -> Read.export(export.columns(column)));
                assertTrue(e.getMessage().startsWith("column " + column + ": "), e::getMessage);
                assertTrue(e.getMessage().contains("longer unit"), e::getMessage);
            }
        }
        Read seconds =
                Read.export(
                        export().times(TimeUnit.SECOND).columns("instant", "dateTime", "duration"));
        assertEquals(List.of(Instant.MAX.getEpochSecond()), seconds.column("instant"));
        assertEquals(List.of(Duration.ofSeconds(Long.MIN_VALUE)), seconds.column("duration"));
    }

    @Test
    void shorterFractionsOfTimesAreCutOff() throws IOException {
        sample(sample -> sample.instant = Instant.ofEpochSecond(-1, 999_999_999));
        sample(sample -> sample.instant = Instant.ofEpochSecond(1, 999_999_999));
        sample(sample -> sample.instant = Instant.ofEpochSecond(-2, 0));
        Map<TimeUnit, List<Long>> expected =
                Map.of(
                        TimeUnit.SECOND,
                        List.of(-1L, 1L, -2L),
                        TimeUnit.MILLISECOND,
                        List.of(-1L, 1999L, -2000L),
                        TimeUnit.MICROSECOND,
                        List.of(-1L, 1_999_999L, -2_000_000L),
                        TimeUnit.NANOSECOND,
                        List.of(-1L, 1_999_999_999L, -2_000_000_000L));
        for (Map.Entry<TimeUnit, List<Long>> each : expected.entrySet()) {
            Read found = Read.export(export().times(each.getKey()).columns("instant"));
            assertEquals(each.getValue(), found.column("instant"));
        }
    }

    @Test
    void daysBeyondArrowsAreRefused() {
        sample(sample -> sample.date = LocalDate.MAX);
        IllegalArgumentException e =
                assertThrows(IllegalArgumentException.class, () -> Read.export(export()));
        assertTrue(e.getMessage().contains("+999999999-12-31"), e::getMessage);
        assertTrue(e.getMessage().contains("leave the column out"), e::getMessage);
    }

    @Test
    void numbersBecomeDecimals() throws IOException {
        BigInteger wide = BigInteger.TEN.pow(70);
        sample(sample -> {
            sample.decimal = new BigDecimal("-12.5");
            sample.integer = wide;
        });
        sample(_ -> {});
        Read found =
                Read.export(
                        export().decimals("decimal", 5, 2)
                                .decimals("integer", 76, 0)
                                .columns("decimal", "integer"));
        assertEquals(Arrays.asList(new BigDecimal("-12.50"), null), found.column("decimal"));
        assertEquals(Arrays.asList(new BigDecimal(wide), null), found.column("integer"));
        for (int[] tooSmall : List.of(new int[] {5, 0}, new int[] {3, 2})) {
            ArrowExport export = export().decimals("decimal", tooSmall[0], tooSmall[1]);
            IllegalArgumentException e =
                    assertThrows(IllegalArgumentException.class, () -> Read.export(export));
            assertTrue(e.getMessage().startsWith("column decimal: -12.5 does not"), e::getMessage);
        }
        for (Supplier<ArrowExport> wrong :
                List.<Supplier<ArrowExport>>of(
                        () -> export().decimals("decimal", 77, 0),
                        () -> export().decimals("decimal", 2, 3),
                        () -> export().decimals("number", 5, 2),
                        () -> export().decimals("nothing", 5, 2))) {
            assertThrows(IllegalArgumentException.class, () -> wrong.get().schema());
        }
    }

    /// If a batch fails, the next call reads it again, and nothing is lost.
    @Test
    void aBatchThatFailedIsReadAgain() throws IOException {
        List<Object> ids = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
            ids.add(sample(_ -> {}).reference());
        }
        DurableSample bad = pool.object(DurableSample.TYPE, (Long) ids.get(7));
        bad.setInstant(Instant.MAX);
        List<Object> found = new ArrayList<>();
        try (BufferAllocator allocator = new RootAllocator();
                ArrowReader reader = export().batches(3).reader(allocator)) {
            VectorSchemaRoot root = reader.getVectorSchemaRoot();
            for (int i = 0; i < 2; i++) {
                assertTrue(reader.loadNextBatch());
                Read.rows(root).forEach(row -> found.add(row.get(Columns.ID)));
            }
            assertThrows(IllegalArgumentException.class, reader::loadNextBatch);
            bad.setInstant(Instant.EPOCH);
            while (reader.loadNextBatch()) {
                Read.rows(root).forEach(row -> found.add(row.get(Columns.ID)));
            }
            assertEquals(0, root.getRowCount());
            assertFalse(reader.loadNextBatch());
        }
        assertEquals(ids, found);
    }

    /// A program may take vectors away; the next batch gets others.
    @Test
    void vectorsMayBeTakenAway() throws IOException {
        for (int i = 0; i < 10; i++) {
            int number = i;
            sample(sample -> sample.large = number);
        }
        List<Long> found = new ArrayList<>();
        try (BufferAllocator allocator = new RootAllocator();
                ArrowReader reader = export().batches(4).columns("large").reader(allocator)) {
            List<BigIntVector> taken = new ArrayList<>();
            while (reader.loadNextBatch()) {
                TransferPair pair =
                        reader.getVectorSchemaRoot().getVector("large").getTransferPair(allocator);
                pair.transfer();
                taken.add((BigIntVector) pair.getTo());
            }
            for (BigIntVector vector : taken) {
                for (int i = 0; i < vector.getValueCount(); i++) {
                    found.add(vector.get(i));
                }
                vector.close();
            }
            assertTrue(reader.bytesRead() > 0);
        }
        assertEquals(List.of(0L, 1L, 2L, 3L, 4L, 5L, 6L, 7L, 8L, 9L), found);
    }

    @Test
    void largeValuesMakeSmallBatches() throws IOException {
        PoolOptions large = PoolOptions.defaults().extents(64 << 20);
        try (Pool other = Pool.open(dir.resolve("large"), large)) {
            ObjectType<DurableRecord> type =
                    ObjectType.of(
                            "Large",
                            FieldSpec.of("number", FieldKind.INT),
                            FieldSpec.of("longs", FieldKind.LONGS).on(StorageTier.DISK).orNull());
            for (int i = 0; i < 5; i++) {
                DurableRecord object = other.create(type);
                object.setInt(0, i);
                long[] longs = new long[5_000_000];
                Arrays.fill(longs, i);
                object.setArray(1, i == 4 ? new long[1] : longs);
            }
            try (BufferAllocator allocator = new RootAllocator();
                    ArrowReader reader = ArrowExport.of(other, type).reader(allocator)) {
                List<Integer> sizes = new ArrayList<>();
                List<Object> sums = new ArrayList<>();
                while (reader.loadNextBatch()) {
                    VectorSchemaRoot root = reader.getVectorSchemaRoot();
                    sizes.add(root.getRowCount());
                    var lists = (ListVector) root.getVector("longs");
                    BigIntVector elements = (BigIntVector) lists.getDataVector();
                    for (int row = 0; row < root.getRowCount(); row++) {
                        long sum = 0;
                        int end = lists.getElementEndIndex(row);
                        for (int i = lists.getElementStartIndex(row); i < end; i++) {
                            sum += elements.get(i);
                        }
                        sums.add(sum);
                    }
                }
                assertEquals(List.of(2, 2, 1), sizes);
                assertEquals(List.of(0L, 5_000_000L, 10_000_000L, 15_000_000L, 0L), sums);
            }
        }
    }

    /// Objects of older forms of the class, with and without extensions, in rows and in columns.
    @Test
    void olderFormsAreReadAsTheClassIsNow() throws IOException {
        ObjectType<DurableRecord> before =
                ObjectType.of(
                        "Thing",
                        FieldSpec.of("count", FieldKind.INT),
                        FieldSpec.of("mail", FieldKind.STRING).orNull(),
                        FieldSpec.of("gone", FieldKind.INT));
        ObjectType<DurableRecord> now =
                ObjectType.of(
                                "Thing",
                                FieldSpec.of("count", FieldKind.LONG),
                                FieldSpec.of("email", FieldKind.STRING).orNull().formerly("mail"),
                                FieldSpec.of("ratio", FieldKind.DOUBLE).orNull(),
                                FieldSpec.of("pair", FieldKind.INTS).ofLength(2))
                        .inColumns();
        long[] references = new long[3];
        for (int i = 0; i < 2; i++) {
            DurableRecord old = pool.create(before);
            old.setInt(0, -7 - i);
            old.setString(1, "old " + i);
            references[i] = old.reference();
        }
        DurableRecord extended = pool.object(now, references[1]);
        extended.setLong(0, Long.MAX_VALUE);
        extended.setBoxed(2, 0.5);
        DurableRecord young = pool.create(now);
        young.setString(1, "new");
        young.setArray(3, new int[] {1, 2});
        references[2] = young.reference();
        for (ArrowExport export :
                List.of(ArrowExport.of(pool, now), ArrowExport.of(pool, "Thing"))) {
            Map<Object, List<Object>> rows = new HashMap<>();
            Read.export(export)
                    .rows()
                    .forEach(row ->
                            rows.put(
                                    row.get(Columns.ID),
                                    new ArrayList<>(
                                            List.copyOf(row.keySet()).subList(1, 5).stream()
                                                    .map(row::get)
                                                    .toList())));
            assertEquals(
                    Map.of(
                            references[0],
                            Arrays.asList(-7L, "old 0", null, List.of(0, 0)),
                            references[1],
                            Arrays.asList(Long.MAX_VALUE, "old 1", 0.5, List.of(0, 0)),
                            references[2],
                            Arrays.asList(0L, "new", null, List.of(1, 2))),
                    rows);
        }
    }

    /// Terrace stores it, but no text of Arrow's has it.
    @Test
    void halfACharacterBecomesAQuestionMark() throws IOException {
        sample(sample -> sample.text = "a \ud83d");
        assertEquals(List.of("a ?"), Read.export(export()).column("text"));
    }

    /// Only a boolean says that what follows is embedded.
    @Test
    void namesOfFieldsMayHaveDots() throws IOException {
        ObjectType<DurableRecord> type =
                ObjectType.of(
                        "Dotted",
                        FieldSpec.of("a", FieldKind.INT),
                        FieldSpec.of("a.x", FieldKind.INT),
                        FieldSpec.of("b.x", FieldKind.INT),
                        FieldSpec.of("c", FieldKind.BOOLEAN),
                        FieldSpec.of("c.x.y", FieldKind.INT));
        DurableRecord object = pool.create(type);
        object.setInt(2, 7);
        object.setBoolean(3, true);
        assertEquals(
                List.of(
                        Map.of(
                                Columns.ID,
                                object.reference(),
                                "a",
                                0,
                                "a.x",
                                0,
                                "b.x",
                                7,
                                "c",
                                Map.of("x.y", 0))),
                Read.export(ArrowExport.of(pool, type)).rows());
        ObjectType<DurableRecord> taken =
                ObjectType.of("Taken", FieldSpec.of(Columns.ID, FieldKind.INT));
        assertThrows(IllegalArgumentException.class, () -> ArrowExport.of(pool, taken).schema());
    }

    /// As getters do, the transaction sees what it has changed; others do not.
    @Test
    void aTransactionExportsItsOwnChanges() throws IOException {
        for (int i = 0; i < 100; i++) {
            sample(_ -> {});
        }
        ArrowExport export = export().columns("number").batches(30);
        assertThrows(
                IllegalStateException.class,
                () ->
                        pool.transact(() -> {
                            sample(sample -> sample.number = 5);
                            assertEquals(5, sum(export));
                            throw new IllegalStateException("on purpose");
                        }));
        assertEquals(0, sum(export));
    }

    private static int sum(ArrowExport export) {
        try {
            return Read.export(export).column("number").stream()
                    .mapToInt(Integer.class::cast)
                    .sum();
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }

    @Test
    void referencesToDeletedObjectsAreStillIds() throws IOException {
        DurableSample target = sample(_ -> {});
        DurableSample source = sample(_ -> {});
        source.setNext(target);
        long id = target.reference();
        target.delete();
        Read found = Read.export(export().columns("next"));
        assertEquals(List.of(id), found.column("next"));
    }

    @Test
    void valuesOfListsAreAColumn() throws IOException {
        requireColumn(ElementType.LONG, Long.MIN_VALUE, null, 5L, Long.MAX_VALUE);
        requireColumn(ElementType.INTEGER, 1, null, 2);
        requireColumn(ElementType.SHORT, (short) 1, null);
        requireColumn(ElementType.BYTE, (byte) 1, null);
        requireColumn(ElementType.CHARACTER, 'x', null);
        requireColumn(ElementType.BOOLEAN, true, null, false);
        requireColumn(ElementType.FLOAT, 1.5f, null, Float.NaN);
        requireColumn(ElementType.DOUBLE, 1.5, null, -0.0);
        requireColumn(ElementType.STRING, "a", null, "", "Gr\u00fc\u00dfe, which are longer");
        requireColumn(ElementType.UUID, new UUID(1, 2), null);
        requireColumn(ElementType.DURATION, Duration.ofNanos(5), null);
        requireColumn(ElementType.LOCAL_DATE_TIME, LocalDateTime.of(2000, 1, 2, 3, 4), null);
        DurableList<BigDecimal> decimals =
                DurableList.create(pool, ElementType.BIG_DECIMAL, StorageTier.PMEM);
        decimals.add(BigDecimal.TEN);
        ArrowExport export = ArrowExport.of(decimals, ElementType.BIG_DECIMAL);
        assertEquals(List.of("10"), Read.export(export).column("value"));
        assertEquals(
                List.of(new BigDecimal("10.0")),
                Read.export(export.decimals("value", 3, 1)).column("value"));
        assertEquals(
                Map.of(Columns.TYPE, "java.math.BigDecimal"),
                export.schema().findField("value").getMetadata());
    }

    @SafeVarargs
    private <E> void requireColumn(ElementType<E> type, E... values) throws IOException {
        DurableList<E> list = DurableList.create(pool, type, StorageTier.PMEM);
        List<E> wanted = new ArrayList<>();
        for (int i = 0; i < 100; i++) {
            wanted.add(values[i % values.length]);
        }
        list.addAll(wanted);
        Read found = Read.export(ArrowExport.of(list, type).batches(33));
        assertEquals(wanted, found.column("value"), type::name);
        assertEquals(List.of(33, 33, 33, 1), found.sizes());
    }

    @Test
    void arraysAreListsToo() throws IOException {
        DurableArray<Double> weights = DurableArray.root(pool, "weights", ElementType.DOUBLE, 3);
        weights.set(1, 0.5);
        Read found = Read.export(ArrowExport.of(weights, ElementType.DOUBLE));
        assertEquals(Arrays.asList(null, 0.5, null), found.column("value"));
    }

    @Test
    void listsThatAreUsedWronglyAreRefused() {
        DurableList<Long> numbers = DurableList.create(pool, ElementType.LONG, StorageTier.PMEM);
        numbers.add(1L);
        ElementType<DurableSample> objects = ElementType.of(DurableSample.TYPE);
        DurableList<DurableSample> samples = DurableList.create(pool, objects, StorageTier.PMEM);
        DurableSample deleted = sample(_ -> {});
        samples.add(deleted);
        deleted.delete();
        assertThrows(
                StaleReferenceException.class,
                () -> Read.export(ArrowExport.of(samples, DurableSample.TYPE)));
        for (ArrowExport wrong :
                List.of(
                        ArrowExport.of(samples, objects),
                        ArrowExport.of(numbers, DurableSample.TYPE),
                        ArrowExport.of(numbers, ElementType.LONG).columns("number"),
                        ArrowExport.of(numbers, ElementType.LONG).decimals("value", 3, 1))) {
            assertThrows(IllegalArgumentException.class, () -> Read.export(wrong));
        }
        numbers.delete();
        assertThrows(
                StaleReferenceException.class,
                () -> Read.export(ArrowExport.of(numbers, ElementType.LONG)));
        assertNull(pool.root("none", DurableSample.TYPE).get());
    }
}
