package dev.terrace.objects.placement;

import java.util.Arrays;
import java.util.function.IntToLongFunction;

/// Measures what an action costs: medians of samples, each of many actions if one is short.
///
/// @param warmNanos for how long the action is done before, so that it is compiled
/// @param samples how many are taken
/// @param sampleNanos how long a sample is to be at least
record Stopwatch(long warmNanos, int samples, long sampleNanos) {
    /// Where the results of actions go, so that nobody leaves them out.
    private static volatile long sink;

    /// The median of what an action costs, in nanoseconds. It is called with the numbers from 0,
    /// again and again.
    double median(IntToLongFunction action) {
        int from = 0;
        for (long begin = System.nanoTime(); System.nanoTime() - begin < warmNanos; from++) {
            time(action, from, 1);
        }
        int count = 1;
        while (time(action, from, count) < sampleNanos && count < 1 << 20) {
            count *= 2;
        }
        double[] nanos = new double[samples];
        for (int i = 0; i < samples; i++) {
            nanos[i] = (double) time(action, from + i * count, count) / count;
        }
        Arrays.sort(nanos);
        return nanos[samples / 2];
    }

    private static long time(IntToLongFunction action, int from, int count) {
        long sum = 0;
        long begin = System.nanoTime();
        for (int i = from; i < from + count; i++) {
            sum += action.applyAsLong(i & Integer.MAX_VALUE);
        }
        long nanos = System.nanoTime() - begin;
        sink = sum;
        return nanos;
    }
}
