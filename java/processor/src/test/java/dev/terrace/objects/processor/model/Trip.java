package dev.terrace.objects.processor.model;

import dev.terrace.objects.Durable;
import dev.terrace.objects.Embedded;
import java.util.List;
import java.util.Map;

/// A record that leads to records, to classes, and to itself.
@Durable
record Trip(
        String title,
        Person guide,
        Trip next,
        List<Trip> variants,
        Map<String, Trip> byName,
        @Embedded Geo start) {}
