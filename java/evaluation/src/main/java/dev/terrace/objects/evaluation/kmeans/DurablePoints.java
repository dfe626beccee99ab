package dev.terrace.objects.evaluation.kmeans;

import dev.terrace.objects.Cursor;
import dev.terrace.objects.spark.DurableRDD;
import java.io.Serializable;
import java.util.List;

/// Points in pools, read in place: the heap has one row for each task.
final class DurablePoints implements Points {
    private final DurableRDD<Point, DurablePoint> points;

    DurablePoints(DurableRDD<Point, DurablePoint> points) {
        this.points = points;
    }

    @Override
    public <R extends Serializable> List<R> eachPartition(RowWork<R> work) {
        return points.<R>mapInPlace(cursor -> List.of(work.apply(rows(cursor))).iterator())
                .collect();
    }

    private static Rows rows(Cursor<DurablePoint> cursor) {
        return new Rows() {
            private final double[] row = new double[Point.DIMENSIONS];

            @Override
            public boolean next() {
                if (!cursor.next()) {
                    return false;
                }
                cursor.get().copyCoordinates(row);
                return true;
            }

            @Override
            public double[] row() {
                return row;
            }
        };
    }
}
