package dev.terrace.guide;

import static dev.terrace.objects.StorageTier.DISK;
import static dev.terrace.objects.StorageTier.PMEM;

import dev.terrace.objects.Durable;
import dev.terrace.objects.Tier;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;

/// The guide's class with collections.
@Durable
class Team {
    List<Person> members;
    Map<String, Integer> scores;

    @Tier({PMEM, DISK})
    SortedMap<Long, String> minutes;
}
