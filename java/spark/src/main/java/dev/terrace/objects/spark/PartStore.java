package dev.terrace.objects.spark;

import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolFormatException;
import dev.terrace.objects.PoolOptions;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.spi.Directories;
import java.io.IOException;
import java.io.Serial;
import java.io.Serializable;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Predicate;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.util.SerializableConfiguration;
import org.jspecify.annotations.Nullable;
import org.roaringbitmap.RoaringBitmap;

/// The pools of a directory's parts, as tasks make, open and remove them. It goes to executors with
/// the work.
///
/// Where the directory is local, parts are mapped where they are. Where it is not, a part is a
/// snapshot that is copied to each node that reads it ([LocalCopies]).
final class PartStore implements Serializable {
    @Serial private static final long serialVersionUID = 1L;

    private static final String PARTS = "parts";
    private static final int DELETIONS_MAX = 100;

    private final String root;
    private final PartitionOptions options;
    private final SerializableConfiguration configuration;

    PartStore(Storage root, PartitionOptions options, Configuration configuration) {
        this.root = root.directory().toString();
        this.options = options;
        this.configuration = new SerializableConfiguration(configuration);
    }

    PartitionOptions options() {
        return options;
    }

    /// The directory.
    Storage root() throws IOException {
        return Storage.of(root, configuration.value());
    }

    /// The directory's manifests.
    ManifestLog manifests() throws IOException {
        return new ManifestLog(root, configuration.value());
    }

    /// Where all parts of the directory are that have no other place.
    private Storage parts() throws IOException {
        return root().child(PARTS);
    }

    /// Where this node keeps copies of a remote directory's parts.
    private Path copies() {
        String pmem = options.pmem();
        return pmem == null
                ? Path.of(
                        System.getProperty("java.io.tmpdir"),
                        "terrace-" + System.getProperty("user.name"))
                : Path.of(pmem);
    }

    /// Where a pool's two files are.
    ///
    /// @param pool the pool's directory
    /// @param disk its disk's; null: the same
    record Place(Path pool, @Nullable Path disk) {
        PoolOptions options(PartitionOptions of) {
            // Without an option the files are on whatever disk the directory is on.
            PoolOptions made = PoolOptions.defaults().extents(of.extentBytes()).withPmemChecksums();
            return disk == null ? made : made.disk(StorageTier.SSD, disk);
        }

        /// The pool's files are durable, and so is now that they are there: a manifest that leads
        /// to them may follow.
        void syncNames() throws IOException {
            Directories.sync(pool.toAbsolutePath().getParent());
            if (disk != null) {
                Directories.sync(disk.toAbsolutePath().getParent());
            }
        }

        void delete() throws IOException {
            // The pool's directory goes first: a part without it is none.
            deleteTree(pool);
            if (disk != null) {
                deleteTree(disk);
            }
        }
    }

    private static @Nullable Path under(@Nullable String directory, String name) {
        return directory == null ? null : Path.of(directory, name);
    }

    /// Makes the pool of a new part.
    ///
    /// @param name that no other part has
    PartWriter create(String name) throws IOException {
        Storage parts = parts();
        boolean isLocal = parts.isLocal();
        Path beside = isLocal ? parts.local() : copies();
        Path pool = options.pmem() == null ? beside.resolve(name) : Path.of(options.pmem(), name);
        Place place = new Place(pool, under(options.disk(), name));
        return new PartWriter(name, place, options, isLocal ? null : parts.child(name));
    }

    /// Opens the pool of a part to read it: each time it is opened it is to be closed.
    Pool open(Part part) throws IOException {
        Place place = place(part);
        if (!Files.isDirectory(place.pool)) {
            throw new PoolFormatException(
                    "part "
                            + part.name()
                            + " of "
                            + root
                            + " is not at "
                            + place.pool
                            + " on "
                            + String.join(", ", Hosts.local())
                            + ", and was written on "
                            + String.join(", ", part.hosts())
                            + ": a vacuum has removed it, or the directory is not shared");
        }
        return OpenParts.open(place, place.options(options).toRead());
    }

    /// The rows of a part that are deleted, by their numbers in it.
    RoaringBitmap deleted(Part part) throws IOException {
        return new DeletionFiles(root()).read(part);
    }

    private static Place localPlace(Storage parts, Part part) {
        Path pool =
                part.pmem() == null
                        ? parts.local().resolve(part.name())
                        : Path.of(part.pmem(), part.name());
        return new Place(pool, under(part.disk(), part.name()));
    }

    private Place place(Part part) throws IOException {
        Storage parts = parts();
        if (parts.isLocal()) {
            return localPlace(parts, part);
        }
        Place place = new Place(copies().resolve(part.name()), under(options.disk(), part.name()));
        LocalCopies.bring(parts.child(part.name()), place);
        return place;
    }

    /// Removes a part, but not copies on other nodes.
    void delete(Part part) throws IOException {
        Storage parts = parts();
        if (parts.isLocal()) {
            Place place = localPlace(parts, part);
            OpenParts.letGo(place.pool);
            place.delete();
        } else {
            parts.child(part.name()).delete();
        }
    }

    /// Removes the directory that parts are in which have no other place.
    void deleteDirectory() throws IOException {
        parts().delete();
    }

    /// The names of parts beside the manifests.
    Set<String> names() throws IOException {
        return new TreeSet<>(parts().list());
    }

    /// Those of these that are parts beside the manifests and were made before then.
    Set<String> before(Set<String> names, Instant then) throws IOException {
        Storage parts = parts();
        Set<String> old = new TreeSet<>();
        for (String name : names) {
            if (parts.isBefore(name, then)) {
                old.add(name);
            }
        }
        return old;
    }

    /// Removes parts whose names are so, in all the places where this store puts any, as far as
    /// this node reaches them.
    ///
    /// @return their names
    Set<String> delete(Predicate<String> isWanted) throws IOException {
        Set<String> deleted = new TreeSet<>();
        Storage parts = parts();
        for (String name : parts.list()) {
            if (isWanted.test(name)) {
                parts.child(name).delete();
                deleted.add(name);
            }
        }
        for (Path directory : localPlaces(parts)) {
            for (Path path : listed(directory)) {
                String name = path.getFileName().toString();
                if (isWanted.test(name)) {
                    OpenParts.letGo(path);
                    deleteTree(path);
                    deleted.add(name);
                }
            }
        }
        return deleted;
    }

    private List<Path> localPlaces(Storage parts) {
        List<Path> places = new ArrayList<>();
        if (options.pmem() != null || !parts.isLocal()) {
            places.add(copies());
        }
        if (options.disk() != null) {
            places.add(Path.of(options.disk()));
        }
        return places;
    }

    private static List<Path> listed(Path directory) throws IOException {
        if (!Files.isDirectory(directory)) {
            return List.of();
        }
        try (var paths = Files.list(directory)) {
            return paths.toList();
        } catch (NoSuchFileException gone) {
            return List.of();
        }
    }

    /// Removes a directory, or a file, if it is there: also while a task that was killed still
    /// writes to it, or removes it itself.
    static void deleteTree(Path directory) throws IOException {
        for (int attempt = 1; ; attempt++) {
            for (Path inside : listed(directory)) {
                deleteTree(inside);
            }
            try {
                Files.deleteIfExists(directory);
                return;
            } catch (DirectoryNotEmptyException e) {
                if (attempt == DELETIONS_MAX) {
                    throw e;
                }
            }
        }
    }
}
