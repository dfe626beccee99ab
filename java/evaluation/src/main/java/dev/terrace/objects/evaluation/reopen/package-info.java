/// How soon what a process has left can be used by the next.
@NullMarked
package dev.terrace.objects.evaluation.reopen;

import org.jspecify.annotations.NullMarked;
