/// Spark, as measurements run it, and what it answers.
@NullMarked
package dev.terrace.objects.evaluation.spark;

import org.jspecify.annotations.NullMarked;
