package dev.terrace.objects.evaluation.run;

import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;

/// The garbage collections of a process since it began.
///
/// @param young collections of the young generation only; with G1 also the short pauses of its
///   concurrent work
/// @param youngSeconds how long they stopped the process, in all
/// @param full collections of the whole heap
/// @param fullSeconds how long they stopped the process, in all
public record GcPauses(long young, double youngSeconds, long full, double fullSeconds) {
    private static final double MILLIS = 1e3;

    /// Up to now, in this process.
    public static GcPauses now() {
        GcPauses all = new GcPauses(0, 0, 0, 0);
        for (GarbageCollectorMXBean collector : ManagementFactory.getGarbageCollectorMXBeans()) {
            long count = Math.max(0, collector.getCollectionCount());
            double seconds = Math.max(0, collector.getCollectionTime()) / MILLIS;
            all =
                    all.plus(
                            isFull(collector.getName())
                                    ? new GcPauses(0, 0, count, seconds)
                                    : new GcPauses(count, seconds, 0, 0));
        }
        return all;
    }

    private static boolean isFull(String collector) {
        return switch (collector) {
            case "PS MarkSweep", "G1 Old Generation", "MarkSweepCompact" -> true;
            default -> false;
        };
    }

    /// These and others.
    public GcPauses plus(GcPauses other) {
        return new GcPauses(
                young + other.young,
                youngSeconds + other.youngSeconds,
                full + other.full,
                fullSeconds + other.fullSeconds);
    }

    /// These without those that had happened before.
    public GcPauses since(GcPauses before) {
        return new GcPauses(
                young - before.young,
                youngSeconds - before.youngSeconds,
                full - before.full,
                fullSeconds - before.fullSeconds);
    }

    /// How long all stopped the process.
    public double seconds() {
        return youngSeconds + fullSeconds;
    }
}
