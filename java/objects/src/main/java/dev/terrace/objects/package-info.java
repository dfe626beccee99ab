/// Durable Java objects whose fields lie on different tiers.
///
/// A [Pool] holds objects of tagged classes ([Durable], [Tier]): the annotation processor
/// generates, beside a class `Person`, the class `DurablePerson` whose getters and setters read and
/// write the pool in place. [Pool#transact] changes many objects on several tiers at once, or none.
@NullMarked
package dev.terrace.objects;

import org.jspecify.annotations.NullMarked;
