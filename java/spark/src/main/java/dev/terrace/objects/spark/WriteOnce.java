package dev.terrace.objects.spark;

import dev.terrace.objects.spi.Directories;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.Serial;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.StandardOpenOption;
import java.util.Collections;
import java.util.Set;
import java.util.UUID;
import java.util.WeakHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CommonPathCapabilities;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options.CreateFileOptionKeys;
import org.apache.hadoop.fs.Path;

/// Writes files of a directory each once: of several who write one name at a time, one does.
///
/// Invariants:
/// * A file has its name when it is whole and durable, and is never replaced.
/// * A write that throws has made no file, and no request of it is under way that may still make
///   one, unless it throws an [UnsureException]. A file may be there all the same: a client that
///   had no answer and asks again is told of what it did itself. So its caller looks.
sealed interface WriteOnce {
    /// How names end of files that are not whole.
    String UNFINISHED = ".tmp";

    /// Writes a file, unless one of this name is there.
    ///
    /// @return whether none was there, as far as the file system says
    boolean write(String name, byte[] bytes) throws IOException;

    /// Finds out before the work begins whether the file system keeps what it promises.
    ///
    /// @param there a file with these bytes that nobody else writes
    /// @throws UnsupportedOperationException if it does not
    default void prove(Path there, byte[] bytes) throws IOException {}

    /// Nobody can tell whether a file was written, or will be.
    final class UnsureException extends IOException {
        @Serial private static final long serialVersionUID = 1L;

        UnsureException(IOException cause) {
            super(cause.getMessage(), cause);
        }
    }

    /// The way that the directory's file system offers.
    ///
    /// @throws UnsupportedOperationException if it offers none
    static WriteOnce in(Storage directory, Configuration configuration) throws IOException {
        if (directory.isLocal()) {
            return new Linked(directory);
        }
        String key = "fs." + directory.directory().toUri().getScheme() + ".terrace.commit";
        // A file system keeps the configuration that it was opened with first.
        String wanted = configuration.get(key, directory.files().getConf().get(key));
        if (wanted != null && !wanted.equals(Renamed.NAME)) {
            throw new IllegalArgumentException(
                    key + " is '" + wanted + "', and can be '" + Renamed.NAME + "' only");
        }
        if (wanted == null && Created.isOffered(directory)) {
            return new Created(directory, key);
        }
        // File systems whose server has all names in one place, as HDFS has: there a rename fails
        // if the name is taken.
        if (wanted != null || directory.offers(CommonPathCapabilities.LEASE_RECOVERABLE)) {
            return new Renamed(directory);
        }
        throw refused(
                directory,
                key,
                "its file system ("
                        + directory.files().getClass().getName()
                        + ") does not say that it can keep one commit from replacing another: it"
                        + " has not "
                        + CreateFileOptionKeys.FS_OPTION_CREATE_CONDITIONAL_OVERWRITE);
    }

    private static UnsupportedOperationException refused(
            Storage directory, String key, String why) {
        return new UnsupportedOperationException(
                "nothing is written to "
                        + directory
                        + ": "
                        + why
                        + ". If its rename never replaces a file, or if you see to it that one"
                        + " driver at a time writes there, set spark.hadoop."
                        + key
                        + " to "
                        + Renamed.NAME);
    }

    /// By a hard link to a file that is whole.
    ///
    /// @param directory a local one
    record Linked(Storage directory) implements WriteOnce {
        @Override
        public boolean write(String name, byte[] bytes) throws IOException {
            java.nio.file.Path local = directory.local();
            Files.createDirectories(local);
            java.nio.file.Path from = local.resolve(unfinished());
            try {
                Files.write(from, bytes, StandardOpenOption.CREATE_NEW, StandardOpenOption.SYNC);
                Files.createLink(local.resolve(name), from);
                Directories.sync(local);
                Directories.sync(local.getParent());
                return true;
            } catch (FileAlreadyExistsException e) {
                return false;
            } finally {
                Files.deleteIfExists(from);
            }
        }
    }

    /// By a rename of a file that is whole.
    ///
    /// @param directory of a file system whose rename replaces no file
    record Renamed(Storage directory) implements WriteOnce {
        static final String NAME = "rename";

        @Override
        public boolean write(String name, byte[] bytes) throws IOException {
            Path from = new Path(directory.directory(), unfinished());
            boolean done;
            try {
                directory.write(from.getName(), bytes);
                done = rename(from, new Path(directory.directory(), name));
            } catch (IOException e) {
                stop(from, e);
                throw e;
            }
            if (!done) {
                directory.files().delete(from, false);
            }
            return done;
        }

        private boolean rename(Path from, Path to) throws IOException {
            FileSystem files = directory.files();
            if (files.exists(to)) {
                return false;
            }
            if (files.rename(from, to)) {
                return true;
            }
            if (files.exists(to)) {
                return false;
            }
            throw new IOException(
                    from + " could not be renamed to " + to + ": the file system says no more");
        }

        /// A rename without an answer may still be under way: it finds nothing from now on.
        private void stop(Path from, IOException failure) throws UnsureException {
            try {
                directory.files().delete(from, false);
            } catch (IOException e) {
                failure.addSuppressed(e);
                throw new UnsureException(failure);
            }
        }
    }

    /// By a request that stores all bytes if there is no file of the name.
    ///
    /// @param directory of an object store
    /// @param key of the configuration, for messages
    record Created(Storage directory, String key) implements WriteOnce {
        private static final int ATTEMPTS = 3;
        private static final int PAUSE_MILLIS = 200;

        /// From this size on S3A stores in several requests. A server that knows conditions of one
        /// need not know those of several, and the proof is of one.
        private static final String ONE_REQUEST_MAX = "fs.s3a.multipart.size";

        private static final long ONE_REQUEST_MAX_DEFAULT = 64 << 20;

        /// Those whose server was seen to keep the condition.
        private static final Set<FileSystem> PROVEN =
                Collections.synchronizedSet(Collections.newSetFromMap(new WeakHashMap<>()));

        static boolean isOffered(Storage directory) throws IOException {
            return directory.offers(CreateFileOptionKeys.FS_OPTION_CREATE_CONDITIONAL_OVERWRITE)
                    && directory.offers(CommonPathCapabilities.ABORTABLE_STREAM);
        }

        /// An attempt without an answer may still be under way. The next one waits for no answer to
        /// that: whichever comes first, the other is refused.
        @Override
        public boolean write(String name, byte[] bytes) throws IOException {
            requireOneRequest(name, bytes);
            Path path = new Path(directory.directory(), name);
            for (int attempt = 1; ; attempt++) {
                try {
                    create(path, bytes);
                    return true;
                } catch (IOException e) {
                    if (isRefusal(e) || isThere(path, e)) {
                        return false;
                    }
                    if (attempt == ATTEMPTS || e instanceof InterruptedIOException) {
                        throw new UnsureException(e);
                    }
                    pause(attempt);
                }
            }
        }

        private void requireOneRequest(String name, byte[] bytes) throws IOException {
            long max =
                    directory
                            .files()
                            .getConf()
                            .getLongBytes(ONE_REQUEST_MAX, ONE_REQUEST_MAX_DEFAULT);
            if (bytes.length >= max) {
                throw new IOException(
                        name
                                + " in "
                                + directory
                                + " would have "
                                + bytes.length
                                + " bytes, and one request takes less than "
                                + max
                                + ": set spark.hadoop."
                                + ONE_REQUEST_MAX
                                + " to more, or have fewer parts by an optimization");
            }
        }

        private void create(Path path, byte[] bytes) throws IOException {
            FSDataOutputStreamBuilder<?, ?> builder =
                    directory.files().createFile(path).recursive().overwrite(false);
            builder.must(CreateFileOptionKeys.FS_OPTION_CREATE_CONDITIONAL_OVERWRITE, true);
            FSDataOutputStream out = (FSDataOutputStream) builder.build();
            try {
                out.write(bytes);
            } catch (IOException | RuntimeException e) {
                // To close it would store what it has.
                out.abort();
                throw e;
            }
            out.close();
        }

        /// Whether a server said that there is a file. S3A has an exception of its own for that,
        /// which is not on the class path where another file system is used.
        private static boolean isRefusal(IOException e) {
            return e instanceof FileAlreadyExistsException
                    || e instanceof org.apache.hadoop.fs.FileAlreadyExistsException
                    || e.getClass().getSimpleName().equals("RemoteFileChangedException");
        }

        private boolean isThere(Path path, IOException failure) throws UnsureException {
            try {
                return directory.files().exists(path);
            } catch (IOException e) {
                failure.addSuppressed(e);
                throw new UnsureException(failure);
            }
        }

        private static void pause(int attempt) throws UnsureException {
            try {
                TimeUnit.MILLISECONDS.sleep(
                        ThreadLocalRandom.current().nextInt(PAUSE_MILLIS) * attempt);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                InterruptedIOException interrupted = new InterruptedIOException(e.getMessage());
                interrupted.initCause(e);
                throw new UnsureException(interrupted);
            }
        }

        /// Tries to replace a file by the same bytes: that must be refused. Each file system is
        /// asked once in a process.
        @Override
        public void prove(Path there, byte[] bytes) throws IOException {
            if (PROVEN.contains(directory.files())) {
                return;
            }
            try {
                create(there, bytes);
            } catch (IOException e) {
                if (isRefusal(e)) {
                    PROVEN.add(directory.files());
                    return;
                }
                if (e.getClass().getSimpleName().equals("AWSUnsupportedFeatureException")) {
                    throw refused(
                            directory,
                            key,
                            "its server takes no conditional writes: " + e.getMessage());
                }
                throw e;
            }
            throw refused(
                    directory,
                    key,
                    "its server takes no notice of the condition of a write (If-None-Match), so one"
                            + " commit could replace another");
        }
    }

    private static String unfinished() {
        return "." + UUID.randomUUID() + UNFINISHED;
    }

    /// Whether a file of this name is one that is being written, or was not finished.
    static boolean isUnfinished(String name) {
        return name.endsWith(UNFINISHED);
    }
}
