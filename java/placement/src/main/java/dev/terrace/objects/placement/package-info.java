/// Where each field of a class costs least: an integer program over what a profile counted and what
/// a probe measured (section 3.4 of the paper).
@NullMarked
package dev.terrace.objects.placement;

import org.jspecify.annotations.NullMarked;
