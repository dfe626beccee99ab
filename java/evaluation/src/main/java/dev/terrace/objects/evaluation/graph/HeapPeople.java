package dev.terrace.objects.evaluation.graph;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/// People on the heap: NO-PMEM of the paper's section 4.
final class HeapPeople extends PlainPeople {
    private final List<Person> people = new ArrayList<>();

    /// Loads them from the graph's file.
    HeapPeople(Path graph) throws IOException {
        GraphFile.read(graph, AllPmemPerson::new, people::add);
    }

    @Override
    Person person(int number) {
        return people.get(number);
    }
}
