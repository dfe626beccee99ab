package dev.terrace.objects.placement;

import dev.terrace.objects.ClassProfile;
import dev.terrace.objects.FieldProfile;
import dev.terrace.objects.Profile;
import dev.terrace.objects.placement.Prediction.Neighbour;
import dev.terrace.objects.placement.ProfileDatabase.Entry;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.ToDoubleFunction;
import org.jspecify.annotations.Nullable;

/// Predicts profiles as means of their nearest neighbours', weighted by the inverse square of their
/// distances. Counts often follow a power of some property, so means are of logarithms, and
/// properties that are positive in all data sets are compared as logarithms too.
final class Predictor {
    private final List<Entry> entries;
    private final Map<String, Scale> scales = new HashMap<>();

    /// How values of a number are compared.
    ///
    /// @param isLogarithmic whether their logarithms are
    /// @param range of those in the database; 1 if they are all the same
    private record Scale(boolean isLogarithmic, double range) {
        double distance(double left, double right) {
            return Math.abs(at(left) - at(right)) / range;
        }

        private double at(double value) {
            // The value to be predicted may be zero, even if all known values are positive.
            return isLogarithmic ? Math.log(Math.max(value, Double.MIN_NORMAL)) : value;
        }
    }

    Predictor(List<Entry> entries) {
        this.entries = entries;
        Set<String> names = new TreeSet<>();
        entries.forEach(entry -> names.addAll(entry.properties().keySet()));
        names.forEach(name -> scales.put(name, scale(name)));
    }

    private Scale scale(String name) {
        double[] values =
                entries.stream()
                        .map(entry -> entry.properties().get(name))
                        .filter(Number.class::isInstance)
                        .mapToDouble(value -> ((Number) value).doubleValue())
                        .sorted()
                        .toArray();
        boolean isLogarithmic = values.length > 0 && values[0] > 0;
        Scale whole = new Scale(isLogarithmic, 1);
        double range =
                values.length == 0 ? 0 : whole.distance(values[0], values[values.length - 1]);
        return new Scale(isLogarithmic, range > 0 ? range : 1);
    }

    Prediction predict(Map<String, Object> properties, int count) {
        List<Entry> nearest = nearest(properties, entries, count);
        double[] weights =
                nearest.stream()
                        .mapToDouble(entry -> weight(distance(properties, entry.properties())))
                        .toArray();
        double sum = 0;
        for (double weight : weights) {
            sum += weight;
        }
        List<Neighbour> neighbours = new ArrayList<>();
        for (int i = 0; i < weights.length; i++) {
            weights[i] =
                    Double.isInfinite(sum)
                            ? (Double.isInfinite(weights[i]) ? 1 : 0)
                            : weights[i] / sum;
            neighbours.add(
                    new Neighbour(
                            nearest.get(i).name(),
                            distance(properties, nearest.get(i).properties()),
                            weights[i]));
        }
        List<Profile> profiles = nearest.stream().map(Entry::profile).toList();
        return new Prediction(mean(profiles, weights), neighbours, usualDistance(nearest));
    }

    private static double weight(double distance) {
        return 1 / (distance * distance);
    }

    private List<Entry> nearest(Map<String, Object> properties, List<Entry> of, int count) {
        return of.stream()
                .sorted(
                        Comparator.comparingDouble(
                                        (Entry entry) -> distance(properties, entry.properties()))
                                .thenComparing(Entry::name))
                .limit(count)
                .toList();
    }

    /// How far each of these is from the nearest other one of the database, the farthest of them.
    private double usualDistance(List<Entry> of) {
        double usual = 0;
        for (Entry entry : of) {
            List<Entry> others = entries.stream().filter(other -> other != entry).toList();
            for (Entry other : nearest(entry.properties(), others, 1)) {
                usual = Math.max(usual, distance(entry.properties(), other.properties()));
            }
        }
        return usual;
    }

    /// The root of the mean square over all properties that either has; one that only one has is as
    /// far as can be.
    private double distance(Map<String, Object> left, Map<String, Object> right) {
        Set<String> names = new TreeSet<>(left.keySet());
        names.addAll(right.keySet());
        double squares = 0;
        for (String name : names) {
            double distance = distance(name, left.get(name), right.get(name));
            squares += distance * distance;
        }
        return names.isEmpty() ? 0 : Math.sqrt(squares / names.size());
    }

    private double distance(String name, @Nullable Object left, @Nullable Object right) {
        Scale scale = scales.get(name);
        return scale != null && left instanceof Number from && right instanceof Number to
                ? scale.distance(from.doubleValue(), to.doubleValue())
                : left != null && left.equals(right) ? 0 : 1;
    }

    /// Of the classes and fields of the nearest one, as far as the others have them too.
    private static Profile mean(List<Profile> profiles, double[] weights) {
        List<ClassProfile> classes = new ArrayList<>();
        for (ClassProfile type : profiles.getFirst().classes()) {
            List<ClassProfile> same = new ArrayList<>();
            List<Double> shares = new ArrayList<>();
            for (int i = 0; i < weights.length; i++) {
                double share = weights[i];
                profiles.get(i).classes().stream()
                        .filter(each -> each.name().equals(type.name()))
                        .forEach(each -> {
                            same.add(each);
                            shares.add(share);
                        });
            }
            List<FieldProfile> fields =
                    type.fields().stream().map(field -> mean(field, same, shares)).toList();
            classes.add(
                    new ClassProfile(
                            type.name(), count(same, shares, ClassProfile::objects), fields));
        }
        List<Double> all = new ArrayList<>();
        for (double weight : weights) {
            all.add(weight);
        }
        return new Profile(count(profiles, all, Profile::nanos), classes);
    }

    private static FieldProfile mean(
            FieldProfile field, List<ClassProfile> types, List<Double> weights) {
        List<FieldProfile> same = new ArrayList<>();
        List<Double> shares = new ArrayList<>();
        for (int i = 0; i < types.size(); i++) {
            double share = weights.get(i);
            types.get(i).fields().stream()
                    .filter(each -> each.field().name().equals(field.field().name()))
                    .forEach(each -> {
                        same.add(each);
                        shares.add(share);
                    });
        }
        return new FieldProfile(
                field.field(),
                count(same, shares, FieldProfile::reads),
                count(same, shares, FieldProfile::writes),
                count(same, shares, FieldProfile::elementReads),
                count(same, shares, FieldProfile::elementWrites),
                count(same, shares, FieldProfile::bytesRead),
                count(same, shares, FieldProfile::bytesWritten),
                mean(same, shares, FieldProfile::bytesStored),
                count(same, shares, FieldProfile::recomputations),
                count(same, shares, FieldProfile::recomputeNanos));
    }

    private static <T> long count(List<T> of, List<Double> weights, ToDoubleFunction<T> number) {
        return Math.round(mean(of, weights, number));
    }

    private static <T> double mean(List<T> of, List<Double> weights, ToDoubleFunction<T> number) {
        double sum = 0;
        double all = 0;
        for (int i = 0; i < of.size(); i++) {
            if (weights.get(i) == 1) {
                return number.applyAsDouble(of.get(i));
            }
            sum += weights.get(i) * Math.log1p(number.applyAsDouble(of.get(i)));
            all += weights.get(i);
        }
        return all == 0 ? 0 : Math.expm1(sum / all);
    }
}
