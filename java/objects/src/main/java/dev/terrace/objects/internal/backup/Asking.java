package dev.terrace.objects.internal.backup;

import dev.terrace.objects.internal.store.Ownership;
import dev.terrace.objects.internal.store.Region;
import dev.terrace.objects.internal.store.Store;
import dev.terrace.objects.internal.store.StoreFailure;
import dev.terrace.objects.internal.store.Superblock;
import dev.terrace.objects.internal.store.Watch;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.security.SecureRandom;
import java.util.BitSet;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/// A backup's side of [Watch]: what it asks of the pool's writer, and what that has told.
///
/// Invariants:
/// * Marks are taken before the blocks are copied that they stand for, so what is stored meanwhile
///   is marked again.
/// * One backup at a time asks. Others are refused, so nobody's request is replaced by another's.
final class Asking implements AutoCloseable {
    private static final String LOCK = "watch.lock";
    private static final int SHIFT_MIN = 10;
    private static final long WAIT_NANOS = 20_000_000;
    private static final long POLL_NANOS = 10_000;
    private static final int PART_BYTES = 1 << 16;
    private static final VarHandle WORDS = Region.LONG.varHandle();

    private final SecureRandom random = new SecureRandom();
    private final Arena arena = Arena.ofConfined();
    private final Path file;
    private final LockFile lock;
    private final int[] shifts;
    private final MemorySegment words;
    private final long request;
    private final MemorySegment marks;

    private Asking(Path file, LockFile lock, int[] shifts) throws IOException {
        this.file = file;
        this.lock = lock;
        this.shifts = shifts;
        boolean done = false;
        try {
            words =
                    Watch.map(file, Superblock.BYTES, arena)
                            .asSlice(Superblock.WATCH_AT, Watch.BYTES);
            removeOld();
            request = newNumber();
            marks = makeMarks();
            done = true;
        } finally {
            if (!done) {
                arena.close();
            }
        }
    }

    /// Begins to talk with the pool's writer, also with one that comes later. Null if this user
    /// must not write to the pool, or has no room for marks.
    ///
    /// @param blocks the number of blocks of each file of the pool
    /// @throws StoreFailure.Busy if another backup of the pool asks
    static @Nullable Asking of(Store store, Path pool, long[] blocks) {
        Path file = pool.resolve("pool");
        @Nullable LockFile lock;
        try {
            lock = lock(pool.resolve(LOCK), file);
        } catch (IOException mustNot) {
            return null;
        }
        if (lock == null) {
            throw new StoreFailure.Busy(
                    pool + ": another backup of it is under way: wait until it has ended");
        }
        Asking asking = null;
        try {
            asking = new Asking(file, lock, shifts(blocks));
            asking.begin();
            // The pool was opened before: another may have its name by now.
            if (store.pmem().getLong(Superblock.WATCH_AT + Watch.REQUEST_AT) == asking.request) {
                return asking;
            }
        } catch (IOException mustNot) {
            // As without permission.
        }
        if (asking != null) {
            asking.close();
        } else {
            close(lock);
        }
        return null;
    }

    /// Locks the pool against other backups; null if one is under way. The file that is locked
    /// belongs to the pool's owner, so it keeps nobody away who may ask.
    private static @Nullable LockFile lock(Path at, Path file) throws IOException {
        if (Files.exists(at, LinkOption.NOFOLLOW_LINKS)) {
            try {
                Ownership.require(at, file);
            } catch (IOException anothers) {
                Files.delete(at);
            }
        }
        LockFile lock = LockFile.tryLock(at);
        if (lock != null) {
            try {
                Ownership.give(at, file);
            } catch (IOException mustNot) {
                Files.deleteIfExists(at);
                close(lock);
                throw mustNot;
            }
        }
        return lock;
    }

    private static void close(LockFile lock) {
        try {
            lock.close();
        } catch (IOException released) {
            // A channel that cannot be closed has released its lock all the same.
        }
    }

    private static int[] shifts(long[] blocks) {
        int[] shifts = new int[Watch.FILES];
        for (int i = 0; i < shifts.length; i++) {
            // Twice as many, because the file may grow.
            long twice = i < blocks.length ? 2 * blocks[i] : 0;
            int shift = Long.SIZE - Long.numberOfLeadingZeros(twice);
            shifts[i] = Math.clamp(shift, SHIFT_MIN, Watch.MARKS_SHIFT_MAX);
        }
        return shifts;
    }

    /// Backups that were killed may have left marks.
    private void removeOld() throws IOException {
        try (DirectoryStream<Path> old =
                Files.newDirectoryStream(file.toAbsolutePath().getParent(), "watch-*")) {
            for (Path each : old) {
                removeIfAllowed(each);
            }
        } catch (DirectoryIteratorException e) {
            throw e.getCause();
        }
    }

    /// What cannot be removed is in nobody's way: the next file of marks has another name.
    private static void removeIfAllowed(Path marks) {
        try {
            Files.deleteIfExists(marks);
        } catch (IOException stays) {
            // The next backup tries it again.
        }
    }

    /// The file is written as a whole, durably: a store to a hole would end the writer on a full
    /// device, also one that finds the file after a power cut.
    private MemorySegment makeMarks() throws IOException {
        ByteBuffer part = ByteBuffer.allocate(PART_BYTES).order(ByteOrder.LITTLE_ENDIAN);
        long length = Watch.FRONT_BYTES;
        for (int shift : shifts) {
            part.putLong(shift);
            length += 1L << shift;
        }
        Path made = Watch.marksOf(file, request);
        boolean done = false;
        try (FileChannel channel =
                FileChannel.open(made, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
            for (long at = 0; at < length; part = ByteBuffer.allocate(PART_BYTES)) {
                part.position(0).limit((int) Math.min(PART_BYTES, length - at));
                while (part.hasRemaining()) {
                    at += channel.write(part, at);
                }
            }
            channel.force(true);
            Ownership.give(made, file);
            MemorySegment mapped = Watch.map(made, length, arena, LinkOption.NOFOLLOW_LINKS);
            done = true;
            return mapped;
        } finally {
            if (!done) {
                Files.deleteIfExists(made);
            }
        }
    }

    private long get(long at) {
        return (long) WORDS.getVolatile(words, at);
    }

    private void put(long at, long value) {
        WORDS.setVolatile(words, at, value);
    }

    private void call() {
        put(Watch.CALLS_AT, get(Watch.CALLS_AT) + 1);
    }

    /// A number that no writer takes for one that it has met.
    private long newNumber() {
        long number;
        do {
            number = Integer.toUnsignedLong(random.nextInt() | 1);
        } while (number == get(Watch.REQUEST_AT)
                || number == Watch.requestOf(get(Watch.SESSION_AT)));
        return number;
    }

    private void begin() {
        put(Watch.PAUSE_AT, 0);
        put(Watch.REQUEST_AT, request);
        call();
        // It may begin later, too.
        await(() -> session() != 0);
    }

    /// Whether something has come true.
    private interface Condition {
        boolean holds();
    }

    /// Waits, but not long: there may be no writer, or one that does nothing.
    private static void await(Condition condition) {
        long end = System.nanoTime() + WAIT_NANOS;
        while (!condition.holds() && System.nanoTime() - end < 0) {
            LockSupport.parkNanos(POLL_NANOS);
        }
    }

    /// The session of a writer that marks for this backup; 0 if there was none.
    long session() {
        long session = get(Watch.SESSION_AT);
        return Watch.requestOf(session) == request ? session : 0;
    }

    /// Whether marks of this session have told all changes up to this commit. That is waited for a
    /// moment, which a writer needs after a commit.
    boolean hasTold(long session, long sequence) {
        if (session == 0) {
            return false;
        }
        await(() -> get(Watch.TOLD_AT) == sequence || session() != session);
        return get(Watch.TOLD_AT) == sequence && session() == session;
    }

    /// Takes the marks of a file with so many blocks.
    void take(int number, int blocks, BitSet into) {
        long begin = Watch.FRONT_BYTES;
        for (int i = 0; i < number; i++) {
            begin += 1L << shifts[i];
        }
        int step = 1 << shifts[number];
        for (int mark = 0; mark < step; mark += Long.BYTES) {
            if ((long) WORDS.get(marks, begin + mark) != 0) {
                long found = (long) WORDS.getAndSet(marks, begin + mark, 0L);
                for (int i = 0; i < Long.BYTES; i++) {
                    if ((found >>> 8 * i & 0xff) != 0) {
                        for (long at = mark + i; at < blocks; at += step) {
                            into.set((int) at);
                        }
                    }
                }
            }
        }
        VarHandle.fullFence();
    }

    /// Has the writer wait, for a bounded time.
    void pause() {
        long pause = random.nextLong() | 1;
        put(Watch.PAUSE_AT, pause);
        call();
        await(() -> get(Watch.PAUSED_AT) == pause);
    }

    /// Ends the pause.
    void resume() {
        put(Watch.PAUSE_AT, 0);
    }

    @Override
    public void close() {
        resume();
        put(Watch.REQUEST_AT, 0);
        call();
        arena.close();
        removeIfAllowed(Watch.marksOf(file, request));
        close(lock);
    }
}
