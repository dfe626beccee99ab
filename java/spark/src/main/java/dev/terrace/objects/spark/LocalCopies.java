package dev.terrace.objects.spark;

import dev.terrace.objects.spi.Directories;
import java.io.FileNotFoundException;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/// Copies of remote parts on this node: a file of a remote file system cannot be mapped. A part
/// never changes, so a copy is good for as long as it is there, and any number of executors share
/// it.
///
/// The pool's directory gets its name when all is there. A lock on a file beside it sees to it that
/// one executor copies and others wait.
final class LocalCopies {
    private static final String DISK = "disk-0";

    /// A lock on a file is its process's: threads need another. Parts that share one wait for each
    /// other.
    private static final List<Object> COPYING = Stream.generate(Object::new).limit(64).toList();

    private LocalCopies() {}

    /// Copies a part, unless a copy is there.
    static void bring(Storage part, PartStore.Place to) throws IOException {
        if (Files.isDirectory(to.pool())) {
            return;
        }
        Path directory = to.pool().toAbsolutePath().getParent();
        Files.createDirectories(directory);
        Path lock = directory.resolve("." + to.pool().getFileName() + ".lock");
        synchronized (COPYING.get(Math.floorMod(lock.hashCode(), COPYING.size()))) {
            try (FileChannel channel =
                            FileChannel.open(
                                    lock, StandardOpenOption.CREATE, StandardOpenOption.WRITE);
                    FileLock held = channel.lock()) {
                assert held.isValid();
                if (!Files.isDirectory(to.pool())) {
                    copy(part, to);
                }
                Files.deleteIfExists(lock);
            }
        }
    }

    private static void copy(Storage part, PartStore.Place to) throws IOException {
        List<String> names = part.list();
        if (names.isEmpty()) {
            throw new FileNotFoundException(
                    part + " is not there, or empty: a vacuum has removed it, or it was deleted");
        }
        if (to.disk() != null) {
            moveInto(part, names.stream().filter(DISK::equals).toList(), to.disk());
        }
        moveInto(
                part,
                names.stream().filter(name -> to.disk() == null || !name.equals(DISK)).toList(),
                to.pool());
    }

    private static void moveInto(Storage part, List<String> names, Path directory)
            throws IOException {
        Path unfinished =
                directory.resolveSibling("." + directory.getFileName() + "." + UUID.randomUUID());
        try {
            Files.createDirectories(unfinished);
            for (String name : names) {
                try (InputStream in =
                                part.files()
                                        .open(
                                                new org.apache.hadoop.fs.Path(
                                                        part.directory(), name));
                        FileOutputStream out =
                                new FileOutputStream(unfinished.resolve(name).toFile())) {
                    in.transferTo(out);
                    // A copy whose name outlasts a power cut is to be whole.
                    out.getFD().sync();
                }
            }
            Directories.sync(unfinished);
            // Removes the remains of a process that was killed between the two steps.
            PartStore.deleteTree(directory);
            Files.move(unfinished, directory, StandardCopyOption.ATOMIC_MOVE);
            // The disk's before the pool's, by which a copy is known.
            Directories.sync(directory.toAbsolutePath().getParent());
        } finally {
            PartStore.deleteTree(unfinished);
        }
    }

    /// The files of a pool that is closed, but for that of its lock.
    static List<Path> files(PartStore.Place place) throws IOException {
        List<Path> files = new ArrayList<>();
        for (@Nullable Path directory : new Path[] {place.pool(), place.disk()}) {
            if (directory != null) {
                try (var paths = Files.list(directory)) {
                    paths.filter(path -> !path.getFileName().toString().equals("lock"))
                            .forEach(files::add);
                }
            }
        }
        return files;
    }
}
