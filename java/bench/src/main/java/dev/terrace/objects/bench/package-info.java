/// What pools and objects cost, each beside what a program would do without them.
@NullMarked
package dev.terrace.objects.bench;

import org.jspecify.annotations.NullMarked;
