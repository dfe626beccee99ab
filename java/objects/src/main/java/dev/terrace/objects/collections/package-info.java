/// Lists, maps, arrays and sorted maps that live in a pool and are `java.util` collections.
///
/// Each operation is a transaction of its own, or a part of the one that it is called in. Each read
/// sees one committed state.
@NullMarked
package dev.terrace.objects.collections;

import org.jspecify.annotations.NullMarked;
