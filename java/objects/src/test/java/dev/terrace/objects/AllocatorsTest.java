package dev.terrace.objects;

import dev.terrace.objects.internal.store.RecordingSegmentStore;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.Set;
import org.junit.jupiter.api.Nested;

/// The contract of allocators, for each tier.
class AllocatorsTest {
    /// Values in files.
    private abstract static class OfFile extends AllocatorContractTest {
        abstract Path file();

        @Override
        protected void damage() throws IOException {
            Files.write(file(), damaged(Files.readAllBytes(file())));
        }

        @Override
        protected void failDevice(boolean fails) throws IOException {
            Path aside = file().resolveSibling("aside");
            if (fails) {
                Files.move(file(), aside);
                Files.createFile(file());
            } else {
                Files.move(aside, file(), StandardCopyOption.REPLACE_EXISTING);
            }
        }
    }

    /// Values on disks.
    private abstract static class OfDisk extends OfFile {
        @Override
        protected Set<Promise> promises() {
            return EnumSet.of(Promise.DURABLE, Promise.CHECKED, Promise.BOUNDED);
        }

        @Override
        protected PoolOptions options(PoolOptions defaults, long bytesMax) {
            return defaults.disk(tier(), directory("disk"), bytesMax);
        }

        @Override
        Path file() {
            return dir.resolve("disk").resolve("disk-0");
        }
    }

    @Nested
    class Dram extends AllocatorContractTest {
        @Override
        protected StorageTier tier() {
            return StorageTier.DRAM;
        }

        @Override
        protected Set<Promise> promises() {
            return EnumSet.noneOf(Promise.class);
        }

        @Override
        protected PoolOptions options(PoolOptions defaults, long bytesMax) {
            return defaults;
        }

        @Override
        protected void damage() {
            // Nothing is left of it that could be.
        }

        @Override
        protected void failDevice(boolean fails) {
            // Nothing is left of it that could.
        }
    }

    @Nested
    class Pmem extends OfFile {
        @Override
        protected StorageTier tier() {
            return StorageTier.PMEM;
        }

        @Override
        protected Set<Promise> promises() {
            return EnumSet.of(Promise.DURABLE, Promise.BOUNDED);
        }

        @Override
        protected PoolOptions options(PoolOptions defaults, long bytesMax) {
            return defaults.pmem(bytesMax);
        }

        @Override
        Path file() {
            return dir.resolve("pool");
        }
    }

    @Nested
    class Ssd extends OfDisk {
        @Override
        protected StorageTier tier() {
            return StorageTier.SSD;
        }
    }

    @Nested
    class Hdd extends OfDisk {
        @Override
        protected StorageTier tier() {
            return StorageTier.HDD;
        }
    }

    @Nested
    class Remote extends AllocatorContractTest {
        private final RecordingSegmentStore segments = new RecordingSegmentStore(new ArrayList<>());

        @Override
        protected StorageTier tier() {
            return StorageTier.REMOTE;
        }

        @Override
        protected PoolOptions options(PoolOptions defaults, long bytesMax) {
            return defaults.remote(segments, bytesMax);
        }

        @Override
        protected void damage() {
            segments.segments().replaceAll((_, bytes) -> damaged(bytes));
        }

        @Override
        protected void failDevice(boolean fails) {
            segments.reachable(!fails);
        }
    }
}
