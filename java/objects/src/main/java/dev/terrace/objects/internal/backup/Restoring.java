package dev.terrace.objects.internal.backup;

import dev.terrace.objects.internal.store.Identity;
import dev.terrace.objects.internal.store.MappedRegion;
import dev.terrace.objects.internal.store.Medium;
import dev.terrace.objects.internal.store.StoreFailure;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;

/// Makes a pool of a state, with an identity of its own.
///
/// Invariant: the file `pool` gets its name last, so what is not whole is no pool.
public final class Restoring {
    private static final byte[] ZEROS = new byte[BlockStore.BLOCK_BYTES];

    private Restoring() {}

    /// A disk of the new pool.
    public record Disk(Medium tier, Path directory) {}

    /// Makes the files of a pool.
    ///
    /// @throws FileAlreadyExistsException if one of them is there
    /// @throws StoreFailure.Damaged if the backup is damaged
    /// @throws StoreFailure.UnknownFormat if the disks are not those of the state
    public static UUID of(BlockStore from, State state, Path pool, List<Disk> disks)
            throws IOException {
        from.learn(state);
        requireDisks(from, state, disks);
        List<Path> places = new ArrayList<>();
        places.add(pool.resolve("pool"));
        for (int i = 0; i < state.files().size() - 1 && i < disks.size(); i++) {
            places.add(disks.get(i).directory.resolve("disk-" + i));
        }
        for (Path place : places) {
            Files.createDirectories(place.toAbsolutePath().getParent());
            if (Files.exists(place)) {
                throw new FileAlreadyExistsException(
                        place.toString(), null, "is there, and is not overwritten");
            }
        }
        UUID id = UUID.randomUUID();
        List<Path> unfinished = new ArrayList<>();
        try {
            for (int i = places.size() - 1; i >= 0; i--) {
                Path file = places.get(i).resolveSibling(places.get(i).getFileName() + ".new");
                unfinished.add(file);
                write(from, state, i, file, id);
            }
            for (int i = places.size() - 1; i >= 0; i--) {
                Path file = unfinished.get(places.size() - 1 - i);
                Files.move(file, places.get(i), StandardCopyOption.ATOMIC_MOVE);
                MappedRegion.syncNames(places.get(i).toAbsolutePath().getParent());
            }
            return id;
        } finally {
            for (Path file : unfinished) {
                Files.deleteIfExists(file);
            }
        }
    }

    private static void requireDisks(BlockStore from, State state, List<Disk> disks) {
        for (int i = 1; i < state.files().size(); i++) {
            State.Part part = state.files().get(i);
            boolean isNamed = i <= disks.size() && disks.get(i - 1).tier == part.tier();
            if (part.hashes().length > 0 && !isNamed) {
                throw new StoreFailure.UnknownFormat(
                        from.directory()
                                + ": disk "
                                + (i - 1)
                                + " of the pool is of the tier "
                                + part.tier()
                                + ": name a directory for each of its disks, in their order");
            }
        }
    }

    private static void write(BlockStore from, State state, int number, Path file, UUID id)
            throws IOException {
        State.Part part = state.files().get(number);
        try (FileChannel channel =
                FileChannel.open(
                        file,
                        StandardOpenOption.CREATE,
                        StandardOpenOption.TRUNCATE_EXISTING,
                        StandardOpenOption.WRITE)) {
            for (int i = 0; i < part.hashes().length; i++) {
                byte[] read = from.read(part.hashes()[i]);
                byte[] block = read == null ? ZEROS : read;
                if (i == 0 && number == 0) {
                    Identity.renew(block, id);
                } else if (i == 0) {
                    Identity.renewDisk(block, id, number - 1, part.tier());
                }
                ByteBuffer bytes = ByteBuffer.wrap(block);
                while (bytes.hasRemaining()) {
                    channel.write(bytes);
                }
            }
            channel.force(true);
        } catch (IOException e) {
            throw new IOException(file + " cannot be restored: " + e.getMessage(), e);
        }
    }
}
