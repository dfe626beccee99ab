package dev.terrace.objects.evaluation.graph;

import dev.terrace.objects.Columnar;
import dev.terrace.objects.Durable;
import dev.terrace.objects.Embedded;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.Tier;

/// The same as [SelectPmemPerson], in columns: the features of a category that is searched by lie
/// beside those of other people.
@Durable
@Columnar
class ColumnarPerson extends Person {
    private static final long serialVersionUID = 1;

    @Tier(StorageTier.DISK)
    @Embedded
    Details details = new Details();

    @Override
    Details details() {
        return details;
    }
}
