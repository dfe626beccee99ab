package dev.terrace.objects.evaluation.placement;

import dev.terrace.objects.evaluation.experiment.Experiment;
import dev.terrace.objects.evaluation.experiment.Settings;
import dev.terrace.objects.evaluation.placement.PlacementJob.FieldCosts;
import dev.terrace.objects.evaluation.report.Chart;
import dev.terrace.objects.evaluation.report.Claim;
import dev.terrace.objects.evaluation.report.Conditions;
import dev.terrace.objects.evaluation.report.Figure;
import dev.terrace.objects.evaluation.report.Section;
import dev.terrace.objects.evaluation.report.Table;
import dev.terrace.objects.evaluation.run.HeapExhaustedException;
import dev.terrace.objects.evaluation.run.Json;
import dev.terrace.objects.evaluation.run.Jvm;
import dev.terrace.objects.evaluation.run.Scratch;
import dev.terrace.objects.evaluation.run.Spread;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.function.ToDoubleFunction;
import org.jspecify.annotations.Nullable;

/// The costs of a workload that profiled placement (section 3.4 of the paper) predicts, and its
/// measured costs.
public final class PlacementExperiment implements Experiment {
    private static final int ARTICLES = 10_000;
    private static final int ARTICLES_QUICK = 200;
    private static final int RUNS = 9;
    private static final double MILLION = 1e6;
    private static final double MIB = 1 << 20;

    /// The measurements.
    ///
    /// @param warm with the disk's pages in memory
    /// @param cold with none of them there; null if the system could not be told to forget them
    private record Measured(PlacementJob.Result warm, PlacementJob.@Nullable Result cold) {}

    @Override
    public Section run(Settings settings) throws IOException, InterruptedException {
        boolean mayDrop = settings.dropCaches();
        PlacementJob.Result warm = run(settings, false);
        Measured measured = new Measured(warm, mayDrop ? run(settings, true) : null);
        List<Table> tables = new ArrayList<>();
        List<Figure> figures = new ArrayList<>();
        List<Claim> claims = new ArrayList<>();
        show(warm, "disk in memory", "placement-warm", tables, figures, claims);
        if (measured.cold() != null) {
            show(measured.cold(), "disk not in memory", "placement-cold", tables, figures, claims);
        }
        return new Section(
                "placement",
                "Placement, predicted and measured",
                text(settings),
                Conditions.now(settings.command(), mayDrop),
                tables,
                figures,
                claims,
                Json.MAPPER.valueToTree(measured));
    }

    private static PlacementJob.Result run(Settings settings, boolean isCold)
            throws IOException, InterruptedException {
        settings.progress()
                .accept(
                        "placement: probing devices, profiling, placing, measuring with the disk "
                                + (isCold ? "not in memory" : "in memory"));
        try (Scratch scratch = Scratch.in(settings.pmem(), settings.disk())) {
            boolean isQuick = settings.isQuick();
            PlacementJob job =
                    new PlacementJob(
                            scratch.pmem(),
                            scratch.disk(),
                            isQuick ? ARTICLES_QUICK : ARTICLES,
                            isQuick ? 1 : RUNS,
                            isCold,
                            !isQuick);
            return settings.processes()
                    .run(Jvm.of(Jvm.Collector.G1), job, PlacementJob.Result.class)
                    .result();
        } catch (HeapExhaustedException e) {
            throw new IOException(
                    "this machine has too little memory for " + ARTICLES + " articles", e);
        }
    }

    private static List<String> text(Settings settings) throws IOException {
        return List.of(
                String.format(
                        Locale.ROOT,
                        "%,d articles with preview, text and picture, all on disk, of which"
                            + " previews are read most and pictures least. A probe measures what"
                            + " accesses cost on this machine; the work is done once while the pool"
                            + " counts it; placement then says where each field is to lie, with"
                            + " room in persistent memory for all but the pictures, and the open"
                            + " pool is told (`Pool.place`). What that says reads cost, before and"
                            + " after, is beside what they take.%s",
                        settings.isQuick() ? ARTICLES_QUICK : ARTICLES,
                        settings.isQuick()
                                ? " Here nothing was probed: the devices' costs are made up."
                                : ""),
                "The probe reads a disk past the system's cache, and no more than it asks for."
                    + " Whoever looks at a mapped page that is not in memory waits until the system"
                    + " has read what it reads ahead around it, "
                        + readAhead(settings.disk())
                        + " on this disk; later reads may find theirs in memory then.");
    }

    private static String readAhead(Path disk) throws IOException {
        long device = ((Number) Files.getAttribute(disk, "unix:dev")).longValue();
        Path file =
                Path.of(
                        "/sys/class/bdi",
                        (device >>> 8 & 0xfff) + ":" + (device & 0xff | device >>> 12 & 0xfff00),
                        "read_ahead_kb");
        return Files.exists(file)
                ? Files.readString(file).strip() + " KiB"
                : "it is not known how much";
    }

    private static void show(
            PlacementJob.Result result,
            String when,
            String name,
            List<Table> tables,
            List<Figure> figures,
            List<Claim> claims) {
        tables.add(table(result, when));
        figures.add(Figure.of(chart(result.fields(), when, name)));
        claims.addAll(claims(result, when));
    }

    private static Table table(PlacementJob.Result result, String when) {
        List<List<String>> rows = new ArrayList<>();
        for (FieldCosts field : result.fields()) {
            double reads = field.reads();
            rows.add(
                    List.of(
                            field.field(),
                            String.format(Locale.ROOT, "%,d", field.reads()),
                            field.tier().toString(),
                            Spread.number(field.predictedBefore() / reads),
                            field.measuredBefore().times(1 / reads).toString(),
                            Spread.number(field.predictedAfter() / reads),
                            field.measuredAfter().times(1 / reads).toString()));
        }
        return new Table(
                "Nanoseconds of a read, "
                        + when
                        + ", "
                        + Spread.number(result.movedBytes() / MIB)
                        + " MiB moved; medians, least and most in brackets",
                List.of(
                        "field",
                        "reads",
                        "placed on",
                        "before: predicted",
                        "before: measured",
                        "after: predicted",
                        "after: measured"),
                rows);
    }

    private static double sum(List<FieldCosts> fields, ToDoubleFunction<FieldCosts> of) {
        return fields.stream().mapToDouble(of).sum();
    }

    private static double predictedBefore(List<FieldCosts> fields) {
        return sum(fields, FieldCosts::predictedBefore);
    }

    private static double measuredBefore(List<FieldCosts> fields) {
        return sum(fields, field -> field.measuredBefore().median());
    }

    private static double predictedAfter(List<FieldCosts> fields) {
        return sum(fields, FieldCosts::predictedAfter);
    }

    private static double measuredAfter(List<FieldCosts> fields) {
        return sum(fields, field -> field.measuredAfter().median());
    }

    private static Chart chart(List<FieldCosts> fields, String when, String name) {
        return new Chart(
                name,
                "Cost of all reads, " + when,
                "ms",
                false,
                List.of("all on disk", "placed"),
                List.of(
                        new Chart.Series(
                                "predicted",
                                List.of(
                                        predictedBefore(fields) / MILLION,
                                        predictedAfter(fields) / MILLION)),
                        new Chart.Series(
                                "measured",
                                List.of(
                                        measuredBefore(fields) / MILLION,
                                        measuredAfter(fields) / MILLION))));
    }

    private static List<Claim> claims(PlacementJob.Result result, String when) {
        List<FieldCosts> fields = result.fields();
        double predicted = predictedAfter(fields) / predictedBefore(fields);
        double measured = measuredAfter(fields) / measuredBefore(fields);
        return List.of(
                new Claim(
                        "cost of reads once fields are placed by a profile, to that before, "
                                + when,
                        "–",
                        Spread.number(measured)
                                + ", where "
                                + Spread.number(predicted)
                                + " was predicted",
                        measured,
                        result.movedBytes() == 0 ? null : 1.0),
                new Claim(
                        "the measured fall of that cost to the predicted one, " + when,
                        "–",
                        Spread.number(measured / predicted),
                        measured / predicted,
                        null));
    }
}
