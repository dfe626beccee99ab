package dev.terrace.objects.internal.backup;

import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;

/// The SHA-256 of a block; four zeros stand for a block of zeros, which is stored nowhere.
record Hash(long first, long second, long third, long fourth) {
    static final int BYTES = 32;
    static final Hash ZEROS = new Hash(0, 0, 0, 0);
    private static final byte[] NOTHING = new byte[BlockStore.BLOCK_BYTES];

    static Hash of(byte[] block) {
        return Arrays.equals(block, NOTHING) ? ZEROS : read(ByteBuffer.wrap(digest(block)));
    }

    static Hash read(ByteBuffer from) {
        return new Hash(from.getLong(), from.getLong(), from.getLong(), from.getLong());
    }

    void write(ByteBuffer into) {
        into.putLong(first).putLong(second).putLong(third).putLong(fourth);
    }

    static byte[] digest(byte[] bytes) {
        try {
            return MessageDigest.getInstance("SHA-256").digest(bytes);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("each Java has SHA-256", e);
        }
    }
}
