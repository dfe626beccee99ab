package dev.terrace.objects.internal.store;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/// A pool's bytes on all its tiers, and the transactions that change them.
///
/// A transaction keeps changed words in its own [Overlay]. It writes in place only to space that it
/// has allocated, which no other thread can find yet. A commit makes these writes durable, writes
/// the words to the log, makes the sequence odd, stores the words in their places, and makes the
/// sequence even.
///
/// Invariants:
/// * Committed data are never overwritten before the commit that replaces them is in the log.
///   Readers see committed states only: the words in place while the sequence is even, and the
///   log's words over those in place while it is odd.
/// * Storing a single word outside of a transaction is a commit, because a word is never torn. The
///   sequence moves after it.
/// * One thread writes at a time.
public final class Store implements AutoCloseable {
    static final long NONE = -1;

    private final Region pmem;
    private final List<Disk> disks;
    private final Remote remote;
    private final Superblock superblock;
    private final CommitLog log;
    private final boolean readOnly;
    private final Allocator allocator;

    private final WriterLock writer;
    private final Changes changes;
    private final Parts parts;

    private int depth;
    private @Nullable Throwable doomed;

    private final Seal seal;
    private final Epoch epoch;
    private final Reads reads;

    private final Usage usage;

    /// A region and its tier.
    public record TierRegion(Medium tier, Region region) {}

    /// A remote tier: its segments, and the greatest number of their bytes.
    public record RemoteTier(Segments segments, long bytesMax) {}

    /// Opens a pool that [Superblock#format(Region)] has made.
    ///
    /// @throws StoreFailure.Damaged if it is damaged
    /// @throws StoreFailure.UnknownFormat if the segments belong to another pool
    public Store(
            Superblock superblock,
            Region pmem,
            List<TierRegion> disks,
            @Nullable RemoteTier remoteTier,
            boolean readOnly) {
        this.superblock = superblock;
        this.pmem = pmem;
        this.readOnly = readOnly;
        seal = new Seal(this, readOnly);
        epoch = new Epoch(readOnly && !seal.isConstant() ? pmem : null);
        writer = new WriterLock(pmem.name());
        log = new CommitLog(pmem, superblock.logBytes());
        reads = new Reads(this, log, epoch, writer, readOnly);
        changes = new Changes(this, superblock, log);
        Words words = new TransactionWords(this, changes.words());
        allocator = new Allocator(words, pmem, true, superblock.secret());
        parts = new Parts(this, superblock, allocator, readOnly);
        List<Disk> all = new ArrayList<>();
        for (TierRegion disk : disks) {
            all.add(new Disk(this, all.size(), disk, words, superblock.id()));
        }
        this.disks = List.copyOf(all);
        remote = new Remote(this, pmem, superblock.id(), remoteTier);
        usage = new Usage(this, allocator, this.disks, readOnly);
        if (readOnly) {
            // Words of a commit may not be in their places yet.
            read(() -> openDisks(all));
        } else {
            openDisks(all);
        }
        remote.open();
    }

    /// Completes the commit of a writer that ended during it, before any other data are read. A
    /// read-only pool skips this.
    ///
    /// @throws StoreFailure.Damaged if the log is damaged
    public static void finishCommit(Superblock superblock, Region pmem, boolean readOnly) {
        if (!readOnly) {
            new CommitLog(pmem, superblock.logBytes()).finish();
        }
    }

    private static boolean openDisks(List<Disk> all) {
        all.forEach(Disk::open);
        return true;
    }

    /// The region with the records.
    public Region pmem() {
        return pmem;
    }

    /// The tier of disk `index`.
    public Medium diskTier(int index) {
        return diskAt(index).tier();
    }

    /// The number of disks.
    public int diskCount() {
        return disks.size();
    }

    private Disk diskAt(int index) {
        if (index >= disks.size()) {
            throw new StoreFailure.Damaged(
                    pmem.name()
                            + ": something leads to disk "
                            + index
                            + ", and the pool was opened with "
                            + disks.size());
        }
        return disks.get(index);
    }

    /// Disk `index`.
    public Region disk(int index) {
        return diskAt(index).region();
    }

    /// The remote tier, which may have no store of segments.
    public Remote remote() {
        return remote;
    }

    /// The secret from which seals and marks are computed.
    long secret() {
        return superblock.secret();
    }

    /// The number of the last commit, odd while its words are being stored in their places.
    public long sequence() {
        return pmem.getLongAcquire(Superblock.SEQUENCE_AT);
    }

    /// The word at `offset` as a header; 0 if no record can begin there.
    public long header(long offset) {
        return pmem.contains(offset) && offset % SizeClasses.GRANULE_BYTES == 0 ? word(offset) : 0;
    }

    /// Whether a valid header is at `offset`.
    public boolean hasHeader(long offset) {
        return belongs(offset, word(offset));
    }

    /// Whether a header is valid at `offset`: if not, the device has returned a wrong block.
    public boolean belongs(long offset, long header) {
        return Headers.belongs(superblock.secret(), offset, header);
    }

    /// Throws an exception if a header is not valid at `offset`.
    ///
    /// @throws StoreFailure.Damaged if it does not
    public void requireBelongs(long offset, long header) {
        if (!belongs(offset, header)) {
            throw new StoreFailure.Damaged(
                    pmem.name() + ": what is at offset " + offset + " belongs elsewhere");
        }
    }

    /// Whether a buffer begins at `offset`.
    boolean isBuffer(long offset) {
        return Headers.type(word(offset)) == Headers.BUFFER && hasHeader(offset);
    }

    /// The epoch, which tells readers in place that no relevant change has happened.
    public Epoch epoch() {
        return epoch;
    }

    /// Whether this thread sees the words in place. If not, [#word] returns the words that it sees.
    public boolean isInPlace() {
        return epoch.isPlain() || laidOver() == null;
    }

    /// The seal, which says that no word of the pool changes.
    public Seal seal() {
        return seal;
    }

    /// Makes all readers take the slow path, until [#trust()] has been called as often.
    public void distrust() {
        epoch.layOver();
    }

    /// The end of [#distrust()].
    public void trust() {
        epoch.takeOff();
    }

    /// The words that this thread sees instead of those in place; null if there are none.
    private @Nullable Overlay laidOver() {
        if (writer.isHeldByCurrentThread()) {
            return changes.laidOver();
        }
        return reads.laidOver();
    }

    /// A word as this thread sees it.
    public long word(long offset) {
        long inPlace = pmem.getLong(offset);
        if (epoch.isPlain()) {
            return inPlace;
        }
        Overlay mine = laidOver();
        return mine == null ? inPlace : mine.get(offset, inPlace);
    }

    // Transactions

    /// Runs `work` as a transaction: all its changes are committed, or, if it throws an exception,
    /// none. Within another transaction it becomes a part of that one.
    ///
    /// @throws StoreFailure.ReadOnly if the pool is read-only
    public <T extends @Nullable Object> T transact(Supplier<T> work) {
        begin();
        boolean done = false;
        try {
            T result = work.get();
            done = true;
            return result;
        } catch (Throwable failure) {
            doomed = doomed == null ? failure : doomed;
            throw failure;
        } finally {
            end(done);
        }
    }

    /// Throws an exception if this thread must not write.
    ///
    /// @throws StoreFailure.ReadOnly if the pool is read-only, or this is part of a consistent read
    public void requireWritable() {
        if (readOnly) {
            throw new StoreFailure.ReadOnly(pmem.name() + " was opened to be read");
        }
        if (reads.isUnderWay()) {
            // Each repetition of the read would write again.
            throw new StoreFailure.ReadOnly(
                    pmem.name()
                            + ": a consistent read cannot write: do that behind it, or in a"
                            + " transaction");
        }
    }

    private void begin() {
        requireWritable();
        writer.acquire();
        if (depth == 0) {
            try {
                changes.requireWhole();
                pmem.beforeChanges();
            } catch (StoreFailure | InternalError e) {
                writer.unlock();
                throw e;
            }
            epoch.layOver();
        }
        depth++;
    }

    private void end(boolean done) {
        depth--;
        try {
            if (depth > 0) {
                return;
            }
            if (done && doomed == null) {
                writeSegments();
                changes.commit();
            } else {
                Throwable cause = doomed;
                changes.rollBack();
                if (done && cause != null) {
                    throw new StoreFailure.Aborted(
                            "a transaction within this one has failed, so nothing of it lasts",
                            cause);
                }
            }
        } finally {
            if (depth == 0) {
                doomed = null;
                epoch.takeOff();
            }
            writer.unlock();
        }
    }

    /// Whether this thread is in a transaction.
    public boolean inTransaction() {
        return writer.isHeldByCurrentThread() && depth > 0;
    }

    /// Whether this thread is in a transaction, or in a consistent read.
    public boolean isAtWork() {
        return writer.isHeldByCurrentThread() || reads.isUnderWay();
    }

    /// Runs an action if and when the transaction has committed.
    public void afterCommit(Runnable action) {
        changes.afterCommit(action);
    }

    /// Runs an action when the transaction is rolled back; the last action runs first.
    public void afterRollback(Runnable action) {
        changes.afterRollback(action);
    }

    /// Makes the transaction's values on the remote tier durable. The log is still empty, so any
    /// failure there rolls the transaction back.
    private void writeSegments() {
        depth++;
        try {
            remote.seal();
            depth--;
        } catch (StoreFailure.Damaged e) {
            depth--;
            throw changes.breakDown(e);
        } catch (RuntimeException | Error e) {
            depth--;
            changes.rollBack();
            throw e;
        }
    }

    // Changes: in a transaction only

    void requireTransaction() {
        if (!inTransaction()) {
            throw new IllegalStateException("not in a transaction");
        }
    }

    /// Changes a word of the record or node that begins at `owner`.
    public void putWord(long owner, long offset, long value) {
        requireTransaction();
        changes.put(owner, offset, value);
    }

    /// Changes `bits` of the word at `offset` to those of `value`, in an object that begins at
    /// `owner` with this header; outside of a transaction, as a single-word commit.
    ///
    /// @throws StoreFailure.Stale if the object no longer exists
    /// @throws StoreFailure.ReadOnly if this thread must not write
    public void putBits(long owner, long header, long offset, long bits, long value) {
        requireWritable();
        writer.acquire();
        try {
            if (word(owner) != header) {
                throw stale(owner);
            }
            if (depth > 0) {
                changes.put(owner, offset, bits, value);
            } else {
                changes.putAlone(offset, word(offset) & ~bits | value & bits);
            }
        } finally {
            writer.unlock();
        }
    }

    /// The exception for an object that no longer exists.
    public StoreFailure.Stale stale(long offset) {
        return new StoreFailure.Stale(
                "the object at " + offset + " of " + pmem.name() + " has been deleted");
    }

    /// Allocates zeros in persistent memory, after a header.
    ///
    /// @throws StoreFailure.Full if there is no room
    public long allocate(long bytes, int type) {
        requireTransaction();
        return parts.allocate(bytes, type);
    }

    /// Like [#allocate(long, int)], for a buffer, without growing the region.
    ///
    /// @throws StoreFailure.Full if there is no room
    long allocateWithin(long bytes) {
        requireTransaction();
        return parts.allocateWithin(bytes);
    }

    /// Frees the part at `offset` of persistent memory, once the transaction commits. Within the
    /// transaction, its header shows that at once.
    public void free(long offset) {
        requireTransaction();
        long header = word(offset);
        int generation = Math.min(Headers.generation(header) + 1, Headers.GENERATION_MAX);
        putWord(offset, offset, Headers.of(superblock.secret(), offset, Headers.FREE, generation));
        changes.free(offset);
        if (Headers.type(header) < Headers.SEGMENT) {
            changes.invalidateReads();
        }
    }

    /// Frees the part at `offset` of disk `index`, once the transaction commits.
    void freeOnDisk(int index, long offset) {
        requireTransaction();
        changes.free(diskAt(index).codeOf(offset));
    }

    /// Makes readers in place check their objects again, once the transaction commits.
    public void haveReadersLook() {
        requireTransaction();
        changes.invalidateReads();
    }

    /// Allocates a part of disk `index`; -1 if it has no room.
    long allocateOnDisk(int index, long bytes) {
        requireTransaction();
        return diskAt(index).allocate(bytes);
    }

    /// Like [#allocateOnDisk(int, long)], without growing the disk.
    long allocateWithinDisk(int index, long bytes) {
        requireTransaction();
        return diskAt(index).allocator().allocate(bytes, 0);
    }

    /// Writes to an allocated part of disk `index`. The bytes are durable before the transaction
    /// is.
    void writeToDisk(int index, long offset, MemorySegment source, long length) {
        diskAt(index).write(offset, source, length);
    }

    /// Prepares for moving values away from persistent memory when it is full, if there is room: a
    /// map for the next extent of each disk, and a place for records of the remote tier.
    public void prepare() {
        if (!readOnly) {
            transact(() -> {
                disks.forEach(Disk::haveMapReady);
                return true;
            });
            remote.prepare();
        }
    }

    // Reading

    /// Runs `work` so that all its reads see one committed state. It may run more than once.
    public <T extends @Nullable Object> T read(Supplier<T> work) {
        return inTransaction() ? work.get() : reads.read(work);
    }

    /// Runs an action if and when this thread's read has turned out to be of one committed state;
    /// at once if that is certain.
    public void afterRead(Runnable action) {
        if (inTransaction()) {
            action.run();
        } else {
            reads.afterRead(action);
        }
    }

    /// Sets how long reads are repeated in a process that cannot stop writers, and how long threads
    /// wait for a transaction whose own thread waits.
    public void setPatience(Duration time) {
        // The longest time that clocks can measure.
        Duration most = Duration.ofNanos(Long.MAX_VALUE);
        Duration patience = time.compareTo(most) < 0 ? time : most;
        reads.setPatience(patience);
        writer.setPatience(patience);
    }

    /// Throws an exception if the writer of a read-only pool has given it a format that this
    /// version of the library does not know: apparent damage is none then.
    ///
    /// @throws StoreFailure.UnknownFormat in this case
    public void requireKnownFormat() {
        if (readOnly) {
            Superblock.requireKnown(pmem);
        }
    }

    Reads reads() {
        return reads;
    }

    /// Runs `work` while no other thread writes; in a read-only pool, like [#read(Supplier)].
    public <T extends @Nullable Object> T alone(Supplier<T> work) {
        if (readOnly) {
            synchronized (log) {
                return read(() -> {
                    parts.followExtents();
                    disks.forEach(Disk::open);
                    return work.get();
                });
            }
        }
        writer.acquire();
        try {
            return work.get();
        } finally {
            writer.unlock();
        }
    }

    /// Waits until no transaction is running, but no longer than this, and returns whether none is
    /// running.
    public boolean isAtRestWithin(Duration time) {
        try {
            if (!writer.tryLock(time.toNanos(), TimeUnit.NANOSECONDS)) {
                return false;
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return false;
        }
        writer.unlock();
        return true;
    }

    // Checks and counts

    /// Counts of events, and the space in use.
    public Usage usage() {
        return usage;
    }

    /// The parts of all tiers.
    public Parts parts() {
        return parts;
    }

    Changes changes() {
        return changes;
    }

    /// Shows the parts that the store itself owns: the maps of disks, and the records of segments.
    public void links(Links links) {
        disks.forEach(disk -> disk.links(links));
        remote.links(links);
    }

    /// A compaction of the tiers.
    public Compaction compaction() {
        return new Compaction(this, disks);
    }

    List<Disk> disks() {
        return disks;
    }

    /// The allocator of disk `index`; of persistent memory if `index` is -1.
    Allocator allocatorOf(int index) {
        return index < 0 || index == Buffers.Place.REMOTE ? allocator : diskAt(index).allocator();
    }

    /// Frees the part at `offset` of disk `index`, or of persistent memory if `index` is -1, once
    /// the transaction commits.
    public void free(int index, long offset) {
        if (index < 0) {
            free(offset);
        } else if (index == Buffers.Place.REMOTE) {
            remote.free(offset);
        } else {
            freeOnDisk(index, offset);
        }
    }

    /// Ends all writing, once the transactions that wait have had their turn.
    @Override
    public void close() {
        writer.acquireToClose();
        try {
            Events.PoolClose event = new Events.PoolClose();
            event.begin();
            changes.refuse(new StoreFailure.Closed(pmem.name() + " is closed"));
            pmem.close();
            disks.forEach(disk -> disk.region().close());
            event.pool = pmem.name();
            event.commits = usage.counts().commits();
            event.commit();
        } finally {
            writer.unlock();
        }
    }
}
