package dev.terrace.objects.internal.store;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.Comparator;
import java.util.List;

/// The chunks of a region that values are to leave, so that the chunks become free for other sizes,
/// or the region can be truncated.
///
/// First the caller counts all values that can move: a chunk that holds anything else is left
/// alone. Then one of the plans selects chunks. From then on no new values are stored in them,
/// until the plan is withdrawn or a value needs the room. Except for counting, call this only while
/// no other thread writes.
final class Evacuation {
    private final Allocator allocator;
    private final boolean isDisk;
    private int[] movable = {};

    /// A chunk that is divided into slots, and the number of slots in use.
    private record Cut(int chunk, int sizeClass, int used) {}

    Evacuation(Allocator allocator, boolean isDisk) {
        this.allocator = allocator;
        this.isDisk = isDisk;
    }

    /// Starts anew: no value has been counted, and none is to leave.
    void countAnew() {
        allocator.avoid(new BitSet());
        movable = new int[allocator.chunks().extents() * allocator.chunksPerExtent()];
    }

    /// Counts a value at `offset`, which can move.
    void count(long offset) {
        long chunk = offset / SizeClasses.CHUNK_BYTES;
        if (chunk < movable.length) {
            movable[(int) chunk]++;
        }
    }

    private boolean canMove(int chunk, int things) {
        return chunk < movable.length && movable[chunk] == things;
    }

    /// Plans to empty chunks of which little is in use, as far as other chunks of the same class
    /// have room for their values.
    void planSparse() {
        List<List<Cut>> bySize = new ArrayList<>();
        for (int i = 0; i < SizeClasses.count(); i++) {
            bySize.add(new ArrayList<>());
        }
        for (int extent = 0; extent < allocator.chunks().extents(); extent++) {
            allocator.show(
                    extent,
                    new Allocator.Chunks() {
                        @Override
                        public void cut(int chunk, long cut, int used) {
                            // Objects, which are all that lies in columns, do not move.
                            if (ChunkMap.kind(cut) == ChunkMap.KIND_SLOTS) {
                                int sizeClass = ChunkMap.sizeClass(cut);
                                bySize.get(sizeClass).add(new Cut(chunk, sizeClass, used));
                            }
                        }
                    });
        }
        BitSet sparse = new BitSet();
        bySize.forEach(cuts -> planSparse(cuts, sparse));
        allocator.avoid(sparse);
    }

    private void planSparse(List<Cut> cuts, BitSet sparse) {
        long room =
                cuts.stream().mapToLong(cut -> SizeClasses.slots(cut.sizeClass) - cut.used).sum();
        // Among equal chunks, those near the end come first.
        cuts.sort(
                Comparator.comparingInt(Cut::used)
                        .thenComparing(Comparator.comparingInt(Cut::chunk).reversed()));
        for (Cut cut : cuts) {
            long roomElsewhere = room - (SizeClasses.slots(cut.sizeClass) - cut.used);
            if (cut.used > 0 && canMove(cut.chunk, cut.used)) {
                if (roomElsewhere < cut.used) {
                    return;
                }
                room = roomElsewhere - cut.used;
                sparse.set(cut.chunk);
            }
        }
    }

    /// Plans to empty the last extents of a disk, as far as the extents before them have room.
    void planTail() {
        int keep = allocator.chunks().extents();
        if (isDisk) {
            // The more extents are kept, the more room there is.
            int tooFew = -1;
            while (keep - tooFew > 1) {
                int middle = (keep + tooFew) / 2;
                if (fits(middle)) {
                    keep = middle;
                } else {
                    tooFew = middle;
                }
            }
        }
        BitSet tail = new BitSet();
        tail.set(
                keep * allocator.chunksPerExtent(),
                allocator.chunks().extents() * allocator.chunksPerExtent());
        allocator.avoid(tail);
    }

    /// Whether all values behind the first `keep` extents of a disk can move, and these extents
    /// have room for them.
    private boolean fits(int keep) {
        BitSet free = new BitSet();
        long[] freeSlots = new long[SizeClasses.count()];
        for (int extent = 0; extent < keep; extent++) {
            allocator.show(
                    extent,
                    new Allocator.Chunks() {
                        @Override
                        public void free(int chunk) {
                            free.set(chunk);
                        }

                        @Override
                        public void cut(int chunk, long cut, int used) {
                            freeSlots[ChunkMap.sizeClass(cut)] += ChunkMap.slots(cut) - used;
                        }
                    });
        }
        Tail tail = new Tail();
        for (int extent = keep; extent < allocator.chunks().extents(); extent++) {
            allocator.show(extent, tail);
        }
        long chunks = 0;
        for (int i = 0; i < freeSlots.length; i++) {
            long missing = Math.max(0, tail.slots[i] - freeSlots[i]);
            chunks += (missing + SizeClasses.slots(i) - 1) / SizeClasses.slots(i);
        }
        return tail.canMove
                && tail.placeRuns(free, allocator.chunksPerExtent())
                && chunks <= free.cardinality();
    }

    /// The contents of the last extents of a disk.
    private final class Tail implements Allocator.Chunks {
        private final long[] slots = new long[SizeClasses.count()];
        private final List<Integer> runs = new ArrayList<>();
        private boolean canMove = true;

        @Override
        public void cut(int chunk, long cut, int used) {
            slots[ChunkMap.sizeClass(cut)] += used;
            canMove &= used == 0 || Evacuation.this.canMove(chunk, used);
        }

        @Override
        public void run(int first, int count) {
            runs.add(count);
            canMove &= Evacuation.this.canMove(first, 1);
        }

        /// Whether all runs fit into free chunks, which are then used up.
        private boolean placeRuns(BitSet free, int chunksPerExtent) {
            runs.sort(Comparator.reverseOrder());
            for (int count : runs) {
                int first = Allocator.findRun(free, count, chunksPerExtent);
                if (first < 0) {
                    return false;
                }
                free.clear(first, first + count);
            }
            return true;
        }
    }

    /// Whether the value at `offset` is to leave its chunk.
    boolean wants(long offset) {
        return allocator.isAvoided((int) (offset / SizeClasses.CHUNK_BYTES));
    }

    /// Whether any value is to leave its chunk.
    boolean isPlanned() {
        return allocator.isAvoiding();
    }
}
