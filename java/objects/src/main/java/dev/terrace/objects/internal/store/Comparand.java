package dev.terrace.objects.internal.store;

import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/// A value that stored values are compared with. In persistent memory nothing is decoded and no
/// garbage is made; values with a checksum are read only if their length and checksum are the same.
/// Two values are equal if a buffer holds the same bytes for both, because each text has one
/// encoding ([Text#encode]).
public final class Comparand {
    /// As a buffer holds them.
    private final byte[] bytes;

    private final MemorySegment segment;

    /// The first eight bytes and the last eight, if there are as many.
    private final long first;

    private final long last;

    /// The slot of a value that fits into one; else null's.
    private final long slot;

    /// The checksum of the bytes, computed when it is first asked for.
    private @Nullable Integer crc;

    private Comparand(byte[] bytes) {
        this.bytes = bytes;
        segment = MemorySegment.ofArray(bytes);
        boolean isLong = bytes.length >= Long.BYTES;
        first = isLong ? segment.get(Buffers.WORD, 0) : 0;
        last = isLong ? segment.get(Buffers.WORD, bytes.length - Long.BYTES) : 0;
        slot = bytes.length <= Buffers.INLINE_BYTES_MAX ? Buffers.inlineSlot(bytes) : Buffers.NULL;
    }

    /// A text; null if it is too long to be stored, so that no stored one is equal.
    public static @Nullable Comparand ofText(String text) {
        return Text.fits(text) ? new Comparand(Text.encode(text)) : null;
    }

    /// The bytes of an array, which nobody changes meanwhile.
    public static Comparand ofBytes(byte[] bytes) {
        return new Comparand(bytes);
    }

    /// Its number of bytes.
    public int length() {
        return bytes.length;
    }

    boolean isSlot(long other) {
        return slot != Buffers.NULL && other == slot;
    }

    /// Whether as many bytes at `at` are the same. They are eight at least, and most others differ
    /// in the first eight or in the last.
    boolean equalsBytesAt(MemorySegment memory, long at) {
        int length = bytes.length;
        if (memory.get(Buffers.WORD, at) != first
                || memory.get(Buffers.WORD, at + length - Long.BYTES) != last) {
            return false;
        }
        return MemorySegment.mismatch(segment, 0, length, memory, at, at + length) < 0;
    }

    /// Whether the word before a checked value may be this value's: if not, the value is another.
    boolean mayHaveFront(long word) {
        return CheckedFront.length(word) == bytes.length && CheckedFront.crc(word) == crc();
    }

    private int crc() {
        Integer known = crc;
        if (known == null) {
            known = Segment.crc(bytes);
            crc = known;
        }
        return known;
    }

    /// Whether these are the same bytes.
    public boolean equalsBytes(byte[] other) {
        return Arrays.equals(bytes, other);
    }
}
