/// What generated classes need besides objects and collections, and what other storage that holds
/// pools needs.
@NullMarked
package dev.terrace.objects.spi;

import org.jspecify.annotations.NullMarked;
