package dev.terrace.objects.evaluation.report;

import dev.terrace.objects.evaluation.run.Spread;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// A claim of the paper, or of this project's design, about some work, and the measurement.
///
/// @param work what was done
/// @param paper what the paper states; "–" if nothing
/// @param ours what was measured, in words and numbers
/// @param value the number that decides; null if it could not be measured
/// @param goal the most that this number is to be; null if there is none
public record Claim(
        String work, String paper, String ours, @Nullable Double value, @Nullable Double goal) {
    /// The columns of a table of claims.
    static final List<String> COLUMNS = List.of("work", "paper", "ours", "to reach", "verdict");

    /// The row of such a table.
    List<String> row() {
        return List.of(work, paper, ours, toReach(), verdict());
    }

    /// The verdict on the claim.
    public String verdict() {
        if (value == null) {
            return "not measured";
        }
        if (goal == null) {
            return "reported";
        }
        if (value <= goal) {
            return "met";
        }
        return "missed: "
                + (goal == 0
                        ? Spread.number(value)
                        : Spread.number(value / goal) + " times the goal");
    }

    /// The goal, in words.
    private String toReach() {
        return goal == null ? "–" : "at most " + Spread.number(goal);
    }
}
