/// Graph search: friends of somebody who share features with what is sought.
@NullMarked
package dev.terrace.objects.evaluation.graph;

import org.jspecify.annotations.NullMarked;
