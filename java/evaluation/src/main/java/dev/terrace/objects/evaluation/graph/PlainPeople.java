package dev.terrace.objects.evaluation.graph;

/// People who are read as plain objects, wherever those come from.
abstract class PlainPeople extends People<Person> {
    @Override
    final int[] friends(int number) {
        return person(number).friends;
    }

    @Override
    final long features(Person person, Category category, int word) {
        return person.features(category)[word];
    }
}
