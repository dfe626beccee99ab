package dev.terrace.objects.bench;

import dev.terrace.objects.Durable;
import dev.terrace.objects.FixedLength;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.Tier;

/// Many rows in one object, as who only scans them would store them.
@Durable
class Block {
    static final int ROWS = 64;

    @Tier(StorageTier.PMEM)
    @FixedLength(ROWS * Sample.DIMENSIONS)
    double[] rows = new double[ROWS * Sample.DIMENSIONS];
}
