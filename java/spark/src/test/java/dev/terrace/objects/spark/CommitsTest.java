package dev.terrace.objects.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.spark.S3Server.Fate;
import dev.terrace.objects.spark.S3Server.Request;
import java.io.IOException;
import java.security.PrivilegedExceptionAction;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Predicate;
import java.util.stream.LongStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.security.UserGroupInformation;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// Commits on HDFS and on an S3 server: drivers that commit at a time, and what a network does to
/// them.
class CommitsTest {
    private static final int APPENDS = 60;

    private final String table = "commits-" + UUID.randomUUID();

    private Driver driver(Servers server) throws IOException {
        return Driver.of(server.uri(table), server.configuration());
    }

    private Driver s3() throws IOException {
        return driver(Servers.S3);
    }

    @AfterEach
    void letPass() throws IOException {
        Servers.s3().decide(request -> Fate.PASSES);
        Servers.s3().deliver();
    }

    /// Decides of the next requests of a kind.
    ///
    /// @return how many there were of it
    private static AtomicInteger next(int count, Predicate<Request> kind, Fate fate) {
        AtomicInteger met = new AtomicInteger();
        Servers.s3()
                .decide(request ->
                        kind.test(request) && met.incrementAndGet() <= count ? fate : Fate.PASSES);
        return met;
    }

    private static boolean isCommit(Request request) {
        return request.isConditional() && request.path().contains("/manifests/");
    }

    /// A driver of this name, with a file system of its own: Hadoop keeps one for each user.
    private List<String> appended(Servers server, String user) throws Exception {
        PrivilegedExceptionAction<List<String>> work =
                () -> {
                    Driver driver = driver(server);
                    List<String> parts = new ArrayList<>();
                    for (int i = 0; i < APPENDS; i++) {
                        parts.add(driver.append());
                    }
                    return parts;
                };
        return UserGroupInformation.createRemoteUser(user).doAs(work);
    }

    @ParameterizedTest
    @EnumSource
    void twoDriversThatAppendAtATimeLoseNothing(Servers server) throws Exception {
        List<List<String>> of = new ArrayList<>();
        try (ExecutorService drivers = Executors.newFixedThreadPool(2)) {
            List<Callable<List<String>>> work =
                    List.of(() -> appended(server, "one"), () -> appended(server, "two"));
            for (Future<List<String>> parts : drivers.invokeAll(work)) {
                of.add(parts.get());
            }
        }
        List<String> all = of.stream().flatMap(List::stream).toList();
        Driver driver = driver(server);
        List<String> committed = driver.committed();
        assertEquals(all.stream().sorted().toList(), committed.stream().sorted().toList());
        assertEquals(2 * APPENDS, new HashSet<>(all).size());
        for (List<String> one : of) {
            assertFalse(committed.subList(0, APPENDS).equals(one), "both were at work");
        }
        assertEquals(
                LongStream.rangeClosed(1, 2 * APPENDS).boxed().toList(), driver.log().numbers());
        assertEquals(committed.stream().sorted().toList(), driver.names("parts"));
        assertEquals(List.of(), driver.names("jobs"));
        assertEquals(2 * APPENDS, driver.names("manifests").size(), "and no file is unfinished");
    }

    @Test
    void aDriverKnowsItsCommitWhoseAnswerWasLost() throws IOException {
        Driver driver = s3();
        String first = driver.append();
        // The client asks again, and is told that there is one.
        AtomicInteger asked = next(1, CommitsTest::isCommit, Fate.LOSES_ITS_ANSWER);
        String second = driver.append();
        assertEquals(2, asked.get());
        // However often it asks.
        next(Integer.MAX_VALUE, CommitsTest::isCommit, Fate.LOSES_ITS_ANSWER);
        String third = driver.append();
        assertEquals(List.of(first, second, third), driver.committed());
        assertEquals(List.of(1L, 2L, 3L), driver.log().numbers());
        assertEquals(3, driver.names("parts").size());
        assertEquals(List.of(), driver.names("jobs"));
    }

    @Test
    void aDriverDoesNotTakeTheCommitOfAnotherForItsOwn() throws IOException {
        Driver one = s3();
        String first = one.append();
        WriteJob job = one.begin();
        Part part = one.written(job);
        List<String> others = new ArrayList<>();
        job.commit(present -> {
            if (others.isEmpty()) {
                others.add(s3().append());
            }
            return Driver.with(present, part);
        });
        assertEquals(List.of(first, others.getFirst(), part.name()), one.committed());
    }

    @Test
    void requestsThatAreLostAreMadeAgain() throws IOException {
        Driver driver = s3();
        AtomicInteger asked = next(5, CommitsTest::isCommit, Fate.IS_LOST);
        String part = driver.append();
        assertEquals(6, asked.get());
        next(1, CommitsTest::isCommit, Fate.MEETS_ANOTHER);
        String second = driver.append();
        assertEquals(List.of(part, second), driver.committed());
    }

    @Test
    void aCommitOfWhichNobodyKnowsKeepsItsParts() throws IOException {
        Driver driver = s3();
        String first = driver.append();
        WriteJob job = driver.begin();
        Part part = driver.written(job);
        next(Integer.MAX_VALUE, CommitsTest::isCommit, Fate.WAITS);
        IOException thrown =
                assertThrows(
                        IOException.class, () -> job.commit(present -> Driver.with(present, part)));
        assertTrue(thrown.getMessage().contains("may be there, or come"), thrown::getMessage);
        assertTrue(thrown.getMessage().contains("commit 2 of " + driver.log().root()));
        // As Spark does if a commit throws.
        job.abort();
        assertEquals(List.of(first), driver.committed());
        assertEquals(2, driver.names("parts").size());
        assertEquals(List.of(job.id()), driver.names("jobs"));
        // The network lets it through at last.
        next(0, request -> true, Fate.PASSES);
        List<Integer> answers = Servers.s3().deliver();
        assertEquals(200, answers.getFirst());
        assertEquals(List.of(412), answers.stream().skip(1).distinct().toList());
        assertEquals(List.of(first, part.name()), driver.committed());
        assertEquals(new Snapshots.Removed(1, 0), vacuum(driver, Duration.ofSeconds(-10)));
        assertEquals(List.of(), driver.names("jobs"));
        assertEquals(2, driver.names("parts").size());
    }

    @Test
    void aCommitThatNeverComesIsLeftToAVacuum() throws IOException {
        Driver driver = s3();
        String first = driver.append();
        // From the commit on nothing arrives.
        AtomicInteger asked = new AtomicInteger();
        Servers.s3()
                .decide(request -> {
                    if (isCommit(request)) {
                        asked.incrementAndGet();
                    }
                    return asked.get() > 0 ? Fate.IS_LOST : Fate.PASSES;
                });
        String message = assertThrows(IOException.class, driver::append).getMessage();
        assertTrue(message.contains("may be there, or come"), message);
        next(0, request -> true, Fate.PASSES);
        assertEquals(2, driver.names("parts").size());
        // It has tried in vain: the number is free.
        String second = s3().append();
        assertEquals(List.of(first, second), driver.committed());
        assertEquals(new Snapshots.Removed(0, 0), vacuum(driver, Duration.ofHours(1)));
        assertEquals(new Snapshots.Removed(1, 1), vacuum(driver, Duration.ofSeconds(-10)));
        assertEquals(List.of(), driver.names("jobs"));
        assertEquals(List.of(first, second).stream().sorted().toList(), driver.names("parts"));
    }

    private static Snapshots.Removed vacuum(Driver driver, Duration age) throws IOException {
        return Snapshots.vacuum(driver.log(), Servers.S3.configuration(), Instant.now().minus(age));
    }

    @ParameterizedTest
    @EnumSource
    void aVacuumKnowsHowOldPartsAreOfWhichNobodyKnows(Servers server) throws IOException {
        Driver driver = driver(server);
        String kept = driver.append();
        WriteJob job = driver.begin();
        Part part = driver.written(job);
        job.abort();
        // An attempt that goes on after its job has ended.
        driver.written(job);
        Configuration configuration = server.configuration();
        Instant now = Instant.now();
        assertEquals(
                new Snapshots.Removed(0, 0),
                Snapshots.vacuum(driver.log(), configuration, now.minusSeconds(3600)));
        assertEquals(2, driver.names("parts").size(), part::name);
        // S3 counts seconds.
        assertEquals(
                new Snapshots.Removed(0, 1),
                Snapshots.vacuum(driver.log(), configuration, now.plusSeconds(2)));
        assertEquals(List.of(kept), driver.names("parts"));
    }

    private static void refused(Driver driver, String... parts) throws IOException {
        String message =
                assertThrows(UnsupportedOperationException.class, driver::append).getMessage();
        for (String part : parts) {
            assertTrue(message.contains(part), message);
        }
        assertEquals(List.of(), driver.names("jobs"));
        assertEquals(List.of(), driver.names("parts"));
        assertEquals(List.of(), driver.names("manifests"));
    }

    /// With a file system of its own: each is asked once.
    private Driver fresh(String key, String value) throws Exception {
        PrivilegedExceptionAction<Driver> opened =
                () -> {
                    Configuration configuration = Servers.S3.configuration();
                    configuration.set(key, value);
                    return Driver.of(Servers.S3.uri(table), configuration);
                };
        return UserGroupInformation.createRemoteUser(UUID.randomUUID().toString()).doAs(opened);
    }

    @Test
    void aServerThatTakesNoNoticeOfConditionsIsRefused() throws Exception {
        next(Integer.MAX_VALUE, Request::isConditional, Fate.IS_UNCONDITIONAL);
        Driver driver = fresh("any", "value");
        String remedy = "set spark.hadoop.fs.s3a.terrace.commit to rename";
        refused(driver, driver.log().root().toString(), "If-None-Match", remedy);
        refused(driver, "If-None-Match");
        next(Integer.MAX_VALUE, Request::isConditional, Fate.IS_NOT_IMPLEMENTED);
        refused(driver, "takes no conditional writes", remedy);
        Driver only = fresh("fs.s3a.bucket.bucket.terrace.commit", "rename");
        assertEquals(List.of(only.append(), only.append()), only.committed());
        assertEquals(2, only.names("manifests").size());
    }

    @Test
    void aFileSystemThatHasNoConditionsIsRefused() throws Exception {
        Driver driver = fresh("fs.s3a.create.conditional.enabled", "false");
        refused(
                driver,
                driver.log().root().toString(),
                "S3AFileSystem",
                "fs.option.create.conditional.overwrite",
                "set spark.hadoop.fs.s3a.terrace.commit to rename");
        Driver wrong = fresh("fs.s3a.terrace.commit", "copy");
        String message = assertThrows(IllegalArgumentException.class, wrong::append).getMessage();
        assertEquals("fs.s3a.terrace.commit is 'copy', and can be 'rename' only", message);
        assertEquals(List.of(), wrong.names("jobs"));
    }

    @Test
    void aManifestThatNeedsSeveralRequestsIsRefused() throws Exception {
        Driver driver = fresh("fs.s3a.multipart.size", "5M");
        String first = driver.append();
        WriteJob job = driver.begin();
        Part part = driver.written(job);
        String large = "x".repeat(6 << 20);
        IOException thrown =
                assertThrows(
                        IOException.class,
                        () ->
                                job.commit(present ->
                                        new Manifest(
                                                2,
                                                Manifest.TABLE,
                                                large,
                                                present.options(),
                                                List.of(part))));
        assertTrue(thrown.getMessage().contains("fs.s3a.multipart.size"), thrown::getMessage);
        assertEquals(List.of(first), driver.committed());
        assertEquals(List.of(first), driver.names("parts"));
        assertEquals(List.of(), driver.names("jobs"));
    }
}
