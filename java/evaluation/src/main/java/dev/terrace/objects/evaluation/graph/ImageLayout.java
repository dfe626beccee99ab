package dev.terrace.objects.evaluation.graph;

import java.io.IOException;
import java.nio.file.Path;

/// A place for people with images.
enum ImageLayout {
    /// The way of a program that needs no more than a cache.
    SOFT("heap objects, packed; images behind soft references") {
        @Override
        int heapMib(Budget budget) {
            return budget.mib() - JAVA_MIB;
        }

        @Override
        void load(Path graph, Path pmem, Path disk, int people) throws IOException {
            FileImages.write(disk.resolve(IMAGES), people);
        }

        @Override
        Opened open(Path graph, Path pmem, Path disk, int people) throws IOException {
            return new Opened(
                    new PackedPeople(graph), new SoftImages(disk.resolve(IMAGES), people));
        }
    },
    /// The way of a program that leaves caching to the system.
    FILE("heap objects, packed; images in a file, in the page cache") {
        @Override
        int heapMib(Budget budget) {
            return (int) Math.ceil(budget.liveMib() * HEAP_TIMES);
        }

        @Override
        void load(Path graph, Path pmem, Path disk, int people) throws IOException {
            FileImages.write(disk.resolve(IMAGES), people);
        }

        @Override
        Opened open(Path graph, Path pmem, Path disk, int people) throws IOException {
            return new Opened(new PackedPeople(graph), new FileImages(disk.resolve(IMAGES)));
        }
    },
    /// A pool: friends and what is searched by in persistent memory, images on disk.
    POOL("SELECT-PMEM, images on disk") {
        @Override
        int heapMib(Budget budget) {
            return POOL_HEAP_MIB;
        }

        @Override
        void load(Path graph, Path pmem, Path disk, int people) throws IOException {
            PicturedPeople.load(graph, pmem, disk);
        }

        @Override
        Opened open(Path graph, Path pmem, Path disk, int people) throws IOException {
            PicturedPeople pictured = new PicturedPeople(pmem, disk);
            return new Opened(pictured, pictured);
        }
    };

    private static final String IMAGES = "images";

    /// What Java takes beside its heap, with some of the page cache for code.
    private static final int JAVA_MIB = 128;

    /// A heap as small as this is collected seldom by searches, which make little garbage; the rest
    /// is for the page cache.
    private static final double HEAP_TIMES = 1.5;

    private static final int POOL_HEAP_MIB = 64;

    /// Its name in reports.
    final String title;

    ImageLayout(String title) {
        this.title = title;
    }

    /// The memory of a process and of all that it brings into memory.
    ///
    /// @param mib all of it
    /// @param liveMib what packed people take on the heap, without images
    record Budget(int mib, double liveMib) {}

    /// People and their images, ready to be searched and seen.
    record Opened(People<?> people, Images images) implements AutoCloseable {
        @Override
        public void close() throws IOException {
            people.close();
            images.close();
        }
    }

    /// How large its heap is.
    abstract int heapMib(Budget budget);

    /// Stores the people of a graph's file, with their images, for later processes.
    abstract void load(Path graph, Path pmem, Path disk, int people) throws IOException;

    /// Has them ready.
    abstract Opened open(Path graph, Path pmem, Path disk, int people) throws IOException;
}
