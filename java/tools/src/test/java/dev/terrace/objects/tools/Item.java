package dev.terrace.objects.tools;

import static dev.terrace.objects.StorageTier.DISK;
import static dev.terrace.objects.StorageTier.DRAM;

import dev.terrace.objects.Durable;
import dev.terrace.objects.FixedLength;
import dev.terrace.objects.Tier;
import java.util.List;

/// A class with fields of several kinds.
@Durable
class Item {
    /// A constant or two.
    enum Color {
        RED,
        GREEN
    }

    int number;
    String label;
    Color color;
    char sign;
    Integer rank;

    @FixedLength(20)
    double[] row = new double[20];

    @Tier(DISK)
    byte[] picture;

    Item next;
    List<String> tags;

    @Tier(DRAM)
    int visits;
}
