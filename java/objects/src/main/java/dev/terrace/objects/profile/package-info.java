/// What programs do with fields: counted, so that each can be kept where that costs least.
@NullMarked
package dev.terrace.objects.profile;

import org.jspecify.annotations.NullMarked;
