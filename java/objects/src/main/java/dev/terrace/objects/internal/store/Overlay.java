package dev.terrace.objects.internal.store;

import java.util.Arrays;

/// Words to be stored, by offset, in the order in which they were first put.
public final class Overlay {
    private static final int FREE = -1;

    private long[] offsets = new long[16];
    private long[] values = new long[16];
    private int[] table = new int[64];
    private int size;

    /// An empty overlay.
    public Overlay() {
        Arrays.fill(table, FREE);
    }

    /// The number of words.
    public int size() {
        return size;
    }

    /// The offset of word number `index`.
    public long offset(int index) {
        return offsets[index];
    }

    /// The value of word number `index`.
    public long value(int index) {
        return values[index];
    }

    /// The word at this offset, or `otherwise`.
    public long get(long offset, long otherwise) {
        if (size == 0) {
            return otherwise;
        }
        int index = table[slot(offset)];
        return index == FREE ? otherwise : values[index];
    }

    /// Whether the overlay contains a word at this offset.
    public boolean contains(long offset) {
        return table[slot(offset)] != FREE;
    }

    /// Sets the word at this offset.
    public void put(long offset, long value) {
        int slot = slot(offset);
        if (table[slot] != FREE) {
            values[table[slot]] = value;
            return;
        }
        if (size == offsets.length) {
            offsets = Arrays.copyOf(offsets, 2 * size);
            values = Arrays.copyOf(values, 2 * size);
        }
        offsets[size] = offset;
        values[size] = value;
        table[slot] = size++;
        if (4 * size > table.length) {
            rehash(2 * table.length);
        }
    }

    /// Removes all words. A large table becomes small again.
    public void clear() {
        if (table.length > 4096) {
            offsets = new long[16];
            values = new long[16];
            table = new int[64];
            Arrays.fill(table, FREE);
        } else if (size > 0) {
            if (size > 16) {
                Arrays.fill(table, FREE);
            } else {
                for (int i = size - 1; i >= 0; i--) {
                    table[slot(offsets[i])] = FREE;
                }
            }
        }
        size = 0;
    }

    private void rehash(int length) {
        table = new int[length];
        Arrays.fill(table, FREE);
        for (int i = 0; i < size; i++) {
            table[slot(offsets[i])] = i;
        }
    }

    /// The place of the word, or the place for it.
    private int slot(long offset) {
        int mask = table.length - 1;
        int slot = (int) ((offset >>> 3) * 0x9e3779b97f4a7c15L >>> 40) & mask;
        while (table[slot] != FREE && offsets[table[slot]] != offset) {
            slot = slot + 1 & mask;
        }
        return slot;
    }
}
