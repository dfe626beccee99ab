package dev.terrace.guide;

import static dev.terrace.objects.StorageTier.DISK;
import static dev.terrace.objects.StorageTier.DRAM;
import static dev.terrace.objects.StorageTier.PMEM;

import dev.terrace.objects.Durable;
import dev.terrace.objects.Embedded;
import dev.terrace.objects.FixedLength;
import dev.terrace.objects.Recompute;
import dev.terrace.objects.Tier;

/// The guide's class.
@Durable
class Person {
    int age;
    String place;

    @Tier({PMEM, DISK})
    String name;

    @Tier(DISK)
    byte[] image;

    @FixedLength(3)
    double[] position = new double[3];

    @Embedded Address home;

    Person boss;

    @Tier(DRAM)
    @Recompute("score")
    double score;

    static double score(DurablePerson person) {
        return person.getAge() * 2.0;
    }
}
