package dev.terrace.objects.internal.store;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.VarHandle;
import java.nio.channels.FileChannel;
import java.nio.channels.FileChannel.MapMode;
import java.nio.file.LinkOption;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/// The words of the superblock through which a backup, maybe of another process, talks with the
/// process that writes to the pool. The backup may ask for marks of what changes, and for a pause.
///
/// Invariants:
/// * A session is a writer that marks in one backup's file of marks. Its number is new.
/// * The words `SESSION_AT` and `TOLD_AT` together make a statement that stays true whoever writes
///   afterwards: since the session began, each block of 64 KiB that was flushed up to the commit
///   `TOLD_AT` has got a mark. So a backup believes it only while `sequence` is that number, and no
///   word that a killed writer has left can mislead it.
/// * What was not flushed may be lost by a power cut too, so marks need not tell it.
/// * A writer takes up a request between two transactions only, so no transaction is marked in
///   part.
/// * A pause ends by itself, so a backup that was killed holds up nobody.
/// * A writer that cannot use the file of marks writes without marks.
public final class Watch implements AutoCloseable {
    /// The greatest length of a pause.
    public static final long PAUSE_NANOS_MAX = TimeUnit.MILLISECONDS.toNanos(100);

    /// Bytes of the words.
    public static final int BYTES = 64;

    /// Bytes of the front of a file of marks.
    public static final int FRONT_BYTES = 4096;

    /// The logarithm of the bytes that a mark stands for: a chunk.
    public static final int MARKED_SHIFT = 16;

    /// The logarithm of the greatest number of marks of a file.
    public static final int MARKS_SHIFT_MAX = 24;

    /// Number of files that a pool may have: persistent memory and eight disks.
    public static final int FILES = 9;

    /// What a backup raises when it has changed one of its words.
    public static final long CALLS_AT = 0;

    /// A backup's word: the number of its file of marks, of 32 bits, or 0.
    public static final long REQUEST_AT = 8;

    /// A backup's word: the number of the pause that it wants, or 0.
    public static final long PAUSE_AT = 16;

    /// The writer's word: the session. Its lower half is the number of the file in which the writer
    /// marks, or 0; its upper half counts sessions.
    public static final long SESSION_AT = 24;

    /// The writer's word: the sequence up to which the session has told all changes.
    public static final long TOLD_AT = 32;

    /// The writer's word: the number of the last pause that it has begun.
    public static final long PAUSED_AT = 40;

    private static final long POLL_NANOS = 20_000;
    private static final VarHandle WORDS = Region.LONG.varHandle();
    private static final VarHandle MARKS = Region.BYTE.varHandle();

    private final @Nullable Path pool;
    private final MemorySegment words;
    private final MemorySegment sequence;
    private long seen;
    private long paused;
    private long marking;
    private @Nullable Table table;

    /// The marks of one backup: a byte for each block of each file. If a file has more blocks than
    /// marks, several blocks share a mark.
    private record Table(Arena arena, MemorySegment marks, long[] begins, long[] masks) {}

    private Watch(@Nullable Path pool, MemorySegment words, MemorySegment sequence) {
        this.pool = pool;
        this.words = words;
        this.sequence = sequence;
        // The first look takes up what a backup may want already.
        seen = get(CALLS_AT) - 1;
        // A backup may have left it when it was killed.
        paused = get(PAUSE_AT);
    }

    /// The words of a pool that nobody talks about.
    public static Watch none() {
        MemorySegment zeros = MemorySegment.ofArray(new long[BYTES / Long.BYTES]);
        Watch watch = new Watch(null, zeros, zeros);
        watch.seen = 0;
        return watch;
    }

    /// The words of a pool that this process writes to. It begins to mark with its next
    /// transaction.
    ///
    /// @param pool the file in persistent memory, beside which files of marks are
    /// @param words in its superblock
    /// @param sequence the word that counts commits
    public static Watch of(Path pool, MemorySegment words, MemorySegment sequence) {
        return new Watch(pool, words, sequence);
    }

    /// The file with the marks of a request.
    public static Path marksOf(Path pool, long request) {
        return pool.resolveSibling("watch-" + Long.toHexString(request));
    }

    /// The request that a session marks for.
    public static long requestOf(long session) {
        return session & 0xffff_ffffL;
    }

    /// Maps the first bytes of a file to read and write.
    ///
    /// @throws IOException if that cannot be done, or the file is shorter
    public static MemorySegment map(Path file, long bytes, Arena arena, LinkOption... links)
            throws IOException {
        Set<OpenOption> options = new HashSet<>(List.of(links));
        options.addAll(List.of(StandardOpenOption.READ, StandardOpenOption.WRITE));
        return Uninterrupted.run(() -> {
            try (FileChannel channel = FileChannel.open(file, options)) {
                if (channel.size() < bytes) {
                    throw new IOException(file + " has only " + channel.size() + " bytes");
                }
                return channel.map(MapMode.READ_WRITE, 0, bytes, arena);
            }
        });
    }

    private long get(long at) {
        return (long) WORDS.getAcquire(words, at);
    }

    private void put(long at, long value) {
        WORDS.setRelease(words, at, value);
    }

    /// Does what a backup asks for, between two transactions of the thread that writes.
    void attend() {
        if ((long) WORDS.get(words, CALLS_AT) != seen) {
            seen = get(CALLS_AT);
            mark(get(REQUEST_AT));
            pause(get(PAUSE_AT));
            VarHandle.fullFence();
        }
    }

    /// Takes up a request. The word of the session comes before the one of what it has told: who
    /// reads them in the other order never takes another session's word for this one's.
    private void mark(long request) {
        if (request != marking) {
            close();
            marking = request;
            table = request == 0 ? null : open(request);
            long count = (get(SESSION_AT) >>> 32) + 1;
            put(SESSION_AT, count << 32 | (table == null ? 0 : request));
            committed();
        }
    }

    private void pause(long pause) {
        if (pause != 0 && pause != paused) {
            paused = pause;
            put(PAUSED_AT, pause);
            long end = System.nanoTime() + PAUSE_NANOS_MAX;
            while (get(PAUSE_AT) == pause && System.nanoTime() - end < 0) {
                LockSupport.parkNanos(POLL_NANOS);
            }
        }
    }

    /// A commit has happened, and all that it has flushed is marked.
    void committed() {
        if (table != null) {
            put(TOLD_AT, (long) WORDS.get(sequence, 0L));
        }
    }

    /// The marks of a request; null if they cannot be used, which the backup sees.
    private @Nullable Table open(long request) {
        if (pool == null || requestOf(request) != request) {
            return null;
        }
        Path file = marksOf(pool, request);
        Arena arena = Arena.ofShared();
        Table found = null;
        try {
            Ownership.require(file, pool);
            found = open(file, arena);
        } catch (IOException unusable) {
            // Said by the session.
        }
        if (found == null) {
            arena.close();
        }
        return found;
    }

    private static @Nullable Table open(Path file, Arena arena) throws IOException {
        long[] begins = new long[FILES];
        long[] masks = new long[FILES];
        MemorySegment front = map(file, FRONT_BYTES, arena, LinkOption.NOFOLLOW_LINKS);
        long at = FRONT_BYTES;
        for (int i = 0; i < FILES; i++) {
            long shift = front.get(Region.LONG, (long) i * Long.BYTES);
            if (shift < 0 || shift > MARKS_SHIFT_MAX) {
                return null;
            }
            begins[i] = at;
            masks[i] = (1L << shift) - 1;
            at += 1L << shift;
        }
        return new Table(arena, map(file, at, arena, LinkOption.NOFOLLOW_LINKS), begins, masks);
    }

    /// Marks what was stored to a range of a file of the pool: 0 is persistent memory, 1 the first
    /// disk.
    void mark(int number, long offset, long length) {
        Table marks = table;
        if (marks != null) {
            long end = offset + length - 1 >>> MARKED_SHIFT;
            for (long block = offset >>> MARKED_SHIFT; block <= end; block++) {
                MARKS.setRelease(
                        marks.marks,
                        marks.begins[number] + (block & marks.masks[number]),
                        (byte) 1);
            }
        }
    }

    /// Ends marking. The session's words stay, as they are true still.
    @Override
    public void close() {
        if (table != null) {
            table.arena.close();
            table = null;
        }
    }
}
