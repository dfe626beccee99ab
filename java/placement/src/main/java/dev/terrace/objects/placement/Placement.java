package dev.terrace.objects.placement;

import dev.terrace.objects.StorageTier;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/// Where each field is to lie: a problem's answer.
///
/// @param problem what was asked
/// @param assignment of each field the number of its device, in the problem's order of both
/// @param lowerBound what no placement costs less than, in nanoseconds
public record Placement(PlacementProblem problem, List<Integer> assignment, double lowerBound) {
    /// A device with what the placement takes of it.
    ///
    /// @param device which one
    /// @param bytes what is taken, also what is taken whatever is chosen
    public record Use(Device device, long bytes) {}

    /// Where a field lies, and what the other devices would mean.
    ///
    /// @param field which one
    /// @param device where it lies
    /// @param choice what that costs and takes
    /// @param alternatives all other devices
    public record Explanation(
            FieldName field, Device device, Choice choice, List<Alternative> alternatives) {}

    /// Another device for a field, all other fields staying where they are.
    ///
    /// @param device which one
    /// @param nanos what the field would cost there
    /// @param differenceNanos by how much that is more; less, if it is negative
    /// @param obstacle why it is not possible; empty if it is
    public record Alternative(
            Device device, double nanos, double differenceNanos, String obstacle) {}

    /// Copies the assignment.
    public Placement {
        assignment = List.copyOf(assignment);
    }

    private int[] array() {
        return assignment.stream().mapToInt(Integer::intValue).toArray();
    }

    /// The cost of all accesses and failures, in nanoseconds.
    public double cost() {
        return problem.cost(array());
    }

    /// By what share of its cost a better placement could be cheaper at most; 0 when there is none
    /// that is.
    public double gap() {
        double cost = cost();
        return cost <= lowerBound ? 0 : (cost - lowerBound) / cost;
    }

    /// Whether no placement is cheaper.
    public boolean isOptimal() {
        return gap() == 0;
    }

    /// The device of a field.
    ///
    /// @throws IllegalArgumentException if the problem has no such field
    public Device deviceOf(FieldName field) {
        for (int i = 0; i < assignment.size(); i++) {
            if (problem.fields().get(i).name().equals(field)) {
                return device(i);
            }
        }
        throw new IllegalArgumentException("the placement has no field " + field);
    }

    private Device device(int field) {
        return problem.devices().get(assignment.get(field));
    }

    /// By class and field, the tags that say this; only of fields whose place tags say.
    public Map<String, Map<String, List<StorageTier>>> tiers() {
        Map<String, Map<String, List<StorageTier>>> tiers = new TreeMap<>();
        for (int i = 0; i < assignment.size(); i++) {
            PlacementField field = problem.fields().get(i);
            if (field.isTagged()) {
                tiers.computeIfAbsent(field.name().type(), _ -> new TreeMap<>())
                        .put(field.name().field(), List.of(device(i).tier()));
            }
        }
        return tiers;
    }

    /// The space in use on each device.
    public List<Use> uses() {
        long[] bytes = problem.bytes(array());
        List<Use> uses = new ArrayList<>();
        for (int device = 0; device < bytes.length; device++) {
            uses.add(new Use(problem.devices().get(device), bytes[device]));
        }
        return uses;
    }

    /// Why each field lies where it does.
    public List<Explanation> explain() {
        List<Explanation> all = new ArrayList<>();
        for (int i = 0; i < assignment.size(); i++) {
            Choice chosen = problem.choice(i, assignment.get(i));
            List<Alternative> alternatives = new ArrayList<>();
            for (int device = 0; device < problem.devices().size(); device++) {
                if (device != assignment.get(i)) {
                    alternatives.add(alternative(i, device, chosen));
                }
            }
            all.add(
                    new Explanation(
                            problem.fields().get(i).name(),
                            device(i),
                            chosen,
                            List.copyOf(alternatives)));
        }
        return all;
    }

    private Alternative alternative(int field, int device, Choice chosen) {
        Choice choice = problem.choice(field, device);
        return new Alternative(
                problem.devices().get(device),
                choice.nanos(),
                choice.nanos() - chosen.nanos(),
                choice.isAllowed() ? whatDoesNotFit(field, device) : choice.refusal());
    }

    private String whatDoesNotFit(int field, int device) {
        int[] moved = array();
        moved[field] = device;
        long[] over = problem.overflow(moved);
        List<String> full = new ArrayList<>();
        for (int i = 0; i < over.length; i++) {
            if (over[i] > 0) {
                full.add(problem.devices().get(i).label() + " has " + over[i] + " bytes too few");
            }
        }
        return full.isEmpty() ? "" : "does not fit: " + String.join(", ", full);
    }
}
