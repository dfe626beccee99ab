package dev.terrace.objects.internal.store;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileChannel.MapMode;
import java.nio.file.Files;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import jdk.nio.mapmode.ExtendedMapMode;

/// A region that is a file, mapped extent by extent.
///
/// Invariant: no channel of the file is open between uses. An interrupt closes the channel that the
/// thread is using, so each use opens its own channel and is repeated.
public final class MappedRegion extends Region {
    private static final int ZEROS_BYTES = 1 << 20;
    private static final long PAGE_BYTES = 4096;

    private final Path path;
    private final Arena arena;
    private final boolean readOnly;
    private final long maxBytes;
    private final Durability durability;
    private final List<Range> unsynced = new ArrayList<>();
    private Watch watch = Watch.none();
    private int number;

    /// A part of an extent.
    private record Range(int extent, long from, long to) {}

    /// A use of the open file.
    private interface Use<T> {
        T with(FileChannel channel) throws IOException;
    }

    /// A region of the file's first `extentCount` extents.
    ///
    /// @param maxBytes the greatest length of the file
    /// @throws IOException if the file cannot be opened or mapped, or is shorter than that
    public MappedRegion(
            Path path,
            int extentShift,
            int extentCount,
            long maxBytes,
            boolean readOnly,
            Arena arena)
            throws IOException {
        super(extentShift);
        this.path = path;
        this.arena = arena;
        this.readOnly = readOnly;
        this.maxBytes = maxBytes;
        // A read-only process may open the pool before the file exists.
        long size = Files.exists(path) ? Files.size(path) : 0;
        if (size < (long) extentCount << extentShift) {
            throw new StoreFailure.Damaged(
                    path
                            + ": the file has "
                            + size
                            + " bytes, and should have "
                            + ((long) extentCount << extentShift)
                            + ": was it truncated?");
        }
        durability = readOnly ? Durability.MSYNC : durabilityOf(path);
        for (int i = 0; i < extentCount; i++) {
            map(i);
        }
    }

    /// The durability of stores to this file.
    ///
    /// @throws IOException if it cannot be opened
    public static Durability durabilityOf(Path path) throws IOException {
        String type = Files.getFileStore(path).type();
        if (type.equals("tmpfs") || type.equals("ramfs")) {
            return Durability.EMULATED;
        }
        if (Files.size(path) < PAGE_BYTES || !Files.isWritable(path)) {
            return Durability.MSYNC;
        }
        try (Arena probe = Arena.ofShared()) {
            open(
                    path,
                    false,
                    channel -> channel.map(ExtendedMapMode.READ_WRITE_SYNC, 0, PAGE_BYTES, probe));
            return Durability.DAX;
        } catch (IOException | UnsupportedOperationException noDax) {
            return Durability.MSYNC;
        }
    }

    /// Makes the names in a directory durable: a file's contents may be durable before its name is.
    ///
    /// @throws IOException if the system could not write them
    public static void syncNames(Path directory) throws IOException {
        open(
                directory,
                true,
                channel -> {
                    channel.force(true);
                    return true;
                });
    }

    /// From now on changes are marked for backups, as those of this file of the pool.
    public void watchedBy(Watch by, int asNumber) {
        watch = by;
        number = asNumber;
    }

    @Override
    public void beforeChanges() {
        watch.attend();
    }

    @Override
    public void committed() {
        watch.committed();
    }

    /// The durability of its stores.
    public Durability durability() {
        return durability;
    }

    @Override
    public String name() {
        return path.toString();
    }

    @Override
    public void grow() {
        long size = (long) extents() * extentBytes();
        if (size + extentBytes() > maxBytes) {
            throw new StoreFailure.Full(
                    path + " has " + size + " bytes, and may have no more than " + maxBytes);
        }
        Events.Growth event = new Events.Growth();
        event.begin();
        try {
            open(path, false, channel -> fill(channel, size));
            map(extents());
            event.file = name();
            event.bytes = size + extentBytes();
            event.commit();
        } catch (IOException e) {
            throw new StoreFailure.Full(
                    path + " cannot become longer than " + size + " bytes: " + e.getMessage(), e);
        }
    }

    /// The mapping stays until the pool is closed; it takes no memory.
    @Override
    public long shrink(int count) {
        keep(count);
        long length = count * extentBytes();
        try {
            return open(
                    path,
                    false,
                    channel -> {
                        long before = channel.size();
                        channel.truncate(length);
                        return Math.max(0, before - length);
                    });
        } catch (IOException e) {
            throw new StoreFailure.Damaged(
                    path + " cannot be cut off at " + length + " bytes: " + e.getMessage(), e);
        }
    }

    /// This is how a read-only process finds extents that the writing process has appended.
    @Override
    protected synchronized boolean follow(long index) {
        try {
            if (!readOnly || index >= Files.size(path) / extentBytes()) {
                return false;
            }
            while (extents() <= index) {
                map(extents());
            }
            return true;
        } catch (IOException e) {
            throw new StoreFailure.Damaged(path + " cannot be mapped: " + e.getMessage(), e);
        }
    }

    @Override
    public long bytesToGrow() {
        long extentsMax = maxBytes / extentBytes();
        return Math.max(0, extentsMax - extents()) * extentBytes();
    }

    private boolean fill(FileChannel channel, long from) throws IOException {
        long to = from + extentBytes();
        try {
            ByteBuffer zeros =
                    ByteBuffer.allocateDirect((int) Math.min(ZEROS_BYTES, extentBytes()));
            for (long at = from; at < to; ) {
                zeros.clear().limit((int) Math.min(zeros.capacity(), to - at));
                at += channel.write(zeros, at);
            }
            channel.force(true);
            return true;
        } catch (ClosedByInterruptException interrupted) {
            throw interrupted;
        } catch (IOException e) {
            channel.truncate(from);
            throw e;
        }
    }

    private void map(int index) throws IOException {
        MapMode mode =
                readOnly
                        ? MapMode.READ_ONLY
                        : durability == Durability.DAX
                                ? ExtendedMapMode.READ_WRITE_SYNC
                                : MapMode.READ_WRITE;
        append(
                open(
                        path,
                        readOnly,
                        channel -> channel.map(mode, index * extentBytes(), extentBytes(), arena)));
    }

    /// Uses the file, also in an interrupted thread, which stays interrupted.
    private static <T> T open(Path path, boolean readOnly, Use<T> use) throws IOException {
        Set<OpenOption> options =
                readOnly
                        ? Set.of(StandardOpenOption.READ)
                        : Set.of(StandardOpenOption.READ, StandardOpenOption.WRITE);
        return Uninterrupted.run(() -> {
            try (FileChannel channel = FileChannel.open(path, options)) {
                return use.with(channel);
            }
        });
    }

    @Override
    public boolean copy(long offset, byte[] into) throws IOException {
        return open(
                path,
                true,
                channel -> {
                    ByteBuffer bytes = ByteBuffer.wrap(into);
                    while (bytes.hasRemaining()) {
                        if (channel.read(bytes, offset + bytes.position()) < 0) {
                            return false;
                        }
                    }
                    return true;
                });
    }

    @Override
    public void flush(long offset, long length) {
        watch.mark(number, offset, length);
        switch (durability) {
            case EMULATED -> {}
            case DAX -> extentOf(offset).asSlice(within(offset), length).force();
            case MSYNC -> {
                long from = within(offset) & -PAGE_BYTES;
                long to = within(offset) + length + PAGE_BYTES - 1 & -PAGE_BYTES;
                int extent = (int) (offset / extentBytes());
                Range last = unsynced.isEmpty() ? null : unsynced.getLast();
                if (last != null && last.extent == extent && from <= last.to && to >= last.from) {
                    unsynced.set(
                            unsynced.size() - 1,
                            new Range(extent, Math.min(from, last.from), Math.max(to, last.to)));
                } else {
                    unsynced.add(new Range(extent, from, to));
                }
            }
        }
    }

    @Override
    public void fence() {
        VarHandle.fullFence();
        if (unsynced.isEmpty()) {
            return;
        }
        try {
            for (Range range : unsynced) {
                extent(range.extent).asSlice(range.from, range.to - range.from).force();
            }
        } catch (UncheckedIOException e) {
            throw new StoreFailure.Damaged(
                    path + ": the system could not write to its device: " + e.getMessage(), e);
        } finally {
            unsynced.clear();
        }
    }

    @Override
    public void close() {
        // The mapping of the file itself ends with the pool's arena.
        watch.close();
    }
}
