/// Predictions of placement, beside measurements of a pool with that placement.
@NullMarked
package dev.terrace.objects.evaluation.placement;

import org.jspecify.annotations.NullMarked;
