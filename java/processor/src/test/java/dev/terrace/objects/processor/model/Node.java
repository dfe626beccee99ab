package dev.terrace.objects.processor.model;

import dev.terrace.objects.Durable;

/// An element of a chain.
@Durable
class Node {
    int value;
    Node next;
}
