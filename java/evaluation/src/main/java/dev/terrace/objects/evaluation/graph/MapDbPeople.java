package dev.terrace.objects.evaluation.graph;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Objects;
import org.mapdb.DB;
import org.mapdb.DBMaker;
import org.mapdb.DataInput2;
import org.mapdb.DataOutput2;
import org.mapdb.HTreeMap;
import org.mapdb.Serializer;

/// People in a map of MapDB's, in a file that is mapped; each is a value in a form that has nothing
/// but its bytes.
final class MapDbPeople extends PlainPeople {
    private static final String NAME = "people";

    private final DB db;
    private final HTreeMap<Integer, Person> people;

    /// Opens the file.
    MapDbPeople(Path file) {
        db = DBMaker.fileDB(file.toFile()).fileMmapEnable().readOnly().make();
        people = db.hashMap(NAME, Serializer.INTEGER, new PersonSerializer()).open();
    }

    /// Makes the file.
    static void load(Path graph, Path file) throws IOException {
        try (DB db = DBMaker.fileDB(file.toFile()).fileMmapEnable().make()) {
            HTreeMap<Integer, Person> people =
                    db.hashMap(NAME, Serializer.INTEGER, new PersonSerializer()).create();
            GraphFile.read(graph, AllPmemPerson::new, person -> people.put(person.number, person));
        }
    }

    @Override
    Person person(int number) {
        return Objects.requireNonNull(people.get(number));
    }

    @Override
    public void close() {
        db.close();
    }

    /// Number, friends and words, one after the other.
    private static final class PersonSerializer implements Serializer<Person> {
        @Override
        public void serialize(DataOutput2 out, Person person) throws IOException {
            out.packInt(person.number);
            out.packInt(person.friends.length);
            for (int friend : person.friends) {
                out.packInt(friend);
            }
            for (Category category : Category.ALL) {
                for (long word : person.features(category)) {
                    out.writeLong(word);
                }
            }
        }

        @Override
        public Person deserialize(DataInput2 in, int available) throws IOException {
            Person person = new AllPmemPerson();
            person.number = in.unpackInt();
            person.friends = new int[in.unpackInt()];
            for (int i = 0; i < person.friends.length; i++) {
                person.friends[i] = in.unpackInt();
            }
            for (Category category : Category.ALL) {
                long[] words = person.features(category);
                for (int i = 0; i < words.length; i++) {
                    words[i] = in.readLong();
                }
            }
            return person;
        }
    }
}
