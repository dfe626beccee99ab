package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Random;
import java.util.stream.Stream;

/// A pool of the [KillWorkload], and a directory of backups of it, whose contents that one knows.
final class BackupRig implements AutoCloseable {
    /// Bytes of each value that makes the pool large.
    private static final int BULK_BYTES = 800_000;

    private final Path dir;
    private final Path place;
    private final Path disk;
    private Path target;
    private int restored;

    /// @param dir a directory for all but persistent memory
    BackupRig(Path dir) throws IOException {
        this.dir = dir;
        place = SharedMemory.directory();
        disk = Files.createDirectory(dir.resolve("disk"));
        target = dir.resolve("backups");
        try (Pool made = Pool.open(place, options())) {
            new KillWorkload(made).prepare();
        }
    }

    /// The pool's directory.
    Path place() {
        return place;
    }

    /// The directory of its disk.
    Path disk() {
        return disk;
    }

    /// The directory of backups.
    Path target() {
        return target;
    }

    /// Backups go elsewhere from now on.
    void to(Path directory) {
        target = directory;
    }

    PoolOptions options() {
        return KillWorkload.options(disk);
    }

    /// The pool, opened to write.
    Pool open() throws IOException {
        return Pool.open(place, options());
    }

    /// Makes the pool large, so that a backup takes a while.
    void makeBulk(int count) throws IOException {
        Random random = new Random(5);
        try (Pool pool = open()) {
            for (int i = 0; i < count; i++) {
                byte[] bytes = new byte[BULK_BYTES];
                random.nextBytes(bytes);
                Thing thing = pool.create(Thing.on(StorageTier.DISK));
                thing.setBytes(bytes);
                pool.root("bulk" + i, Thing.on(StorageTier.DISK)).set(thing);
            }
        }
    }

    Backups backups() {
        return Backups.in(target);
    }

    /// A backup by one who only reads the pool.
    Backup add() throws IOException {
        return add(Duration.ofSeconds(30), true);
    }

    /// The same.
    Backup add(Duration patience, boolean checked) throws IOException {
        try (Pool pool = Pool.open(place, options().toRead().patience(patience))) {
            return backups().add(pool, checked);
        }
    }

    /// Where the pool was restored last.
    Path restored() {
        return dir.resolve("restored" + restored);
    }

    /// The last transaction that a backup holds, which is whole and sound, and can be followed.
    int verify(long number) throws IOException {
        restored++;
        Path to = restored();
        Path data = Files.createDirectory(dir.resolve(to.getFileName() + "-disk"));
        PoolOptions there = KillWorkload.options(data);
        backups().restore(number, to, there);
        int last;
        try (Pool pool = Pool.open(to, there)) {
            assertEquals(List.of(), pool.check().problems());
            last = new KillWorkload(pool).verify();
            new KillWorkload(pool).step(last + 1);
        }
        SharedMemory.delete(to);
        SharedMemory.delete(data);
        return last;
    }

    /// The names of the files in a directory.
    static List<String> names(Path directory) throws IOException {
        try (Stream<Path> files = Files.list(directory)) {
            return files.map(file -> file.getFileName().toString()).sorted().toList();
        }
    }

    @Override
    public void close() throws IOException {
        SharedMemory.delete(place);
    }
}
