package dev.terrace.objects.internal.backup;

import dev.terrace.objects.internal.store.Medium;
import dev.terrace.objects.internal.store.StoreFailure;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;

/// A pool as of one commit: the hashes of the blocks of all its files, persistent memory first.
///
/// @param name the backup and its pool
/// @param millis when it was made, since 1970
/// @param sequence twice the number of the commit; odd if its words were on their way
/// @param bytesStored bytes of the blocks that no earlier backup had
/// @param packs the numbers of the packs with its blocks
/// @param files the pool's files
public record State(
        Name name, long millis, long sequence, long bytesStored, long[] packs, List<Part> files) {
    /// The greatest number of blocks of all files, whose hashes fit into an array of bytes: more
    /// than 3 TiB.
    static final int BLOCKS_MAX = 50_000_000;

    private static final long MAGIC = 0x544552524241434bL;
    private static final int VERSION = 1;
    private static final int FRONT_BYTES = 64;

    /// A backup among those of its pool.
    ///
    /// @param number of the backup
    /// @param pool the identity of the pool
    public record Name(long number, UUID pool) {}

    /// A file.
    ///
    /// @param tier what it lies on
    /// @param hashes of its blocks
    public record Part(Medium tier, Hash[] hashes) {}

    /// Bytes of all files.
    public long bytes() {
        return files.stream()
                .mapToLong(file -> (long) file.hashes.length * BlockStore.BLOCK_BYTES)
                .sum();
    }

    byte[] encode() {
        int length = FRONT_BYTES + 4 + packs.length * Long.BYTES;
        for (Part file : files) {
            length += 8 + file.hashes.length * Hash.BYTES;
        }
        ByteBuffer into = ByteBuffer.allocate(length + Hash.BYTES);
        into.putLong(MAGIC)
                .putInt(VERSION)
                .putInt(files.size())
                .putLong(name.number)
                .putLong(millis);
        into.putLong(name.pool.getMostSignificantBits());
        into.putLong(name.pool.getLeastSignificantBits());
        into.putLong(sequence).putLong(bytesStored).putInt(packs.length);
        for (long pack : packs) {
            into.putLong(pack);
        }
        for (Part file : files) {
            into.putInt(file.tier.ordinal()).putInt(file.hashes.length);
            for (Hash hash : file.hashes) {
                hash.write(into);
            }
        }
        return into.put(Hash.digest(Arrays.copyOf(into.array(), length))).array();
    }

    static State decode(String name, byte[] bytes) {
        int length = bytes.length - Hash.BYTES;
        if (length < FRONT_BYTES
                || !Arrays.equals(
                        Hash.digest(Arrays.copyOf(bytes, length)),
                        Arrays.copyOfRange(bytes, length, bytes.length))) {
            throw new StoreFailure.Damaged(
                    name
                            + " is damaged: its checksum is wrong: remove this file; other backups"
                            + " can be restored");
        }
        ByteBuffer from = ByteBuffer.wrap(bytes, 0, length);
        if (from.getLong() != MAGIC || from.getInt() != VERSION) {
            throw new StoreFailure.UnknownFormat(
                    name + " is no backup of this version: use a newer library");
        }
        try {
            return decode(from);
        } catch (BufferUnderflowException | IndexOutOfBoundsException e) {
            throw new StoreFailure.Damaged(name + " is damaged: restore another backup", e);
        }
    }

    private static State decode(ByteBuffer from) {
        int count = from.getInt();
        long number = from.getLong();
        long millis = from.getLong();
        UUID pool = new UUID(from.getLong(), from.getLong());
        long sequence = from.getLong();
        long bytesStored = from.getLong();
        long[] packs = new long[from.getInt()];
        for (int i = 0; i < packs.length; i++) {
            packs[i] = from.getLong();
        }
        List<Part> files = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            Medium tier = Medium.values()[from.getInt()];
            Hash[] hashes = new Hash[from.getInt()];
            for (int block = 0; block < hashes.length; block++) {
                hashes[block] = Hash.read(from);
            }
            files.add(new Part(tier, hashes));
        }
        return new State(
                new Name(number, pool), millis, sequence, bytesStored, packs, List.copyOf(files));
    }
}
