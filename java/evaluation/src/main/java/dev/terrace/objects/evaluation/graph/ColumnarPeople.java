package dev.terrace.objects.evaluation.graph;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Objects;

/// People in a pool, as [ColumnarPerson] has them.
final class ColumnarPeople extends PoolPeople<DurableColumnarPerson> {
    /// Opens the pool.
    ColumnarPeople(Path pmem, Path disk) throws IOException {
        super(pmem, disk, DurableColumnarPerson.TYPE);
    }

    /// Makes the pool.
    static void load(Path graph, Path pmem, Path disk) throws IOException {
        load(
                graph,
                pmem,
                disk,
                DurableColumnarPerson.TYPE,
                ColumnarPerson::new,
                DurableColumnarPerson::of);
    }

    @Override
    int[] friends(int number) {
        return Objects.requireNonNull(person(number).getFriends());
    }

    @Override
    long features(DurableColumnarPerson person, Category category, int word) {
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
