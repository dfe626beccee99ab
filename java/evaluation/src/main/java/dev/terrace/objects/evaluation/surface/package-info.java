/// The paper's example of two fields.
@NullMarked
package dev.terrace.objects.evaluation.surface;

import org.jspecify.annotations.NullMarked;
