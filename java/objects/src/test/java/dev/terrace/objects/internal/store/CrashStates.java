package dev.terrace.objects.internal.store;

import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.Set;
import java.util.function.Consumer;

/// What a power cut may leave of regions whose stores were recorded.
///
/// Units are lines of 64 bytes, of which each is written back as it was after some store: at the
/// earliest after the last one that a fence has made durable. The states of a moment are all
/// combinations of that; where there are too many, a sample that a seed decides, with all and
/// nothing among it. A segment that was being written is not there, or half of it is, or all.
public final class CrashStates {
    private static final int LINE_BYTES = CrashImage.LINE_BYTES;

    /// After how many states the memory is compared with what it must hold.
    private static final int CHECK_EVERY = 16;

    private final List<RecordingRegion.Event> events;
    private final Map<RecordingRegion, CrashImage> durable = new LinkedHashMap<>();

    /// Of each line, how it was after each store that is not durable yet.
    private final Map<Line, List<byte[]>> pending = new LinkedHashMap<>();

    /// Lines that the next fence of their region makes durable, and how many of their versions.
    private final Map<Line, Integer> flushed = new HashMap<>();

    private final Map<String, byte[]> durableSegments;

    /// Segments that are being written.
    private final Map<String, byte[]> pendingSegments = new LinkedHashMap<>();

    private Map<String, byte[]> segments = Map.of();
    private final Set<Integer> seen = new HashSet<>();
    private final int combinationsMax;
    private final int sampleSize;
    private int next;
    private int states;

    private record Line(RecordingRegion region, long offset) {}

    /// A state that a power cut may leave, while it is looked at.
    ///
    /// @param happened after how many events
    /// @param regions what each region has become, in which stores are allowed
    /// @param segments the segments that are left
    /// @param events what happens to these regions
    public record State(
            int happened,
            Map<RecordingRegion, RecordingRegion> regions,
            Map<String, byte[]> segments,
            List<RecordingRegion.Event> events) {}

    /// The states of what is recorded, from `base` on.
    ///
    /// @param combinationsMax how many states of a moment are not too many
    /// @param sampleSize how many states of a moment are looked at if there are too many
    public CrashStates(
            List<RecordingRegion.Event> events,
            Map<RecordingRegion, List<byte[]>> base,
            Map<String, byte[]> baseSegments,
            int combinationsMax,
            int sampleSize) {
        this.combinationsMax = combinationsMax;
        this.events = events;
        this.sampleSize = sampleSize;
        base.forEach((region, image) -> durable.put(region, new CrashImage(region, image)));
        durableSegments = new LinkedHashMap<>(baseSegments);
    }

    /// Looks at all distinct states of all moments: before each fence, before and after a region
    /// becomes shorter, before segments are durable or deleted, and at the end.
    public int forEach(Consumer<State> look) {
        while (next < events.size()) {
            RecordingRegion.Event event = events.get(next);
            if (event instanceof RecordingRegion.Event.Fenced
                    || event instanceof RecordingRegion.Event.Shrunk
                    || event instanceof RecordingRegion.Event.SegmentDurable
                    || event instanceof RecordingRegion.Event.SegmentDeleted) {
                lookNow(look);
            }
            take(event, look);
            next++;
        }
        lookNow(look);
        return states;
    }

    private void take(RecordingRegion.Event event, Consumer<State> look) {
        switch (event) {
            case RecordingRegion.Event.Stored(var region, long offset, byte[] bytes) ->
                    store(region, offset, bytes);
            case RecordingRegion.Event.Flushed(var region, long offset, long length) -> {
                for (long at = offset & -LINE_BYTES; at < offset + length; at += LINE_BYTES) {
                    Line line = new Line(region, at);
                    if (pending.containsKey(line)) {
                        flushed.put(line, pending.get(line).size());
                    }
                }
            }
            case RecordingRegion.Event.Fenced(var region) -> {
                for (Line line : List.copyOf(flushed.keySet())) {
                    if (line.region == region) {
                        settle(line, flushed.remove(line));
                    }
                }
            }
            case RecordingRegion.Event.Grown(var region) -> imageOf(region).grow();
            case RecordingRegion.Event.Shrunk(var region, int extents) -> {
                imageOf(region).shrink(extents);
                long end = extents * region.extentBytes();
                pending.keySet().removeIf(line -> line.region == region && line.offset >= end);
                flushed.keySet().removeIf(line -> line.region == region && line.offset >= end);
                lookNow(look);
            }
            case RecordingRegion.Event.SegmentBegun(String name, byte[] bytes) ->
                    pendingSegments.put(name, bytes);
            case RecordingRegion.Event.SegmentDurable(String name) -> {
                byte[] bytes = pendingSegments.remove(name);
                if (bytes != null) {
                    durableSegments.put(name, bytes);
                }
            }
            case RecordingRegion.Event.SegmentDeleted(String name) -> {
                pendingSegments.remove(name);
                durableSegments.remove(name);
            }
        }
    }

    private void store(RecordingRegion region, long offset, byte[] bytes) {
        for (long at = offset & -LINE_BYTES; at < offset + bytes.length; at += LINE_BYTES) {
            Line line = new Line(region, at);
            List<byte[]> versions = pending.computeIfAbsent(line, _ -> new ArrayList<>());
            byte[] latest = versions.isEmpty() ? lineOf(line) : versions.getLast().clone();
            int from = (int) Math.max(at, offset);
            int to = (int) Math.min(at + LINE_BYTES, offset + bytes.length);
            System.arraycopy(bytes, (int) (from - offset), latest, (int) (from - at), to - from);
            versions.add(latest);
        }
    }

    private CrashImage imageOf(RecordingRegion region) {
        return Objects.requireNonNull(durable.get(region));
    }

    private byte[] lineOf(Line line) {
        return imageOf(line.region).line(line.offset);
    }

    private void putLine(Line line, byte[] bytes) {
        imageOf(line.region).putLine(line.offset, bytes);
    }

    private void settle(Line line, int versions) {
        List<byte[]> all = pending.get(line);
        putLine(line, all.get(versions - 1));
        if (versions == all.size()) {
            pending.remove(line);
        } else {
            pending.put(line, new ArrayList<>(all.subList(versions, all.size())));
        }
    }

    private void lookNow(Consumer<State> look) {
        List<Map<String, byte[]>> all = new ArrayList<>(List.of(durableSegments));
        pendingSegments.forEach((name, bytes) -> {
            for (Map<String, byte[]> without : List.copyOf(all)) {
                for (int length : new int[] {bytes.length / 2, bytes.length}) {
                    Map<String, byte[]> with = new LinkedHashMap<>(without);
                    with.put(name, Arrays.copyOf(bytes, length));
                    all.add(with);
                }
            }
        });
        for (Map<String, byte[]> some : all) {
            segments = some;
            lookAtRegions(look);
        }
    }

    private void lookAtRegions(Consumer<State> look) {
        List<Line> lines = List.copyOf(pending.keySet());
        long combinations = 1;
        for (Line line : lines) {
            combinations =
                    Math.min(combinationsMax + 1L, combinations * (pending.get(line).size() + 1));
        }
        if (combinations <= combinationsMax) {
            for (long number = 0; number < combinations; number++) {
                look(look, lines, choice(lines, number));
            }
            return;
        }
        look(look, lines, new int[lines.size()]);
        look(look, lines, lines.stream().mapToInt(line -> pending.get(line).size()).toArray());
        Random random = new Random(next);
        for (int i = 0; i < sampleSize; i++) {
            double share = random.nextDouble();
            look(
                    look,
                    lines,
                    lines.stream()
                            .mapToInt(line ->
                                    random.nextDouble() < share
                                            ? 1 + random.nextInt(pending.get(line).size())
                                            : 0)
                            .toArray());
        }
    }

    private int[] choice(List<Line> lines, long number) {
        int[] versions = new int[lines.size()];
        long left = number;
        for (int i = 0; i < versions.length; i++) {
            int count = pending.get(lines.get(i)).size() + 1;
            versions[i] = (int) (left % count);
            left /= count;
        }
        return versions;
    }

    private void look(Consumer<State> look, List<Line> lines, int[] versions) {
        Map<Line, byte[]> before = new LinkedHashMap<>();
        for (int i = 0; i < versions.length; i++) {
            if (versions[i] > 0) {
                Line line = lines.get(i);
                before.put(line, lineOf(line));
                putLine(line, pending.get(line).get(versions[i] - 1));
            }
        }
        int hash = 31 * next;
        for (Map.Entry<String, byte[]> segment : segments.entrySet()) {
            hash =
                    31 * hash
                            + segment.getKey().hashCode() * 17
                            + Arrays.hashCode(segment.getValue());
        }
        for (Map.Entry<Line, byte[]> changed : before.entrySet()) {
            hash =
                    31 * hash
                            + changed.getKey().hashCode() * 17
                            + Arrays.hashCode(lineOf(changed.getKey()));
        }
        if (seen.add(hash)) {
            states++;
            lookAtState(look);
        }
        before.forEach((line, bytes) -> putLine(line, bytes));
    }

    private void lookAtState(Consumer<State> look) {
        try (Arena arena = Arena.ofConfined()) {
            List<RecordingRegion.Event> more = new ArrayList<>();
            Map<RecordingRegion, RecordingRegion> regions = new LinkedHashMap<>();
            durable.forEach((region, image) -> regions.put(region, image.open(arena, more)));
            look.accept(new State(next, regions, segments, more));
            durable.forEach((region, image) -> {
                image.undo(Objects.requireNonNull(regions.get(region)), more);
                if (states % CHECK_EVERY == 0) {
                    image.check();
                }
            });
        }
    }
}
