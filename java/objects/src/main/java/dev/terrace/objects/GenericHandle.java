package dev.terrace.objects;

/// A handle of an object whose class nobody has.
final class GenericHandle extends DurableObject {}
