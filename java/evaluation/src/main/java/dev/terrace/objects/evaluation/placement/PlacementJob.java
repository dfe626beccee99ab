package dev.terrace.objects.evaluation.placement;

import dev.terrace.objects.Cursor;
import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolOptions;
import dev.terrace.objects.Profile;
import dev.terrace.objects.Profiling;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.evaluation.run.Job;
import dev.terrace.objects.evaluation.run.PageCache;
import dev.terrace.objects.evaluation.run.Spread;
import dev.terrace.objects.placement.BranchAndBoundSolver;
import dev.terrace.objects.placement.CostTable;
import dev.terrace.objects.placement.Device;
import dev.terrace.objects.placement.Placement;
import dev.terrace.objects.placement.PlacementOptions;
import dev.terrace.objects.placement.PlacementProblem;
import dev.terrace.objects.placement.Probe;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Random;

/// Has a pool profiled, its fields placed, and the placement applied while it is open; measures
/// what the same work costs before and after.
///
/// @param articles that there are
/// @param runs of the work before, and after
/// @param isCold whether nothing of the disk's files is in memory when the work begins, which only
///   root can see to
/// @param isProbed whether devices' costs are measured; if not, they are made up
record PlacementJob(Path pmem, Path disk, int articles, int runs, boolean isCold, boolean isProbed)
        implements Job<PlacementJob.Result> {
    /// Room in persistent memory for each article: not for its picture.
    private static final long PMEM_BYTES_EACH = 12_000;

    private static final int PER_TRANSACTION = 100;

    /// So that code is compiled.
    private static final int WARM_UP = 20;

    /// The result of the job.
    ///
    /// @param fields each of them
    /// @param movedBytes by the placement
    record Result(List<FieldCosts> fields, long movedBytes) {}

    /// The cost of all reads of a field, in nanoseconds.
    ///
    /// @param reads in a run
    /// @param tier where it was placed; before it was on the disk
    record FieldCosts(
            String field,
            long reads,
            StorageTier tier,
            double predictedBefore,
            Spread measuredBefore,
            double predictedAfter,
            Spread measuredAfter) {}

    @Override
    public Result run() throws IOException, InterruptedException {
        List<Device> devices = devices();
        try (Pool pool = open()) {
            fill(pool);
            for (int i = 0; i < WARM_UP; i++) {
                work(pool, i);
            }
        }
        Map<ReadField, Spread> before = measure();
        Placement placement;
        long moved;
        try (Pool pool = open()) {
            Profile profile = profile(pool);
            placement =
                    new BranchAndBoundSolver()
                            .solve(
                                    PlacementProblem.of(
                                            profile,
                                            devices,
                                            PlacementOptions.defaults().live(profile)));
            moved = pool.place(placement.tiers()).bytesMoved();
        }
        return new Result(costs(placement, before, measure()), moved);
    }

    private List<Device> devices() throws IOException {
        List<Device> devices =
                isProbed
                        ? new Probe(pmem, options(), Probe.Effort.THOROUGH, isCold ? 0 : 1)
                                .run()
                                .devices()
                        : List.of(
                                madeUp(StorageTier.DRAM, 10),
                                madeUp(StorageTier.PMEM, 100),
                                madeUp(StorageTier.SSD, 10_000));
        return devices.stream()
                .map(device ->
                        device.tier() == StorageTier.PMEM
                                ? device.capacity(articles * PMEM_BYTES_EACH)
                                : device)
                .toList();
    }

    private static Device madeUp(StorageTier tier, double nanos) {
        return Device.of(tier, CostTable.constant(nanos), CostTable.constant(nanos)).asSimulated();
    }

    private PoolOptions options() {
        return PoolOptions.defaults().disk(StorageTier.SSD, disk);
    }

    private Pool open() throws IOException {
        return Pool.open(pmem, options());
    }

    private void fill(Pool pool) {
        Random random = new Random(1);
        for (int from = 0; from < articles; from += PER_TRANSACTION) {
            int count = Math.min(PER_TRANSACTION, articles - from);
            pool.transact(() -> {
                for (int i = 0; i < count; i++) {
                    DurableArticle.of(pool, article(random));
                }
            });
        }
    }

    private static Article article(Random random) {
        Article article = new Article();
        article.preview = bytes(random, ReadField.PREVIEW);
        article.text = bytes(random, ReadField.TEXT);
        article.picture = bytes(random, ReadField.PICTURE);
        return article;
    }

    private static byte[] bytes(Random random, ReadField field) {
        byte[] bytes = new byte[field.bytes];
        random.nextBytes(bytes);
        return bytes;
    }

    private Map<ReadField, Spread> measure() throws IOException, InterruptedException {
        List<Map<ReadField, Double>> measured = isCold ? measureCold() : measureWarm();
        Map<ReadField, Spread> spreads = new EnumMap<>(ReadField.class);
        for (ReadField field : ReadField.values()) {
            spreads.put(
                    field,
                    Spread.of(
                            measured.stream()
                                    .mapToDouble(nanos -> Objects.requireNonNull(nanos.get(field)))
                                    .toArray()));
        }
        return spreads;
    }

    /// Each run on a pool that was opened anew, as the system forgets no page that is mapped.
    private List<Map<ReadField, Double>> measureCold() throws IOException, InterruptedException {
        List<Map<ReadField, Double>> measured = new ArrayList<>();
        for (int run = 0; run < runs; run++) {
            if (!PageCache.drop()) {
                throw new IOException("the system's page cache cannot be dropped any more");
            }
            try (Pool pool = open()) {
                measured.add(work(pool, run));
            }
        }
        return measured;
    }

    /// Many runs on one pool, those that first look at a page among them.
    private List<Map<ReadField, Double>> measureWarm() throws IOException {
        List<Map<ReadField, Double>> measured = new ArrayList<>();
        try (Pool pool = open()) {
            for (int run = 0; run < runs * WARM_UP; run++) {
                measured.add(work(pool, run));
            }
        }
        return measured;
    }

    /// Reads fields of articles in an order in which they do not lie, each of others.
    ///
    /// @return the nanoseconds that this took, by field
    private Map<ReadField, Double> work(Pool pool, int seed) {
        List<DurableArticle> all = new ArrayList<>();
        Cursor<DurableArticle> cursor = pool.cursor(DurableArticle.TYPE);
        while (cursor.next()) {
            all.add(cursor.copy());
        }
        Collections.shuffle(all, new Random(seed));
        Map<ReadField, Double> nanos = new EnumMap<>(ReadField.class);
        int from = 0;
        for (ReadField field : ReadField.values()) {
            int to = from + field.reads(articles);
            nanos.put(field, nanos(all.subList(from, to), field));
            from = to;
        }
        return nanos;
    }

    private static double nanos(List<DurableArticle> some, ReadField field) {
        long length = 0;
        long start = System.nanoTime();
        for (DurableArticle article : some) {
            length += field.read.applyAsInt(article);
        }
        double nanos = System.nanoTime() - start;
        if (length == 0) {
            throw new IllegalStateException("articles have lost their " + field.field);
        }
        return nanos;
    }

    private Profile profile(Pool pool) {
        try (Profiling profiling = pool.profile()) {
            work(pool, 0);
            return profiling.profile();
        }
    }

    private List<FieldCosts> costs(
            Placement placement, Map<ReadField, Spread> before, Map<ReadField, Spread> after) {
        List<FieldCosts> costs = new ArrayList<>();
        for (Placement.Explanation explanation : placement.explain()) {
            ReadField field =
                    ReadField.valueOf(explanation.field().field().toUpperCase(Locale.ROOT));
            costs.add(
                    new FieldCosts(
                            field.field,
                            field.reads(articles),
                            explanation.device().tier(),
                            onDisk(explanation),
                            Objects.requireNonNull(before.get(field)),
                            explanation.choice().nanos(),
                            Objects.requireNonNull(after.get(field))));
        }
        return costs;
    }

    /// The cost of the field in its old place.
    private static double onDisk(Placement.Explanation explanation) {
        return explanation.device().tier() == StorageTier.SSD
                ? explanation.choice().nanos()
                : explanation.alternatives().stream()
                        .filter(alternative -> alternative.device().tier() == StorageTier.SSD)
                        .mapToDouble(Placement.Alternative::nanos)
                        .findFirst()
                        .orElseThrow();
    }
}
