package dev.terrace.objects.evaluation.graph;

import dev.terrace.objects.Durable;
import dev.terrace.objects.Embedded;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.Tier;

/// A person whose features lie in persistent memory if they are searched by, and on disk if not:
/// SELECT-PMEM of the paper's section 4.
@Durable
class SelectPmemPerson extends Person {
    private static final long serialVersionUID = 1;

    @Tier(StorageTier.DISK)
    @Embedded
    Details details = new Details();

    @Override
    Details details() {
        return details;
    }
}
