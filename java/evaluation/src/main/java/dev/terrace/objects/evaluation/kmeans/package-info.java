/// k-means on Spark: the same clusters of the same points, read in different ways.
@NullMarked
package dev.terrace.objects.evaluation.kmeans;

import org.jspecify.annotations.NullMarked;
