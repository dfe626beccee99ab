/// What placement predicts, beside what is measured once a pool has been told.
@NullMarked
package dev.terrace.objects.evaluation.placement;

import org.jspecify.annotations.NullMarked;
