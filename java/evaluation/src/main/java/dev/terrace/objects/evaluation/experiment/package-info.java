/// The interface of the evaluation's experiments, and their settings.
@NullMarked
package dev.terrace.objects.evaluation.experiment;

import org.jspecify.annotations.NullMarked;
