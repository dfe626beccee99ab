package dev.terrace.objects.evaluation.graph;

import dev.terrace.objects.Pool;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Objects;

/// People in a pool, as [PicturedPerson] has them, with their images.
final class PicturedPeople extends PoolPeople<DurablePicturedPerson> implements Images {
    /// Opens the pool.
    PicturedPeople(Path pmem, Path disk) throws IOException {
        super(pmem, disk, DurablePicturedPerson.TYPE);
    }

    /// Makes the pool.
    static void load(Path graph, Path pmem, Path disk) throws IOException {
        load(
                graph,
                pmem,
                disk,
                DurablePicturedPerson.TYPE,
                PicturedPerson::new,
                PicturedPeople::copy);
    }

    private static DurablePicturedPerson copy(Pool pool, PicturedPerson person) {
        person.image = Image.of(person.number);
        return DurablePicturedPerson.of(pool, person);
    }

    @Override
    public byte[] image(int number) {
        return Objects.requireNonNull(person(number).getImage());
    }

    @Override
    int[] friends(int number) {
        return Objects.requireNonNull(person(number).getFriends());
    }

    @Override
    long features(DurablePicturedPerson person, Category category, int word) {
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
