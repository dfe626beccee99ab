/// The costs of pools and objects, each beside the costs of a program without them.
@NullMarked
package dev.terrace.objects.bench;

import org.jspecify.annotations.NullMarked;
