/// Placements applied to Java sources: the tags of fields are set, all else stays as it is.
@NullMarked
package dev.terrace.objects.placement.source;

import org.jspecify.annotations.NullMarked;
