/// Durable objects and tables as data of Apache Spark.
///
/// [DurableRDD] is an RDD of durable objects in a directory of pools, one for each partition.
/// `spark.read().format("terrace")` and `.write()` are tables whose columns lie on tiers. Both are
/// a directory of parts, each a pool that one task has written, and of manifests that say which
/// parts count.
@NullMarked
package dev.terrace.objects.spark;

import org.jspecify.annotations.NullMarked;
