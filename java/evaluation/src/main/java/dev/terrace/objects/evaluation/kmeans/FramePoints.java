package dev.terrace.objects.evaluation.kmeans;

import java.io.Serializable;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;

/// Points of a DataFrame with a column for each dimension.
final class FramePoints implements Points {
    private final Dataset<Row> frame;

    FramePoints(Dataset<Row> frame) {
        this.frame = frame;
    }

    @Override
    public <R extends Serializable> List<R> eachPartition(RowWork<R> work) {
        return frame.javaRDD()
                .mapPartitions(points -> List.of(work.apply(rows(points))).iterator())
                .collect();
    }

    private static Rows rows(Iterator<Row> points) {
        return new Rows() {
            private final double[] row = new double[Point.DIMENSIONS];

            @Override
            public boolean next() {
                if (!points.hasNext()) {
                    return false;
                }
                Row point = points.next();
                for (int i = 0; i < row.length; i++) {
                    row[i] = point.getDouble(i);
                }
                return true;
            }

            @Override
            public double[] row() {
                return row;
            }
        };
    }
}
