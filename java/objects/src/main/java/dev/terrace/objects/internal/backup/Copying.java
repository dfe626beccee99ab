package dev.terrace.objects.internal.backup;

import dev.terrace.objects.internal.store.Identity;
import dev.terrace.objects.internal.store.Medium;
import dev.terrace.objects.internal.store.Region;
import dev.terrace.objects.internal.store.Store;
import dev.terrace.objects.internal.store.StoreFailure;
import dev.terrace.objects.internal.store.Superblock;
import dev.terrace.objects.internal.store.Watch;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/// Copies a pool while another process, or another thread, may write to it.
///
/// All blocks are copied, then those again that have been marked since, until few are left. These
/// are copied within a moment without commits, which a pause of the writer makes likely. If the
/// writer changes blocks faster than they are copied, it pauses while they are, and the gaps
/// between pauses get shorter until fewer blocks are left after each.
///
/// Invariants:
/// * A state counts only if `sequence` was the same before and after that moment, and either marks
///   have told all changes up to it since each block was copied, or it has been the same since
///   before any block was copied.
/// * The first page of the pool is copied in that moment, whatever marks tell.
public final class Copying {
    /// Blocks that are copied into memory within one pause.
    private static final int AT_ONCE = 512;

    /// Rounds before the writer is slowed down.
    private static final int FREE_ROUNDS = 3;

    /// How long blocks are stored within one pause: a part of what a writer waits at most.
    private static final long SLICE_NANOS = Watch.PAUSE_NANOS_MAX / 2;

    /// The first gap between pauses, and what is too short to wait for.
    private static final long GAP_NANOS = 8_000_000;

    private static final long GAP_NANOS_MIN = 50_000;

    private final Store store;
    private final Path pool;
    private final BlockStore into;
    private final Pack pack;
    private final List<File> files = new ArrayList<>();
    private final byte[] block = new byte[BlockStore.BLOCK_BYTES];

    /// Memory for blocks that are copied within a pause.
    private final List<byte[]> buffers = new ArrayList<>();

    private @Nullable Asking asking;
    private long session;

    /// The sequence before all blocks became pending.
    private long begun;

    private long commit;
    private long gap = GAP_NANOS;
    private int left = Integer.MAX_VALUE;

    /// A file of the pool, and what is known of its blocks.
    private static final class File {
        final Region region;
        final Medium tier;
        final BitSet pending = new BitSet();
        Hash[] hashes = {};
        int[] slots = {};

        File(Region region, Medium tier) {
            this.region = region;
            this.tier = tier;
        }

        /// The file has so many blocks now. New ones are to be copied.
        void resize(int count) {
            int before = hashes.length;
            hashes = Arrays.copyOf(hashes, count);
            slots = Arrays.copyOf(slots, count);
            if (before < count) {
                Arrays.fill(slots, before, count, -1);
                pending.set(before, count);
            }
            pending.clear(count, Math.max(count, pending.length()));
        }
    }

    private record Copied(File file, int index, byte[] bytes) {}

    private Copying(Store store, Path pool, BlockStore into, Pack pack) {
        this.store = store;
        this.pool = pool;
        this.into = into;
        this.pack = pack;
        files.add(new File(store.pmem(), Medium.PMEM));
        for (int i = 0; i < store.diskCount(); i++) {
            files.add(new File(store.disk(i), store.diskTier(i)));
        }
    }

    /// Copies a pool, and returns its state, which does not count yet.
    ///
    /// @throws StoreFailure.Busy if no commit was ever seen alone
    /// @throws StoreFailure.Damaged if the pool is
    /// @throws StoreFailure.UnknownFormat if it cannot be backed up
    public static State of(Store store, Path pool, BlockStore into, Duration patience)
            throws IOException {
        UUID id = superblock(store).id();
        long number = 1;
        for (State.Name before : into.states(State::name)) {
            if (!before.pool().equals(id)) {
                throw new StoreFailure.UnknownFormat(
                        into.directory()
                                + " holds backups of another pool, "
                                + before.pool()
                                + ": name a directory for each pool");
            }
            number = before.number() + 1;
        }
        into.prepare();
        try (Pack pack = into.newPack(number)) {
            Copying copying = new Copying(store, pool, into, pack);
            try {
                copying.run(patience.toNanos());
            } finally {
                copying.hangUp();
            }
            into.finish(pack, number);
            List<State.Part> parts = new ArrayList<>();
            copying.files.forEach(file -> parts.add(new State.Part(file.tier, file.hashes)));
            return new State(
                    new State.Name(number, id),
                    System.currentTimeMillis(),
                    copying.commit,
                    (long) pack.size() * BlockStore.BLOCK_BYTES,
                    into.packsOf(parts),
                    parts);
        }
    }

    private static byte[] page(Store store) {
        byte[] page = new byte[Superblock.BYTES];
        store.pmem().get(0, MemorySegment.ofArray(page), 0, page.length);
        return page;
    }

    private static Superblock superblock(Store store) {
        byte[] page = page(store);
        String name = store.pmem().name();
        if (ByteBuffer.wrap(page).getLong((int) Superblock.REMOTE_NEXT_AT) != 0) {
            throw new StoreFailure.UnknownFormat(
                    name
                            + " has values on a remote tier, which backups do not hold: copy the"
                            + " directory of segments and the pool while no program writes");
        }
        return Superblock.read(name, page, true);
    }

    /// Takes note of the present lengths of all files. Returns whether they are as before.
    private boolean measure() {
        ByteBuffer words = ByteBuffer.wrap(page(store)).order(ByteOrder.LITTLE_ENDIAN);
        long perExtent = store.pmem().extentBytes() / BlockStore.BLOCK_BYTES;
        boolean same = true;
        long all = 0;
        for (int i = 0; i < files.size(); i++) {
            long at =
                    i == 0
                            ? Superblock.EXTENTS_AT
                            : Superblock.DISKS_AT + (i - 1) * Superblock.DISK_BYTES;
            long extents = words.getLong((int) at);
            if (extents < 0 || extents > Integer.MAX_VALUE) {
                throw new StoreFailure.Damaged(
                        store.pmem().name() + ": the lengths of the pool's files are damaged");
            }
            long blocks = extents * perExtent;
            all += blocks;
            if (all > State.BLOCKS_MAX) {
                throw new StoreFailure.UnknownFormat(
                        store.pmem().name()
                                + " is longer than a backup may be: copy its files while no"
                                + " program writes");
            }
            same &= blocks == files.get(i).hashes.length;
            files.get(i).resize((int) blocks);
        }
        return same;
    }

    private void hangUp() {
        if (asking != null) {
            asking.close();
            asking = null;
        }
    }

    /// All blocks are to be copied, as of this sequence or a later one.
    private void begin(long sequence) {
        files.forEach(file -> file.pending.set(0, file.hashes.length));
        begun = sequence;
        left = Integer.MAX_VALUE;
    }

    /// Looks who writes, and copies everything again if marks may be missing.
    private void listen() {
        long now = asking == null ? 0 : asking.session();
        long sequence = store.sequence();
        if (now != session || now == 0 && sequence != begun) {
            begin(sequence);
        }
        session = now;
    }

    private boolean hasTold(long sequence) {
        return asking != null && asking.hasTold(session, sequence);
    }

    private int pending() {
        return files.stream().mapToInt(file -> file.pending.cardinality()).sum();
    }

    private void takeMarks() {
        Asking from = asking;
        if (from != null) {
            for (int i = 0; i < files.size(); i++) {
                from.take(i, files.get(i).hashes.length, files.get(i).pending);
            }
        }
    }

    private void run(long patience) throws IOException {
        measure();
        if (!store.seal().isConstant()) {
            long[] blocks = files.stream().mapToLong(file -> file.hashes.length).toArray();
            asking = Asking.of(store, pool, blocks);
        }
        begin(store.sequence());
        int least = Integer.MAX_VALUE;
        long since = 0;
        for (int round = 0; ; round++) {
            listen();
            measure();
            takeMarks();
            if (pending() <= AT_ONCE || session != 0 && round >= FREE_ROUNDS) {
                if (copyPaused()) {
                    superblock(store);
                    return;
                }
            } else {
                copy(Long.MAX_VALUE);
            }
            // Patience is for rounds that bring nothing.
            long now = System.nanoTime();
            if (round <= FREE_ROUNDS || left < least) {
                least = left;
                since = now;
            } else if (now - since >= patience) {
                throw new StoreFailure.Busy(
                        store.pmem().name()
                                + ": programs have committed so often for "
                                + TimeUnit.NANOSECONDS.toMillis(patience) / 1000.0
                                + " s that the copy was never of one commit: have more patience, or"
                                + " make the backup as the user whose program writes");
            }
        }
    }

    /// Stores what is pending, for so long.
    private void copy(long nanos) throws IOException {
        long begin = System.nanoTime();
        for (File file : files) {
            for (int i = file.pending.nextSetBit(0); i >= 0; i = file.pending.nextSetBit(i + 1)) {
                if (System.nanoTime() - begin >= nanos) {
                    return;
                }
                if (copy(file, i, block)) {
                    file.pending.clear(i);
                    keep(file, i, block);
                }
            }
        }
    }

    /// Copies what is pending while the writer pauses, or a part of it. Returns whether all is of
    /// one commit then.
    private boolean copyPaused() throws IOException {
        List<Copied> copies = new ArrayList<>();
        boolean whole;
        if (asking != null) {
            asking.pause();
        }
        try {
            takeMarks();
            int now = pending();
            if (now > AT_ONCE) {
                if (now >= left) {
                    gap = gap / 2 < GAP_NANOS_MIN ? 0 : gap / 2;
                }
                copy(SLICE_NANOS);
            }
            left = now;
            whole = moment(copies);
        } finally {
            if (asking != null) {
                asking.resume();
            }
        }
        for (Copied copy : copies) {
            keep(copy.file, copy.index, copy.bytes);
        }
        if (!whole) {
            LockSupport.parkNanos(gap);
        }
        return whole;
    }

    /// Copies what is pending if that is little, and returns whether all is of one commit then.
    private boolean moment(List<Copied> copies) throws IOException {
        long before = store.sequence();
        takeMarks();
        files.getFirst().pending.set(0);
        if (pending() > AT_ONCE || !copyInto(copies) || !measure() || pending() > 0) {
            return false;
        }
        boolean hasTold = hasTold(before);
        VarHandle.acquireFence();
        if (store.sequence() != before) {
            return false;
        }
        commit = before;
        boolean whole = hasTold || before == begun;
        if (!whole) {
            // Nobody marks any more: that writer was killed.
            begin(before);
        }
        return whole;
    }

    private boolean copyInto(List<Copied> copies) throws IOException {
        for (File file : files) {
            for (int i = file.pending.nextSetBit(0); i >= 0; i = file.pending.nextSetBit(i + 1)) {
                if (buffers.size() == copies.size()) {
                    buffers.add(new byte[BlockStore.BLOCK_BYTES]);
                }
                byte[] bytes = buffers.get(copies.size());
                if (!copy(file, i, bytes)) {
                    return false;
                }
                file.pending.clear(i);
                copies.add(new Copied(file, i, bytes));
            }
        }
        return true;
    }

    /// Copies a block; false if the file has just become shorter. Persistent memory never does, and
    /// its words are copied whole, as they are stored.
    private boolean copy(File file, int index, byte[] bytes) throws IOException {
        long at = (long) index * BlockStore.BLOCK_BYTES;
        if (file != files.getFirst()) {
            return file.region.copy(at, bytes);
        }
        file.region.get(at, MemorySegment.ofArray(bytes), 0, bytes.length);
        return true;
    }

    private void keep(File file, int index, byte[] bytes) throws IOException {
        if (index >= file.hashes.length) {
            return;
        }
        if (index == 0 && file == files.getFirst()) {
            Identity.forgetTalk(bytes);
        }
        Hash hash = Hash.of(bytes);
        file.hashes[index] = hash;
        if (!into.has(hash)) {
            file.slots[index] = pack.put(file.slots[index], bytes, hash);
        }
    }
}
