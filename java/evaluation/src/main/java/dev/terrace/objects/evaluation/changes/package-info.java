/// Statements that change few rows of a table, and the scan that follows.
@NullMarked
package dev.terrace.objects.evaluation.changes;

import org.jspecify.annotations.NullMarked;
