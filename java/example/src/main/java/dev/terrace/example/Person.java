package dev.terrace.example;

import dev.terrace.objects.Durable;
import dev.terrace.objects.FixedLength;
import dev.terrace.objects.Recompute;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.Tier;
import org.jspecify.annotations.Nullable;

/// Somebody who is searched for by age and place; the image is only looked at when that somebody
/// has been found.
@Durable
class Person {
    static final int IMAGE_BYTES = 10_000;

    @Tier(StorageTier.PMEM)
    int age;

    @Tier(StorageTier.PMEM)
    @Nullable String place;

    @Tier({StorageTier.PMEM, StorageTier.DISK})
    @Nullable String name;

    @Tier(StorageTier.DISK)
    @FixedLength(IMAGE_BYTES)
    byte[] image = new byte[IMAGE_BYTES];

    @Tier(StorageTier.DRAM)
    @Recompute("score")
    double score;

    /// The value of a person's image, which is computed when it is first read after the pool was
    /// opened.
    static double score(DurablePerson person) {
        long sum = 0;
        for (byte pixel : person.getImage()) {
            sum += pixel & 0xff;
        }
        return (double) sum / IMAGE_BYTES;
    }
}
