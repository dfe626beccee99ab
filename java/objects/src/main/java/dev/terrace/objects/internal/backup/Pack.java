package dev.terrace.objects.internal.backup;

import dev.terrace.objects.internal.store.StoreFailure;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/// The blocks that one backup has added: the blocks, their hashes, and at the end the number of
/// blocks and the SHA-256 of the hashes.
///
/// Invariant: a pack gets its name when it is whole and durable, and is never changed then.
final class Pack implements AutoCloseable {
    private static final int TAIL_BYTES = 8 + Hash.BYTES;

    private final Path file;
    private final Path unfinished;
    private final FileChannel channel;
    private final List<Hash> hashes = new ArrayList<>();

    /// A new pack.
    Pack(Path file) throws IOException {
        this.file = file;
        unfinished = file.resolveSibling(file.getFileName() + ".new");
        channel =
                FileChannel.open(
                        unfinished,
                        StandardOpenOption.CREATE,
                        StandardOpenOption.TRUNCATE_EXISTING,
                        StandardOpenOption.WRITE);
    }

    /// Stores a block, in this slot, or in a new one if it is -1, and returns the slot.
    int put(int slot, byte[] block, Hash hash) throws IOException {
        int at = slot < 0 ? hashes.size() : slot;
        write(ByteBuffer.wrap(block), (long) at * BlockStore.BLOCK_BYTES);
        if (slot < 0) {
            hashes.add(hash);
        } else {
            hashes.set(slot, hash);
        }
        return at;
    }

    int size() {
        return hashes.size();
    }

    private void write(ByteBuffer bytes, long at) throws IOException {
        try {
            for (long to = at; bytes.hasRemaining(); ) {
                to += channel.write(bytes, to);
            }
        } catch (IOException e) {
            throw notWritten(file, e);
        }
    }

    /// The exception for a file of the directory that cannot be written.
    static IOException notWritten(Path file, IOException why) {
        return new IOException(
                file
                        + " cannot be written: "
                        + why.getMessage()
                        + ": earlier backups are as they were",
                why);
    }

    /// Gives the pack its name, if it has blocks.
    void finish() throws IOException {
        if (!hashes.isEmpty()) {
            byte[] index = index();
            ByteBuffer tail = ByteBuffer.allocate(index.length + TAIL_BYTES);
            tail.put(index).putLong(hashes.size()).put(Hash.digest(index)).flip();
            write(tail, (long) hashes.size() * BlockStore.BLOCK_BYTES);
            try {
                channel.force(true);
            } catch (IOException e) {
                throw notWritten(file, e);
            }
            Files.move(unfinished, file, StandardCopyOption.ATOMIC_MOVE);
        }
    }

    private byte[] index() {
        ByteBuffer index = ByteBuffer.allocate(hashes.size() * Hash.BYTES);
        hashes.forEach(hash -> hash.write(index));
        return index.array();
    }

    /// The hashes of the blocks of a pack.
    ///
    /// @throws StoreFailure.Damaged if it is damaged, or is not there
    static List<Hash> read(Path file) throws IOException {
        try (FileChannel channel = open(file)) {
            long size = channel.size();
            ByteBuffer tail = read(file, channel, size - TAIL_BYTES, TAIL_BYTES);
            long count = tail.getLong();
            if (count < 0
                    || count > Integer.MAX_VALUE / Hash.BYTES
                    || count * (BlockStore.BLOCK_BYTES + Hash.BYTES) + TAIL_BYTES != size) {
                throw damaged(file);
            }
            int length = (int) count * Hash.BYTES;
            ByteBuffer index = read(file, channel, count * BlockStore.BLOCK_BYTES, length);
            byte[] digest = new byte[Hash.BYTES];
            tail.get(digest);
            if (!Arrays.equals(digest, Hash.digest(index.array()))) {
                throw damaged(file);
            }
            List<Hash> hashes = new ArrayList<>();
            while (index.hasRemaining()) {
                hashes.add(Hash.read(index));
            }
            return hashes;
        }
    }

    /// A block, compared with its hash.
    ///
    /// @throws StoreFailure.Damaged if it is damaged, or the pack is not there
    static byte[] block(Path file, int slot, Hash hash) throws IOException {
        try (FileChannel channel = open(file)) {
            long at = (long) slot * BlockStore.BLOCK_BYTES;
            byte[] block = read(file, channel, at, BlockStore.BLOCK_BYTES).array();
            if (!Hash.of(block).equals(hash)) {
                throw damaged(file);
            }
            return block;
        }
    }

    private static FileChannel open(Path file) throws IOException {
        try {
            return FileChannel.open(file);
        } catch (NoSuchFileException e) {
            throw new StoreFailure.Damaged(
                    file + " is missing: bring it back, or restore a backup that does not need it",
                    e);
        }
    }

    private static ByteBuffer read(Path file, FileChannel channel, long from, int length)
            throws IOException {
        ByteBuffer into = ByteBuffer.allocate(length);
        while (from >= 0 && into.hasRemaining()) {
            if (channel.read(into, from + into.position()) < 0) {
                break;
            }
        }
        if (into.hasRemaining()) {
            throw damaged(file);
        }
        return into.flip();
    }

    private static StoreFailure.Damaged damaged(Path file) {
        return new StoreFailure.Damaged(
                file
                        + " is damaged: restore a backup that does not need it, and remove it"
                        + " before the next backup, which stores its blocks anew");
    }

    @Override
    public void close() throws IOException {
        channel.close();
        Files.deleteIfExists(unfinished);
    }
}
