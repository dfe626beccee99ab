/// The annotation processor: reads classes tagged `@Durable` and generates, beside a class
/// `Person`, the class `DurablePerson`.
///
/// [DurableProcessor] drives the rounds; [ClassReader], [ShapeReader] and [TagReader] turn a tagged
/// class into a [PlainClass] or into errors at its fields; [Layout] flattens it into the record's
/// [Slot]s; [Generator] writes the class.
@NullMarked
package dev.terrace.objects.processor;

import org.jspecify.annotations.NullMarked;
