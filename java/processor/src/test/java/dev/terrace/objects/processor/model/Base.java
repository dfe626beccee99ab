package dev.terrace.objects.processor.model;

import static dev.terrace.objects.StorageTier.DRAM;

import dev.terrace.objects.Durable;
import dev.terrace.objects.Recompute;
import dev.terrace.objects.Tier;

/// Abstract, with a field that each subclass has to recompute by a method of its own.
@Durable
public abstract class Base {
    @Tier(DRAM)
    @Recompute("score")
    public double score;
}
