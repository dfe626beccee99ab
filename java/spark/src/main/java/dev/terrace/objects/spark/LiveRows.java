package dev.terrace.objects.spark;

import org.roaringbitmap.PeekableIntIterator;
import org.roaringbitmap.RoaringBitmap;

/// The rows of a part that are not deleted, of one block after the other; and of these, those that
/// a query may need.
///
/// Invariant: blocks are led to in their order, so the bitmap is walked over once.
final class LiveRows {
    /// Less than one of so many is few.
    private static final int FEW = 4;

    private final PeekableIntIterator deleted;
    private int[] rows = {};
    private int count;

    /// Whether they are all rows of the block: `rows` says nothing then.
    private boolean areAll;

    /// @param deleted rows of the part
    LiveRows(RoaringBitmap deleted) {
        this.deleted = deleted.getIntIterator();
    }

    /// From now on the rows are those of a block.
    ///
    /// @param from the number of its first row in the part
    /// @param of how many rows it has
    void lead(long from, int of) {
        count = of;
        if (hasDeletedBefore(from)) {
            // Blocks before this one are another reader's. Beyond 32 bits no row is deleted.
            deleted.advanceIfNeeded((int) Math.min(from, (1L << Integer.SIZE) - 1));
        }
        areAll = from >>> Integer.SIZE != 0 || !hasDeletedBefore(from + of);
        if (areAll) {
            return;
        }
        if (rows.length < of) {
            rows = new int[of];
        }
        count = 0;
        int row = 0;
        while (hasDeletedBefore(from + of)) {
            int next = (int) (Integer.toUnsignedLong(deleted.next()) - from);
            while (row < next) {
                rows[count++] = row++;
            }
            row++;
        }
        while (row < of) {
            rows[count++] = row++;
        }
    }

    /// Leaves rows out that a query does not need. If those are few, it leaves none out: rows one
    /// behind the other are faster to read.
    ///
    /// @param needed whether a row of the block is
    void narrow(boolean[] needed) {
        int left = 0;
        for (int i = 0; i < count; i++) {
            left += needed[at(i)] ? 1 : 0;
        }
        if (left >= count - count / FEW) {
            return;
        }
        rows = rows.length < count ? new int[needed.length] : rows;
        int next = 0;
        for (int i = 0; i < count; i++) {
            int row = at(i);
            if (needed[row]) {
                rows[next++] = row;
            }
        }
        count = left;
        areAll = false;
    }

    private boolean hasDeletedBefore(long row) {
        return deleted.hasNext() && Integer.toUnsignedLong(deleted.peekNext()) < row;
    }

    /// Whether they are all rows of the block.
    boolean areAll() {
        return areAll;
    }

    /// How many there are.
    int count() {
        return count;
    }

    /// The number in its block of the row that has this number among them.
    int at(int row) {
        return areAll ? row : rows[row];
    }
}
