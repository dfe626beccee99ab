package dev.terrace.objects.evaluation.graph;

import dev.terrace.objects.Durable;
import dev.terrace.objects.Embedded;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.Tier;

/// A person with an image, which lies on disk as the paper's listing 2 has it, as do the features
/// that nobody searches by.
@Durable
class PicturedPerson extends Person {
    private static final long serialVersionUID = 1;

    @Tier(StorageTier.DISK)
    @Embedded
    Details details = new Details();

    @Tier(StorageTier.DISK)
    byte[] image = {};

    @Override
    Details details() {
        return details;
    }
}
