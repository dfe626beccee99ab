package dev.terrace.objects.evaluation.kmeans;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.evaluation.run.Meter;
import dev.terrace.objects.evaluation.run.Phase;
import java.io.IOException;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class KMeansTest {
    private static final int DIMENSIONS = Point.DIMENSIONS;

    /// Points on the heap, in partitions, each shown in the same array.
    private record HeapPoints(List<double[]> rows, int partitions) implements Points {
        @Override
        public <R extends Serializable> List<R> eachPartition(RowWork<R> work) {
            List<R> results = new ArrayList<>();
            for (int i = 0; i < partitions; i++) {
                results.add(
                        work.apply(
                                rows(
                                        rows.subList(
                                                rows.size() * i / partitions,
                                                rows.size() * (i + 1) / partitions))));
            }
            return results;
        }

        private static Rows rows(List<double[]> some) {
            double[] row = new double[DIMENSIONS];
            var all = some.iterator();
            return new Rows() {
                @Override
                public boolean next() {
                    if (all.hasNext()) {
                        System.arraycopy(all.next(), 0, row, 0, DIMENSIONS);
                        return true;
                    }
                    return false;
                }

                @Override
                public double[] row() {
                    return row;
                }
            };
        }
    }

    /// Points around the corners 0, 100, 200 ... of the diagonal.
    private static List<double[]> points(int count) {
        Random random = new Random(3);
        return IntStream.range(0, count)
                .mapToObj(i ->
                        random.doubles(DIMENSIONS)
                                .map(x -> x + 100 * (i % KMeans.CLUSTERS))
                                .toArray())
                .toList();
    }

    private static KMeans.Clusters clusters(List<double[]> points, int partitions, int iterations)
            throws Exception {
        return new KMeans(new HeapPoints(points, partitions), new Meter()).run(iterations);
    }

    @Test
    void howPointsAreDividedMakesNoDifference() throws Exception {
        List<double[]> points = points(1000);
        KMeans.Clusters one = clusters(points, 1, 5);
        assertEquals(1000, one.rows());
        assertTrue(clusters(points, 7, 5).isAbout(one, 1e-9));
        assertTrue(clusters(points.reversed(), 3, 5).isAbout(one, 1e-9));
    }

    @Test
    void theCostIsThatOfEachPointToTheNearestCentre() throws Exception {
        List<double[]> points = points(200);
        KMeans.Clusters found = clusters(points, 3, 4);
        double cost = 0;
        for (double[] point : points) {
            double least = Double.MAX_VALUE;
            for (int cluster = 0; cluster < KMeans.CLUSTERS; cluster++) {
                double square = 0;
                for (int i = 0; i < DIMENSIONS; i++) {
                    square += Math.pow(point[i] - found.centres()[cluster * DIMENSIONS + i], 2);
                }
                least = Math.min(least, square);
            }
            cost += least;
        }
        assertEquals(cost, found.cost(), cost * 1e-12);
        assertTrue(clusters(points, 3, 0).cost() > found.cost());
    }

    @Test
    void eachStepIsAPhase() throws Exception {
        Meter meter = new Meter();
        new KMeans(new HeapPoints(points(50), 2), meter).run(2);
        assertEquals(
                List.of(
                        KMeans.LOAD,
                        KMeans.INITIAL,
                        KMeans.ITERATION,
                        KMeans.ITERATION,
                        KMeans.COST),
                meter.phases().stream().map(Phase::name).toList());
    }

    @Test
    void pointsThatAreTheSameAreNoClustersOfTheirOwn() {
        List<double[]> same = Collections.nCopies(100, new double[DIMENSIONS]);
        String message =
                assertThrows(IllegalArgumentException.class, () -> clusters(same, 2, 1))
                        .getMessage();
        assertEquals("1 different points cannot be 10 clusters", message);
    }

    @Test
    void clustersThatDifferAreSeen() {
        KMeans.Clusters some = new KMeans.Clusters(5, new double[] {1, 2}, 3);
        assertTrue(some.isAbout(new KMeans.Clusters(5, new double[] {1, 2 + 1e-10}, 3), 1e-9));
        assertFalse(some.isAbout(new KMeans.Clusters(5, new double[] {1, 2 + 1e-8}, 3), 1e-9));
        assertFalse(some.isAbout(new KMeans.Clusters(6, new double[] {1, 2}, 3), 1e-9));
        assertFalse(some.isAbout(new KMeans.Clusters(5, new double[] {1, 2}, 3.1), 1e-9));
        assertFalse(some.isAbout(new KMeans.Clusters(5, new double[] {1}, 3), 1e-9));
    }

    @Test
    void bothFilesHaveTheSameNumbers(@TempDir Path directory) throws IOException {
        PointFiles files = new PointFiles(directory);
        files.write(500);
        List<String> lines = Files.readAllLines(files.text());
        assertEquals(500, lines.size());
        ByteBuffer binary = ByteBuffer.wrap(Files.readAllBytes(files.binary()));
        boolean someBelowZero = false;
        for (String line : lines) {
            double[] row = new double[DIMENSIONS];
            binary.asDoubleBuffer().get(row);
            binary.position(binary.position() + DIMENSIONS * Double.BYTES);
            assertArrayEquals(
                    row, Arrays.stream(line.split(" ")).mapToDouble(Double::parseDouble).toArray());
            someBelowZero |= line.contains("-0.");
        }
        assertEquals(0, binary.remaining());
        assertTrue(someBelowZero);
    }
}
