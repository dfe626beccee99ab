package dev.terrace.objects.processor.model;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.Cursor;
import dev.terrace.objects.ObjectType;
import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolOptions;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Instant;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// The class that is generated for one in columns.
class ColumnarTest {
    private static final int COUNT = 3000;

    @TempDir private Path directory;

    private static Reading reading(int number) {
        Reading reading = new Reading();
        reading.time = -number;
        reading.sensor = number;
        reading.isValid = number % 3 == 0;
        reading.quality = number % 2 == 0 ? null : (short) number;
        reading.noted = Instant.ofEpochSecond(number, 5);
        reading.unit = "unit " + number;
        reading.values = new double[] {number, 0.5, -number};
        reading.place = new Geo(number, 2);
        reading.notes = List.of("note " + number);
        return reading;
    }

    private static void expectAll(Pool pool) {
        int[] sensors = new int[Cursor.BATCH_MAX];
        boolean[] valid = new boolean[Cursor.BATCH_MAX];
        double[] values = new double[3 * Cursor.BATCH_MAX];
        double[] row = new double[3];
        int met = 0;
        Cursor<DurableReading> all = pool.cursor(DurableReading.TYPE);
        for (int count = all.nextBatch(); count > 0; count = all.nextBatch()) {
            DurableReading.copySensor(all, sensors, 0);
            DurableReading.copyIsValid(all, valid, 0);
            DurableReading.copyValues(all, values, 0);
            for (int i = 0; i < count; i++, met++) {
                DurableReading one = pool.object(DurableReading.TYPE, all.reference(i));
                assertEquals(sensors[i], one.getSensor());
                assertEquals(valid[i], one.isValid());
                assertEquals(-sensors[i], one.getTime());
                assertEquals(sensors[i], values[3 * i]);
                assertEquals(3, one.copyValues(row));
                assertArrayEquals(new double[] {sensors[i], 0.5, -sensors[i]}, row);
                assertEquals(0.5, one.getValues(1));
                assertTrue(one.unitEquals("unit " + sensors[i]));
                assertEquals(reading(sensors[i]).all(), one.toReading().all());
            }
        }
        assertEquals(COUNT, met);
    }

    @Test
    void allFieldsComeBack() throws IOException {
        PoolOptions options = PoolOptions.defaults().extents(1 << 20);
        assertTrue(DurableReading.TYPE.isColumnar());
        assertSame(DurableReading.TYPE, ObjectType.of(DurableReading.class));
        assertFalse(DurablePerson.TYPE.isColumnar());
        try (Pool pool = Pool.open(directory, options)) {
            pool.transact(() ->
                    IntStream.range(0, COUNT).forEach(i -> DurableReading.of(pool, reading(i))));
            expectAll(pool);
            assertEquals(List.of(), pool.check().problems());
        }
        try (Pool pool = Pool.open(directory, options.toRead())) {
            expectAll(pool);
        }
    }
}
