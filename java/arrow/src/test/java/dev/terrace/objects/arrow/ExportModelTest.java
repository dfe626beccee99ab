package dev.terrace.objects.arrow;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.DurableObject;
import dev.terrace.objects.InMemory;
import dev.terrace.objects.ObjectType;
import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolOptions;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.collections.DurableList;
import dev.terrace.objects.collections.ElementType;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Arrow's own readers find in an export the values of all objects, in all layouts.
class ExportModelTest {
    private static final int SEEDS = Boolean.getBoolean("terrace.long") ? 300 : 30;
    private static final int[] COUNTS = {0, 1, 2, 63, 64, 65, 128, 200};
    private static final int[] BATCHES = {1, 7, 63, 64, 65, 100, 200, 16_384};

    @TempDir(factory = InMemory.class)
    private Path dir;

    private static DurableObject make(Pool pool, Sample sample) {
        return sample instanceof SampleInColumns inColumns
                ? DurableSampleInColumns.of(pool, inColumns)
                : DurableSample.of(pool, sample);
    }

    /// A pool, and what must be found in it.
    private static final class Run {
        final Random random;
        final Samples samples;
        final boolean isInColumns;
        final Pool pool;

        /// The expected values of each object, by its reference.
        final Map<Long, Map<String, Object>> expected = new LinkedHashMap<>();

        Run(long seed, Pool pool) {
            random = new Random(seed);
            samples = new Samples(random);
            isInColumns = random.nextBoolean();
            this.pool = pool;
        }

        ObjectType<?> type() {
            return isInColumns ? DurableSampleInColumns.TYPE : DurableSample.TYPE;
        }

        void add() throws ReflectiveOperationException {
            Sample sample = samples.fill(isInColumns ? new SampleInColumns() : new Sample());
            long reference = make(pool, sample).reference();
            Map<String, Object> row = new LinkedHashMap<>();
            row.put(Columns.ID, reference);
            row.putAll(Samples.expected(sample));
            row.put("next", null);
            expected.put(reference, row);
        }

        void remove() {
            long reference = any();
            pool.object(type(), reference).delete();
            expected.remove(reference);
        }

        /// Leads from an object to another.
        void lead() {
            if (!isInColumns) {
                long from = any();
                long to = any();
                DurableSample.class
                        .cast(pool.object(DurableSample.TYPE, from))
                        .setNext(pool.object(DurableSample.TYPE, to));
                expected.get(from).put("next", to);
            }
        }

        private long any() {
            List<Long> all = List.copyOf(expected.keySet());
            return all.get(random.nextInt(all.size()));
        }

        void requireSame(Read found) {
            List<Map<String, Object>> rows = found.rows();
            assertEquals(expected.size(), rows.size());
            for (Map<String, Object> row : rows) {
                Map<String, Object> wanted = expected.get(row.get(Columns.ID));
                assertEquals(wanted.keySet(), row.keySet());
                row.forEach((name, value) ->
                        assertEquals(wanted.get(name), value, () -> "column " + name));
            }
        }
    }

    @Test
    void whatArrowReadsIsWhatObjectsHold() throws Exception {
        for (int seed = 0; seed < SEEDS; seed++) {
            Path place = Files.createDirectory(dir.resolve("pool " + seed));
            PoolOptions options =
                    PoolOptions.defaults().extents(1 << 20).disk(StorageTier.SSD, place);
            if (seed % 3 == 0) {
                options = options.withPmemChecksums();
            }
            try (Pool pool = Pool.open(place, options)) {
                Run run = new Run(seed, pool);
                int count = COUNTS[run.random.nextInt(COUNTS.length)];
                for (int i = 0; i < count; i++) {
                    run.add();
                }
                for (int i = run.random.nextInt(20); i > 0 && !run.expected.isEmpty(); i--) {
                    run.lead();
                    if (run.random.nextInt(3) == 0) {
                        run.remove();
                    }
                }
                int batch = BATCHES[run.random.nextInt(BATCHES.length)];
                check(run, ArrowExport.of(pool, run.type()).batches(batch), batch, place);
                if (count > 0) {
                    String name = run.type().name();
                    check(run, ArrowExport.of(pool, name).batches(batch), batch, place);
                }
                checkList(run, batch);
            }
        }
    }

    private static void check(Run run, ArrowExport export, int batch, Path place)
            throws IOException {
        Path file = place.resolve("out.arrow");
        assertEquals(run.expected.size(), export.save(file, ArrowFormat.FILE, SaveOption.REPLACE));
        Read found = Read.file(file);
        run.requireSame(found);
        requireFull(found.sizes(), batch);
        ByteArrayOutputStream stream = new ByteArrayOutputStream();
        assertEquals(run.expected.size(), export.write(stream, ArrowFormat.STREAM));
        assertEquals(found, Read.stream(stream.toByteArray()));
        assertEquals(found.sizes(), Read.export(export).sizes());
        export.save(file, ArrowFormat.STREAM, SaveOption.REPLACE, SaveOption.ONE_COMMIT);
        assertEquals(found, Read.stream(Files.readAllBytes(file)));
        try (var files = Files.list(place)) {
            assertTrue(files.noneMatch(each -> each.toString().endsWith(".new")));
        }
    }

    /// All batches but the last have all the rows that they may have.
    private static void requireFull(List<Integer> sizes, int batch) {
        for (int i = 0; i < sizes.size() - 1; i++) {
            assertEquals(batch, sizes.get(i));
        }
        assertTrue(sizes.isEmpty() || sizes.getLast() <= batch);
    }

    /// The same objects as a list, in another order, some of them twice, and null.
    private static void checkList(Run run, int batch) throws IOException {
        if (run.isInColumns) {
            return;
        }
        DurableList<DurableSample> list =
                DurableList.root(run.pool, "list", ElementType.of(DurableSample.TYPE));
        List<Map<String, Object>> wanted = new ArrayList<>();
        for (int i = 0; i < run.expected.size() * 3 / 2; i++) {
            boolean isNull = run.random.nextInt(5) == 0;
            long reference = run.any();
            list.add(isNull ? null : run.pool.object(DurableSample.TYPE, reference));
            wanted.add(isNull ? Map.of() : run.expected.get(reference));
        }
        Read found = Read.export(ArrowExport.of(list, DurableSample.TYPE).batches(batch));
        assertEquals(wanted.size(), found.rows().size());
        for (int i = 0; i < wanted.size(); i++) {
            for (Map.Entry<String, Object> cell : found.rows().get(i).entrySet()) {
                if (!cell.getKey().equals("next")) {
                    assertEquals(wanted.get(i).get(cell.getKey()), cell.getValue(), cell.getKey());
                }
            }
        }
        requireFull(found.sizes(), batch);
    }
}
