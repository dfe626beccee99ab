package dev.terrace.objects.internal.backup;

import dev.terrace.objects.internal.store.MappedRegion;
import dev.terrace.objects.internal.store.StoreFailure;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Function;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/// A directory of backups of one pool: states, and the packs with their blocks.
///
/// Invariants:
/// * A state gets its name last, when all its blocks are durable: it is whole, or not there.
/// * A state names all packs that it needs. A pack goes when no state needs it.
/// * Readers write nothing and hold up nobody, so they need no permission to write. What others
///   remove meanwhile is told as removed, not as damage.
public final class BlockStore implements AutoCloseable {
    /// Bytes of a block: a chunk of the pool.
    public static final int BLOCK_BYTES = 1 << 16;

    private static final String LABEL = "terrace-backups";
    private static final String LABEL_TEXT = "terrace-objects backups, version 1\n";
    private static final String LOCK = "lock";
    private static final String CHECK = "check";
    private static final String STATE = "state-";
    private static final String PACK = "pack-";
    private static final String UNFINISHED = ".new";

    private final Path directory;
    private final @Nullable LockFile lock;
    private final Map<Hash, Place> places = new HashMap<>();

    /// Where a block is.
    private record Place(long pack, int slot) {}

    private BlockStore(Path directory, @Nullable LockFile lock) {
        this.directory = directory;
        this.lock = lock;
    }

    /// Opens a directory of backups to change it. Nobody else uses it meanwhile.
    ///
    /// @param create whether an empty directory becomes one
    /// @throws StoreFailure.UnknownFormat if it is none
    /// @throws StoreFailure.Busy if it is in use
    public static BlockStore open(Path directory, boolean create) throws IOException {
        if (create && !Files.exists(directory)) {
            Files.createDirectories(directory);
        }
        if (!create || !isUnused(directory)) {
            requireLabel(directory, create ? ", or an empty one" : "");
        }
        LockFile lock = LockFile.tryLock(directory.resolve(LOCK));
        if (lock == null) {
            throw new StoreFailure.Busy(directory + " is in use: wait until that has ended");
        }
        boolean done = false;
        try {
            BlockStore store = new BlockStore(directory, lock);
            Path label = directory.resolve(LABEL);
            if (!Files.exists(label)) {
                store.write(label, LABEL_TEXT.getBytes(StandardCharsets.US_ASCII));
            }
            done = true;
            return store;
        } finally {
            if (!done) {
                lock.close();
            }
        }
    }

    /// Opens a directory of backups to read it. A state that somebody removes meanwhile was never
    /// there.
    ///
    /// @throws StoreFailure.UnknownFormat if it is none
    public static BlockStore openToRead(Path directory) throws IOException {
        requireLabel(directory, "");
        return new BlockStore(directory, null);
    }

    private static void requireLabel(Path directory, String orElse) throws IOException {
        Path label = directory.resolve(LABEL);
        if (!Files.exists(label)) {
            throw new StoreFailure.UnknownFormat(
                    directory + " holds no backups: name a directory of backups" + orElse);
        }
        if (!Files.readString(label).equals(LABEL_TEXT)) {
            throw new StoreFailure.UnknownFormat(
                    label + " is not of this version: use a newer library");
        }
    }

    /// Writes a file, durably. It gets its name when it is whole.
    private void write(Path file, byte[] contents) throws IOException {
        Path unfinished = directory.resolve(file.getFileName() + UNFINISHED);
        try (FileChannel channel =
                FileChannel.open(
                        unfinished,
                        StandardOpenOption.CREATE,
                        StandardOpenOption.TRUNCATE_EXISTING,
                        StandardOpenOption.WRITE)) {
            ByteBuffer bytes = ByteBuffer.wrap(contents);
            while (bytes.hasRemaining()) {
                channel.write(bytes);
            }
            channel.force(true);
        } catch (IOException e) {
            throw Pack.notWritten(file, e);
        }
        Files.move(unfinished, file, StandardCopyOption.ATOMIC_MOVE);
        MappedRegion.syncNames(directory);
    }

    /// Whether a directory is empty, but for what the very first use leaves if it is killed.
    private static boolean isUnused(Path directory) throws IOException {
        Set<String> own = Set.of(LOCK, LABEL + UNFINISHED);
        try (Stream<Path> files = Files.list(directory)) {
            return files.allMatch(file -> own.contains(file.getFileName().toString()));
        }
    }

    /// The directory.
    public Path directory() {
        return directory;
    }

    private List<Path> files(String prefix) throws IOException {
        try (Stream<Path> files = Files.list(directory)) {
            return files.filter(
                            file -> {
                                String name = file.getFileName().toString();
                                return name.startsWith(prefix) && !name.endsWith(UNFINISHED);
                            })
                    .sorted()
                    .toList();
        }
    }

    private Path file(String prefix, long number) {
        return directory.resolve(prefix + String.format("%016x", number));
    }

    private static long number(String prefix, Path file) {
        String name = file.getFileName().toString();
        try {
            return Long.parseUnsignedLong(name.substring(prefix.length()), 16);
        } catch (NumberFormatException e) {
            throw new StoreFailure.UnknownFormat(
                    file + " has no name of a backup's file: move it elsewhere");
        }
    }

    private static State read(Path file) throws IOException {
        return State.decode(file.toString(), Files.readAllBytes(file));
    }

    /// What is asked of each state that can be restored, the oldest first.
    public <T> List<T> states(Function<State, T> question) throws IOException {
        List<T> answers = new ArrayList<>();
        for (Path file : files(STATE)) {
            try {
                answers.add(question.apply(read(file)));
            } catch (NoSuchFileException removedMeanwhile) {
                continue;
            }
        }
        return answers;
    }

    /// The state with this number; null if there is none.
    public @Nullable State state(long number) throws IOException {
        try {
            return read(file(STATE, number));
        } catch (NoSuchFileException none) {
            return null;
        }
    }

    /// The number of the last state, which may be damaged; 0 if there is none.
    public long lastNumber() throws IOException {
        List<Path> states = files(STATE);
        return states.isEmpty() ? 0 : number(STATE, states.getLast());
    }

    private void learn(long pack) throws IOException {
        List<Hash> hashes = Pack.read(file(PACK, pack));
        for (int slot = 0; slot < hashes.size(); slot++) {
            places.putIfAbsent(hashes.get(slot), new Place(pack, slot));
        }
    }

    /// Whether there is no state with this number, or no more.
    public boolean isGone(long number) {
        return !Files.exists(file(STATE, number));
    }

    /// Learns where the blocks of a state are.
    ///
    /// @throws StoreFailure.Damaged if one of its packs is damaged, or is not there
    void learn(State state) throws IOException {
        places.clear();
        for (long pack : state.packs()) {
            learn(pack);
        }
    }

    /// Learns where blocks are that a new state may share. A damaged pack has none.
    private void learnAll() throws IOException {
        places.clear();
        for (Path pack : files(PACK)) {
            try {
                learn(number(PACK, pack));
            } catch (StoreFailure.Damaged alsoSaidByVerify) {
                // The new state stores these blocks anew.
                continue;
            }
        }
    }

    /// Whether a block needs no place, or has one.
    boolean has(Hash hash) {
        return hash.equals(Hash.ZEROS) || places.containsKey(hash);
    }

    /// The pack of a new state.
    Pack newPack(long number) throws IOException {
        return new Pack(file(PACK, number));
    }

    /// Names a pack, so that its blocks can be read.
    void finish(Pack pack, long number) throws IOException {
        pack.finish();
        if (pack.size() > 0) {
            MappedRegion.syncNames(directory);
            learn(number);
        }
    }

    /// The packs in which blocks of these files are.
    long[] packsOf(List<State.Part> files) {
        Set<Long> packs = new TreeSet<>();
        for (State.Part file : files) {
            for (Hash hash : file.hashes()) {
                Place place = places.get(hash);
                if (place != null) {
                    packs.add(place.pack);
                }
            }
        }
        return packs.stream().mapToLong(Long::longValue).toArray();
    }

    /// Makes a state one of those that can be restored.
    public void add(State state) throws IOException {
        write(file(STATE, state.name().number()), state.encode());
    }

    /// A block, compared with its hash; null if it is one of zeros.
    byte @Nullable [] read(Hash hash) throws IOException {
        if (hash.equals(Hash.ZEROS)) {
            return null;
        }
        Place place = places.get(hash);
        if (place == null) {
            throw new StoreFailure.Damaged(
                    directory + ": a block is in none of its packs: restore another backup");
        }
        return Pack.block(file(PACK, place.pack), place.slot, hash);
    }

    /// Keeps the last `count` states, and the packs that they need. Returns how many states went.
    public int keep(int count) throws IOException {
        List<Path> states = files(STATE);
        int gone = Math.max(0, states.size() - count);
        for (Path state : states.subList(0, gone)) {
            Files.delete(state);
        }
        MappedRegion.syncNames(directory);
        sweep();
        return gone;
    }

    /// Makes room for a new state: removes what others have left that did not end. A pack that no
    /// state needs may have the number of the next one. Learns where blocks are.
    void prepare() throws IOException {
        sweep();
        learnAll();
    }

    /// Removes what no state needs.
    public void sweep() throws IOException {
        removeCheck();
        try (Stream<Path> files = Files.list(directory)) {
            for (Path file : files.filter(each -> each.toString().endsWith(UNFINISHED)).toList()) {
                Files.delete(file);
            }
        }
        Set<Path> packs = new HashSet<>(files(PACK));
        for (long[] needed : states(State::packs)) {
            for (long pack : needed) {
                packs.remove(file(PACK, pack));
            }
        }
        for (Path pack : packs) {
            Files.delete(pack);
        }
    }

    /// The directory for a copy that is checked.
    public Path check() {
        return directory.resolve(CHECK);
    }

    /// Removes such a copy, if there is one.
    public void removeCheck() throws IOException {
        if (Files.exists(check())) {
            try (Stream<Path> files = Files.walk(check())) {
                for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                    Files.delete(file);
                }
            }
        }
    }

    /// Reads all that is needed. Returns what is damaged or missing.
    public List<String> verify() throws IOException {
        List<String> wrong = new ArrayList<>();
        Map<Long, Set<Long>> backups = new TreeMap<>();
        Set<Hash> needed = new HashSet<>();
        for (Path file : files(STATE)) {
            try {
                State state = read(file);
                for (long pack : state.packs()) {
                    backups.computeIfAbsent(pack, _ -> new TreeSet<>()).add(state.name().number());
                }
                state.files().forEach(part -> needed.addAll(List.of(part.hashes())));
            } catch (NoSuchFileException removedMeanwhile) {
                continue;
            } catch (StoreFailure.Damaged e) {
                wrong.add(String.valueOf(e.getMessage()));
            }
        }
        needed.remove(Hash.ZEROS);
        for (Map.Entry<Long, Set<Long>> each : backups.entrySet()) {
            try {
                verify(each.getKey(), needed);
            } catch (StoreFailure.Damaged e) {
                each.getValue().removeIf(this::isGone);
                if (!each.getValue().isEmpty()) {
                    wrong.add(e.getMessage() + " (backups " + each.getValue() + " need it)");
                }
            }
        }
        return wrong;
    }

    private void verify(long pack, Set<Hash> needed) throws IOException {
        Path file = file(PACK, pack);
        List<Hash> hashes = Pack.read(file);
        for (int slot = 0; slot < hashes.size(); slot++) {
            if (needed.remove(hashes.get(slot))) {
                Pack.block(file, slot, hashes.get(slot));
            }
        }
    }

    @Override
    public void close() throws IOException {
        if (lock != null) {
            lock.close();
        }
    }
}
