package dev.terrace.objects.evaluation.queries;

import java.io.Serial;
import java.io.Serializable;

/// How many rows tables have, as TPC-H 4.2.5 counts them for a scale factor.
///
/// @param factor 1: some six million lines of orders
record Scale(double factor) implements Serializable {
    @Serial private static final long serialVersionUID = 1L;

    long suppliers() {
        return count(10_000);
    }

    long parts() {
        return count(200_000);
    }

    long customers() {
        return count(150_000);
    }

    long orders() {
        return count(1_500_000);
    }

    long clerks() {
        return count(1000);
    }

    /// At least so many that each kind of value is there.
    private long count(long ofOne) {
        return Math.max(10, Math.round(ofOne * factor));
    }
}
