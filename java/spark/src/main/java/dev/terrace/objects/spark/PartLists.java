package dev.terrace.objects.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.terrace.objects.PoolDamagedException;
import dev.terrace.objects.PoolFormatException;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.jspecify.annotations.Nullable;

/// The files that list parts beside the manifests, so that a commit need not write anew what is
/// known of all parts. A manifest has the last few itself. When these are too many they become a
/// list, together with lists before it that are no longer. A manifest of few parts has no lists, so
/// that earlier libraries read it.
///
/// Invariants:
/// * A list never changes, so a process may keep it.
/// * A list is joined with those behind it when they have as many parts, and one list has room for
///   all. So while a table grows, a part is written some `log2(LENGTH_MAX / REST_MAX)` times.
/// * There are at most `2 * parts / LENGTH_MAX + SPARE` lists: if there were more, as others have
///   taken parts out of them, all parts are listed anew. So a manifest is short.
final class PartLists {
    /// Parts of a list at most.
    static final int LENGTH_MAX = 512;

    /// Parts that a manifest has itself, at most.
    static final int REST_MAX = 50;

    /// Lists beside those that all parts need.
    static final int SPARE = 16;

    /// Files that are read at a time.
    private static final int READERS_MAX = 16;

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final TypeReference<List<Part>> PARTS = new TypeReference<>() {};

    private final JobFiles files;

    /// @param root the directory
    PartLists(Storage root) {
        files = JobFiles.lists(root);
    }

    /// The lists that this process has read or written last.
    private static final class Kept {
        /// Of lists as they are stored; in memory they have some times as many.
        private static final long BYTES_MAX = 32 << 20;

        private static final Map<String, Entry> LISTS = new LinkedHashMap<>(16, 0.75f, true);
        private static long bytes;

        private record Entry(List<Part> parts, int bytes) {}

        static synchronized @Nullable List<Part> get(String key) {
            Entry entry = LISTS.get(key);
            return entry == null ? null : entry.parts;
        }

        static synchronized void put(String key, List<Part> parts, int ofBytes) {
            if (LISTS.putIfAbsent(key, new Entry(parts, ofBytes)) == null) {
                bytes += ofBytes;
            }
            var eldest = LISTS.entrySet().iterator();
            while (bytes > BYTES_MAX && eldest.hasNext()) {
                bytes -= eldest.next().getValue().bytes;
                eldest.remove();
            }
        }
    }

    private String key(PartList list) {
        return files.path(list.file()) + " " + list.from() + " " + list.crc();
    }

    /// The manifest as it is to be committed: its parts are in lists, but a few.
    ///
    /// @param name of the file that is written if these are too many, which no other has
    Manifest listed(Manifest manifest, String name) throws IOException {
        List<Part> parts = manifest.parts();
        if (parts.size() <= REST_MAX) {
            return manifest.withLists(List.of());
        }
        if (manifest.rest().size() <= REST_MAX) {
            return manifest;
        }
        List<PartList> lists = new ArrayList<>(manifest.lists());
        int from = parts.size() - manifest.rest().size();
        while (!lists.isEmpty() && isJoined(lists.getLast().size(), parts.size() - from)) {
            from -= lists.removeLast().size();
        }
        if (lists.size() >= 2 * from / LENGTH_MAX + SPARE) {
            lists.clear();
            from = 0;
        }
        lists.addAll(written(parts.subList(from, parts.size()), name));
        return manifest.withLists(lists);
    }

    private static boolean isJoined(int list, int others) {
        return list <= others && list + others <= LENGTH_MAX;
    }

    private List<PartList> written(List<Part> parts, String name) throws IOException {
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        List<PartList> lists = new ArrayList<>();
        for (int from = 0; from < parts.size(); from += LENGTH_MAX) {
            List<Part> some = parts.subList(from, Math.min(parts.size(), from + LENGTH_MAX));
            byte[] bytes = JSON.writeValueAsBytes(some);
            String crc = JobFiles.crc(bytes);
            lists.add(new PartList(name, all.size(), bytes.length, crc, some.size(), List.of()));
            all.writeBytes(bytes);
        }
        files.write(name, all.toByteArray());
        return lists;
    }

    /// The parts of lists that count.
    ///
    /// @throws PoolFormatException if a file is not there
    /// @throws PoolDamagedException if a list is not what was written
    List<Part> read(List<PartList> lists) throws IOException {
        Map<PartList, List<Part>> all = new HashMap<>();
        for (PartList list : lists) {
            List<Part> kept = Kept.get(key(list));
            if (kept != null) {
                all.put(list, kept);
            }
        }
        List<PartList> others = lists.stream().filter(list -> !all.containsKey(list)).toList();
        if (!others.isEmpty()) {
            all.putAll(decoded(others));
        }
        List<Part> parts = new ArrayList<>();
        for (PartList list : lists) {
            List<Part> its = Objects.requireNonNull(all.get(list));
            list.numbers().forEach(number -> parts.add(its.get(number)));
        }
        return parts;
    }

    private Map<PartList, List<Part>> decoded(List<PartList> lists) throws IOException {
        Map<PartList, List<Part>> all = new HashMap<>();
        try (ExecutorService readers =
                Executors.newFixedThreadPool(Math.min(READERS_MAX, lists.size()))) {
            List<Callable<List<Part>>> work =
                    lists.stream().<Callable<List<Part>>>map(list -> () -> decoded(list)).toList();
            List<Future<List<Part>>> done = readers.invokeAll(work);
            for (int i = 0; i < done.size(); i++) {
                all.put(lists.get(i), done.get(i).get());
            }
            return all;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw (IOException) new InterruptedIOException(e.getMessage()).initCause(e);
        } catch (ExecutionException e) {
            switch (e.getCause()) {
                case IOException cause -> throw cause;
                case RuntimeException cause -> throw cause;
                default -> throw new AssertionError(e);
            }
        }
    }

    private List<Part> decoded(PartList list) throws IOException {
        String what = "the list of " + list.parts() + " parts at byte " + list.from();
        byte[] bytes = files.read(list.file(), list.from(), list.bytes(), list.crc(), what);
        try {
            List<Part> parts = List.copyOf(JSON.readValue(bytes, PARTS));
            if (parts.size() == list.parts()) {
                Kept.put(key(list), parts, bytes.length);
                return parts;
            }
        } catch (JsonProcessingException | RuntimeException e) {
            throw files.damaged(list.file(), what, "it is no list", e);
        }
        throw files.damaged(list.file(), what, "it has other parts than the manifest says", null);
    }
}
