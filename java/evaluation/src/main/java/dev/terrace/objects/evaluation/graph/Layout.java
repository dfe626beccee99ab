package dev.terrace.objects.evaluation.graph;

import dev.terrace.objects.evaluation.run.Scratch;
import java.io.IOException;
import java.nio.file.Path;

/// Where people are kept.
enum Layout {
    /// NO-PMEM of the paper: loaded by whoever searches.
    HEAP("heap objects", false) {
        @Override
        void load(Path graph, Path pmem, Path disk) {}

        @Override
        People<?> open(Path graph, Path pmem, Path disk) throws IOException {
            return new HeapPeople(graph);
        }
    },
    /// The same as arrays of numbers.
    PACKED("heap objects, packed", false) {
        @Override
        void load(Path graph, Path pmem, Path disk) {}

        @Override
        People<?> open(Path graph, Path pmem, Path disk) throws IOException {
            return new PackedPeople(graph);
        }
    },
    /// A file on disk, and as many of its people on the heap as there is room for.
    SERIALIZED("heap + Java serialization", true) {
        @Override
        void load(Path graph, Path pmem, Path disk) throws IOException {
            SerializedPeople.load(graph, disk.resolve(FILE));
        }

        @Override
        People<?> open(Path graph, Path pmem, Path disk) throws IOException {
            return new SerializedPeople(disk.resolve(FILE));
        }
    },
    /// A map of MapDB's, in persistent memory.
    MAPDB("MapDB", true) {
        @Override
        void load(Path graph, Path pmem, Path disk) throws IOException {
            MapDbPeople.load(graph, pmem.resolve(FILE));
        }

        @Override
        People<?> open(Path graph, Path pmem, Path disk) {
            return new MapDbPeople(pmem.resolve(FILE));
        }
    },
    /// ALL-PMEM of the paper.
    ALL_PMEM("ALL-PMEM", false) {
        @Override
        void load(Path graph, Path pmem, Path disk) throws IOException {
            AllPmemPeople.load(graph, pmem, disk);
        }

        @Override
        People<?> open(Path graph, Path pmem, Path disk) throws IOException {
            return new AllPmemPeople(pmem, disk);
        }

        @Override
        Stored stored(Path pmem, Path disk) throws IOException {
            return PoolPeople.stored(pmem, disk, DurableAllPmemPerson.TYPE);
        }
    },
    /// SELECT-PMEM of the paper.
    SELECT_PMEM("SELECT-PMEM", false) {
        @Override
        void load(Path graph, Path pmem, Path disk) throws IOException {
            SelectPmemPeople.load(graph, pmem, disk);
        }

        @Override
        People<?> open(Path graph, Path pmem, Path disk) throws IOException {
            return new SelectPmemPeople(pmem, disk);
        }

        @Override
        Stored stored(Path pmem, Path disk) throws IOException {
            return PoolPeople.stored(pmem, disk, DurableSelectPmemPerson.TYPE);
        }
    },
    /// The same in columns.
    COLUMNS("SELECT-PMEM in columns", false) {
        @Override
        void load(Path graph, Path pmem, Path disk) throws IOException {
            ColumnarPeople.load(graph, pmem, disk);
        }

        @Override
        People<?> open(Path graph, Path pmem, Path disk) throws IOException {
            return new ColumnarPeople(pmem, disk);
        }

        @Override
        Stored stored(Path pmem, Path disk) throws IOException {
            return PoolPeople.stored(pmem, disk, DurableColumnarPerson.TYPE);
        }
    };

    private static final String FILE = "people";

    /// Its name in reports.
    final String title;

    /// Whether it makes an object of a person's bytes whenever it looks at one: it is searched less
    /// often then.
    final boolean isSlow;

    Layout(String title, boolean isSlow) {
        this.title = title;
        this.isSlow = isSlow;
    }

    /// Stores the people of a graph's file for later processes.
    ///
    /// @param pmem an empty directory in persistent memory
    /// @param disk an empty directory on a disk
    abstract void load(Path graph, Path pmem, Path disk) throws IOException;

    /// Whether later processes find what [#load(Path, Path, Path)] has stored.
    boolean isStored() {
        return this != HEAP && this != PACKED;
    }

    /// What [#load(Path, Path, Path)] has stored takes: of a pool the bytes in use, of others the
    /// files.
    Stored stored(Path pmem, Path disk) throws IOException {
        return new Stored(Scratch.bytes(pmem), 0, Scratch.bytes(disk));
    }

    /// Has people ready to be searched.
    abstract People<?> open(Path graph, Path pmem, Path disk) throws IOException;
}
