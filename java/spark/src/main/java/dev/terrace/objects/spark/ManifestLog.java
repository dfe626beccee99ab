package dev.terrace.objects.spark;

import dev.terrace.objects.PoolDamagedException;
import dev.terrace.objects.PoolFormatException;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.time.Instant;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Predicate;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.jspecify.annotations.Nullable;

/// The manifests of a directory: numbered files that are written once. The highest number is what
/// the directory holds.
///
/// A manifest gets its name when it is whole, and only if there is none of this number
/// ([WriteOnce]): so of two who commit at a time one is told.
final class ManifestLog {
    private static final String MANIFESTS = "manifests";
    private static final Pattern NAME = Pattern.compile("0\\d{18}");

    private final Storage root;
    private final Storage manifests;
    private final PartLists lists;
    private final Configuration configuration;

    /// The number that was taken when this log could not commit it: a listing that does not show
    /// that is out of date. 0: none.
    private volatile long taken;

    ManifestLog(String directory, Configuration configuration) throws IOException {
        root = Storage.of(directory, configuration);
        manifests = root.child(MANIFESTS);
        lists = new PartLists(root);
        this.configuration = configuration;
    }

    /// The directory.
    Storage root() {
        return root;
    }

    /// The numbers of the manifests there are, in their order.
    List<Long> numbers() throws IOException {
        return manifests.list().stream()
                .filter(name -> NAME.matcher(name).matches())
                .map(Long::valueOf)
                .sorted()
                .toList();
    }

    /// The last manifest of the directory; null if nothing was ever committed.
    ///
    /// @throws PoolDamagedException if that is damaged
    @Nullable Manifest current() throws IOException {
        while (true) {
            List<Long> numbers = numbers();
            long last = Math.max(taken, numbers.isEmpty() ? 0 : numbers.getLast());
            if (last == 0) {
                return null;
            }
            try {
                return at(last);
            } catch (FileNotFoundException e) {
                // A vacuum removes what is not the last any more.
                if (last != taken && numbers().equals(numbers)) {
                    throw e;
                }
                taken = 0;
            }
        }
    }

    /// The last manifest of the directory, which must be of this kind.
    ///
    /// @throws FileNotFoundException if nothing was ever committed
    /// @throws IllegalArgumentException if it is of another kind
    Manifest require(String kind) throws IOException {
        Manifest manifest = current();
        if (manifest == null) {
            throw new FileNotFoundException(
                    root + " holds no " + kind + ": it has no manifest. Look at the path");
        }
        return requireKind(manifest, kind);
    }

    /// A manifest, if it is of this kind.
    Manifest requireKind(Manifest manifest, String kind) {
        if (!manifest.kind().equals(kind)) {
            throw new IllegalArgumentException(
                    root + " holds " + described(manifest.kind()) + ", not " + described(kind));
        }
        return manifest;
    }

    private static String described(String kind) {
        return kind.equals(Manifest.TABLE)
                ? "a table, which the format \"terrace\" reads"
                : "durable objects, which DurableRDD reads";
    }

    /// The manifest with this number.
    ///
    /// @throws FileNotFoundException if there is none
    Manifest at(long number) throws IOException {
        Path file = file(number);
        Manifest manifest = decoded(file);
        if (manifest.number() != number) {
            throw new PoolDamagedException(
                    file
                            + " is the manifest of commit "
                            + manifest.number()
                            + ": it was renamed or copied");
        }
        return manifest;
    }

    private Manifest decoded(Path file) throws IOException {
        byte[] bytes = read(file);
        try {
            return Manifest.decode(file.toString(), bytes, lists);
        } catch (PoolFormatException e) {
            if (manifests.files().exists(file)) {
                throw e;
            }
            // A vacuum has removed its lists, and before them the manifest.
            throw (FileNotFoundException)
                    new FileNotFoundException(file + " has been removed meanwhile").initCause(e);
        }
    }

    /// The manifest as it is to be committed: its parts are in lists, but a few.
    ///
    /// @param name of the file of lists that is written if these are too many
    Manifest listed(Manifest manifest, String name) throws IOException {
        return lists.listed(manifest, name);
    }

    /// A manifest after one, up to another of which something is so: one of which it is so, and not
    /// of the manifest before. A manifest that a vacuum has removed counts as one of which it is
    /// not.
    Manifest firstSince(Manifest before, Manifest last, Predicate<Manifest> isSo)
            throws IOException {
        Manifest found = last;
        long not = before.number();
        while (not + 1 < found.number()) {
            long middle = not + (found.number() - not) / 2;
            Manifest there = has(middle) ? at(middle) : null;
            if (there != null && isSo.test(there)) {
                found = there;
            } else {
                not = middle;
            }
        }
        return found;
    }

    private byte[] read(Path file) throws IOException {
        try (FSDataInputStream in = manifests.files().open(file)) {
            return in.readAllBytes();
        }
    }

    /// The parts and files that manifests lead to.
    ///
    /// @param parts by their names
    /// @param names of all: those of parts, and of files of deletions and lists
    record Contents(Map<String, Part> parts, Set<String> names) {}

    /// The parts and files that these manifests lead to.
    ///
    /// @throws FileNotFoundException if one has been removed: what it led to may still count by a
    ///   later one
    Contents contents(Collection<Long> ofNumbers) throws IOException {
        Contents contents = new Contents(new TreeMap<>(), new TreeSet<>());
        for (long number : ofNumbers) {
            try {
                Manifest manifest = at(number);
                manifest.parts().forEach(part -> contents.parts.put(part.name(), part));
                contents.names.addAll(manifest.allNames());
            } catch (FileNotFoundException e) {
                throw new FileNotFoundException(
                        file(number)
                                + " has been removed meanwhile, by another vacuum or DROP TABLE:"
                                + " try again");
            }
        }
        return contents;
    }

    /// Has the file system show what it promises before a job begins.
    ///
    /// @param there a file with these bytes that nobody else writes
    /// @throws UnsupportedOperationException if two who commit at a time could replace each other's
    ///   manifests there
    void requireCommits(Path there, byte[] bytes) throws IOException {
        WriteOnce.in(manifests, configuration).prove(there, bytes);
    }

    /// Commits, unless there is a manifest with this number.
    ///
    /// @return whether there was none
    /// @throws WriteOnce.UnsureException if nobody can tell whether it was committed
    boolean commit(Manifest manifest) throws IOException {
        boolean done =
                WriteOnce.in(manifests, configuration)
                        .write(name(manifest.number()), manifest.encode());
        // A file system that tries again itself may find what it did the first time.
        if (done || isThere(manifest)) {
            return true;
        }
        taken = manifest.number();
        return false;
    }

    /// Whether this manifest was committed, as far as readers see.
    ///
    /// @throws IOException if nobody can say
    boolean isThere(Manifest manifest) throws IOException {
        try {
            return Arrays.equals(read(file(manifest.number())), manifest.encode());
        } catch (FileNotFoundException none) {
            return false;
        }
    }

    /// Whether there is a manifest with this number.
    boolean has(long number) throws IOException {
        return manifests.files().exists(file(number));
    }

    /// When the manifest with this number was committed.
    ///
    /// @throws FileNotFoundException if there is none
    Instant committedAt(long number) throws IOException {
        return Instant.ofEpochMilli(
                manifests.files().getFileStatus(file(number)).getModificationTime());
    }

    /// Removes a manifest, which is not the last.
    void delete(long number) throws IOException {
        manifests.files().delete(file(number), false);
    }

    /// Removes what drivers that were killed before then have left beside the manifests.
    void deleteUnfinished(Instant then) throws IOException {
        for (FileStatus file : manifests.before(then)) {
            if (WriteOnce.isUnfinished(file.getPath().getName())) {
                manifests.files().delete(file.getPath(), false);
            }
        }
    }

    /// Removes all manifests.
    void deleteAll() throws IOException {
        manifests.delete();
    }

    private Path file(long number) {
        return new Path(manifests.directory(), name(number));
    }

    private static String name(long number) {
        return String.format(Locale.ROOT, "%019d", number);
    }
}
