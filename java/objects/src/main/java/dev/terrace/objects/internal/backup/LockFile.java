package dev.terrace.objects.internal.backup;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/// A file that is locked, in this process and for others.
///
/// Invariant: a process opens a locked file once only, because the system releases a process's lock
/// when the process closes any channel of the file.
final class LockFile implements AutoCloseable {
    private static final Set<Path> HELD = ConcurrentHashMap.newKeySet();

    private final Path key;
    private final FileChannel channel;

    private LockFile(Path key, FileChannel channel) {
        this.key = key;
        this.channel = channel;
    }

    /// Locks a file, and makes it if needed; null if it is locked already.
    ///
    /// @throws IOException if it cannot be opened, or is a symbolic link
    static @Nullable LockFile tryLock(Path file) throws IOException {
        Path key = file.toAbsolutePath().getParent().toRealPath().resolve(file.getFileName());
        if (!HELD.add(key)) {
            return null;
        }
        LockFile locked = null;
        try {
            locked = open(key);
            return locked;
        } finally {
            if (locked == null) {
                HELD.remove(key);
            }
        }
    }

    private static @Nullable LockFile open(Path key) throws IOException {
        FileChannel channel =
                FileChannel.open(
                        key,
                        StandardOpenOption.CREATE,
                        StandardOpenOption.WRITE,
                        LinkOption.NOFOLLOW_LINKS);
        boolean closes = true;
        try {
            if (channel.tryLock() != null) {
                closes = false;
                return new LockFile(key, channel);
            }
            return null;
        } catch (OverlappingFileLockException otherCopyOfThisLibrary) {
            // To close the channel would release the other copy's lock.
            closes = false;
            return null;
        } finally {
            if (closes) {
                channel.close();
            }
        }
    }

    @Override
    public void close() throws IOException {
        try {
            channel.close();
        } finally {
            HELD.remove(key);
        }
    }
}
