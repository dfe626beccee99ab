package dev.terrace.objects.internal.store;

import dev.terrace.objects.PoolClosedException;
import dev.terrace.objects.PoolDamagedException;
import dev.terrace.objects.PoolFullException;
import dev.terrace.objects.PoolReadOnlyException;
import dev.terrace.objects.StaleReferenceException;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.TerraceException;
import dev.terrace.objects.TransactionAbortedException;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/// A pool's bytes on all its tiers, and the transactions that change them.
///
/// A transaction keeps the words that it changes to itself ([Overlay]) and writes only to what it
/// has allocated, which nobody else can find yet. A commit makes that durable, writes the words to
/// the log, makes the sequence odd, stores the words in their places, and makes the sequence even.
///
/// Invariants:
/// * Committed data is never overwritten before the commit that replaces it is in the log: whoever
///   reads sees committed states only, in place while the sequence is even, with the log's words
///   laid over while it is odd.
/// * A single word that is stored on its own is a commit of its own, since a word is never torn.
///   The sequence moves behind it.
/// * One thread writes at a time.
public final class Store implements AutoCloseable {
    private static final long NONE = -1;

    private final Region pmem;
    private final List<Disk> disks;
    private final Remote remote;
    private final Superblock superblock;
    private final CommitLog log;
    private final boolean readOnly;
    private final Allocator allocator;

    private final WriterLock writer;
    private final Overlay overlay = new Overlay();

    /// What the transaction has allocated in persistent memory, with its bytes.
    private final Overlay fresh = new Overlay();

    private final List<Long> freed = new ArrayList<>();
    private final List<Runnable> afterCommit = new ArrayList<>();
    private final List<Runnable> afterRollback = new ArrayList<>();

    /// Objects that are read in place are not, or not as a whole, what they were.
    private boolean deletes;

    private int depth;
    private @Nullable Throwable doomed;

    private final Epoch epoch;
    private final Reads reads;
    private volatile @Nullable TerraceException broken;

    private final Usage usage;

    /// A region and the tier that it is.
    public record TierRegion(StorageTier tier, Region region) {}

    /// A remote tier: its segments, and how many bytes they may take.
    public record RemoteTier(SegmentStore segments, long bytesMax) {}

    /// Opens what [Superblock#format(Region)] has made.
    ///
    /// @throws PoolDamagedException if it is not that any more
    /// @throws dev.terrace.objects.PoolFormatException if the segments are not this pool's
    public Store(
            Superblock superblock,
            Region pmem,
            List<TierRegion> disks,
            @Nullable RemoteTier remoteTier,
            boolean readOnly) {
        this.superblock = superblock;
        this.pmem = pmem;
        this.readOnly = readOnly;
        epoch = new Epoch(readOnly ? pmem : null);
        writer = new WriterLock(pmem.name());
        log = new CommitLog(pmem, superblock.logBytes());
        reads = new Reads(this, log, epoch, writer, readOnly);
        Words words = new TransactionWords(this, overlay);
        allocator = new Allocator(words, pmem, true, superblock.secret());
        for (int extent = 0; extent < pmem.extents(); extent++) {
            addPmemExtent(extent);
        }
        List<Disk> all = new ArrayList<>();
        for (TierRegion disk : disks) {
            all.add(new Disk(this, all.size(), disk, words, superblock.id()));
        }
        this.disks = List.copyOf(all);
        remote = new Remote(this, pmem, superblock.id(), remoteTier);
        usage = new Usage(this, allocator, this.disks, readOnly);
        if (readOnly) {
            // A commit may be on its way to its places.
            read(() -> openDisks(all));
        } else {
            openDisks(all);
        }
        remote.open();
    }

    /// Finishes the commit that was under way when the last writer ended: that comes before
    /// anything else is read. Who may only read leaves it.
    ///
    /// @throws PoolDamagedException if the log is damaged
    public static void finishCommit(Superblock superblock, Region pmem, boolean readOnly) {
        if (!readOnly) {
            new CommitLog(pmem, superblock.logBytes()).finish();
        }
    }

    private static boolean openDisks(List<Disk> all) {
        all.forEach(Disk::open);
        return true;
    }

    private void addPmemExtent(int extent) {
        long map =
                extent * pmem.extentBytes()
                        + (extent == 0 ? Superblock.LOG_AT + superblock.logBytes() : 0);
        allocator.addExtent(map, pmem.within(map) + Allocator.mapBytes(pmem.extentBytes()));
    }

    /// Where records are.
    public Region pmem() {
        return pmem;
    }

    /// Which tier disk `index` is.
    public StorageTier diskTier(int index) {
        return diskAt(index).tier();
    }

    /// How many disks there are.
    public int diskCount() {
        return disks.size();
    }

    private Disk diskAt(int index) {
        if (index >= disks.size()) {
            throw new PoolDamagedException(
                    pmem.name()
                            + ": something leads to disk "
                            + index
                            + ", and the pool was opened with "
                            + disks.size());
        }
        return disks.get(index);
    }

    /// Disk `index`.
    Region disk(int index) {
        return diskAt(index).region();
    }

    /// The remote tier, which may have no place.
    public Remote remote() {
        return remote;
    }

    /// What seals and marks are made with.
    long secret() {
        return superblock.secret();
    }

    /// The number of the last commit, odd while it is on its way to its places.
    public long sequence() {
        return pmem.getLongAcquire(Superblock.SEQUENCE_AT);
    }

    /// The header of what may begin at `offset`; 0 if nothing can.
    public long header(long offset) {
        return pmem.contains(offset) && offset % SizeClasses.GRANULE_BYTES == 0 ? word(offset) : 0;
    }

    /// Whether what begins at `offset` has a header that belongs there.
    public boolean hasHeader(long offset) {
        return belongs(offset, word(offset));
    }

    /// Whether a header belongs at `offset`: if not, the device gives a block that belongs
    /// elsewhere.
    public boolean belongs(long offset, long header) {
        return Headers.belongs(superblock.secret(), offset, header);
    }

    /// Throws if a header does not belong at `offset`.
    ///
    /// @throws PoolDamagedException if it does not
    public void requireBelongs(long offset, long header) {
        if (!belongs(offset, header)) {
            throw new PoolDamagedException(
                    pmem.name() + ": what is at offset " + offset + " belongs elsewhere");
        }
    }

    /// Whether a buffer begins at `offset`.
    boolean isBuffer(long offset) {
        return Headers.type(word(offset)) == Headers.BUFFER && hasHeader(offset);
    }

    /// What tells who reads in place that nothing has happened meanwhile.
    public Epoch epoch() {
        return epoch;
    }

    /// Whether this thread is to see what is in place. If not, [#word] tells what it is to see.
    public boolean isInPlace() {
        return epoch.isPlain() || laidOver() == null;
    }

    /// Has nobody read in place without a further look, until [#trust()] as often.
    public void distrust() {
        epoch.layOver();
    }

    /// The end of [#distrust()].
    public void trust() {
        epoch.takeOff();
    }

    /// What this thread is to see laid over what is in place; null if that is nothing.
    private @Nullable Overlay laidOver() {
        if (writer.isHeldByCurrentThread()) {
            return overlay.size() == 0 ? null : overlay;
        }
        return reads.laidOver();
    }

    /// A word as this thread is to see it.
    public long word(long offset) {
        long inPlace = pmem.getLong(offset);
        if (epoch.isPlain()) {
            return inPlace;
        }
        Overlay mine = laidOver();
        return mine == null ? inPlace : mine.get(offset, inPlace);
    }

    // Transactions

    /// Runs `work` as a transaction: all that it changes, or, if it throws, nothing. In a
    /// transaction it becomes a part of that.
    ///
    /// @throws PoolReadOnlyException if the pool was opened to be read
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

    /// Throws if this thread must not write.
    ///
    /// @throws PoolReadOnlyException if the pool was opened to be read, or this is part of a
    ///   consistent read
    public void requireWritable() {
        if (readOnly) {
            throw new PoolReadOnlyException(pmem.name() + " was opened to be read");
        }
        if (reads.isUnderWay()) {
            // It would be written as often as the read is repeated.
            throw new PoolReadOnlyException(
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
                requireWhole();
            } catch (TerraceException e) {
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
                commit();
            } else {
                Throwable cause = doomed;
                rollBack();
                if (done && cause != null) {
                    throw new TransactionAbortedException(
                            "a transaction within this one has failed, so nothing of it lasts",
                            cause);
                }
            }
        } finally {
            if (depth == 0) {
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

    /// Done when, and only if, the transaction has committed.
    public void afterCommit(Runnable action) {
        afterCommit.add(action);
    }

    /// Done, the last first, when the transaction is rolled back.
    public void afterRollback(Runnable action) {
        afterRollback.add(action);
    }

    private void commit() {
        writeSegments();
        try {
            if (overlay.size() == 1 && freed.isEmpty() && fresh.size() == 0) {
                putWordAlone(overlay.offset(0), overlay.value(0));
            } else if (overlay.size() > 0 || !freed.isEmpty()) {
                commitWords();
            }
        } catch (PoolFullException e) {
            rollBack();
            throw e;
        } catch (RuntimeException | Error e) {
            throw breakDown(e);
        }
        List<Runnable> actions = List.copyOf(afterCommit);
        forget();
        actions.forEach(Runnable::run);
    }

    /// Makes durable what the transaction has put on the remote tier. Nothing is in the log yet, so
    /// whatever fails there, the transaction is rolled back.
    private void writeSegments() {
        depth++;
        try {
            remote.seal();
            depth--;
        } catch (PoolDamagedException e) {
            depth--;
            throw breakDown(e);
        } catch (RuntimeException | Error e) {
            depth--;
            rollBack();
            throw e;
        }
    }

    private void commitWords() {
        Events.Commit event = new Events.Commit();
        event.begin();
        long overflow = overflow();
        freed.forEach(this::freeNow);
        flushFresh();
        long logged = publish(overlay, log.overflowBytes(overlay.size()) == 0 ? 0 : overflow);
        if (deletes) {
            epoch.delete();
        }
        if (event.shouldCommit()) {
            event.pool = pmem.name();
            event.words = overlay.size();
            event.bytesLogged = logged;
            event.commit();
        }
    }

    /// Where the log's words go if they do not fit into the log; asked before anything is freed, so
    /// that nothing that somebody may read is there.
    private long overflow() {
        long bytes = overflowBytes();
        if (bytes == 0) {
            return 0;
        }
        long run = allocator.borrow(bytes);
        try {
            if (run == NONE) {
                growPmem();
                run = allocator.borrow(bytes);
            }
        } catch (PoolFullException full) {
            throw new PoolFullException(
                    tooLarge() + " as it has no room for the log of one: " + full.getMessage(),
                    full);
        }
        if (run == NONE) {
            throw new PoolFullException(tooLarge() + " as it has no room for the log of one");
        }
        return run;
    }

    private String tooLarge() {
        return pmem.name()
                + ": a transaction that changes "
                + changes()
                + " words is too large for this pool:"
                + " divide it into smaller transactions, also if it only deletes,";
    }

    /// How many words the transaction changes, at most.
    private int changes() {
        return overlay.size() + 3 * freed.size();
    }

    private long overflowBytes() {
        long bytes = log.overflowBytes(changes());
        if (bytes > pmem.extentBytes() / 2) {
            throw new PoolFullException(tooLarge() + " or make the pool with larger extents");
        }
        return bytes;
    }

    private void flushFresh() {
        for (int i = 0; i < fresh.size(); i++) {
            pmem.flush(fresh.offset(i), fresh.value(i));
        }
        disks.forEach(Disk::flush);
    }

    /// Makes words durable, all or none; those that do not fit into the log go by way of
    /// `overflow`. Returns how many bytes went through the log.
    private long publish(Overlay words, long overflow) {
        epoch.changing();
        long logged = log.commit(words, overflow);
        epoch.changed();
        usage.committed(logged);
        return logged;
    }

    private void rollBack() {
        Events.Rollback event = new Events.Rollback();
        event.begin();
        int words = overlay.size();
        usage.rolledBack();
        epoch.changing();
        for (int i = 0; i < fresh.size(); i++) {
            // A handle of what is not to be must not find what comes there next.
            long offset = fresh.offset(i);
            int next =
                    Math.min(Headers.generation(pmem.getLong(offset)) + 1, Headers.GENERATION_MAX);
            pmem.putLong(offset, Headers.of(superblock.secret(), offset, Headers.FREE, next));
        }
        // Chunks that it had cut are none: who has looked at what was in use there looks again.
        epoch.changed();
        allocator.forgetIndex();
        disks.forEach(disk -> disk.allocator().forgetIndex());
        List<Runnable> actions = List.copyOf(afterRollback).reversed();
        forget();
        actions.forEach(Runnable::run);
        if (event.shouldCommit()) {
            event.pool = pmem.name();
            event.words = words;
            event.commit();
        }
    }

    private void forget() {
        overlay.clear();
        fresh.clear();
        freed.clear();
        afterCommit.clear();
        afterRollback.clear();
        disks.forEach(Disk::forget);
        remote.forget();
        doomed = null;
        deletes = false;
    }

    /// A device has failed in the middle of a commit: what has become of it, the next to open the
    /// pool finds out.
    private TerraceException breakDown(Throwable cause) {
        TerraceException why =
                cause instanceof TerraceException known
                        ? known
                        : new PoolDamagedException(
                                pmem.name() + ": a commit could not be stored: " + cause, cause);
        broken = why;
        forget();
        return why;
    }

    /// Throws if the pool must not be written any more.
    private void requireWhole() {
        TerraceException why = broken;
        if (why instanceof PoolClosedException) {
            throw why;
        }
        if (why != null) {
            throw new PoolDamagedException(
                    "the pool failed before and must be opened anew: " + why.getMessage(), why);
        }
    }

    // Changes: in a transaction only

    private void requireTransaction() {
        if (!inTransaction()) {
            throw new IllegalStateException("not in a transaction");
        }
    }

    /// Changes a word of something that begins at `owner`.
    public void putWord(long owner, long offset, long value) {
        requireTransaction();
        if (fresh.contains(owner)) {
            pmem.putLong(offset, value);
        } else {
            overlay.put(offset, value);
        }
    }

    /// Changes `bits` of the word at `offset` to those of `value`, in an object that begins at
    /// `owner` with this header; outside of a transaction as a commit of its own.
    ///
    /// @throws StaleReferenceException if the object is not there any more
    /// @throws PoolReadOnlyException if this thread must not write
    public void putBits(long owner, long header, long offset, long bits, long value) {
        requireWritable();
        writer.acquire();
        try {
            if (word(owner) != header) {
                throw stale(owner);
            }
            long changed = word(offset) & ~bits | value & bits;
            if (depth > 0) {
                putWord(owner, offset, changed);
            } else {
                putWordAlone(offset, changed);
            }
        } finally {
            writer.unlock();
        }
    }

    /// That an object is not there any more.
    public StaleReferenceException stale(long offset) {
        return new StaleReferenceException(
                "the object at " + offset + " of " + pmem.name() + " has been deleted");
    }

    private void putWordAlone(long offset, long value) {
        requireWhole();
        try {
            epoch.storing();
            pmem.putLong(offset, value);
            epoch.stored();
            pmem.flush(offset, Long.BYTES);
            pmem.fence();
            pmem.putLong(Superblock.SEQUENCE_AT, pmem.getLong(Superblock.SEQUENCE_AT) + 2);
            usage.committed(0);
        } catch (RuntimeException | Error e) {
            throw breakDown(e);
        }
    }

    /// Allocates zeros in persistent memory, behind a header.
    ///
    /// @throws PoolFullException if there is no room
    public long allocate(long bytes, int type) {
        requireTransaction();
        allocator.requireFits(bytes);
        long offset = allocator.allocate(bytes, type);
        if (offset == NONE && releaseEmpty(allocator)) {
            offset = allocator.allocate(bytes, type);
        }
        if (offset == NONE && allocator.isAvoiding()) {
            // Whoever needs room comes before what is only tidied up.
            allocator.avoid(new BitSet());
            offset = allocator.allocate(bytes, type);
        }
        if (offset == NONE) {
            growPmem();
            offset = allocator.allocate(bytes, type);
        }
        return begin(offset, bytes);
    }

    /// As [#allocate(long, int)], of a buffer, without growth.
    ///
    /// @throws PoolFullException if there is no room
    long allocateWithin(long bytes) {
        requireTransaction();
        return begin(allocator.allocate(bytes, Headers.BUFFER), bytes);
    }

    private long begin(long offset, long bytes) {
        if (offset == NONE) {
            throw new PoolFullException(pmem.name() + " has no room for " + bytes + " bytes");
        }
        pmem.zero(offset + Headers.BYTES, bytes - Headers.BYTES);
        fresh.put(offset, bytes);
        return offset;
    }

    /// Gives back chunks that are cut for some size and hold nothing: a commit of its own, for what
    /// comes there next is stored before the transaction under way commits. Whether there were any.
    boolean releaseEmpty(Allocator of) {
        requireWhole();
        Overlay released = new Overlay();
        of.releaseEmpty(released);
        if (released.size() == 0) {
            return false;
        }
        try {
            publish(released, 0);
        } catch (RuntimeException | Error e) {
            throw breakDown(e);
        }
        of.forgetIndex();
        return true;
    }

    /// Frees, once the transaction commits, what begins at `offset` in persistent memory. Its
    /// header says so at once, to those who see what the transaction does.
    public void free(long offset) {
        requireTransaction();
        long header = word(offset);
        int generation = Math.min(Headers.generation(header) + 1, Headers.GENERATION_MAX);
        putWord(offset, offset, Headers.of(superblock.secret(), offset, Headers.FREE, generation));
        freed.add(offset);
        deletes |= Headers.type(header) < Headers.SEGMENT;
    }

    /// Frees, once the transaction commits, what begins at `offset` on disk `index`.
    void freeOnDisk(int index, long offset) {
        requireTransaction();
        freed.add(diskAt(index).codeOf(offset));
    }

    /// Has who reads objects in place look again, once the transaction commits, whether they still
    /// are what they were.
    public void haveReadersLook() {
        requireTransaction();
        deletes = true;
    }

    private void freeNow(long what) {
        if (what >= 0) {
            allocator.free(what);
        } else {
            diskAt(Disk.ofCode(what)).allocator().free(Disk.offsetOfCode(what));
        }
    }

    /// Allocates on disk `index`; -1 if it has no room.
    long allocateOnDisk(int index, long bytes) {
        requireTransaction();
        return diskAt(index).allocate(bytes);
    }

    /// As [#allocateOnDisk(int, long)], without growth.
    long allocateWithinDisk(int index, long bytes) {
        requireTransaction();
        return diskAt(index).allocator().allocate(bytes, 0);
    }

    /// Writes to what was allocated on disk `index`: durable before the transaction is.
    void writeToDisk(int index, long offset, MemorySegment source, long length) {
        diskAt(index).write(offset, source, length);
    }

    private void growPmem() {
        // The file stays as long as it gets: not for a transaction that cannot commit.
        overflowBytes();
        pmem.grow();
        addPmemExtent(pmem.extents() - 1);
        pmem.putLong(Superblock.EXTENTS_AT, pmem.extents());
        pmem.flush(Superblock.EXTENTS_AT, Long.BYTES);
        pmem.fence();
    }

    /// Has what is needed ready to move values away from persistent memory when that is full, if
    /// there is room: a map for the next extent of each disk, and a place for records of the remote
    /// tier.
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

    /// Runs `work` so that all that it reads is of one committed state; it may be run more than
    /// once.
    public <T extends @Nullable Object> T read(Supplier<T> work) {
        return inTransaction() ? work.get() : reads.read(work);
    }

    /// Done when, and only if, what this thread has read has turned out to be of one committed
    /// state; at once if that is so anyway.
    public void afterRead(Runnable action) {
        if (inTransaction()) {
            action.run();
        } else {
            reads.afterRead(action);
        }
    }

    /// Sets for how long reads are repeated where nobody can be kept from writing, and for how long
    /// a transaction is waited for whose thread waits itself.
    public void setPatience(Duration time) {
        // As long as clocks can tell.
        Duration most = Duration.ofNanos(Long.MAX_VALUE);
        Duration patience = time.compareTo(most) < 0 ? time : most;
        reads.setPatience(patience);
        writer.setPatience(patience);
    }

    /// Throws if whoever writes has given a pool that is only read a format that this library does
    /// not know: what looks like damage here is none.
    ///
    /// @throws dev.terrace.objects.PoolFormatException if so
    public void requireKnownFormat() {
        if (readOnly) {
            Superblock.requireKnown(pmem);
        }
    }

    Reads reads() {
        return reads;
    }

    /// Runs `work` while no other thread writes; in a pool that is only read, as [#read(Supplier)].
    public <T extends @Nullable Object> T alone(Supplier<T> work) {
        if (readOnly) {
            synchronized (log) {
                return read(() -> {
                    followExtents();
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

    /// Waits until no transaction is under way, or has waited for so long; whether there is none
    /// then.
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

    // Looking at all of it

    /// What has happened, and what is in use.
    public Usage usage() {
        return usage;
    }

    /// Whether something that begins at `offset` of disk `index` is in use; of persistent memory if
    /// that is -1. On the remote tier, which is [Buffers.Place#REMOTE], what begins is a value's
    /// record in persistent memory.
    public boolean isAllocated(int index, long offset) {
        return allocatorOf(index).isAllocated(offset)
                && (index != Buffers.Place.REMOTE || remote.isValue(offset));
    }

    /// Bytes that are taken by what begins at `offset` of disk `index`; of persistent memory if
    /// that is -1.
    public long sizeOf(int index, long offset) {
        return index == Buffers.Place.REMOTE
                ? remote.length(offset)
                : allocatorOf(index).sizeOf(offset);
    }

    /// Shows what the store itself owns: the maps of disks, the records of segments.
    public void links(Links links) {
        disks.forEach(disk -> disk.links(links));
        remote.links(links);
    }

    /// What compaction needs to know of the tiers.
    public Compaction compaction() {
        return new Compaction(this, disks);
    }

    /// Of disk `index`; of persistent memory if that is -1.
    Allocator allocatorOf(int index) {
        return index < 0 || index == Buffers.Place.REMOTE ? allocator : diskAt(index).allocator();
    }

    /// Frees, once the transaction commits, what begins at `offset` of disk `index`; of persistent
    /// memory if that is -1.
    public void free(int index, long offset) {
        if (index < 0) {
            free(offset);
        } else if (index == Buffers.Place.REMOTE) {
            remote.free(offset);
        } else {
            freeOnDisk(index, offset);
        }
    }

    /// The offset of the first thing in use in persistent memory from `offset` on; -1 if there is
    /// none.
    public long nextAllocated(long offset) {
        return nextAllocated(offset, -1L);
    }

    /// The same of things of some sizes, a set of [#sizeBit(long)].
    public long nextAllocated(long offset, long sizes) {
        if (readOnly) {
            followExtents();
        }
        return allocator.next(offset, sizes);
    }

    /// What stands for things of so many bytes, and of such as take as much room, in sets of sizes.
    public static long sizeBit(long bytes) {
        return SizeClasses.bit(bytes);
    }

    /// Which of the slots behind that at `offset` of persistent memory are in use, up to 63 of
    /// them: bit 0 is the next.
    public long slotsAhead(long offset) {
        return allocator.ahead(offset);
    }

    private synchronized void followExtents() {
        while (allocator.extents() < pmem.getLong(Superblock.EXTENTS_AT)) {
            addPmemExtent(allocator.extents());
        }
    }

    /// The same on disk `index`.
    public long nextOnDisk(int index, long offset) {
        return diskAt(index).allocator().next(offset);
    }

    /// Nothing is written from now on.
    @Override
    public void close() {
        writer.lock();
        try {
            Events.PoolClose event = new Events.PoolClose();
            event.begin();
            broken = new PoolClosedException(pmem.name() + " is closed");
            pmem.close();
            disks.forEach(disk -> disk.region().close());
            event.pool = pmem.name();
            event.commits = usage.commits();
            event.commit();
        } finally {
            writer.unlock();
        }
    }
}
