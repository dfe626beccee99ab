package dev.terrace.objects.internal.store;

import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.zip.CRC32C;

/// A redo log: the words of the present commit, so that they get to their places even if the
/// process ends meanwhile.
///
/// Layout: number of the commit, number of words, offset of the words (0: they follow), CRC-32C of
/// all these; then offset and value of each word.
///
/// Invariant: while the superblock's sequence is odd, the log holds that commit completely, and
/// does not change. Therefore a read-only process finds in it the words that are not in their
/// places yet.
final class CommitLog {
    private static final int HEADER_BYTES = 32;
    private static final int WORD_BYTES = 16;
    private static final int CRC_AT = 24;

    private final Region region;
    private final long bytes;
    private ByteBuffer scratch = buffer(4096);

    CommitLog(Region region, long bytes) {
        this.region = region;
        this.bytes = bytes;
    }

    private static ByteBuffer buffer(int capacity) {
        return ByteBuffer.allocate(capacity).order(ByteOrder.LITTLE_ENDIAN);
    }

    /// Bytes that so many words need elsewhere, if they do not fit into the log; else 0.
    long overflowBytes(int words) {
        long wanted = (long) words * WORD_BYTES;
        return HEADER_BYTES + wanted <= bytes ? 0 : wanted;
    }

    /// Makes words durable, all or none. They are written to the log, or to `overflow` if they do
    /// not fit there, and then to their places. Returns the number of bytes written to the log.
    int commit(Overlay words, long overflow) {
        long sequence = region.getLong(Superblock.SEQUENCE_AT) + 1;
        int length = write(sequence, words, overflow);
        region.fence();
        storeSequence(sequence);
        apply(words, sequence);
        return length;
    }

    /// Completes the commit of a writer that ended during it, if there is one.
    ///
    /// @throws StoreFailure.Damaged if its words are damaged
    void finish() {
        long sequence = region.getLong(Superblock.SEQUENCE_AT);
        if ((sequence & 1) != 0) {
            Events.Recovery event = new Events.Recovery();
            event.begin();
            Overlay words = read(sequence);
            apply(words, sequence);
            event.pool = region.name();
            event.words = words.size();
            event.commit();
        }
    }

    /// Stores the words of a commit that is in the log.
    private void apply(Overlay words, long sequence) {
        for (int i = 0; i < words.size(); i++) {
            region.putLong(words.offset(i), words.value(i));
            region.flush(words.offset(i), Long.BYTES);
        }
        region.fence();
        storeSequence(sequence + 1);
    }

    private void storeSequence(long sequence) {
        region.putLong(Superblock.SEQUENCE_AT, sequence);
        region.flush(Superblock.SEQUENCE_AT, Long.BYTES);
        region.fence();
    }

    /// Writes words to the log, or at `overflow` if they do not fit. They are durable after the
    /// next fence. Returns the number of bytes.
    private int write(long sequence, Overlay words, long overflow) {
        int length = HEADER_BYTES + words.size() * WORD_BYTES;
        if (scratch.capacity() < length) {
            scratch = buffer(Math.max(length, 2 * scratch.capacity()));
        }
        scratch.clear().putLong(sequence).putLong(words.size()).putLong(overflow).putLong(0);
        for (int i = 0; i < words.size(); i++) {
            scratch.putLong(words.offset(i)).putLong(words.value(i));
        }
        scratch.putLong(CRC_AT, crc(scratch.array(), length));
        MemorySegment source = MemorySegment.ofArray(scratch.array());
        if (overflow == 0) {
            region.put(Superblock.LOG_AT, source, 0, length);
            region.flush(Superblock.LOG_AT, length);
        } else {
            region.put(Superblock.LOG_AT, source, 0, HEADER_BYTES);
            region.flush(Superblock.LOG_AT, HEADER_BYTES);
            region.put(overflow, source, HEADER_BYTES, length - HEADER_BYTES);
            region.flush(overflow, length - HEADER_BYTES);
        }
        if (scratch.capacity() > 1 << 20) {
            scratch = buffer(4096);
        }
        return length;
    }

    /// The words of commit `sequence`.
    ///
    /// @throws StoreFailure.Damaged if they are not there
    Overlay read(long sequence) {
        byte[] header = new byte[HEADER_BYTES];
        region.get(Superblock.LOG_AT, MemorySegment.ofArray(header), 0, HEADER_BYTES);
        ByteBuffer fields = ByteBuffer.wrap(header).order(ByteOrder.LITTLE_ENDIAN);
        long count = fields.getLong(8);
        long from = fields.getLong(16) == 0 ? Superblock.LOG_AT + HEADER_BYTES : fields.getLong(16);
        boolean plausible =
                fields.getLong(0) == sequence
                        && count >= 0
                        && count <= region.extentBytes() / WORD_BYTES
                        && region.contains(from)
                        && region.within(from) + count * WORD_BYTES <= region.extentBytes();
        if (!plausible) {
            throw damaged(sequence);
        }
        int length = HEADER_BYTES + (int) count * WORD_BYTES;
        byte[] all = Arrays.copyOf(header, length);
        region.get(from, MemorySegment.ofArray(all), HEADER_BYTES, length - HEADER_BYTES);
        long crc = fields.getLong(CRC_AT);
        ByteBuffer words = ByteBuffer.wrap(all).order(ByteOrder.LITTLE_ENDIAN).putLong(CRC_AT, 0);
        if (crc != crc(all, length)) {
            throw damaged(sequence);
        }
        Overlay overlay = new Overlay();
        for (int at = HEADER_BYTES; at < length; at += WORD_BYTES) {
            overlay.put(words.getLong(at), words.getLong(at + 8));
        }
        return overlay;
    }

    private StoreFailure.Damaged damaged(long sequence) {
        return new StoreFailure.Damaged(
                region.name() + ": the log of commit " + sequence + " is damaged");
    }

    /// The CRC of a header in which the CRC itself is still 0.
    private static long crc(byte[] bytes, int length) {
        CRC32C crc = new CRC32C();
        crc.update(bytes, 0, length);
        return crc.getValue();
    }
}
