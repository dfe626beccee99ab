package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.internal.store.RecordingRegion.Event;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;

/// What has been there, as text, and since when.
record CrashHistory(List<@Nullable String> states, List<Integer> since) {
    /// Does something, and notes what there is after each of its commits.
    static CrashHistory of(
            PoolRig rig, Consumer<Pool> work, Function<Pool, @Nullable String> look) {
        CrashHistory history = new CrashHistory(new ArrayList<>(), new ArrayList<>());
        rig.begin();
        history.note(rig, look);
        rig.onCommit(() -> history.note(rig, look));
        work.accept(rig.pool());
        rig.onCommit(() -> {});
        return history;
    }

    /// Whether some state that a power cut may leave of this work shows that its events are not
    /// right, once there is a mistake in them.
    static boolean shows(
            UnaryOperator<List<Event>> mistake,
            PoolRig rig,
            Consumer<Pool> work,
            Function<Pool, @Nullable String> look) {
        CrashHistory history = of(rig, work, look);
        try {
            rig.forEachCrash(
                    mistake.apply(rig.events()),
                    false,
                    (_, found) -> history.check(0, look.apply(found)));
            return false;
        } catch (AssertionError | TerraceException found) {
            return true;
        }
    }

    private void note(PoolRig rig, Function<Pool, @Nullable String> look) {
        states.add(look.apply(rig.pool()));
        since.add(rig.happened());
    }

    /// Throws if a power cut after so many events must not leave this.
    void check(int happened, @Nullable String found) {
        int at = states.lastIndexOf(found);
        assertTrue(
                at >= 0,
                () -> "after " + happened + " events there is " + found + ", not one of " + states);
        int oldest = 0;
        while (oldest + 1 < since.size() && since.get(oldest + 1) <= happened) {
            oldest++;
        }
        assertTrue(at >= oldest, () -> "what had returned is gone after " + happened + " events");
    }

    /// Throws if any power cut leaves anything but one of the states, for who recovers or for who
    /// only reads.
    void checkEachCrash(PoolRig rig, Function<Pool, @Nullable String> look) {
        int count = 0;
        for (boolean readOnly : new boolean[] {false, true}) {
            count +=
                    rig.forEachCrash(
                            readOnly,
                            (happened, found) ->
                                    check(happened, found.read(() -> look.apply(found))));
        }
        int crashes = count;
        assertTrue(crashes > 2, () -> crashes + " states");
        assertEquals(states.getLast(), look.apply(rig.pool()));
    }
}
