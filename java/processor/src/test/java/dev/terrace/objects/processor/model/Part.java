package dev.terrace.objects.processor.model;

import dev.terrace.objects.Durable;

/// Extends a tagged class.
@Durable
class Part extends Entity {
    int weight;
}
