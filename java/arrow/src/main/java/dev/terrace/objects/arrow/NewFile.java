package dev.terrace.objects.arrow;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.UUID;

/// A file that gets its name when it is whole.
///
/// Invariant: under the name there is what was there before, or all of the content, durably.
final class NewFile {
    private NewFile() {}

    /// The content of the file.
    @FunctionalInterface
    interface Content {
        /// Writes it, and returns how many rows it has.
        long write(FileChannel out) throws IOException;
    }

    /// Makes the file, and returns what `content` returned.
    ///
    /// @param replaces whether one of this name is replaced
    /// @throws FileAlreadyExistsException if it is not, and there is one
    static long make(Path file, boolean replaces, Content content) throws IOException {
        if (Files.isDirectory(file)) {
            throw new FileAlreadyExistsException(file.toString(), null, "is a directory");
        }
        Path directory = file.toAbsolutePath().getParent();
        if (directory == null || Files.notExists(directory)) {
            throw new NoSuchFileException(String.valueOf(directory));
        }
        if (!replaces) {
            requireNone(file);
        }
        // Not a temporary file as Java makes them: those can be read by their owner only.
        Path made = file.resolveSibling(file.getFileName() + "." + UUID.randomUUID() + ".new");
        try {
            long rows = write(made, content);
            name(made, file, replaces);
            try (FileChannel names = FileChannel.open(directory)) {
                names.force(true);
            }
            return rows;
        } finally {
            Files.deleteIfExists(made);
        }
    }

    private static void requireNone(Path file) throws FileAlreadyExistsException {
        if (Files.exists(file, LinkOption.NOFOLLOW_LINKS)) {
            throw new FileAlreadyExistsException(
                    file.toString(), null, "is there already: replace it, or take another name");
        }
    }

    private static long write(Path made, Content content) throws IOException {
        try (FileChannel out =
                FileChannel.open(made, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
            long rows = content.write(out);
            out.force(true);
            return rows;
        }
    }

    private static void name(Path made, Path file, boolean replaces) throws IOException {
        if (replaces) {
            Files.move(made, file, StandardCopyOption.ATOMIC_MOVE);
            return;
        }
        requireNone(file);
        try {
            // Unlike a move, this fails if somebody else has made a file of this name meanwhile.
            Files.createLink(file, made);
        } catch (FileAlreadyExistsException e) {
            throw e;
        } catch (IOException | UnsupportedOperationException noLinks) {
            Files.move(made, file);
        }
    }
}
