package dev.terrace.objects.spark;

import java.io.IOException;
import java.net.URI;
import java.util.Arrays;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;

/// A remote file system that fails when it is told to: `unsure:/a/b` is what is at `/a/b`.
public final class UnsureFileSystem extends RawLocalFileSystem {
    /// What goes wrong next.
    enum Failure {
        NONE,
        RENAME_NOT_DONE,
        RENAME_WITHOUT_ANSWER,
        /// As a client that had no answer, asks again, and is told that there is nothing to rename.
        RENAME_TWICE,
        /// No rename is answered, and no removal: they may come later.
        RENAME_AND_DELETE_WAIT,
        /// From the rename on nothing is answered; that was not done.
        RENAME_AND_ALL_AFTER,
        /// A listing does not show the last manifest yet.
        LISTING,
        DELETE_OF_PARTS
    }

    private static volatile Failure next = Failure.NONE;

    /// Whether it gives no answers any more.
    private static volatile boolean isGone;

    static void fail(Failure what) {
        next = what;
        isGone = false;
    }

    @Override
    public URI getUri() {
        return URI.create("unsure:///");
    }

    @Override
    public String getScheme() {
        return "unsure";
    }

    @Override
    public boolean rename(Path from, Path to) throws IOException {
        if (next == Failure.RENAME_NOT_DONE) {
            throw new IOException("not done");
        }
        if (next == Failure.RENAME_AND_DELETE_WAIT) {
            throw new IOException("no answer");
        }
        if (next == Failure.RENAME_AND_ALL_AFTER) {
            isGone = true;
        }
        requireAnswer();
        boolean done = super.rename(from, to);
        if (next == Failure.RENAME_WITHOUT_ANSWER) {
            throw new IOException("no answer");
        }
        return done && next != Failure.RENAME_TWICE;
    }

    private static void requireAnswer() throws IOException {
        if (isGone) {
            throw new IOException("no answer");
        }
    }

    @Override
    public FSDataInputStream open(Path path, int bufferSize) throws IOException {
        requireAnswer();
        return super.open(path, bufferSize);
    }

    @Override
    public FileStatus[] listStatus(Path path) throws IOException {
        requireAnswer();
        FileStatus[] all = super.listStatus(path);
        Arrays.sort(all);
        boolean isLate = next == Failure.LISTING && path.getName().equals("manifests");
        return isLate ? Arrays.copyOf(all, all.length - 1) : all;
    }

    @Override
    public boolean delete(Path path, boolean recursive) throws IOException {
        requireAnswer();
        if (next == Failure.RENAME_AND_DELETE_WAIT) {
            throw new IOException("no answer");
        }
        if (next == Failure.DELETE_OF_PARTS && path.getParent().getName().equals("parts")) {
            throw new IOException("not allowed");
        }
        return super.delete(path, recursive);
    }
}
