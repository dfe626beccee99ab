package dev.terrace.objects.internal.store;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;

/// What a power cut may leave of regions whose stores were recorded.
///
/// Units are lines of 64 bytes, of which each is written back as it was after some store: at the
/// earliest after the last one that a fence has made durable. The states of a moment are all
/// combinations of that; where there are too many, a sample that a seed decides, with all and
/// nothing among it. A segment that was being written is not there, or half of it is, or all.
public final class CrashStates {
    private static final int LINE_BYTES = 64;

    private final List<RecordingRegion.Event> events;
    private final Map<RecordingRegion, List<byte[]>> durable = new LinkedHashMap<>();

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

    /// What is done with a state.
    public interface Look {
        /// Looks at what is left after the first `happened` events.
        void at(
                int happened,
                Map<RecordingRegion, List<byte[]>> images,
                Map<String, byte[]> segments);
    }

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
        base.forEach((region, image) -> durable.put(region, copy(image)));
        durableSegments = new LinkedHashMap<>(baseSegments);
    }

    private static List<byte[]> copy(List<byte[]> image) {
        List<byte[]> copy = new ArrayList<>();
        image.forEach(bytes -> copy.add(bytes.clone()));
        return copy;
    }

    /// Looks at all distinct states of all moments: before each fence, before and after a region
    /// becomes shorter, before segments are durable or deleted, and at the end.
    public int forEach(Look look) {
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

    private void take(RecordingRegion.Event event, Look look) {
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
            case RecordingRegion.Event.Grown(var region) ->
                    durable.get(region).add(new byte[(int) region.extentBytes()]);
            case RecordingRegion.Event.Shrunk(var region, int extents) -> {
                List<byte[]> image = durable.get(region);
                image.subList(extents, image.size()).clear();
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
            byte[] latest = versions.isEmpty() ? lineOf(durable, line) : versions.getLast().clone();
            int from = (int) Math.max(at, offset);
            int to = (int) Math.min(at + LINE_BYTES, offset + bytes.length);
            System.arraycopy(bytes, (int) (from - offset), latest, (int) (from - at), to - from);
            versions.add(latest);
        }
    }

    private static byte[] lineOf(Map<RecordingRegion, List<byte[]>> images, Line line) {
        byte[] extent =
                images.get(line.region).get((int) (line.offset / line.region.extentBytes()));
        int at = (int) line.region.within(line.offset);
        return Arrays.copyOfRange(extent, at, at + LINE_BYTES);
    }

    private static void putLine(
            Map<RecordingRegion, List<byte[]>> images, Line line, byte[] bytes) {
        byte[] extent =
                images.get(line.region).get((int) (line.offset / line.region.extentBytes()));
        System.arraycopy(bytes, 0, extent, (int) line.region.within(line.offset), LINE_BYTES);
    }

    private void settle(Line line, int versions) {
        List<byte[]> all = pending.get(line);
        putLine(durable, line, all.get(versions - 1));
        if (versions == all.size()) {
            pending.remove(line);
        } else {
            pending.put(line, new ArrayList<>(all.subList(versions, all.size())));
        }
    }

    private void lookNow(Look look) {
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

    private void lookAtRegions(Look look) {
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

    private void look(Look look, List<Line> lines, int[] versions) {
        Map<Line, byte[]> before = new LinkedHashMap<>();
        for (int i = 0; i < versions.length; i++) {
            if (versions[i] > 0) {
                Line line = lines.get(i);
                before.put(line, lineOf(durable, line));
                putLine(durable, line, pending.get(line).get(versions[i] - 1));
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
                            + Arrays.hashCode(lineOf(durable, changed.getKey()));
        }
        if (seen.add(hash)) {
            states++;
            look.at(next, durable, segments);
        }
        before.forEach((line, bytes) -> putLine(durable, line, bytes));
    }
}
