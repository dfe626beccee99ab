package dev.terrace.guide;

/// Where somebody lives.
record Address(String street, int zip) {}
