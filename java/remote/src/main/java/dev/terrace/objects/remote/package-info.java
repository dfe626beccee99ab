/// A remote tier for pools, over Hadoop's file systems.
@NullMarked
package dev.terrace.objects.remote;

import org.jspecify.annotations.NullMarked;
