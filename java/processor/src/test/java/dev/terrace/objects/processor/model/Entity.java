package dev.terrace.objects.processor.model;

import dev.terrace.objects.Durable;

/// Abstract: no class is generated, but its fields come first in those that extend it.
@Durable
abstract class Entity {
    long id;
    String label;
}
