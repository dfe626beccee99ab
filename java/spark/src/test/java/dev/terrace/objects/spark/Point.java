package dev.terrace.objects.spark;

import dev.terrace.objects.Durable;
import dev.terrace.objects.FixedLength;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.Tier;
import java.io.Serializable;
import java.util.Arrays;

/// A tagged class that Spark can move about.
@Durable
record Point(int id, @FixedLength(3) double[] row, @Tier(StorageTier.DISK) String note)
        implements Serializable {
    static Point of(int id) {
        return new Point(id, new double[] {id, -id, id / 3.0}, "the note of point " + id);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Point that
                && id == that.id
                && Arrays.equals(row, that.row)
                && note.equals(that.note);
    }

    @Override
    public int hashCode() {
        return id;
    }
}
