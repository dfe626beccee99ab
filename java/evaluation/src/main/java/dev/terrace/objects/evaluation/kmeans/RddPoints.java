package dev.terrace.objects.evaluation.kmeans;

import java.io.Serializable;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.api.java.JavaRDD;

/// Points of an RDD, each an array on the heap.
final class RddPoints implements Points {
    private final JavaRDD<double[]> rdd;

    RddPoints(JavaRDD<double[]> rdd) {
        this.rdd = rdd;
    }

    @Override
    public <R extends Serializable> List<R> eachPartition(RowWork<R> work) {
        return rdd.mapPartitions(points -> List.of(work.apply(rows(points))).iterator()).collect();
    }

    private static Rows rows(Iterator<double[]> points) {
        return new Rows() {
            private double[] row = {};

            @Override
            public boolean next() {
                boolean isThere = points.hasNext();
                if (isThere) {
                    row = points.next();
                }
                return isThere;
            }

            @Override
            public double[] row() {
                return row;
            }
        };
    }
}
