package dev.terrace.objects.internal.store;

import java.lang.invoke.VarHandle;
import org.jspecify.annotations.Nullable;

/// What tells who reads in place, at the cost of a load or two, that nothing has happened that
/// concerns it.
///
/// Plain fields between fences: a getter has no time for more. Who reads loads what it wants first,
/// and this behind it. Who writes changes this first, and stores behind it what might be taken for
/// something else.
public final class Epoch {
    /// Words are laid over those in place, or another process writes: who reads must look further.
    public static final long UNKNOWN = -1;

    /// Of what is in no pool.
    public static final Epoch NOWHERE = new Epoch(null);

    /// Where the sequence of commits is, if another process may write them.
    private final @Nullable Region others;

    private long now;
    private long deletions;
    private long changes;
    private long alone;
    private int overlaid;

    /// @param others persistent memory that another process may write; null: only this one does
    Epoch(@Nullable Region others) {
        this.others = others;
        now = others == null ? 0 : UNKNOWN;
    }

    /// How many commits of this process have deleted objects, or [#UNKNOWN]. While it stays the
    /// same number, what was an object's place is its place, and what is in place is all there is
    /// to see.
    public long now() {
        return now;
    }

    /// Whether what is in place is all there is to see. If not, [Store#word] tells what this thread
    /// is to see.
    public boolean isPlain() {
        return overlaid == 0;
    }

    /// Taken before something of several words is read in place; odd while such words are stored.
    public long changes() {
        long before = others == null ? changes : others.getLongAcquire(Superblock.SEQUENCE_AT);
        VarHandle.loadLoadFence();
        return before;
    }

    /// Whether all that was read in place since [#changes] said this is of one commit.
    public boolean isStill(long before) {
        VarHandle.loadLoadFence();
        return (before & 1) == 0 && changes() == before;
    }

    /// Words will be laid over those in place.
    synchronized void layOver() {
        overlaid++;
        now = UNKNOWN;
        VarHandle.storeStoreFence();
    }

    /// That is over.
    synchronized void takeOff() {
        VarHandle.storeStoreFence();
        overlaid--;
        if (overlaid == 0 && others == null) {
            now = deletions;
        }
    }

    /// A number that each word raises that is a commit of its own; odd while it is stored. What
    /// other processes store is not counted.
    long alone() {
        long before = alone;
        VarHandle.loadLoadFence();
        return before;
    }

    /// Whether no word was stored alone since [#alone] said this.
    boolean isAloneStill(long before) {
        VarHandle.loadLoadFence();
        return (before & 1) == 0 && alone == before;
    }

    /// A word is about to be stored that is a commit of its own.
    void storing() {
        alone++;
        changing();
    }

    /// It has been.
    void stored() {
        changed();
        alone++;
    }

    /// A commit is about to store words in their places.
    void changing() {
        changes++;
        VarHandle.storeStoreFence();
    }

    /// It has.
    void changed() {
        VarHandle.storeStoreFence();
        changes++;
    }

    /// A commit has deleted objects: before anything else is stored where they were.
    void delete() {
        deletions++;
    }
}
