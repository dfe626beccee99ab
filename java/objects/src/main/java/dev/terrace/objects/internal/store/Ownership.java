package dev.terrace.objects.internal.store;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFileAttributeView;
import java.nio.file.attribute.PosixFileAttributes;
import org.jspecify.annotations.Nullable;

/// Owner, group and permissions of files that stand beside a pool for a while.
///
/// Invariant: such a file is open to exactly those who may use the pool, whoever makes it.
public final class Ownership {
    private Ownership() {}

    /// Gives a new file the owner, the group and the permissions of another.
    ///
    /// @throws IOException if this user must not, or the file system has none
    public static void give(Path file, Path like) throws IOException {
        PosixFileAttributes wanted = view(like).readAttributes();
        PosixFileAttributeView found = view(file, LinkOption.NOFOLLOW_LINKS);
        PosixFileAttributes now = found.readAttributes();
        if (!now.group().equals(wanted.group())) {
            found.setGroup(wanted.group());
        }
        if (!now.owner().equals(wanted.owner())) {
            found.setOwner(wanted.owner());
        }
        if (!now.permissions().equals(wanted.permissions())) {
            found.setPermissions(wanted.permissions());
        }
    }

    /// Throws an exception if a file is none in its own right, or of another owner than `like`.
    ///
    /// @throws IOException in this case
    public static void require(Path file, Path like) throws IOException {
        PosixFileAttributes found = view(file, LinkOption.NOFOLLOW_LINKS).readAttributes();
        boolean isTheirs = found.owner().equals(view(like).readAttributes().owner());
        if (!found.isRegularFile() || !isTheirs) {
            throw new IOException(file + " is no file of the owner of " + like);
        }
    }

    private static PosixFileAttributeView view(Path file, LinkOption... links) throws IOException {
        @Nullable PosixFileAttributeView view =
                Files.getFileAttributeView(file, PosixFileAttributeView.class, links);
        if (view == null) {
            throw new IOException(file + ": the file system knows no owners");
        }
        return view;
    }
}
