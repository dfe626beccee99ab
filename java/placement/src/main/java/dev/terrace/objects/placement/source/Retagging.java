package dev.terrace.objects.placement.source;

import com.github.difflib.DiffUtils;
import com.github.difflib.UnifiedDiffUtils;
import com.github.difflib.patch.Patch;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;

/// Changes of sources that are ready to be made.
///
/// @param changes by file; empty if all tags are as they should be
public record Retagging(Map<Path, Change> changes) {
    private static final int CONTEXT_LINES = 3;

    /// A file's text before and after.
    public record Change(String before, String after) {}

    /// Copies the changes, in the order of their files.
    public Retagging {
        changes = Collections.unmodifiableMap(new TreeMap<>(changes));
    }

    /// The changes as a unified diff, as `patch` takes it; empty if there are none.
    public String diff() {
        return changes.entrySet().stream()
                .map(each -> diff(each.getKey().toString(), each.getValue()))
                .collect(Collectors.joining());
    }

    private static String diff(String file, Change change) {
        List<String> before = change.before.lines().toList();
        Patch<String> patch = DiffUtils.diff(before, change.after.lines().toList());
        return String.join(
                        "\n",
                        UnifiedDiffUtils.generateUnifiedDiff(
                                file, file, before, patch, CONTEXT_LINES))
                + "\n";
    }

    /// Makes the changes: each file is replaced at once, and all of them, or, if one cannot be,
    /// none.
    ///
    /// @throws IOException if a file cannot be replaced, or is not what it was when it was read;
    ///   then all are what they were
    public void apply() throws IOException {
        Map<Path, Path> written = new TreeMap<>();
        Map<Path, String> before = new TreeMap<>();
        try {
            for (Map.Entry<Path, Change> each : changes.entrySet()) {
                // Where a link leads is replaced, not the link.
                Path file = each.getKey().toRealPath();
                if (!Files.readString(file).equals(each.getValue().before)) {
                    throw new IOException(
                            each.getKey()
                                    + " has changed since it was read: nothing was written. Try"
                                    + " again");
                }
                written.put(file, beside(file));
                Files.writeString(written.get(file), each.getValue().after);
                before.put(file, each.getValue().before);
            }
            for (Map.Entry<Path, Path> each : written.entrySet()) {
                Files.move(each.getValue(), each.getKey(), StandardCopyOption.ATOMIC_MOVE);
            }
        } catch (IOException e) {
            restore(written, before, e);
            throw e;
        } finally {
            for (Path each : written.values()) {
                Files.deleteIfExists(each);
            }
        }
    }

    /// A new file beside another, with all that this one has.
    private static Path beside(Path file) throws IOException {
        Path made = Files.createTempFile(file.getParent(), file.getFileName().toString(), ".new");
        return Files.copy(
                file,
                made,
                StandardCopyOption.REPLACE_EXISTING,
                StandardCopyOption.COPY_ATTRIBUTES);
    }

    /// Puts back what the files held that have been replaced already: those whose new files are not
    /// there any more.
    private static void restore(
            Map<Path, Path> written, Map<Path, String> before, IOException because) {
        before.forEach((file, text) -> {
            try {
                if (!Files.exists(written.get(file))) {
                    Path old = beside(file);
                    Files.writeString(old, text);
                    Files.move(old, file, StandardCopyOption.ATOMIC_MOVE);
                }
            } catch (IOException e) {
                because.addSuppressed(e);
            }
        });
    }
}
