package dev.terrace.objects.evaluation.graph;

import dev.terrace.objects.Durable;
import dev.terrace.objects.Embedded;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.Tier;

/// A person all of whose fields lie in persistent memory: ALL-PMEM of the paper's section 4.
@Durable
class AllPmemPerson extends Person {
    private static final long serialVersionUID = 1;

    @Tier(StorageTier.PMEM)
    @Embedded
    Details details = new Details();

    @Override
    Details details() {
        return details;
    }
}
