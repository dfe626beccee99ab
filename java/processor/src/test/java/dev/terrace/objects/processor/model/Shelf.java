package dev.terrace.objects.processor.model;

import static dev.terrace.objects.StorageTier.DISK;
import static dev.terrace.objects.StorageTier.DRAM;
import static dev.terrace.objects.StorageTier.PMEM;
import static dev.terrace.objects.StorageTier.SSD;

import dev.terrace.objects.Apart;
import dev.terrace.objects.Durable;
import dev.terrace.objects.Embedded;
import dev.terrace.objects.FixedLength;
import dev.terrace.objects.Tier;

/// Fields that share buffers, and fields that look like them.
@Durable
record Shelf(
        int inRecord,
        @Tier(DISK) int pages,
        @Tier(DISK) Long year,
        @Tier(DISK) @FixedLength(256) byte[] cover,
        @Tier(DISK) @FixedLength(257) byte[] large,
        @Tier(DISK) byte[] ofAnyLength,
        @Tier(DISK) String text,
        @Tier(DISK) @Apart int visits,
        @Embedded @Tier(DISK) Box box,
        @Tier(SSD) int alone,
        @Tier({PMEM, DISK}) char grade,
        @Tier({PMEM, DISK}) Binding binding,
        @Tier(DRAM) int seen) {
    enum Binding {
        HARD,
        SOFT
    }

    record Box(
            String label,
            double weight,
            @Apart String story,
            @Tier(PMEM) String near,
            @Apart @Tier(PMEM) int number,
            byte[] picture) {}
}
