/// Lists, maps, arrays and sorted maps in a pool, which are `java.util` collections.
///
/// Each operation is a transaction, or a part of the transaction that calls it. Each read sees one
/// committed state.
@NullMarked
package dev.terrace.objects.collections;

import org.jspecify.annotations.NullMarked;
