package dev.terrace.objects.spark;

import dev.terrace.objects.spi.Directories;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.StandardOpenOption;
import java.time.Instant;
import java.util.List;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.StreamCapabilities;

/// A directory on any file system that Hadoop knows.
///
/// @param files its file system
/// @param directory fully qualified
record Storage(FileSystem files, Path directory) {
    private static final String LOCAL = "file";

    /// The directory of this name.
    ///
    /// @throws IOException if there is no such file system
    static Storage of(String directory, Configuration configuration) throws IOException {
        Path path = new Path(directory);
        FileSystem files = path.getFileSystem(configuration);
        // Without checksums in files of their own: what is here has its own.
        FileSystem raw = files instanceof LocalFileSystem local ? local.getRaw() : files;
        return new Storage(raw, raw.makeQualified(path));
    }

    /// Whether files can be mapped where they are.
    boolean isLocal() {
        return LOCAL.equals(directory.toUri().getScheme());
    }

    /// A local directory's path.
    java.nio.file.Path local() {
        return java.nio.file.Path.of(directory.toUri().getPath());
    }

    /// Whether there is such a directory.
    boolean exists() throws IOException {
        return files.exists(directory);
    }

    /// Whether its file system offers something, by one of the names that Hadoop has for that.
    boolean offers(String capability) throws IOException {
        return files.hasPathCapability(directory, capability);
    }

    /// The directory of this name in this one.
    Storage child(String name) {
        return new Storage(files, new Path(directory, name));
    }

    /// The names of what is in the directory; none if it is not there.
    List<String> list() throws IOException {
        try {
            return Stream.of(files.listStatus(directory))
                    .map(file -> file.getPath().getName())
                    .toList();
        } catch (FileNotFoundException none) {
            return List.of();
        }
    }

    /// The entries of the directory that have not changed since then.
    List<FileStatus> before(Instant then) throws IOException {
        try {
            return Stream.of(files.listStatus(directory))
                    .filter(file -> isBefore(file, then))
                    .toList();
        } catch (FileNotFoundException none) {
            return List.of();
        }
    }

    /// Whether what has this name in the directory has not changed since then. A directory counts
    /// by the files in it: those of object stores have no times of their own.
    boolean isBefore(String name, Instant then) throws IOException {
        Path path = new Path(directory, name);
        try {
            FileStatus[] inside = files.listStatus(path);
            Stream<FileStatus> all =
                    inside.length == 0 ? Stream.of(files.getFileStatus(path)) : Stream.of(inside);
            return all.allMatch(file -> isBefore(file, then));
        } catch (FileNotFoundException none) {
            return false;
        }
    }

    private static boolean isBefore(FileStatus file, Instant then) {
        return Instant.ofEpochMilli(file.getModificationTime()).isBefore(then);
    }

    /// Writes a file that is not there yet. It is durable when this returns, and so is its name.
    void write(String name, byte[] bytes) throws IOException {
        if (isLocal()) {
            Files.createDirectories(local());
            Files.write(
                    local().resolve(name),
                    bytes,
                    StandardOpenOption.CREATE_NEW,
                    StandardOpenOption.SYNC);
            Directories.sync(local());
            Directories.sync(local().getParent());
        } else {
            try (FSDataOutputStream out = files.create(new Path(directory, name), false)) {
                out.write(bytes);
                sync(out);
            }
        }
    }

    /// Makes what was written durable, where the file system can say so before the file is closed.
    static void sync(FSDataOutputStream out) throws IOException {
        if (out.hasCapability(StreamCapabilities.HSYNC)) {
            out.hsync();
        }
    }

    /// Removes the directory with all that is in it, if it is there.
    void delete() throws IOException {
        if (isLocal()) {
            PartStore.deleteTree(local());
        } else if (!files.delete(directory, true) && exists()) {
            throw new IOException(this + " could not be removed: the file system says no more");
        }
    }

    /// Removes the directory, if nothing is in it.
    void deleteIfEmpty() throws IOException {
        if (list().isEmpty()) {
            files.delete(directory, false);
        }
    }

    @Override
    public String toString() {
        return isLocal() ? local().toString() : directory.toString();
    }
}
