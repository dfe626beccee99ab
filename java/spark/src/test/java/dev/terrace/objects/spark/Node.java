package dev.terrace.objects.spark;

import dev.terrace.objects.Durable;
import java.io.Serializable;

/// A tagged class that leads to itself.
@Durable
record Node(int number, Node next) implements Serializable {}
