package dev.terrace.objects.evaluation.report;

import dev.terrace.objects.evaluation.run.Spread;
import java.util.Collections;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// A claim of the paper, or of this project's design, about some work, and the measurement.
///
/// A measured claim is met if each round meets its goal, and missed if none does. Otherwise the
/// goal lies within the spread of the rounds, so they do not decide. Fewer rounds than
/// [#ROUNDS_MIN] decide nothing, nor do any if they were not made as the goal asks for.
///
/// @param work what was done
/// @param paper what the paper states; "–" if nothing
/// @param ours what was measured, in words and numbers
/// @param value the number that decides; null if it could not be measured
/// @param rounds that number in each round; none if it is counted or computed, and so the same each
///   time
/// @param goal the most that this number is to be; null if there is none
/// @param doubt why the goal cannot be judged by the measurement; null if it can
public record Claim(
        String work,
        String paper,
        String ours,
        @Nullable Double value,
        List<Double> rounds,
        @Nullable Double goal,
        @Nullable String doubt) {
    /// The least number of rounds that decide.
    static final int ROUNDS_MIN = 5;

    /// The columns of a table of claims.
    static final List<String> COLUMNS = List.of("work", "paper", "ours", "to reach", "verdict");

    /// Copies the list; reports of earlier versions have none.
    public Claim {
        rounds = rounds == null ? List.of() : List.copyOf(rounds);
    }

    /// Of something that was measured in several rounds.
    public static Claim measured(String work, String paper, Spread spread, @Nullable Double goal) {
        return measured(work, paper, spread.toString(), spread, goal);
    }

    /// The same, with more words.
    public static Claim measured(
            String work, String paper, String ours, Spread spread, @Nullable Double goal) {
        return new Claim(work, paper, ours, spread.median(), spread.values(), goal, null);
    }

    /// Of something that is the same each time.
    public static Claim exact(
            String work, String paper, String ours, double value, @Nullable Double goal) {
        return new Claim(work, paper, ours, value, List.of(), goal, null);
    }

    /// Of something that could not be measured, or not as the claim asks for.
    ///
    /// @param why not
    public static Claim unmeasured(String work, String paper, String why, @Nullable Double goal) {
        return new Claim(work, paper, why, null, List.of(), goal, null);
    }

    /// The same, which is not judged.
    ///
    /// @param why not
    public Claim doubted(String why) {
        return new Claim(work, paper, ours, value, rounds, goal, why);
    }

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
        if (doubt != null) {
            return "not judged: " + doubt;
        }
        if (!rounds.isEmpty() && rounds.size() < ROUNDS_MIN) {
            return "open: "
                    + rounds.size()
                    + (rounds.size() == 1 ? " round" : " rounds")
                    + ", not "
                    + ROUNDS_MIN;
        }
        List<Double> all = rounds.isEmpty() ? List.of(value) : rounds;
        if (Collections.max(all) <= goal) {
            return "met";
        }
        if (Collections.min(all) <= goal) {
            return "within the spread";
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
