/// What each experiment of the evaluation is, and what it is told.
@NullMarked
package dev.terrace.objects.evaluation.experiment;

import org.jspecify.annotations.NullMarked;
