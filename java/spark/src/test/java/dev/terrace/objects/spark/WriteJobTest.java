package dev.terrace.objects.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.spark.UnsureFileSystem.Failure;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.roaringbitmap.RoaringBitmap;

/// What a driver leaves when something fails around its commit.
class WriteJobTest {
    @TempDir private Path dir;

    private final Configuration configuration = new Configuration(false);
    private ManifestLog log;
    private PartStore store;

    @BeforeEach
    void open() throws IOException {
        configuration.set("fs.unsure.impl", UnsureFileSystem.class.getName());
        configuration.set("fs.unsure.terrace.commit", "rename");
        log = new ManifestLog("unsure:" + dir, configuration);
        store =
                new PartStore(
                        log.root(),
                        PartitionOptions.defaults().pmem(dir.resolve("copies").toString()),
                        configuration);
    }

    @AfterEach
    void fail() {
        UnsureFileSystem.fail(Failure.NONE);
    }

    /// A part that an attempt has written, as far as a directory tells.
    private Part written(WriteJob job, int attempt) throws IOException {
        String name = WriteJob.partName(job.id(), 0, attempt);
        Files.createDirectories(dir.resolve("parts").resolve(name));
        return new Part(name, null, null, List.of(), 1, 1, List.of());
    }

    private static Manifest next(Manifest present, Part part) {
        return new Manifest(
                Manifest.number(present) + 1, Manifest.TABLE, "{}", Map.of(), List.of(part));
    }

    private List<String> names(String directory) throws IOException {
        if (!Files.exists(dir.resolve(directory))) {
            return List.of();
        }
        try (var files = Files.list(dir.resolve(directory))) {
            return files.map(path -> path.getFileName().toString()).sorted().toList();
        }
    }

    private Snapshots.Removed vacuum(Duration age) throws IOException {
        return Snapshots.vacuum(log, configuration, Instant.now().minus(age));
    }

    @Test
    void aCommitThatWasMadeButNotAnsweredKeepsItsParts() throws IOException {
        WriteJob job = WriteJob.begin(log, store);
        Part part = written(job, 1);
        UnsureFileSystem.fail(Failure.RENAME_WITHOUT_ANSWER);
        IOException thrown =
                assertThrows(IOException.class, () -> job.commit(present -> next(present, part)));
        assertTrue(
                thrown.getMessage().contains("commit 1 of " + log.root() + " is there"),
                thrown::getMessage);
        job.abort();
        assertEquals(part.name(), log.require(Manifest.TABLE).parts().getFirst().name());
        assertEquals(List.of(part.name()), names("parts"));
    }

    @Test
    void aCommitThatTheFileSystemTriesTwiceIsMadeOnce() throws IOException {
        WriteJob job = WriteJob.begin(log, store);
        Part part = written(job, 1);
        UnsureFileSystem.fail(Failure.RENAME_TWICE);
        job.commit(present -> next(present, part));
        assertEquals(List.of(1L), log.numbers());
        assertEquals(List.of(part.name()), names("parts"));
    }

    @Test
    void aCommitThatWasNotMadeLeavesNothing() throws IOException {
        WriteJob job = WriteJob.begin(log, store);
        Part part = written(job, 1);
        UnsureFileSystem.fail(Failure.RENAME_NOT_DONE);
        IOException thrown =
                assertThrows(IOException.class, () -> job.commit(present -> next(present, part)));
        assertEquals("not done", thrown.getMessage());
        assertEquals(List.of(), names("parts"));
        assertEquals(List.of(), names("manifests"));
        assertEquals(List.of(), names("jobs"));
    }

    @Test
    void aCommitOfWhichNobodyKnowsKeepsItsParts() throws IOException {
        WriteJob job = WriteJob.begin(log, store);
        Part part = written(job, 1);
        UnsureFileSystem.fail(Failure.RENAME_AND_ALL_AFTER);
        IOException thrown =
                assertThrows(IOException.class, () -> job.commit(present -> next(present, part)));
        assertTrue(thrown.getMessage().contains("may be there, or come"), thrown::getMessage);
        UnsureFileSystem.fail(Failure.NONE);
        job.abort();
        assertEquals(List.of(part.name()), names("parts"));
        assertEquals(1, names("manifests").size());
        assertEquals(List.of(), log.numbers());
        // It may still be renamed.
        assertEquals(new Snapshots.Removed(0, 0), vacuum(Duration.ofHours(1)));
        assertEquals(1, names("manifests").size());
        assertEquals(new Snapshots.Removed(0, 1), vacuum(Duration.ofSeconds(-10)));
        assertEquals(List.of(), names("manifests"));
        assertEquals(List.of(), names("parts"));
    }

    @Test
    void aRenameThatComesLateHasItsParts() throws IOException {
        WriteJob job = WriteJob.begin(log, store);
        Part part = written(job, 1);
        UnsureFileSystem.fail(Failure.RENAME_AND_DELETE_WAIT);
        IOException thrown =
                assertThrows(IOException.class, () -> job.commit(present -> next(present, part)));
        assertTrue(thrown.getMessage().contains("may be there, or come"), thrown::getMessage);
        UnsureFileSystem.fail(Failure.NONE);
        job.abort();
        Path manifests = dir.resolve("manifests");
        Files.move(
                manifests.resolve(names("manifests").getFirst()),
                manifests.resolve("0000000000000000001"));
        assertEquals(part.name(), log.require(Manifest.TABLE).parts().getFirst().name());
        assertEquals(List.of(part.name()), names("parts"));
    }

    @Test
    void aListingThatIsLateDoesNotHideWhatIsTaken() throws IOException {
        WriteJob first = WriteJob.begin(log, store);
        first.commit(present -> next(present, written(first, 1)));
        UnsureFileSystem.fail(Failure.LISTING);
        WriteJob second = WriteJob.begin(log, store);
        Part part = written(second, 1);
        second.commit(present -> next(present, part));
        UnsureFileSystem.fail(Failure.NONE);
        assertEquals(List.of(1L, 2L), log.numbers());
        // What was dropped meanwhile is not waited for.
        Snapshots.drop(log, configuration);
        assertNull(log.current());
    }

    @Test
    void whatCannotBeRemovedBehindACommitIsLeftToAVacuum() throws IOException {
        WriteJob job = WriteJob.begin(log, store);
        Part failed = written(job, 1);
        Part part = written(job, 2);
        UnsureFileSystem.fail(Failure.DELETE_OF_PARTS);
        job.commit(present -> next(present, part));
        // As Spark does if a commit throws.
        job.abort();
        assertEquals(List.of(failed.name(), part.name()), names("parts"));
        UnsureFileSystem.fail(Failure.NONE);
        assertEquals(new Snapshots.Removed(0, 1), vacuum(Duration.ofSeconds(-10)));
        assertEquals(List.of(part.name()), names("parts"));
        assertEquals(List.of(), names("jobs"));
    }

    @Test
    void aJobWhosePartsAVacuumHasRemovedDoesNotCommitThem() throws IOException {
        WriteJob job = WriteJob.begin(log, store);
        Part part = written(job, 1);
        assertEquals(new Snapshots.Removed(0, 1), vacuum(Duration.ofSeconds(-10)));
        String message =
                assertThrows(
                                CommitConflictException.class,
                                () -> job.commit(present -> next(present, part)))
                        .getMessage();
        assertTrue(message.contains("vacuum"), message);
        assertEquals(List.of(), names("manifests"));
    }

    @Test
    void aVacuumRemovesWhatAnAttemptMadeAfterItsJobHadEnded() throws IOException {
        WriteJob job = WriteJob.begin(log, store);
        Part part = written(job, 1);
        job.commit(present -> next(present, part));
        Part late = written(job, 2);
        WriteJob other = WriteJob.begin(log, store);
        Part unfinished = written(other, 3);
        Files.createDirectories(dir.resolve("parts").resolve("of somebody else"));
        assertEquals(new Snapshots.Removed(0, 0), vacuum(Duration.ofHours(1)));
        assertEquals(4, names("parts").size());
        assertEquals(new Snapshots.Removed(0, 2), vacuum(Duration.ofSeconds(-10)));
        assertEquals(
                List.of(part.name(), "of somebody else"),
                names("parts"),
                () -> late + ", " + unfinished);
    }

    /// A part of which a job has deleted a row.
    private Part deleted(WriteJob job, Part part) throws IOException {
        return part.with(
                new DeletionFiles(log.root())
                        .write(job.id(), Map.of(part.name(), RoaringBitmap.bitmapOf(0)))
                        .get(part.name()));
    }

    @Test
    void whatAJobHasDeletedGoesAsItsPartsDo() throws IOException {
        WriteJob job = WriteJob.begin(log, store);
        Part part = written(job, 1);
        job.commit(present -> next(present, part));
        WriteJob deleting = WriteJob.begin(log, store);
        Part less = deleted(deleting, part);
        deleting.commit(present -> next(present, less));
        assertEquals(List.of(deleting.id()), names("deletions"));
        WriteJob failed = WriteJob.begin(log, store);
        deleted(failed, part);
        UnsureFileSystem.fail(Failure.RENAME_NOT_DONE);
        assertThrows(IOException.class, () -> failed.commit(present -> next(present, part)));
        UnsureFileSystem.fail(Failure.NONE);
        assertEquals(List.of(deleting.id()), names("deletions"));
        // Its driver is killed.
        WriteJob killed = WriteJob.begin(log, store);
        deleted(killed, part);
        assertEquals(new Snapshots.Removed(0, 0), vacuum(Duration.ofHours(1)));
        assertEquals(2, names("deletions").size());
        assertEquals(new Snapshots.Removed(1, 0), vacuum(Duration.ofSeconds(-10)));
        assertEquals(List.of(deleting.id()), names("deletions"));
        assertEquals(List.of(part.name()), names("parts"));
        // Nobody's, as of a driver that went on after a vacuum had removed its job.
        deleted(killed, part);
        assertEquals(new Snapshots.Removed(0, 0), vacuum(Duration.ofSeconds(-10)));
        assertEquals(List.of(deleting.id()), names("deletions"));
        assertThrows(
                CommitConflictException.class, () -> killed.commit(present -> next(present, part)));
        Snapshots.drop(log, configuration);
        assertEquals(List.of(), names("deletions"));
    }

    @Test
    void aJobsFileThatIsNotWholeKeepsNoVacuumFromItsWork() throws IOException {
        WriteJob job = WriteJob.begin(log, store);
        written(job, 1);
        Files.writeString(dir.resolve("jobs").resolve(job.id()), "");
        assertEquals(new Snapshots.Removed(0, 1), vacuum(Duration.ofSeconds(-10)));
        assertEquals(List.of(), names("parts"));
        assertEquals(List.of(), names("jobs"));
    }

    @Test
    void whoReplacesIsToldOfATableThatWasDroppedAndMadeAgain() throws IOException {
        WriteJob job = WriteJob.begin(log, store);
        Manifest before = next(null, written(job, 1));
        Manifest again = next(null, written(job, 2));
        Manifest change = next(before, written(job, 3));
        assertEquals(change, change.after(before, before, log.root()));
        assertThrows(CommitConflictException.class, () -> change.after(before, again, log.root()));
        assertThrows(CommitConflictException.class, () -> change.after(before, null, log.root()));
    }

    @Test
    void whatAManifestLedToThatAnotherVacuumRemovesIsNotTakenForNothing() throws IOException {
        WriteJob job = WriteJob.begin(log, store);
        Part part = written(job, 1);
        job.commit(present -> next(present, part));
        assertEquals(List.of(part.name()), List.copyOf(log.contents(List.of(1L)).names()));
        String message =
                assertThrows(FileNotFoundException.class, () -> log.contents(List.of(1L, 2L)))
                        .getMessage();
        assertTrue(message.contains("another vacuum"), message);
    }
}
