/// The command `terrace-objects`: looks at pools, without the classes that they were written with.
@NullMarked
package dev.terrace.objects.tools;

import org.jspecify.annotations.NullMarked;
