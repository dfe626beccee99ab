package dev.terrace.objects.evaluation.run;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;

/// How long each phase of some work takes in this process, and how long the garbage collector stops
/// it meanwhile.
public final class Meter {
    private static final double NANOS = 1e9;

    private final List<Phase> phases = new ArrayList<>();

    /// Does a phase's work.
    public <T> T phase(String name, Callable<T> work) throws Exception {
        GcPauses before = GcPauses.now();
        long cpuStart = cpuNanos();
        long start = System.nanoTime();
        T result = work.call();
        double seconds = (System.nanoTime() - start) / NANOS;
        phases.add(
                new Phase(
                        name,
                        seconds,
                        (cpuNanos() - cpuStart) / NANOS,
                        GcPauses.now().since(before)));
        return result;
    }

    private static long cpuNanos() {
        return ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class).getProcessCpuTime();
    }

    /// The phases so far.
    public List<Phase> phases() {
        return List.copyOf(phases);
    }
}
