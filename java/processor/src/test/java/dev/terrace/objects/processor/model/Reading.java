package dev.terrace.objects.processor.model;

import static dev.terrace.objects.StorageTier.DISK;

import dev.terrace.objects.Columnar;
import dev.terrace.objects.Durable;
import dev.terrace.objects.Embedded;
import dev.terrace.objects.FixedLength;
import dev.terrace.objects.Tier;
import java.time.Instant;
import java.util.List;

/// A class in columns, with fields within its records, behind slots, in a group and in a
/// collection.
@Durable
@Columnar
class Reading {
    long time;
    int sensor;
    boolean isValid;
    Short quality;
    Instant noted;
    String unit;
    Reading last;

    @FixedLength(3)
    double[] values = new double[3];

    @Embedded
    @Tier(DISK)
    Geo place;

    List<String> notes;

    /// What is compared.
    List<Object> all() {
        return java.util.Arrays.asList(
                time, sensor, isValid, quality, noted, unit, values[0], values[1], values[2], place,
                notes);
    }
}
