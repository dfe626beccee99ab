package dev.terrace.objects.tools;

import static dev.terrace.objects.StorageTier.REMOTE;

import dev.terrace.objects.Durable;
import dev.terrace.objects.Tier;

/// A class with a field on the remote tier.
@Durable
class Archive {
    int number;

    @Tier(REMOTE)
    byte[] pages;
}
