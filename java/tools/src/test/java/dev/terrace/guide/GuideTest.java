package dev.terrace.guide;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.Backup;
import dev.terrace.objects.Backups;
import dev.terrace.objects.CompactionReport;
import dev.terrace.objects.Cursor;
import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolMXBean;
import dev.terrace.objects.PoolOptions;
import dev.terrace.objects.PoolReadOnlyException;
import dev.terrace.objects.PoolReport;
import dev.terrace.objects.Profile;
import dev.terrace.objects.Profiling;
import dev.terrace.objects.RetierReport;
import dev.terrace.objects.StaleReferenceException;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.TerraceException;
import dev.terrace.objects.arrow.ArrowExport;
import dev.terrace.objects.arrow.ArrowFormat;
import dev.terrace.objects.collections.DurableArray;
import dev.terrace.objects.collections.DurableList;
import dev.terrace.objects.collections.DurableMap;
import dev.terrace.objects.collections.DurableTree;
import dev.terrace.objects.collections.ElementType;
import dev.terrace.objects.placement.ProfileFile;
import dev.terrace.objects.remote.HadoopSegments;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.math.BigDecimal;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.ConcurrentModificationException;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import javax.management.JMException;
import javax.management.JMX;
import javax.management.ObjectName;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.IntVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowReader;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// All Java that `GUIDE.md` shows is quoted from here, or from the classes beside this; so it
/// compiles and runs.
class GuideTest {
    private static final Path PAGE = Path.of("..", "docs", "GUIDE.md");
    private static final Path SOURCES = Path.of("src", "test", "java", "dev", "terrace", "guide");
    private static final Pattern FILE =
            Pattern.compile(
                    "`[\\w./-]+\\.java`:\n\n```java\n(.*?)^```$",
                    Pattern.DOTALL | Pattern.MULTILINE);
    private static final Pattern JAVA =
            Pattern.compile("^```java\n(.*?)^```$", Pattern.DOTALL | Pattern.MULTILINE);

    @TempDir Path dir;

    private final PoolOptions options = PoolOptions.defaults().extents(1 << 20);

    private DurablePerson bob(Pool pool) {
        DurablePerson bob = DurablePerson.create(pool);
        pool.root("bob", DurablePerson.class).set(bob);
        bob.setName("Bob");
        bob.setAge(11);
        return bob;
    }

    @Test
    void theFirstPool() throws IOException {
        try (Pool pool = Pool.open(dir, options)) {
            DurablePerson bob = DurablePerson.create(pool);
            bob.setName("Bob");
            bob.setAge(11);
            pool.root("bob", DurablePerson.class).set(bob);
        }
        String seen;
        try (Pool pool = Pool.open(dir, options)) {
            DurablePerson bob = pool.root("bob", DurablePerson.class).get();
            seen = bob.getName() + " is " + bob.getAge();
        }
        assertEquals("Bob is 11", seen);
    }

    @Test
    void tagsThatAProfileFinds() throws IOException {
        try (Pool pool = Pool.open(dir, options)) {
            bob(pool).setImage(new byte[100]);
            Profile profile;
            try (Profiling profiling = pool.profile()) {
                search(pool);
                profile = profiling.profile();
            }
            ProfileFile.write(dir.resolve("people.profile.json"), profile);
            assertEquals(profile, ProfileFile.read(dir.resolve("people.profile.json")));
            Map<String, List<StorageTier>> found = Map.of("image", List.of(StorageTier.PMEM));
            RetierReport moved = pool.place("dev.terrace.guide.Person", found);
            assertEquals(1, moved.valuesMoved());
            assertEquals(found, pool.placements().get("dev.terrace.guide.Person"));
        }
    }

    private static void search(Pool pool) {
        Cursor<DurablePerson> people = pool.cursor(DurablePerson.TYPE);
        while (people.next()) {
            assertEquals(11, people.get().getAge());
        }
    }

    @Test
    void exportToArrow() throws IOException {
        try (Pool pool = Pool.open(dir, options)) {
            bob(pool);
            ArrowExport people = ArrowExport.of(pool, DurablePerson.TYPE);
            long rows = people.save(dir.resolve("people.arrow"), ArrowFormat.FILE);
            assertEquals(1, rows);
            long ages = 0;
            try (BufferAllocator allocator = new RootAllocator();
                    ArrowReader reader =
                            people.columns("@id", "age").batches(1000).reader(allocator)) {
                VectorSchemaRoot batch = reader.getVectorSchemaRoot();
                while (reader.loadNextBatch()) {
                    IntVector column = (IntVector) batch.getVector("age");
                    for (int row = 0; row < batch.getRowCount(); row++) {
                        ages += column.get(row);
                    }
                }
            }
            assertEquals(11, ages);
        }
    }

    @Test
    void plainObjects() throws IOException {
        try (Pool pool = Pool.open(dir, options)) {
            Person person = new Person();
            person.name = "Eve";
            person.home = new Address("High Street", 1234);
            DurablePerson eve = DurablePerson.of(pool, person);
            eve.setHomeStreet("Low Street");
            Person copy = eve.toPerson();
            assertEquals(new Address("Low Street", 1234), copy.home);
            assertEquals("High Street", person.home.street());
        }
    }

    @Test
    void transactions() throws IOException {
        try (Pool pool = Pool.open(dir, options)) {
            DurablePerson bob = bob(pool);
            pool.transact(() -> {
                bob.setAge(12);
                bob.setPlace("Chile");
            });
            try {
                pool.transact(() -> {
                    bob.setAge(13);
                    throw new IllegalStateException("changed my mind");
                });
            } catch (IllegalStateException e) {
                assertEquals(12, bob.getAge());
            }
            String both = pool.read(() -> bob.getName() + " of " + bob.getPlace());
            assertEquals("Bob of Chile", both);
        }
    }

    @Test
    void lifetime() throws IOException {
        try (Pool pool = Pool.open(dir, options)) {
            DurablePerson bob = bob(pool);
            DurablePerson eve = DurablePerson.create(pool);
            eve.setBoss(bob);
            bob.delete();
            assertFalse(bob.isAlive());
            assertThrows(StaleReferenceException.class, () -> bob.getAge());
            assertThrows(StaleReferenceException.class, () -> eve.getBoss());
            eve.setBoss(null);
            pool.root("bob", DurablePerson.class).set(null);

            PoolReport report = pool.check();
            assertEquals(1, report.leaked().get("dev.terrace.guide.Person"));
            pool.collect();
            assertFalse(eve.isAlive());

            CompactionReport compacted = pool.compact();
            assertEquals(0, compacted.valuesMoved());
        }
    }

    @Test
    void dataThatNeverChange() throws IOException {
        try (Pool pool = Pool.open(dir, options)) {
            DurablePerson bob = bob(pool);
            int age = bob.getAge();

            pool.seal();
            assertThrows(PoolReadOnlyException.class, () -> bob.setAge(12));
            assertEquals(age, bob.getAge());
        }
        assertThrows(PoolReadOnlyException.class, () -> Pool.open(dir, options));
        Pool.open(dir, options.toRead()).close();
    }

    @Test
    void arraysAndCursors() throws IOException {
        try (Pool pool = Pool.open(dir, options)) {
            DurablePerson bob = bob(pool);
            bob.setPosition(2, 1.5);
            bob.setImage(new byte[10_000]);
            assertEquals(10_000, bob.getImageLength());

            double sum = 0;
            double[] position = new double[3];
            Cursor<DurablePerson> people = pool.cursor(DurablePerson.TYPE);
            while (people.next()) {
                people.get().copyPosition(position);
                sum += position[2] * people.get().getAge();
            }
            assertEquals(16.5, sum);

            int[] ages = new int[Cursor.BATCH_MAX];
            double[] positions = new double[3 * Cursor.BATCH_MAX];
            double all = 0;
            people = pool.cursor(DurablePerson.TYPE);
            for (int count = people.nextBatch(); count > 0; count = people.nextBatch()) {
                DurablePerson.copyAge(people, ages, 0);
                DurablePerson.copyPosition(people, positions, 0);
                for (int i = 0; i < count; i++) {
                    all += positions[3 * i + 2] * ages[i];
                }
            }
            assertEquals(16.5, all);

            bob.setPlace("Chile");
            int found = 0;
            people = pool.cursor(DurablePerson.TYPE);
            while (people.next()) {
                found += people.get().placeEquals("Chile") ? 1 : 0;
            }
            assertEquals(bob, people.at(bob.reference()));
            assertEquals(1, found);
        }
    }

    @Test
    void collectionsAsRoots() throws IOException {
        try (Pool pool = Pool.open(dir, options)) {
            DurableList<String> log = DurableList.root(pool, "log", ElementType.STRING);
            DurableMap<String, Long> counts =
                    DurableMap.root(pool, "counts", ElementType.STRING, ElementType.LONG);
            DurableTree<Integer, DurablePerson> byAge =
                    DurableTree.root(
                            pool,
                            "by age",
                            ElementType.INTEGER,
                            ElementType.of(DurablePerson.TYPE));
            DurableArray<Double> weights =
                    DurableArray.root(pool, "weights", ElementType.DOUBLE, 1000);
            log.add("opened");
            counts.merge("opened", 1L, Long::sum);
            byAge.put(11, bob(pool));
            weights.set(999, 0.5);
            assertEquals("Bob", byAge.firstEntry().getValue().getName());
            assertEquals(List.of(), List.copyOf(byAge.tailMap(12).values()));
            assertNull(weights.get(0));

            pool.transact(() -> {
                log.add("counted");
                counts.merge("counted", 1L, Long::sum);
            });
            long sum = pool.read(() -> counts.values().stream().mapToLong(Long::longValue).sum());
            assertEquals(2, sum);

            byAge.remove(11).delete();
            log.delete();
            pool.removeRoot("log");
            assertThrows(StaleReferenceException.class, () -> log.get(0));
            assertEquals(1, pool.check().staleReferences(), "the root that led to Bob");
        }
    }

    @Test
    void decimalsAsKeys() throws IOException {
        try (Pool pool = Pool.open(dir, options)) {
            BigDecimal two = new BigDecimal("2.0");
            BigDecimal same = new BigDecimal("2.00");
            DurableMap<BigDecimal, String> hashed =
                    DurableMap.root(pool, "by hash", ElementType.BIG_DECIMAL, ElementType.STRING);
            hashed.put(two, "two");
            assertNull(hashed.get(same));
            DurableTree<BigDecimal, String> sorted =
                    DurableTree.root(pool, "by order", ElementType.BIG_DECIMAL, ElementType.STRING);
            sorted.put(two, "two");
            assertEquals("two", sorted.get(same));
        }
    }

    @Test
    void collectionsAsFields() throws IOException {
        try (Pool pool = Pool.open(dir, options)) {
            DurablePerson bob = bob(pool);
            DurablePerson eve = DurablePerson.create(pool);
            DurableTeam team = DurableTeam.create(pool);
            assertNull(team.getMembers());
            team.setMembers(List.of(bob));
            team.getMembers().add(eve);
            team.setScores(new TreeMap<>(Map.of("spring", 3, "summer", 5)));
            team.getScores().merge("summer", 1, Integer::sum);
            assertEquals(6, team.getScores().get("summer"));

            DurableList<DurablePerson> before = team.getMembers();
            team.setMembers(List.of(eve));
            assertFalse(before.isAlive());
            assertTrue(bob.isAlive());
        }
    }

    @Test
    void iteration() throws IOException {
        try (Pool pool = Pool.open(dir, options)) {
            DurableList<Integer> numbers = DurableList.root(pool, "numbers", ElementType.INTEGER);
            numbers.addAll(List.of(1, 2, 3, 4));
            numbers.removeIf(number -> number % 2 == 1);
            assertThrows(
                    ConcurrentModificationException.class,
                    () -> {
                        for (int number : numbers) {
                            numbers.add(number);
                        }
                    });
            List<Integer> asOfOneCommit = List.copyOf(numbers);
            assertEquals(List.of(2, 4, 2), asOfOneCommit);
        }
    }

    @Test
    void watching() throws IOException, JMException {
        try (Pool pool = Pool.open(dir, options.withJmx())) {
            bob(pool);
            String directory = ObjectName.quote(dir.toRealPath().toString());
            PoolMXBean bean =
                    JMX.newMXBeanProxy(
                            ManagementFactory.getPlatformMBeanServer(),
                            new ObjectName(
                                    "dev.terrace.objects:type=Pool,access=write,directory="
                                            + directory),
                            PoolMXBean.class);
            assertEquals(pool.statistics().commits(), bean.getCommits());
            assertTrue(bean.getTiers().get("pmem").used() > 0);
        }
    }

    @Test
    void fieldsInMemory() throws IOException {
        try (Pool pool = Pool.open(dir, options)) {
            DurablePerson bob = bob(pool);
            assertEquals(22.0, bob.getScore());
            bob.setAge(20);
            assertEquals(22.0, bob.getScore());
            bob.clearScore();
            assertEquals(40.0, bob.getScore());
        }
    }

    @Test
    void options() throws IOException {
        Path ssd = Files.createDirectory(dir.resolve("ssd"));
        Path hdd = Files.createDirectory(dir.resolve("hdd"));
        Path place = dir.resolve("people");
        PoolOptions large =
                PoolOptions.defaults()
                        .extents(4 << 20)
                        .pmem(8L << 30)
                        .disk(StorageTier.SSD, ssd, 100L << 30)
                        .disk(StorageTier.HDD, hdd);
        try (Pool pool = Pool.open(place, large)) {
            bob(pool).setImage(new byte[10_000]);
        }
        try (Pool pool = Pool.open(place, large.toRead())) {
            DurablePerson bob = pool.root("bob", DurablePerson.class).get();
            assertThrows(PoolReadOnlyException.class, () -> bob.setAge(12));
        }
        assertTrue(Files.exists(ssd.resolve("disk-0")));
        assertEquals(0, Files.size(hdd.resolve("disk-1")));
    }

    @Test
    void aRemoteTier() throws IOException {
        Path place = dir.resolve("people");
        PoolOptions large = options;
        URI directory = dir.resolve("segments").toUri();
        try (HadoopSegments segments = HadoopSegments.open(directory);
                Pool pool = Pool.open(place, large.remote(segments))) {
            assertEquals(3, pool.statistics().used().size(), "persistent memory, a disk, segments");
        }
    }

    @Test
    void aBackup() throws IOException {
        Path place = dir.resolve("people");
        Path safe = dir.resolve("safe");
        Path copy = dir.resolve("copy");
        try (Pool pool = Pool.open(place, options)) {
            pool.root("bob", DurablePerson.class).set(DurablePerson.create(pool));
        }
        Backups backups = Backups.in(safe);
        Backup backup;
        try (Pool pool = Pool.open(place, options.toRead())) {
            backup = backups.add(pool);
        }
        backups.restore(backup.number(), copy, options);
        backups.keep(7);
        try (Pool pool = Pool.open(copy, options)) {
            assertTrue(bob(pool).isAlive());
        }
    }

    @Test
    void failures() throws IOException {
        String message = null;
        try (Pool pool = Pool.open(dir.resolve("nowhere"), options.existing())) {
            bob(pool).setAge(12);
        } catch (TerraceException e) {
            message = e.getMessage();
        }
        assertEquals(
                dir.resolve("nowhere") + " is not there, so it is no pool: look at the path",
                message);
    }

    @Test
    void aClassThatHasChanged() throws IOException {
        try (Pool pool = Pool.open(dir, options)) {
            DurableCustomer customer = DurableCustomer.create(pool);
            customer.setPoints(1L << 40);
            assertNull(customer.getEmail());
            assertEquals(List.of("dev.terrace.guide.Client"), DurableCustomer.TYPE.formerly());

            RetierReport retiered = pool.retier(DurableCustomer.TYPE);
            assertEquals(0, retiered.valuesLeft());
        }
    }

    // The page

    /// Lines without what they are all indented by.
    private static String unindented(String text) {
        return text.lines()
                .map(String::strip)
                .filter(line -> !line.isEmpty())
                .collect(Collectors.joining("\n"));
    }

    @Test
    void theGuideQuotesThis() throws IOException {
        List<String> sources = new ArrayList<>();
        try (var files = Files.list(SOURCES)) {
            for (Path file : files.sorted().toList()) {
                sources.add(unindented(Files.readString(file)));
            }
        }
        // What is a file of its own is built by FromZeroIT.
        String page = FILE.matcher(Files.readString(PAGE)).replaceAll("");
        Matcher blocks = JAVA.matcher(page);
        int count = 0;
        while (blocks.find()) {
            String block = unindented(blocks.group(1));
            assertTrue(
                    sources.stream().anyMatch(source -> source.contains(block)),
                    () -> "not in any source:\n" + block);
            count++;
        }
        assertEquals(page.split("```java", -1).length - 1, count, "all blocks have been found");
        assertTrue(count > 0);
    }

    @Test
    void theGuideNamesAllFailures() throws IOException {
        TreeSet<String> named = new TreeSet<>();
        Matcher rows =
                Pattern.compile("^\\| `(\\w+Exception)` \\|", Pattern.MULTILINE)
                        .matcher(Files.readString(PAGE));
        while (rows.find()) {
            named.add(rows.group(1));
        }
        TreeSet<String> coded =
                Arrays.stream(TerraceException.class.getPermittedSubclasses())
                        .map(Class::getSimpleName)
                        .collect(Collectors.toCollection(TreeSet::new));
        assertEquals(coded, named);
    }
}
