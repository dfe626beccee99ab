package dev.terrace.objects.evaluation.graph;

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.function.Consumer;
import java.util.function.Supplier;

/// A graph as text, which is what programs load: a line for each person with number, friends and
/// features, each in decimal; a comma between the three, spaces between numbers.
final class GraphFile {
    private GraphFile() {}

    /// Writes a graph several times over, as people who know nobody in another copy.
    static void write(Path file, SocialGraph graph, int copies) throws IOException {
        try (BufferedWriter out = Files.newBufferedWriter(file, StandardCharsets.US_ASCII)) {
            for (int copy = 0; copy < copies; copy++) {
                int first = copy * graph.people();
                for (int person = 0; person < graph.people(); person++) {
                    out.write(Integer.toString(first + person));
                    out.write(',');
                    write(out, graph.friends()[person], first);
                    out.write(',');
                    write(out, graph.features()[person], 0);
                    out.write('\n');
                }
            }
        }
    }

    private static void write(BufferedWriter out, int[] numbers, int first) throws IOException {
        for (int i = 0; i < numbers.length; i++) {
            out.write(i == 0 ? "" : " ");
            out.write(Integer.toString(first + numbers[i]));
        }
    }

    /// Somebody whom a file tells of.
    @FunctionalInterface
    interface Each {
        /// Is told of the next person.
        ///
        /// @param friends their numbers, an array of its own
        /// @param features their numbers, an array of its own
        void person(int number, int[] friends, int[] features);
    }

    /// Parses a file, and shows each person once.
    ///
    /// @return how many people there are
    static int read(Path file, Each each) throws IOException {
        try (BufferedReader in = Files.newBufferedReader(file, StandardCharsets.US_ASCII)) {
            int people = 0;
            int[] numbers = new int[64];
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                int endOfNumber = line.indexOf(',');
                int endOfFriends = line.indexOf(',', endOfNumber + 1);
                numbers = enough(numbers, line);
                int friends = parse(line, endOfNumber + 1, endOfFriends, numbers);
                int[] itsFriends = Arrays.copyOf(numbers, friends);
                int features = parse(line, endOfFriends + 1, line.length(), numbers);
                each.person(
                        Integer.parseInt(line, 0, endOfNumber, 10),
                        itsFriends,
                        Arrays.copyOf(numbers, features));
                people++;
            }
            return people;
        }
    }

    /// The same, as objects.
    ///
    /// @param maker makes a person without friends and features
    static <P extends Person> int read(Path file, Supplier<P> maker, Consumer<P> each)
            throws IOException {
        return read(
                file,
                (number, friends, features) -> {
                    P person = maker.get();
                    person.number = number;
                    person.friends = friends;
                    for (int feature : features) {
                        person.add(feature);
                    }
                    each.accept(person);
                });
    }

    /// Room for all numbers that a line may have.
    private static int[] enough(int[] numbers, String line) {
        int most = line.length() / 2 + 1;
        return numbers.length >= most ? numbers : new int[most * 2];
    }

    private static int parse(String line, int from, int to, int[] into) {
        int count = 0;
        int at = from;
        while (at < to) {
            int number = 0;
            while (at < to && line.charAt(at) != ' ') {
                number = number * 10 + line.charAt(at++) - '0';
            }
            into[count++] = number;
            at++;
        }
        return count;
    }
}
