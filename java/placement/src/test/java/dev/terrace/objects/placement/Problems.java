package dev.terrace.objects.placement;

import dev.terrace.objects.StorageTier;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;

/// Problems that tests make up, with whole numbers for costs, so that sums are exact.
final class Problems {
    private static final StorageTier[] TIERS = {
        StorageTier.PMEM, StorageTier.SSD, StorageTier.HDD, StorageTier.REMOTE, StorageTier.DRAM
    };

    private Problems() {}

    /// A problem of so many fields and devices. What is on any device but the first takes some of
    /// the first, too.
    ///
    /// @param tightness share of what all takes, if each field lies where it is cheapest, that the
    ///   devices have room for
    static PlacementProblem random(long seed, int fields, int devices, double tightness) {
        Random random = new Random(seed);
        List<PlacementField> all = new ArrayList<>();
        long[] wanted = new long[devices];
        for (int i = 0; i < fields; i++) {
            List<Choice> choices = new ArrayList<>();
            long objects = 1 + random.nextInt(1_000_000);
            long size = 1 + random.nextInt(1 << random.nextInt(1, 14));
            for (int device = 0; device < devices; device++) {
                long failures = random.nextInt(1000) * objects;
                Long[] bytes = new Long[devices];
                Arrays.fill(bytes, 0L);
                bytes[0] = 8 * objects;
                bytes[device] += size * objects;
                boolean isRefused = random.nextInt(6) == 0;
                long cost = random.nextInt(1, 1000) * objects * (device + 1);
                choices.add(
                        new Choice(cost, failures, List.of(bytes), isRefused ? "not there" : ""));
                wanted[device] += bytes[device] / devices;
            }
            all.add(new PlacementField(new FieldName("Some", "field" + i), true, choices));
        }
        List<Device> on = new ArrayList<>();
        List<Long> reserved = new ArrayList<>();
        for (int device = 0; device < devices; device++) {
            long capacity =
                    random.nextInt(4) == 0
                            ? Long.MAX_VALUE
                            : (long) (wanted[device] * tightness * (0.5 + random.nextDouble()));
            on.add(
                    Device.of(TIERS[device], CostTable.constant(1), CostTable.constant(1))
                            .capacity(capacity));
            reserved.add((long) random.nextInt(1000));
        }
        return new PlacementProblem(on, reserved, all);
    }

    /// A problem of pairs of fields that cost and take the same, so many pairs.
    static PlacementProblem alike(long seed, int pairs, int devices, double tightness) {
        PlacementProblem one = random(seed, 2, devices, tightness * pairs);
        List<PlacementField> all = new ArrayList<>();
        for (int i = 0; i < 2 * pairs; i++) {
            FieldName name = new FieldName("Some", "field" + i);
            all.add(new PlacementField(name, true, one.fields().get(i % 2).choices()));
        }
        return new PlacementProblem(one.devices(), one.reservedBytes(), all);
    }

    /// What all combinations say.
    ///
    /// @param cost the least of those that are feasible; infinite if none is
    /// @param missing the fewest bytes too few, of those in which each field is where it may be
    record Truth(double cost, long missing) {}

    static Truth bruteForce(PlacementProblem problem) {
        int fields = problem.fields().size();
        int devices = problem.devices().size();
        int[] assignment = new int[fields];
        double best = Double.POSITIVE_INFINITY;
        long missing = Long.MAX_VALUE;
        long combinations = (long) Math.pow(devices, fields);
        for (long code = 0; code < combinations; code++) {
            long rest = code;
            boolean isAllowed = true;
            for (int i = 0; i < fields; i++) {
                assignment[i] = (int) (rest % devices);
                rest /= devices;
                isAllowed &= problem.choice(i, assignment[i]).isAllowed();
            }
            if (isAllowed) {
                long over = Arrays.stream(problem.overflow(assignment)).sum();
                missing = Math.min(missing, over);
                best = over == 0 ? Math.min(best, problem.cost(assignment)) : best;
            }
        }
        return new Truth(best, missing);
    }
}
