/// Measurements as tables, plots and verdicts.
@NullMarked
package dev.terrace.objects.evaluation.report;

import org.jspecify.annotations.NullMarked;
