package dev.terrace.objects.evaluation;

import dev.terrace.objects.evaluation.changes.ChangesExperiment;
import dev.terrace.objects.evaluation.experiment.Experiment;
import dev.terrace.objects.evaluation.experiment.Settings;
import dev.terrace.objects.evaluation.graph.GraphExperiment;
import dev.terrace.objects.evaluation.graph.ImageExperiment;
import dev.terrace.objects.evaluation.kmeans.KMeansExperiment;
import dev.terrace.objects.evaluation.placement.PlacementExperiment;
import dev.terrace.objects.evaluation.queries.QueriesExperiment;
import dev.terrace.objects.evaluation.reopen.ReopenExperiment;
import dev.terrace.objects.evaluation.report.Report;
import dev.terrace.objects.evaluation.report.Section;
import dev.terrace.objects.evaluation.run.Forks;
import dev.terrace.objects.evaluation.run.Processes;
import dev.terrace.objects.evaluation.surface.SurfaceExperiment;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystemException;
import java.nio.file.Path;
import java.time.Duration;
import java.time.LocalTime;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/// The command that does the evaluation, prints its tables, and writes its report.
@Command(
        name = "evaluation",
        description =
                "Measures what the paper's section 4 does, side by side, and writes"
                        + " OBJECTS-EVALUATION.md, its plots, and evaluation.json.",
        mixinStandardHelpOptions = true,
        version = "terrace-objects 0.1.0",
        sortOptions = false)
public final class Evaluation implements Callable<Integer> {
    private static final int FAILED = 8;
    private static final Map<String, Experiment> EXPERIMENTS = experiments();
    private static final int COPIES = 100;
    private static final int ROWS = 10_000_000;
    private static final int ROWS_QUICK = 20_000;
    private static final double SCALE = 0.25;
    private static final double SCALE_MAX = 1000;
    private static final double SCALE_QUICK = 0.002;
    private static final int RUNS = 5;

    private final Function<Duration, Processes> processes;
    private final String command;

    @Spec private @Nullable CommandSpec spec;

    @Option(
            names = "--only",
            split = ",",
            paramLabel = "NAME",
            completionCandidates = Names.class,
            description = "What to measure, of ${COMPLETION-CANDIDATES}; all of it by default.")
    private List<String> only = new ArrayList<>(EXPERIMENTS.keySet());

    @Option(
            names = "--data",
            paramLabel = "FILE",
            description =
                    "The archive ego-facebook.tar.gz; without it the graph is a synthetic one of"
                            + " the same shape.")
    private @Nullable Path data;

    @Option(
            names = "--copies",
            paramLabel = "N",
            description = "Copies of the graph (" + COPIES + "): one takes a few MiB.")
    private @Nullable Integer copies;

    @Option(
            names = "--rows",
            paramLabel = "N",
            description = "Rows of tables, records of pools (" + ROWS + ").")
    private @Nullable Integer rows;

    @Option(
            names = "--scale",
            paramLabel = "F",
            description =
                    "Scale of the tables that queries read ("
                            + SCALE
                            + "): 1 is six million lines of orders, and takes some 3 GiB of"
                            + " persistent memory.")
    private @Nullable Double scale;

    @Option(
            names = "--runs",
            paramLabel = "N",
            description =
                    "Rounds, in each of which everything is measured once ("
                            + RUNS
                            + "); fewer than 5 decide nothing.")
    private @Nullable Integer runs;

    @Option(
            names = "--quick",
            description =
                    "Only shows that all of it runs: one copy, " + ROWS_QUICK + " rows, one run.")
    private boolean isQuick;

    @Option(
            names = "--out",
            paramLabel = "DIR",
            description =
                    "Where the report is written (${DEFAULT-VALUE}); what it says of other"
                            + " measurements stays.")
    private Path out = Path.of("java/docs");

    @Option(
            names = "--pmem",
            paramLabel = "DIR",
            description = "Persistent memory, or what stands in for it (${DEFAULT-VALUE}).")
    private Path pmem = Path.of("/dev/shm");

    @Option(
            names = "--disk",
            paramLabel = "DIR",
            description = "A directory on a disk (${DEFAULT-VALUE}).")
    private Path disk = Path.of("/var/tmp");

    @Option(
            names = "--limit",
            paramLabel = "SECONDS",
            description = "How long a single process may take (${DEFAULT-VALUE}).")
    private int limitSeconds = 900;

    private Evaluation(Function<Duration, Processes> processes, String command) {
        this.processes = processes;
        this.command = command;
    }

    private static Map<String, Experiment> experiments() {
        Map<String, Experiment> all = new LinkedHashMap<>();
        all.put("kmeans", new KMeansExperiment());
        all.put("graph", new GraphExperiment());
        all.put("images", new ImageExperiment());
        all.put("surface", new SurfaceExperiment());
        all.put("reopen", new ReopenExperiment());
        all.put("placement", new PlacementExperiment());
        all.put("queries", new QueriesExperiment());
        all.put("changes", new ChangesExperiment());
        return all;
    }

    /// The names of all experiments.
    static final class Names extends ArrayList<String> {
        private static final long serialVersionUID = 1;

        Names() {
            super(EXPERIMENTS.keySet());
        }
    }

    /// Does it.
    public static void main(String[] arguments) {
        PrintWriter out = new PrintWriter(System.out, true, StandardCharsets.UTF_8);
        PrintWriter err = new PrintWriter(System.err, true, StandardCharsets.UTF_8);
        System.exit(run(Forks::new, out, err, arguments));
    }

    /// Does it, each piece of work where `processes`, which is given the time limit, has it done.
    ///
    /// @return the exit status
    static int run(
            Function<Duration, Processes> processes,
            PrintWriter out,
            PrintWriter err,
            String... arguments) {
        Evaluation evaluation = new Evaluation(processes, command(arguments));
        CommandLine line = new CommandLine(evaluation).setOut(out).setErr(err);
        line.setExecutionExceptionHandler((failure, _, _) -> {
            err.println("evaluation: " + message(failure));
            return FAILED;
        });
        return line.execute(arguments);
    }

    /// As it is given to make, without what is of this machine only: of files their names.
    private static String command(String... arguments) {
        List<String> all =
                Arrays.stream(arguments)
                        .map(argument ->
                                argument.contains("/")
                                        ? String.valueOf(Path.of(argument).getFileName())
                                        : argument)
                        .toList();
        return "make bench-objects ARGS=none"
                + (all.isEmpty() ? "" : " EVALUATION='" + String.join(" ", all) + "'");
    }

    private static String message(Exception failure) throws Exception {
        return switch (failure) {
            case FileSystemException e ->
                    e.getFile()
                            + ": "
                            + (e.getReason() == null
                                    ? e.getClass().getSimpleName()
                                    : e.getReason());
            case IOException e -> String.valueOf(e.getMessage());
            // A mistake of this program, or what must not happen: where, is wanted then.
            default -> throw failure;
        };
    }

    @Override
    public Integer call() throws IOException, InterruptedException {
        CommandLine line = Objects.requireNonNull(spec).commandLine();
        for (String name : only) {
            if (!EXPERIMENTS.containsKey(name)) {
                throw new ParameterException(
                        line,
                        "--only " + name + ": there is " + String.join(", ", EXPERIMENTS.keySet()));
            }
        }
        if (data != null) {
            GraphExperiment.check(data);
        }
        Settings settings = settings(line);
        Report report = new Report(out, List.copyOf(EXPERIMENTS.keySet()));
        for (String name : only) {
            Section section = Objects.requireNonNull(EXPERIMENTS.get(name)).run(settings);
            report.add(section);
            line.getOut().print(section.toMarkdown());
            line.getOut().flush();
        }
        return 0;
    }

    private Settings settings(CommandLine line) {
        return new Settings(
                command,
                data,
                positive("--copies", copies, isQuick ? 1 : COPIES),
                positive("--rows", rows, isQuick ? ROWS_QUICK : ROWS),
                scale(),
                positive("--runs", runs, isQuick ? 1 : RUNS),
                isQuick,
                pmem,
                disk,
                processes.apply(Duration.ofSeconds(positive("--limit", limitSeconds, 0))),
                step ->
                        line.getErr()
                                .println(
                                        LocalTime.now().truncatedTo(ChronoUnit.SECONDS)
                                                + " "
                                                + step));
    }

    private double scale() {
        if (scale != null && !(scale > 0 && scale <= SCALE_MAX)) {
            throw new ParameterException(
                    Objects.requireNonNull(spec).commandLine(),
                    "--scale " + scale + ": it is more than 0 and at most " + SCALE_MAX);
        }
        return scale != null ? scale : isQuick ? SCALE_QUICK : SCALE;
    }

    private int positive(String name, @Nullable Integer given, int otherwise) {
        if (given != null && given < 1) {
            throw new ParameterException(
                    Objects.requireNonNull(spec).commandLine(),
                    name + " " + given + ": it is at least 1");
        }
        return given == null ? otherwise : given;
    }
}
