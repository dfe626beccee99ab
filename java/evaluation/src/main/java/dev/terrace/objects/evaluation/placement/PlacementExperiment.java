package dev.terrace.objects.evaluation.placement;

import dev.terrace.objects.evaluation.experiment.Experiment;
import dev.terrace.objects.evaluation.experiment.Repeated;
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

/// The costs of a workload that profiled placement (section 3.4 of the paper) predicts, and its
/// measured costs.
public final class PlacementExperiment implements Experiment {
    private static final int ARTICLES = 10_000;
    private static final int ARTICLES_QUICK = 200;
    private static final int RUNS = 5;

    /// How far a prediction may be off, as a factor, in either direction.
    private static final double WITHIN = 1.5;

    private static final double MILLION = 1e6;
    private static final double MIB = 1 << 20;

    /// The measurements, of each round.
    ///
    /// @param warm with the disk's pages in memory
    /// @param cold with none of them there; none if the system could not be told to forget them
    private record Measured(List<PlacementJob.Result> warm, List<PlacementJob.Result> cold) {}

    @Override
    public Section run(Settings settings) throws IOException, InterruptedException {
        boolean mayDrop = settings.dropCaches();
        Repeated<PlacementJob.Result> warm =
                new Repeated<>("disk in memory", () -> run(settings, false));
        Repeated<PlacementJob.Result> cold =
                new Repeated<>("disk not in memory", () -> run(settings, true));
        Repeated.all(settings, "placement", mayDrop ? List.of(warm, cold) : List.of(warm));
        Measured measured = new Measured(warm.results(), cold.results());
        List<Table> tables = new ArrayList<>();
        List<Figure> figures = new ArrayList<>();
        List<Claim> claims = new ArrayList<>();
        show(measured.warm(), "disk in memory", "placement-warm", tables, figures, claims);
        if (mayDrop) {
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
            List<PlacementJob.Result> rounds,
            String when,
            String name,
            List<Table> tables,
            List<Figure> figures,
            List<Claim> claims) {
        PlacementJob.Result all = together(rounds);
        tables.add(table(all, when));
        figures.add(Figure.of(chart(all.fields(), when, name)));
        claims.addAll(claims(rounds, when));
    }

    /// The medians of all rounds as one result; where fields were placed in the last of them.
    private static PlacementJob.Result together(List<PlacementJob.Result> rounds) {
        PlacementJob.Result last = rounds.getLast();
        List<FieldCosts> fields =
                last.fields().stream()
                        .map(field ->
                                new FieldCosts(
                                        field.field(),
                                        field.reads(),
                                        field.tier(),
                                        of(rounds, field, FieldCosts::predictedBefore).median(),
                                        of(rounds, field, one -> one.measuredBefore().median()),
                                        of(rounds, field, FieldCosts::predictedAfter).median(),
                                        of(rounds, field, one -> one.measuredAfter().median())))
                        .toList();
        return new PlacementJob.Result(fields, last.movedBytes());
    }

    private static Spread of(
            List<PlacementJob.Result> rounds, FieldCosts field, ToDoubleFunction<FieldCosts> what) {
        return Spread.of(
                rounds.stream()
                        .flatMap(round -> round.fields().stream())
                        .filter(one -> one.field().equals(field.field()))
                        .mapToDouble(what)
                        .toArray());
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

    private static List<Claim> claims(List<PlacementJob.Result> rounds, String when) {
        Spread predicted =
                Spread.of(
                        rounds.stream()
                                .mapToDouble(round ->
                                        predictedAfter(round.fields())
                                                / predictedBefore(round.fields()))
                                .toArray());
        Spread measured =
                Spread.of(
                        rounds.stream()
                                .mapToDouble(round ->
                                        measuredAfter(round.fields())
                                                / measuredBefore(round.fields()))
                                .toArray());
        boolean isMoved = rounds.stream().allMatch(round -> round.movedBytes() > 0);
        return List.of(
                Claim.measured(
                        "cost of reads once fields are placed by a profile, to that before, "
                                + when,
                        "–",
                        measured + ", where " + predicted + " was predicted",
                        measured,
                        isMoved ? 1.0 : null),
                Claim.measured(
                        "the measured change of that cost to the predicted one, or the inverse,"
                                + " whichever is more, "
                                + when,
                        "–",
                        measured.over(predicted).larger(predicted.over(measured)),
                        WITHIN));
    }
}
