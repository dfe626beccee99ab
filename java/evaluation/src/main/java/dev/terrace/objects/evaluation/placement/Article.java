package dev.terrace.objects.evaluation.placement;

import dev.terrace.objects.Durable;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.Tier;

/// Something to read, all of it on disk until somebody has looked at what is read how often.
@Durable
class Article {
    @Tier(StorageTier.DISK)
    byte[] preview = {};

    @Tier(StorageTier.DISK)
    byte[] text = {};

    @Tier(StorageTier.DISK)
    byte[] picture = {};
}
