package dev.terrace.objects;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.Random;

/// Random transactions over objects on all tiers, numbered from 1, and what must be there after
/// each: that follows from its number alone. So whoever finds a pool in a state knows which it
/// claims to be, and whether it is that one, whole.
final class KillWorkload {
    static final int CELLS = 10;
    private static final int TEXT_MAX = 40_000;
    private static final int IMAGE_MAX = 30_000;

    /// Every so many transactions the disk becomes longer, and is compacted.
    private static final int COMPACTED_EACH = 6;

    /// Most of an extent.
    private static final int FILLER_BYTES = 850_000;

    /// How many different things a transaction may be, by its random number.
    private static final int KINDS = 16;

    private static final int KIND_ALONE = 0;
    private static final int KIND_ROLLED_BACK_FIRST = 1;
    private static final int KIND_DISK = 2;
    private static final int KIND_MADE_ANEW = 3;

    /// An object with a field of each way to be stored.
    static final class Cell extends DurableObject {
        static final ObjectType<Cell> TYPE =
                ObjectType.of(
                        "dev.terrace.objects.KillCell",
                        Cell.class,
                        Cell::new,
                        List.of(),
                        FieldSpec.of("number", FieldKind.INT),
                        FieldSpec.of("row", FieldKind.DOUBLES).ofLength(12),
                        FieldSpec.of("place", FieldKind.STRING).orNull(),
                        FieldSpec.of("name", FieldKind.STRING)
                                .on(StorageTier.PMEM, StorageTier.DISK)
                                .orNull(),
                        FieldSpec.of("image", FieldKind.BYTES).on(StorageTier.DISK).orNull(),
                        FieldSpec.of("balance", FieldKind.LONG).on(StorageTier.DISK));

        int number() {
            return getInt(0, TYPE.offset(0));
        }

        void setNumber(int number) {
            setInt(0, TYPE.offset(0), number);
        }

        void write(Content content) {
            setNumber(content.number);
            setDoubles(1, TYPE.offset(1), content.row());
            setString(2, TYPE.offset(2), content.place());
            setString(3, TYPE.offset(3), content.name());
        }

        void writeToDisk(Content content) {
            setBytes(4, TYPE.offset(4), content.image());
            setLong(5, TYPE.offset(5), content.number);
        }

        void fill(int bytes) {
            setBytes(4, TYPE.offset(4), new byte[bytes]);
        }

        String inPmem() {
            return number()
                    + " "
                    + Arrays.hashCode(getDoubles(1, TYPE.offset(1)))
                    + " "
                    + Objects.hashCode(getString(2, TYPE.offset(2)))
                    + " "
                    + Objects.hashCode(getString(3, TYPE.offset(3)));
        }

        String onDisk() {
            return getLong(5, TYPE.offset(5)) + " " + Arrays.hashCode(getBytes(4, TYPE.offset(4)));
        }
    }

    /// What transaction `number` writes to the cell with this index.
    private record Content(int cell, int number) {
        private Random random(int field) {
            return new Random(((long) number * CELLS + cell) * 31 + field);
        }

        double[] row() {
            return random(1).doubles(12).toArray();
        }

        String place() {
            return text(random(2), 40);
        }

        String name() {
            return text(random(3), TEXT_MAX);
        }

        byte[] image() {
            Random random = random(4);
            byte[] bytes = new byte[random.nextInt(IMAGE_MAX)];
            random.nextBytes(bytes);
            return bytes;
        }

        private static String text(Random random, int lengthMax) {
            char[] chars = new char[random.nextInt(lengthMax)];
            Arrays.fill(chars, (char) ('a' + random.nextInt(26)));
            return new String(chars);
        }

        String inPmem() {
            return number
                    + " "
                    + Arrays.hashCode(row())
                    + " "
                    + place().hashCode()
                    + " "
                    + name().hashCode();
        }

        String onDisk() {
            return number + " " + Arrays.hashCode(image());
        }
    }

    private final Pool pool;
    private final KillColumns columns;

    /// The model: of each cell, the last transaction that wrote to it, and to its fields on disk,
    /// up to `modelled`.
    private final int[] inPmem = new int[CELLS];

    private final int[] onDisk = new int[CELLS];
    private int modelled;

    KillWorkload(Pool pool) {
        this.pool = pool;
        columns = new KillColumns(pool);
    }

    static PoolOptions options(Path disk) {
        return PoolOptions.defaults().extents(1 << 20).disk(StorageTier.SSD, disk);
    }

    /// Makes what all others need.
    void prepare() {
        pool.transact(() -> {
            root("count").set(pool.create(Cell.TYPE));
            root("filler").set(pool.create(Cell.TYPE));
            for (int i = 0; i < CELLS; i++) {
                makeAnew(i, 0);
            }
        });
    }

    private Root<Cell> root(String name) {
        return pool.root(name, Cell.TYPE);
    }

    private Cell get(String name) {
        return Objects.requireNonNull(root(name).get(), name);
    }

    private void makeAnew(int i, int number) {
        Root<Cell> root = root("cell" + i);
        Cell old = root.get();
        Cell made = pool.create(Cell.TYPE);
        root.set(made);
        if (old != null) {
            old.delete();
        }
        made.write(new Content(i, number));
        made.writeToDisk(new Content(i, number));
    }

    private static int kind(int number) {
        return new Random(number * 7919L).nextInt(KINDS);
    }

    /// The cells that a transaction writes to.
    private static int[] cells(int number) {
        Random random = new Random(number * 104_729L);
        return random.ints(0, CELLS).distinct().limit(1 + random.nextInt(CELLS / 2)).toArray();
    }

    /// Does transaction `number`, and what changes nothing that is looked at.
    void step(int number) {
        boolean compacts = number % COMPACTED_EACH == 0;
        if (compacts) {
            get("filler").fill(FILLER_BYTES);
        }
        change(number);
        if (compacts) {
            get("filler").fill(0);
            pool.compact();
        }
    }

    /// Has the disk become longer and shorter again.
    void fillAndCompact() {
        get("filler").fill(FILLER_BYTES);
        get("filler").fill(0);
        pool.compact();
    }

    private void change(int number) {
        int kind = kind(number);
        Cell count = get("count");
        if (kind == KIND_ALONE) {
            count.setNumber(number);
            return;
        }
        if (kind == KIND_ROLLED_BACK_FIRST) {
            rollBack(number);
        }
        pool.transact(() -> {
            count.setNumber(number);
            columns.change(number);
            for (int i : cells(number)) {
                if (kind == KIND_MADE_ANEW) {
                    makeAnew(i, number);
                    continue;
                }
                Cell cell = get("cell" + i);
                cell.write(new Content(i, number));
                if (kind == KIND_DISK) {
                    cell.writeToDisk(new Content(i, number));
                }
            }
        });
    }

    /// A transaction that changes everything, and fails.
    private void rollBack(int number) {
        try {
            pool.transact(() -> {
                for (int i = 0; i < CELLS; i++) {
                    makeAnew(i, -number);
                }
                columns.change(number + 1);
                throw new UnsupportedOperationException("on purpose");
            });
            throw new AssertionError("what failed has been committed");
        } catch (UnsupportedOperationException expected) {
            // All is as it was, which the next look at it finds out.
        }
    }

    private void model(int number) {
        for (; modelled < number; modelled++) {
            int kind = kind(modelled + 1);
            if (kind != KIND_ALONE) {
                columns.model(modelled + 1);
                for (int i : cells(modelled + 1)) {
                    inPmem[i] = modelled + 1;
                    if (kind == KIND_DISK || kind == KIND_MADE_ANEW) {
                        onDisk[i] = modelled + 1;
                    }
                }
            }
        }
    }

    private record Snapshot(
            int number, List<String> inPmem, List<String> onDisk, List<String> inColumns) {}

    private Snapshot look() {
        List<String> found = new ArrayList<>();
        List<String> foundOnDisk = new ArrayList<>();
        int number = get("count").number();
        for (int i = 0; i < CELLS; i++) {
            Cell cell = get("cell" + i);
            found.add(cell.inPmem());
            foundOnDisk.add(cell.onDisk());
        }
        return new Snapshot(number, found, foundOnDisk, columns.look());
    }

    /// Looks at all there is.
    ///
    /// @return the number of the last transaction
    /// @throws AssertionError if something is not as that one left it, or that one is older than
    ///   one seen before
    int verify() {
        Snapshot found = pool.read(this::look);
        if (found.number < modelled) {
            throw new AssertionError(
                    "transaction "
                            + found.number
                            + " is the last, and "
                            + modelled
                            + " was seen before");
        }
        model(found.number);
        columns.expect(found.number, found.inColumns);
        for (int i = 0; i < CELLS; i++) {
            expect(i, found.number, new Content(i, inPmem[i]).inPmem(), found.inPmem.get(i));
            expect(i, found.number, new Content(i, onDisk[i]).onDisk(), found.onDisk.get(i));
        }
        return found.number;
    }

    private static void expect(int cell, int number, String expected, String found) {
        if (!expected.equals(found)) {
            throw new AssertionError(
                    "after transaction "
                            + number
                            + " cell "
                            + cell
                            + " is "
                            + found
                            + ", and should be "
                            + expected);
        }
    }

    /// A process that works until it is killed, or one that reads until it is told to end.
    static final class Main {
        /// Role, pool's directory, disk's directory.
        public static void main(String[] arguments) throws IOException {
            PoolOptions options = options(Path.of(arguments[2])).existing();
            if (arguments[0].equals("write")) {
                try (Pool pool = Pool.open(Path.of(arguments[1]), options)) {
                    write(new KillWorkload(pool));
                }
            } else {
                try (Pool pool = Pool.open(Path.of(arguments[1]), options.toRead())) {
                    read(new KillWorkload(pool));
                }
            }
        }

        private static void write(KillWorkload workload) {
            int number = workload.verify();
            System.out.println(number);
            while (true) {
                workload.step(++number);
                System.out.println(number);
            }
        }

        /// Answers each line with the number of the transaction that it sees then.
        private static void read(KillWorkload workload) throws IOException {
            System.out.println(workload.verify());
            int looks = 0;
            while (true) {
                int number = workload.verify();
                looks++;
                if (System.in.available() > 0) {
                    String said = readLine();
                    if (said.equals("end")) {
                        System.out.println(looks);
                        return;
                    }
                    System.out.println(Math.max(number, workload.verify()));
                }
            }
        }

        private static String readLine() throws IOException {
            StringBuilder line = new StringBuilder();
            for (int c = System.in.read(); c != '\n' && c >= 0; c = System.in.read()) {
                line.append((char) c);
            }
            return line.toString();
        }
    }
}
