package dev.terrace.objects.internal.store;

import java.lang.invoke.VarHandle;
import org.jspecify.annotations.Nullable;

/// Tells a thread that reads in place, at the cost of a load or two, that no relevant change has
/// happened.
///
/// It uses plain fields between fences, because a getter has no time for more. A reader loads its
/// value first, and the epoch after it. A writer changes the epoch first, and afterwards stores the
/// words that a reader might misinterpret.
public final class Epoch {
    /// The overlay has words that differ from those in place, or another process writes: a reader
    /// must take the slow path.
    public static final long UNKNOWN = -1;

    /// The region with the sequence of commits, if another process may write. A read-only process
    /// has none for a sealed pool, in which all numbers here are constant.
    private final @Nullable Region others;

    private long now;
    private long deletions;
    private long changes;
    private long alone;
    private int overlaid;

    /// @param others persistent memory that another process may write; null: only this process
    ///   writes
    Epoch(@Nullable Region others) {
        this.others = others;
        now = others == null ? 0 : UNKNOWN;
    }

    /// The number of commits of this process that have deleted objects, or [#UNKNOWN]. While it
    /// stays the same, objects stay in their places, and the words in place are current.
    public long now() {
        return now;
    }

    /// Whether the words in place are current. If not, [Store#word] gives the words that this
    /// thread must see.
    public boolean isPlain() {
        return overlaid == 0;
    }

    /// The count to take before reading several words in place; odd while a commit stores words.
    public long changes() {
        long before = others == null ? changes : others.getLongAcquire(Superblock.SEQUENCE_AT);
        VarHandle.loadLoadFence();
        return before;
    }

    /// Whether all words read in place since [#changes] returned this number are of one commit.
    public boolean isStill(long before) {
        VarHandle.loadLoadFence();
        return (before & 1) == 0 && changes() == before;
    }

    /// Words are about to be overlaid.
    synchronized void layOver() {
        overlaid++;
        now = UNKNOWN;
        VarHandle.storeStoreFence();
    }

    /// Words are no longer overlaid.
    synchronized void takeOff() {
        VarHandle.storeStoreFence();
        overlaid--;
        if (overlaid == 0 && others == null) {
            now = deletions;
        }
    }

    /// A number that each single-word commit raises; odd while the word is stored. Commits of other
    /// processes are not counted.
    long alone() {
        long before = alone;
        VarHandle.loadLoadFence();
        return before;
    }

    /// Whether no single-word commit has happened since [#alone] returned this number.
    boolean isAloneStill(long before) {
        VarHandle.loadLoadFence();
        return (before & 1) == 0 && alone == before;
    }

    /// The word of a single-word commit is about to be stored.
    void storing() {
        alone++;
        changing();
    }

    /// The word has been stored.
    void stored() {
        changed();
        alone++;
    }

    /// A commit is about to store words in their places.
    void changing() {
        changes++;
        VarHandle.storeStoreFence();
    }

    /// The words have been stored.
    void changed() {
        VarHandle.storeStoreFence();
        changes++;
    }

    /// A commit deletes objects; called before their places are overwritten.
    void delete() {
        deletions++;
    }
}
