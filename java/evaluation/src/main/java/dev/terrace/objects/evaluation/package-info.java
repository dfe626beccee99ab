/// The paper's evaluation, done again: the same work on several layouts, side by side.
@NullMarked
package dev.terrace.objects.evaluation;

import org.jspecify.annotations.NullMarked;
