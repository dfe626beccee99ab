package dev.terrace.objects.placement;

import dev.terrace.objects.Profile;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;

/// A profile that nobody took: what a program would do with a data set, by what it did with others.
///
/// Distances are per property: 0 where two data sets are equal, 1 where they are as far apart as
/// the two of the database that are farthest.
///
/// @param profile with counts between those of the neighbours
/// @param neighbours that it is made of, the nearest first
/// @param usualDistance how far the neighbours themselves are from what is nearest to them in the
///   database
public record Prediction(Profile profile, List<Neighbour> neighbours, double usualDistance) {
    /// A data set that a prediction is made of.
    ///
    /// @param name of the data set
    /// @param distance how far it is
    /// @param weight its share, from 0 to 1
    public record Neighbour(String name, double distance, double weight) {}

    /// Copies the neighbours.
    public Prediction {
        neighbours = List.copyOf(neighbours);
    }

    /// How far the nearest data set is.
    public double distance() {
        return neighbours.getFirst().distance();
    }

    /// Whether the nearest data set is farther than is usual between data sets of the database:
    /// then the program had better be profiled again.
    public boolean isFar() {
        return distance() > usualDistance;
    }

    /// All that in a sentence or two.
    public String statement() {
        String from =
                neighbours.stream()
                        .map(each ->
                                String.format(
                                        Locale.ROOT,
                                        "%s (distance %.3f, weight %.0f %%)",
                                        each.name(),
                                        each.distance(),
                                        100 * each.weight()))
                        .collect(Collectors.joining(", "));
        String verdict =
                isFar()
                        ? "That is far: profiles of the database are usually %.3f apart. Profile"
                                + " this data set itself."
                        : "That is near: profiles of the database are usually %.3f apart.";
        return "Predicted from " + from + ". " + String.format(Locale.ROOT, verdict, usualDistance);
    }
}
