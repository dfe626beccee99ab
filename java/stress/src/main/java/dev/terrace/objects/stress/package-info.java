/// What threads, and processes that only read, may see of what another thread writes: each test
/// lists it, and jcstress looks for anything else.
@NullMarked
package dev.terrace.objects.stress;

import org.jspecify.annotations.NullMarked;
