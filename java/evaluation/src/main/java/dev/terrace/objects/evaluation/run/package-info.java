/// Measurements in processes of their own.
@NullMarked
package dev.terrace.objects.evaluation.run;

import org.jspecify.annotations.NullMarked;
