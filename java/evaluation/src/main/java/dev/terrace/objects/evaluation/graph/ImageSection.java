package dev.terrace.objects.evaluation.graph;

import dev.terrace.objects.evaluation.report.Claim;
import dev.terrace.objects.evaluation.report.Conditions;
import dev.terrace.objects.evaluation.report.Section;
import dev.terrace.objects.evaluation.report.Table;
import dev.terrace.objects.evaluation.run.Json;
import dev.terrace.objects.evaluation.run.Spread;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/// The part of the report on searches that look at images.
final class ImageSection {
    private static final double MICROS = 1e6;
    private static final double KIB = 1 << 10;
    private static final double MIB = 1 << 20;
    private static final double PERCENT = 100;
    private static final double GOAL = 0.3;

    private final ImageMeasurements measured;
    private final @Nullable String doubt;

    /// @param doubt why the measurements decide nothing; null if they do
    ImageSection(ImageMeasurements measured, @Nullable String doubt) {
        this.measured = measured;
        this.doubt = doubt;
    }

    Section section(String command, boolean isCacheDropped) throws IOException {
        return new Section(
                "images",
                "Graph search with large fields",
                text(),
                Conditions.now(command, isCacheDropped),
                List.of(table()),
                List.of(),
                List.of(claim()),
                Json.MAPPER.valueToTree(measured));
    }

    private List<String> text() {
        return List.of(
                String.format(
                        Locale.ROOT,
                        "The same searches, with one to five constraints in turn, of %s: %,d"
                            + " people, each of whom has an image of %,d bytes, as in the paper's"
                            + " listings. Each tenth of the people who are found, drawn at random,"
                            + " has their image looked at: all of its bytes are added up. Without"
                            + " images people take %s MiB of heap, packed; all images take %s MiB."
                            + " Each process has %,d MiB, half of both, for everything: heap, Java"
                            + " itself, pages of files in the page cache, and persistent memory,"
                            + " which is memory here. A control group limits it.",
                        measured.graph(),
                        measured.people(),
                        Image.BYTES,
                        Spread.number(measured.liveMib()),
                        Spread.number(measured.imagesMib()),
                        measured.budgetMib()),
                "The baselines have packed people on the heap. One keeps images there behind soft"
                    + " references, on a heap that takes nearly all of the memory, and reads from a"
                    + " file what the collector has cleared. The other reads each image from that"
                    + " file, into one array; its heap has half as much again as people take, so"
                    + " that the page cache has the rest. The pool has images on its disk and all"
                    + " that is searched by in persistent memory. Before searches are measured,"
                    + " twice as many have filled memory with images. All layouts have found the"
                    + " same people and images.");
    }

    private Table table() {
        List<List<String>> rows = new ArrayList<>();
        for (ImageMeasurements.Runs runs : measured.runs()) {
            rows.add(
                    runs.isDone()
                            ? List.of(
                                    runs.layout().title,
                                    Integer.toString(runs.heapMib()),
                                    Spread.number(runs.pmemBytes() / MIB),
                                    runs.search().times(MICROS).toString(),
                                    runs.images().toString(),
                                    runs.bytesRead().times(1 / KIB).toString(),
                                    runs.stopped().times(PERCENT) + " %")
                            : List.of(
                                    runs.layout().title,
                                    Integer.toString(runs.heapMib()),
                                    Spread.number(runs.pmemBytes() / MIB),
                                    "heap too small",
                                    "–",
                                    "–",
                                    "–"));
        }
        return new Table(
                "In half of the memory; medians, least and most in brackets",
                List.of(
                        "layout",
                        "heap, MiB",
                        "persistent memory, MiB",
                        "µs of a search",
                        "images of a search",
                        "KiB read from storage for each image",
                        "stopped by the collector"),
                rows);
    }

    private Claim claim() {
        String work =
                "graph search with large fields, half of the memory: SELECT-PMEM's time to that of"
                        + " the better baseline";
        ImageMeasurements.Runs pool = measured.of(ImageLayout.POOL);
        Optional<ImageMeasurements.Runs> better =
                Stream.of(ImageLayout.SOFT, ImageLayout.FILE)
                        .map(measured::of)
                        .filter(ImageMeasurements.Runs::isDone)
                        .min(Comparator.comparingDouble(runs -> runs.search().median()));
        if (!pool.isDone() || better.isEmpty()) {
            return Claim.unmeasured(work, "–", "heap too small", GOAL);
        }
        Claim claim =
                Claim.measured(
                        work,
                        "–",
                        pool.search().over(better.get().search())
                                + " ("
                                + better.get().layout().title
                                + ")",
                        pool.search().over(better.get().search()),
                        GOAL);
        return doubt == null ? claim : claim.doubted(doubt);
    }
}
