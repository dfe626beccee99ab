package dev.terrace.objects.processor.model;

/// A record that is embedded only, and not tagged.
record Geo(double lat, double lon) {}
