package dev.terrace.example;

import dev.terrace.objects.Cursor;
import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolOptions;
import dev.terrace.objects.PoolStatistics;
import dev.terrace.objects.StorageTier;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.TreeMap;

/// Makes people, searches them, has a process that moves them killed in mid-write, and searches
/// what that has left.
final class People {
    private static final String[] PLACES = {
        "Chile", "India", "Japan", "Kenya", "Malta", "Nepal", "Peru", "Samoa"
    };
    private static final String[] NAMES = {
        "Ada", "Bob", "Eve", "Grace", "Ken", "Lin", "Mei", "Tim"
    };
    private static final int AGES = 100;
    private static final int PER_TRANSACTION = 1000;
    private static final String SOUGHT_PLACE = "Chile";
    private static final int SOUGHT_AGE = 97;
    private static final double MIB = 1 << 20;

    private final Path pmem;
    private final Path disk;
    private final int count;
    private final int moves;
    private final PrintStream out;

    /// People in a pool in the directory `pmem`, which becomes one, and their images in the
    /// directory `disk`; the other process is killed after so many moves.
    People(Path pmem, Path disk, int count, int moves, PrintStream out) {
        this.pmem = pmem;
        this.disk = disk;
        this.count = count;
        this.moves = moves;
        this.out = out;
    }

    /// Directory in persistent memory, directory on a disk, how many people, how many moves until
    /// the process is killed that moves them. No moves: it is that process.
    public static void main(String[] arguments) throws IOException {
        int count = Integer.parseInt(arguments[2]);
        int moves = Integer.parseInt(arguments[3]);
        People people =
                new People(Path.of(arguments[0]), Path.of(arguments[1]), count, moves, System.out);
        if (moves > 0) {
            people.show();
        } else {
            people.moveForever();
        }
    }

    private Pool open() throws IOException {
        return Pool.open(
                pmem, PoolOptions.defaults().extents(16 << 20).disk(StorageTier.SSD, disk));
    }

    /// Shows it all.
    void show() throws IOException {
        String before;
        try (Pool pool = open()) {
            step(
                    count
                            + " people: age and place in PMEM, name in PMEM or on disk, an image on"
                            + " disk, score in DRAM");
            long start = System.nanoTime();
            make(pool);
            out.printf("made in %.1f s%n", seconds(start));
            printTiers(pool);
            search(pool);
            before = census(pool);
        }
        step(
                "Another process has people of two places change places, in one transaction each,"
                        + " and is killed meanwhile");
        int moved = moveAndKill();
        out.printf("SIGKILL after %d moves%n", moved);
        step("The pool is opened again");
        long start = System.nanoTime();
        try (Pool pool = open()) {
            out.printf("opened in %.1f ms%n", seconds(start) * 1e3);
            String after = census(pool);
            if (!after.equals(before)) {
                throw new IllegalStateException(
                        "there were " + before + ", and now there are " + after);
            }
            out.println("nobody is missing, or half moved: " + after);
            search(pool);
        }
    }

    private void step(String what) {
        out.println();
        out.println("==> " + what);
    }

    private static double seconds(long since) {
        return (System.nanoTime() - since) / 1e9;
    }

    private void make(Pool pool) {
        Random random = new Random(1);
        byte[] image = new byte[Person.IMAGE_BYTES];
        for (int made = 0; made < count; made += PER_TRANSACTION) {
            int end = Math.min(count, made + PER_TRANSACTION);
            int begin = made;
            pool.transact(() -> {
                for (int i = begin; i < end; i++) {
                    DurablePerson person = DurablePerson.create(pool);
                    person.setAge(random.nextInt(AGES));
                    person.setPlace(PLACES[i % PLACES.length]);
                    person.setName(NAMES[random.nextInt(NAMES.length)] + " the " + i + "th");
                    Arrays.fill(image, (byte) i);
                    person.setImage(image);
                }
            });
        }
    }

    private void printTiers(Pool pool) {
        PoolStatistics statistics = pool.statistics();
        out.printf(
                "PMEM: %.1f MiB, %.0f bytes for each%n",
                statistics.used().get(0) / MIB, perPerson(statistics, 0));
        out.printf(
                "disk: %.1f MiB, %.0f bytes for each%n",
                statistics.used().get(1) / MIB, perPerson(statistics, 1));
    }

    private double perPerson(PoolStatistics statistics, int tier) {
        return (double) statistics.used().get(tier) / count;
    }

    /// Finds people by fields in persistent memory, and then reads the images of those.
    private void search(Pool pool) {
        long start = System.nanoTime();
        List<DurablePerson> found = new ArrayList<>();
        Cursor<DurablePerson> cursor = pool.cursor(DurablePerson.TYPE);
        while (cursor.next()) {
            DurablePerson person = cursor.get();
            if (person.getAge() >= SOUGHT_AGE && person.placeEquals(SOUGHT_PLACE)) {
                found.add(cursor.copy());
            }
        }
        out.printf(
                "%d of them are %d or older and live in %s: found in %.1f ms, no image was read%n",
                found.size(), SOUGHT_AGE, SOUGHT_PLACE, seconds(start) * 1e3);
        start = System.nanoTime();
        DurablePerson best = null;
        for (DurablePerson person : found) {
            if (best == null || person.getScore() > best.getScore()) {
                best = person;
            }
        }
        if (best != null) {
            out.printf(
                    "%s has the best image of them, with a score of %.0f: %d images read in %.1f"
                            + " ms%n",
                    best.getName(), best.getScore(), found.size(), seconds(start) * 1e3);
        }
    }

    /// How many people there are in each place, and how old all are together.
    private static String census(Pool pool) {
        TreeMap<String, Integer> places = new TreeMap<>();
        long ages = 0;
        Cursor<DurablePerson> cursor = pool.cursor(DurablePerson.TYPE);
        while (cursor.next()) {
            places.merge(String.valueOf(cursor.get().getPlace()), 1, Integer::sum);
            ages += cursor.get().getAge();
        }
        return places + ", " + ages + " years old together";
    }

    /// Runs [#moveForever()] in another process, and kills that.
    ///
    /// @return how many moves it had finished
    private int moveAndKill() throws IOException {
        Process process =
                new ProcessBuilder(
                                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                                "-cp",
                                System.getProperty("java.class.path"),
                                People.class.getName(),
                                pmem.toString(),
                                disk.toString(),
                                "0",
                                "0")
                        .redirectError(ProcessBuilder.Redirect.INHERIT)
                        .start();
        try (BufferedReader lines = process.inputReader()) {
            int last = 0;
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                last = Integer.parseInt(line);
                if (last == moves) {
                    process.toHandle().destroyForcibly();
                }
            }
            if (last < moves) {
                throw new IllegalStateException("the process has ended after " + last + " moves");
            }
            return last;
        } finally {
            process.toHandle().destroyForcibly();
            process.onExit().join();
        }
    }

    /// Has two people change places, and the one give the other a year, again and again; says how
    /// often.
    private void moveForever() throws IOException {
        try (Pool pool = open()) {
            List<DurablePerson> people = new ArrayList<>();
            Cursor<DurablePerson> cursor = pool.cursor(DurablePerson.TYPE);
            while (cursor.next()) {
                people.add(cursor.copy());
            }
            Random random = new Random(2);
            for (int done = 1; ; done++) {
                DurablePerson one = people.get(random.nextInt(people.size()));
                DurablePerson other = people.get(random.nextInt(people.size()));
                pool.transact(() -> {
                    String place = one.getPlace();
                    one.setPlace(other.getPlace());
                    other.setPlace(place);
                    one.setAge(one.getAge() + 1);
                    other.setAge(other.getAge() - 1);
                });
                System.out.println(done);
            }
        }
    }
}
