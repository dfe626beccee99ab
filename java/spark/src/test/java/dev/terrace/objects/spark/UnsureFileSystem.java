package dev.terrace.objects.spark;

import java.io.IOException;
import java.net.URI;
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
        DELETE_OF_PARTS
    }

    private static volatile Failure next = Failure.NONE;

    static void fail(Failure what) {
        next = what;
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
        boolean done = super.rename(from, to);
        if (next == Failure.RENAME_WITHOUT_ANSWER) {
            throw new IOException("no answer");
        }
        return done && next != Failure.RENAME_TWICE;
    }

    @Override
    public boolean delete(Path path, boolean recursive) throws IOException {
        if (next == Failure.DELETE_OF_PARTS && path.getParent().getName().equals("parts")) {
            throw new IOException("not allowed");
        }
        return super.delete(path, recursive);
    }
}
