package dev.terrace.objects.stress;

import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolOptions;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.LongSupplier;
import java.util.stream.Stream;

/// The pool that the tests of a process share, and the same pool opened a second time, as a process
/// that only reads would open it.
final class Rig {
    /// Where pools are made: a directory that [Stress] makes and deletes.
    static final String PROPERTY = "terrace.stress.directory";

    private static final int LOOKS_MAX = 1000;

    /// More objects than states at a time have, so that no two states have the same.
    private static final int PLACES = 1 << 11;

    /// The pool.
    static final Pool POOL;

    /// The same files, mapped again, only to read.
    static final Pool READER;

    /// An object that no state has.
    static final DurablePair SPARE;

    private static final Path DIRECTORY = newDirectory();
    private static final DurablePair[] PAIRS = new DurablePair[PLACES];
    private static final AtomicInteger NEXT = new AtomicInteger();

    static {
        POOL = open(DIRECTORY, PoolOptions.defaults().extents(1 << 20));
        SPARE = DurablePair.create(POOL);
        POOL.transact(() -> {
            for (int i = 0; i < PLACES; i++) {
                PAIRS[i] = DurablePair.create(POOL);
            }
        });
        READER = open(linkedDirectory(), PoolOptions.defaults().toRead());
    }

    private Rig() {}

    /// Looks again and again until it sees something else than `before`, and returns that; `before`
    /// if it does not for a while. So who reads is at it when the commit comes.
    static long look(long before, LongSupplier get) {
        long seen = before;
        for (int i = 0; i < LOOKS_MAX && seen == before; i++) {
            seen = get.getAsLong();
        }
        return seen;
    }

    private static Path newDirectory() {
        try {
            return Files.createTempDirectory(Path.of(System.getProperty(PROPERTY)), "pool");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /// A directory with the pool's files. A pool is opened once in a process, by its directory:
    /// from here it is opened once more.
    static Path linkedDirectory() {
        Path other = newDirectory();
        try (Stream<Path> files = Files.list(DIRECTORY)) {
            for (Path file : files.toList()) {
                Files.createLink(other.resolve(file.getFileName()), file);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return other;
    }

    static Pool open(Path directory, PoolOptions options) {
        try {
            return Pool.open(directory, options);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /// A number that no other state has.
    static int nextPlace() {
        return NEXT.getAndIncrement() & PLACES - 1;
    }

    /// An object that no other state has.
    static DurablePair pair(int place) {
        return PAIRS[place];
    }

    /// Puts a new object there, for one that has been deleted or is now.
    static DurablePair renew(int place) {
        return POOL.transact(() -> {
            DurablePair old = PAIRS[place];
            if (old.isAlive()) {
                old.delete();
            }
            PAIRS[place] = DurablePair.create(POOL);
            return PAIRS[place];
        });
    }

    /// Remembers what is there now.
    static void set(int place, DurablePair pair) {
        PAIRS[place] = pair;
    }

    /// Sets both numbers to 1, in a transaction.
    static void setBoth(DurablePair pair) {
        POOL.transact(() -> {
            pair.setFirst(1);
            pair.setSecond(1);
        });
    }

    /// Sets both numbers to 0, one after the other.
    static void clearBoth(DurablePair pair) {
        pair.setFirst(0);
        pair.setSecond(0);
    }

    /// A handle of the same object in the pool that is only read.
    static DurablePair reader(DurablePair pair) {
        return READER.object(DurablePair.TYPE, pair.reference());
    }

    /// The number of a string among those that a test writes, from 1 on; 0 for null, -1 if it is
    /// none of them.
    static int number(String text, List<String> texts) {
        int index = texts.indexOf(text);
        return index < 0 ? -1 : index + 1;
    }
}
