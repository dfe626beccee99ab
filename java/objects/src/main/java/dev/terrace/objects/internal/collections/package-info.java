/// What collections are made of in a pool: records, trees, tables and cells, and what is left of
/// collections that were deleted.
///
/// It knows the store below it, and of a pool only a [Heap]. The collections that programs use are
/// views of it.
@NullMarked
package dev.terrace.objects.internal.collections;

import org.jspecify.annotations.NullMarked;
