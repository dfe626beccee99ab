package dev.terrace.objects;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.regex.Pattern;
import javax.management.Attribute;
import javax.management.InstanceNotFoundException;
import javax.management.JMException;
import javax.management.JMX;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import javax.management.RuntimeMBeanException;
import javax.management.openmbean.CompositeData;
import javax.management.openmbean.TabularData;
import org.junit.jupiter.api.Test;

/// Programs that watch this one see of a pool what the pool says itself, as long as it is open.
class PoolMXBeanTest extends RemoteRig {
    private static final MBeanServer SERVER = ManagementFactory.getPlatformMBeanServer();
    private static final PoolOptions SMALL = PoolOptions.defaults().extents(1 << 20).withJmx();

    private static ObjectName name(Path directory, String access, String rest)
            throws IOException, JMException {
        return new ObjectName(
                "dev.terrace.objects:type=Pool,access="
                        + access
                        + ",directory="
                        + ObjectName.quote(directory.toRealPath().toString())
                        + rest);
    }

    private static PoolMXBean bean(Path directory, String access) throws IOException, JMException {
        return JMX.newMXBeanProxy(SERVER, name(directory, access, ""), PoolMXBean.class);
    }

    /// The names of all beans of pools in this test's directory, without what all have.
    private Set<String> beans() throws JMException {
        String ours = dir.toString();
        Set<String> names = new TreeSet<>();
        for (ObjectName name : SERVER.queryNames(new ObjectName("dev.terrace.objects:*"), null)) {
            String directory = ObjectName.unquote(name.getKeyProperty("directory"));
            if (directory.startsWith(ours)) {
                String number = name.getKeyProperty("number");
                names.add(
                        directory.substring(ours.length())
                                + " "
                                + name.getKeyProperty("access")
                                + (number == null ? "" : " " + number));
            }
        }
        return names;
    }

    private static void agrees(PoolMXBean bean, Pool pool) {
        PoolStatistics statistics = pool.statistics();
        assertEquals(statistics.commits(), bean.getCommits());
        assertEquals(statistics.rollbacks(), bean.getRollbacks());
        assertEquals(statistics.logBytes(), bean.getLogBytes());
        Map<String, PoolMXBean.TierBytes> tiers = new LinkedHashMap<>();
        for (int i = 0; i < statistics.tiers().size(); i++) {
            tiers.put(
                    statistics.tiers().get(i),
                    new PoolMXBean.TierBytes(
                            statistics.used().get(i), statistics.capacity().get(i)));
        }
        assertEquals(tiers, bean.getTiers());
        assertEquals(pool.promotedBytes(), bean.getPromotedBytes());
        assertEquals(pool.demotedBytes(), bean.getDemotedBytes());
        assertEquals(statistics.requests().reads(), bean.getSegmentReads());
        assertEquals(statistics.requests().readBytes(), bean.getSegmentReadBytes());
        assertEquals(statistics.requests().writes(), bean.getSegmentWrites());
        assertEquals(statistics.requests().writtenBytes(), bean.getSegmentWrittenBytes());
        assertEquals(statistics.requests().cachedBytes(), bean.getCachedBytes());
        assertEquals(pool.isSealed(), bean.isSealed());
    }

    @Test
    void itSaysWhatThePoolSays() throws Exception {
        try (Pool pool = Pool.open(dir, options.withJmx())) {
            PoolMXBean bean = bean(dir, "write");
            agrees(bean, pool);
            assertEquals(dir.toRealPath().toString(), bean.getDirectory());
            assertFalse(bean.isReadOnly());
            make(pool, "far", bytes(7, 100_000));
            DurablePerson bob = DurablePerson.create(pool);
            bob.setImage(new byte[3000]);
            long commits = bean.getCommits();
            bob.setAge(1);
            bob.setAge(2);
            assertEquals(commits + 2, bean.getCommits());
            assertThrows(
                    IllegalStateException.class,
                    () ->
                            pool.transact(() -> {
                                bob.setName("none");
                                throw new IllegalStateException();
                            }));
            assertEquals(1, bean.getRollbacks());
            assertTrue(bean.getLogBytes() > 0);
            assertEquals(1, bean.getSegmentWrites());
            assertTrue(bean.getSegmentWrittenBytes() > 100_000);
            assertEquals(Set.of("pmem", "disk-0 ssd", "remote"), bean.getTiers().keySet());
            PoolMXBean.TierBytes disk = Objects.requireNonNull(bean.getTiers().get("disk-0 ssd"));
            assertTrue(disk.used() >= 3000, disk::toString);
            assertEquals(1 << 20, disk.capacity());
            assertEquals(0, bean.getSegmentReads());
            agrees(bean, pool);
        }
        try (Pool pool = Pool.open(dir, options.toRead().withJmx())) {
            PoolMXBean bean = bean(dir, "read");
            agrees(bean, pool);
            for (int i = 0; i < 3; i++) {
                assertEquals(100_000, Objects.requireNonNull(thing(pool, "far").getBytes()).length);
            }
            assertTrue(bean.isReadOnly());
            assertEquals(1, bean.getSegmentReads(), "later reads need no request");
            assertEquals(100_000, bean.getSegmentReadBytes());
            assertEquals(100_000, bean.getCachedBytes());
            agrees(bean, pool);
        }
    }

    @Test
    void movesAndASealAreSeen() throws Exception {
        try (Pool pool = Pool.open(dir, SMALL.pmem(1 << 20))) {
            PoolMXBean bean = bean(dir, "write");
            List<DurablePerson> people = new ArrayList<>();
            for (int i = 0; bean.getDemotedBytes() == 0; i++) {
                people.add(DurablePerson.create(pool));
                people.getLast().setName(("name " + i).repeat(400));
                assertTrue(i < 10_000, "a pool of a MiB takes 10,000 names");
            }
            assertEquals(pool.demotedBytes(), bean.getDemotedBytes());
            people.removeFirst();
            people.forEach(DurableObject::delete);
            long until = System.nanoTime() + SECONDS.toNanos(60);
            while (bean.getPromotedBytes() == 0 && System.nanoTime() < until) {
                Thread.onSpinWait();
            }
            assertTrue(bean.getPromotedBytes() > 0, "a name returns once there is room");
            assertFalse(bean.isSealed());
            pool.seal();
            assertTrue(bean.isSealed());
            agrees(bean, pool);
        }
    }

    /// A slot, and a run of chunks.
    @Test
    void theBytesInUseAreThoseOfWholeParts() throws Exception {
        ObjectType<Thing> type = Thing.on(StorageTier.PMEM);
        try (Pool pool = Pool.open(dir, SMALL)) {
            PoolMXBean bean = bean(dir, "write");
            Thing thing = pool.create(type);
            long before = used(bean.getTiers());
            for (int length : new int[] {100, 200_000, 0}) {
                thing.setBytes(length == 0 ? null : new byte[length]);
                long expected = length == 0 ? 0 : StoredSize.inPmem(length);
                assertEquals(expected, used(bean.getTiers()) - before, length + " bytes");
            }
        }
    }

    /// A program without this library's classes understands all attributes, and can set none.
    @Test
    void programsWithoutTheLibraryUnderstandIt() throws Exception {
        try (Pool pool = Pool.open(dir, SMALL)) {
            ObjectName name = name(dir, "write", "");
            for (var attribute : SERVER.getMBeanInfo(name).getAttributes()) {
                assertTrue(attribute.isReadable() && !attribute.isWritable());
                Object value = SERVER.getAttribute(name, attribute.getName());
                assertEquals(Object.class.getClassLoader(), value.getClass().getClassLoader());
            }
            assertEquals(14, SERVER.getMBeanInfo(name).getAttributes().length);
            assertEquals(0, SERVER.getMBeanInfo(name).getOperations().length);
            assertThrows(
                    JMException.class,
                    () -> SERVER.setAttribute(name, new Attribute("Commits", 1L)));
            TabularData tiers =
                    assertInstanceOf(TabularData.class, SERVER.getAttribute(name, "Tiers"));
            CompositeData pmem = tiers.get(new Object[] {"pmem"});
            CompositeData bytes = assertInstanceOf(CompositeData.class, pmem.get("value"));
            assertEquals(pool.statistics().used().getFirst(), bytes.get("used"));
            assertEquals(pool.statistics().capacity().getFirst(), bytes.get("capacity"));
        }
    }

    @Test
    void theGuideNamesAllAttributes() throws Exception {
        String page = Files.readString(Path.of("..", "docs", "GUIDE.md"));
        List<String> rows =
                page.substring(page.indexOf("| attribute | unit |")).lines().skip(2).toList();
        Set<String> named = new TreeSet<>();
        for (String row : rows.subList(0, rows.indexOf(""))) {
            String names = row.substring(0, row.indexOf('|', 1));
            Pattern.compile("`(\\w+)`")
                    .matcher(names)
                    .results()
                    .forEach(match -> named.add(match.group(1)));
        }
        try (Pool pool = Pool.open(dir, SMALL)) {
            Set<String> there = new TreeSet<>();
            for (var attribute : SERVER.getMBeanInfo(name(dir, "write", "")).getAttributes()) {
                there.add(attribute.getName());
            }
            assertEquals(there, named);
            assertTrue(pool.rootNames().isEmpty());
        }
    }

    @Test
    void itIsThereAsLongAsThePoolIs() throws Exception {
        Path odd = dir.resolve("a,b=\"c\"*?\\ d");
        try (Pool plain = Pool.open(odd, PoolOptions.defaults().extents(1 << 20))) {
            assertEquals(Set.of(), beans(), "nobody has asked for one");
            Pool again = Pool.open(odd, SMALL);
            assertEquals(plain, again);
            assertEquals(Set.of("/a,b=\"c\"*?\\ d write"), beans());
            assertEquals(odd.toRealPath().toString(), bean(odd, "write").getDirectory());
            Pool third = Pool.open(odd, SMALL);
            third.close();
            again.close();
            assertEquals(1, beans().size(), "it is still open");
            agrees(bean(odd, "write"), plain);
        }
        assertEquals(Set.of(), beans());
        Pool.open(odd, SMALL).close();
        assertEquals(Set.of(), beans());
    }

    @Test
    void eachPoolHasItsOwn() throws Exception {
        Pool one = Pool.open(dir.resolve("one"), SMALL);
        try (Pool reader = Pool.open(dir.resolve("one"), SMALL.toRead());
                Pool two = Pool.open(dir.resolve("two"), SMALL)) {
            assertEquals(Set.of("/one read", "/one write", "/two write"), beans());
            two.transact(() -> DurablePerson.create(two).setName("a name of some length"));
            agrees(bean(dir.resolve("one"), "write"), one);
            agrees(bean(dir.resolve("one"), "read"), reader);
            agrees(bean(dir.resolve("two"), "write"), two);
            one.close();
            assertEquals(Set.of("/one read", "/two write"), beans());
        }
        assertEquals(Set.of(), beans());
    }

    /// As in a server that runs several programs.
    @Test
    void anotherClassLoaderHasItsOwn() throws Exception {
        Path place = dir.resolve("pool");
        Pool.open(place, SMALL).close();
        List<URL> path = new ArrayList<>();
        for (String each : System.getProperty("java.class.path").split(File.pathSeparator)) {
            path.add(Path.of(each).toUri().toURL());
        }
        Pool mine = Pool.open(place, SMALL.toRead());
        try (URLClassLoader other =
                new URLClassLoader(
                        path.toArray(URL[]::new), ClassLoader.getPlatformClassLoader())) {
            Class<?> optionsClass = other.loadClass(PoolOptions.class.getName());
            Object theirs = optionsClass.getMethod("defaults").invoke(null);
            theirs = optionsClass.getMethod("extents", long.class).invoke(theirs, 1 << 20);
            theirs = optionsClass.getMethod("toRead").invoke(theirs);
            theirs = optionsClass.getMethod("withJmx").invoke(theirs);
            AutoCloseable pool =
                    (AutoCloseable)
                            other.loadClass(Pool.class.getName())
                                    .getMethod("open", Path.class, optionsClass)
                                    .invoke(null, place, theirs);
            assertEquals(Set.of("/pool read", "/pool read 2"), beans());
            mine.close();
            assertEquals(Set.of("/pool read 2"), beans());
            assertEquals(
                    place.toRealPath().toString(),
                    SERVER.getAttribute(name(place, "read", ",number=2"), "Directory"));
            pool.close();
            assertEquals(Set.of(), beans());
        }
    }

    @Test
    void noneIsThereAfterAFailedOpening() throws Exception {
        Path place = dir.resolve("pool");
        assertThrows(PoolFormatException.class, () -> Pool.open(place, SMALL.existing()));
        try (Pool pool = Pool.open(place, PoolOptions.defaults().extents(1 << 20))) {
            assertThrows(PoolLockedException.class, () -> Pool.open(place, SMALL.pmem(1 << 20)));
            assertEquals(Set.of(), beans());
            assertTrue(pool.rootNames().isEmpty());
        }
        byte[] bytes = Files.readAllBytes(place.resolve("pool"));
        bytes[20] ^= 1;
        Files.write(place.resolve("pool"), bytes);
        assertThrows(PoolDamagedException.class, () -> Pool.open(place, SMALL));
        assertEquals(Set.of(), beans());
    }

    /// A program that takes a bean away does not keep its pool from being closed.
    @Test
    void aBeanThatIsGoneIsNotMissed() throws Exception {
        try (Pool pool = Pool.open(dir, SMALL)) {
            SERVER.unregisterMBean(name(dir, "write", ""));
            assertTrue(pool.rootNames().isEmpty());
        }
        Pool.open(dir, SMALL).close();
    }

    /// Whoever watches meanwhile gets numbers, or is told that the pool has been closed.
    @Test
    void itMayBeClosedWhileSomebodyLooks() throws Exception {
        ObjectName name = new ObjectName("dev.terrace.objects:type=Pool,access=write,*");
        AtomicBoolean isOver = new AtomicBoolean();
        try (ExecutorService threads = Executors.newFixedThreadPool(2)) {
            Callback look =
                    () -> {
                        long seen = 0;
                        while (!isOver.get()) {
                            for (ObjectName each : SERVER.queryNames(name, null)) {
                                try {
                                    assertTrue((long) SERVER.getAttribute(each, "Commits") >= 0);
                                    assertInstanceOf(
                                            TabularData.class, SERVER.getAttribute(each, "Tiers"));
                                    SERVER.getAttribute(each, "Sealed");
                                    seen++;
                                } catch (InstanceNotFoundException gone) {
                                    continue;
                                } catch (RuntimeMBeanException e) {
                                    IllegalStateException why =
                                            assertInstanceOf(
                                                    IllegalStateException.class,
                                                    e.getTargetException());
                                    assertTrue(
                                            String.valueOf(why.getMessage())
                                                    .endsWith("has been closed"),
                                            e::toString);
                                }
                            }
                        }
                        return seen;
                    };
            List<Future<Long>> looks =
                    List.of(threads.submit(look::run), threads.submit(look::run));
            try {
                for (int i = 0; i < 200; i++) {
                    Pool pool = Pool.open(dir.resolve("pool"), SMALL);
                    DurablePerson bob = DurablePerson.create(pool);
                    bob.setImage(new byte[100_000]);
                    bob.delete();
                    Thread closer = Thread.ofPlatform().start(pool::close);
                    closer.join();
                    assertEquals(Set.of(), beans());
                }
            } finally {
                isOver.set(true);
            }
            for (Future<Long> each : looks) {
                assertTrue(each.get() > 0);
            }
        }
    }

    /// What a thread does that watches.
    private interface Callback {
        long run() throws Exception;
    }

    private static long used(Map<String, PoolMXBean.TierBytes> tiers) {
        return Objects.requireNonNull(tiers.get("pmem")).used();
    }

    @Test
    void nobodyWaitsForATransaction() throws Exception {
        try (Pool pool = Pool.open(dir, SMALL);
                ExecutorService threads = Executors.newSingleThreadExecutor()) {
            PoolMXBean bean = bean(dir, "write");
            DurablePerson bob = DurablePerson.create(pool);
            Map<String, PoolMXBean.TierBytes> before = bean.getTiers();
            long commits = bean.getCommits();
            pool.transact(() -> {
                bob.setImage(new byte[100_000]);
                bob.setPlace("a place with a long name".repeat(1000));
                try {
                    // This would give up after ten seconds.
                    assertEquals(
                            used(before), used(threads.submit(bean::getTiers).get(5, SECONDS)));
                    assertEquals(commits, threads.submit(bean::getCommits).get(5, SECONDS));
                } catch (Exception e) {
                    throw new AssertionError(e);
                }
            });
            assertEquals(commits + 1, bean.getCommits());
            assertTrue(used(bean.getTiers()) > used(before));
        }
    }

    /// Opens a pool where there can be no bean.
    static final class WithoutServer {
        public static void main(String[] arguments) throws IOException {
            System.setProperty("javax.management.builder.initial", "there.is.no.such.Builder");
            PoolOptions options = PoolOptions.defaults().extents(1 << 20).withJmx();
            try (Pool pool = Pool.open(Path.of(arguments[0]), options)) {
                System.out.println(pool.rootNames());
            }
            System.out.println("closed");
        }
    }

    @Test
    void aPoolIsOpenedAlsoWhereThereCanBeNone() throws Exception {
        try (ChildJvm child = new ChildJvm(WithoutServer.class, dir.resolve("pool"))) {
            assertEquals("[]", child.expectLine());
            assertEquals("closed", child.expectLine());
            assertEquals(0, child.await());
            assertTrue(child.errors().contains("is open without a bean"), child::errors);
        }
    }
}
