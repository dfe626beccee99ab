package dev.terrace.objects.evaluation.graph;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Objects;

/// People in a pool, as [AllPmemPerson] has them.
final class AllPmemPeople extends PoolPeople<DurableAllPmemPerson> {
    /// Opens the pool.
    AllPmemPeople(Path pmem, Path disk) throws IOException {
        super(pmem, disk, DurableAllPmemPerson.TYPE);
    }

    /// Makes the pool.
    static void load(Path graph, Path pmem, Path disk) throws IOException {
        load(
                graph,
                pmem,
                disk,
                DurableAllPmemPerson.TYPE,
                AllPmemPerson::new,
                DurableAllPmemPerson::of);
    }

    @Override
    int[] friends(int number) {
        return Objects.requireNonNull(person(number).getFriends());
    }

    @Override
    long features(DurableAllPmemPerson person, Category category, int word) {
        return switch (category) {
            case EMPLOYER -> person.getEmployer(word);
            case LOCATION -> person.getLocation(word);
            case SCHOOL -> person.getSchool(word);
            case HOMETOWN -> person.getHometown(word);
            case CONCENTRATION -> person.getConcentration(word);
            default -> throw new IllegalArgumentException(category + " is not searched by");
        };
    }
}
