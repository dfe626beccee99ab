/// Tests of the values that threads, and read-only processes, may see while another thread writes.
/// Each test lists them, and jcstress looks for any others.
@NullMarked
package dev.terrace.objects.stress;

import org.jspecify.annotations.NullMarked;
