/// Objects and lists of a pool as record batches of Apache Arrow.
@NullMarked
package dev.terrace.objects.arrow;

import org.jspecify.annotations.NullMarked;
