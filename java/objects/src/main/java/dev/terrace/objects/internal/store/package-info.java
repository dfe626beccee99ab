/// The storage of a pool: regions, the commit log, allocation, buffers. Not for users of the
/// library.
@NullMarked
package dev.terrace.objects.internal.store;

import org.jspecify.annotations.NullMarked;
