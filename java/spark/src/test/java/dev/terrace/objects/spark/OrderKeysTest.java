package dev.terrace.objects.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.Random;
import org.apache.spark.sql.types.DataTypes;
import org.junit.jupiter.api.Test;

/// Keys have the order of what they are of.
class OrderKeysTest {
    private static byte[] key(double value) {
        return Objects.requireNonNull(OrderKeys.of(value, DataTypes.DoubleType));
    }

    @Test
    void numbersAreInTheOrderOfTheirKeys() {
        List<Double> ordered =
                List.of(
                        Double.NEGATIVE_INFINITY,
                        -1e300,
                        -1.5,
                        -Double.MIN_VALUE,
                        0.0,
                        Double.MIN_VALUE,
                        1.0,
                        1e300,
                        Double.POSITIVE_INFINITY,
                        Double.NaN);
        for (int i = 0; i + 1 < ordered.size(); i++) {
            assertTrue(
                    OrderKeys.compare(key(ordered.get(i)), key(ordered.get(i + 1))) < 0,
                    ordered.get(i).toString());
        }
        assertArrayEquals(key(0.0), key(-0.0));
        assertArrayEquals(key(Double.NaN), key(Double.longBitsToDouble(0xfff8000000000001L)));
        for (long number : new long[] {Long.MIN_VALUE, -1, 0, 1, Long.MAX_VALUE}) {
            assertEquals(number, OrderKeys.toLong(OrderKeys.ofLong(number)));
        }
    }

    @Test
    void longKeysAreCutOffOnTheRightSide() {
        Random random = new Random(1);
        for (int i = 0; i < 1000; i++) {
            byte[] value = new byte[OrderKeys.BYTES_MAX - 2 + random.nextInt(5)];
            random.nextBytes(value);
            if (random.nextBoolean()) {
                Arrays.fill(value, 1 + random.nextInt(value.length - 1), value.length, (byte) 0xff);
            }
            assertTrue(OrderKeys.compare(OrderKeys.floor(value), value) <= 0);
            byte[] ceiling = OrderKeys.ceiling(value);
            assertTrue(
                    ceiling == null
                            ? value[0] == (byte) 0xff
                            : OrderKeys.compare(ceiling, value) >= 0);
        }
        byte[] greatest = new byte[100];
        Arrays.fill(greatest, (byte) 0xff);
        assertNull(OrderKeys.ceiling(greatest));
    }
}
