package dev.terrace.objects.arrow;

import static dev.terrace.objects.StorageTier.DISK;
import static dev.terrace.objects.StorageTier.DRAM;
import static dev.terrace.objects.StorageTier.PMEM;

import dev.terrace.objects.Durable;
import dev.terrace.objects.Embedded;
import dev.terrace.objects.FixedLength;
import dev.terrace.objects.Tier;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.List;
import java.util.UUID;

/// A class with fields of all types.
@Durable
class Sample {
    /// Some constants.
    enum Color {
        RED,
        GREEN,
        BLUE
    }

    /// Embedded within what is embedded.
    record Spot(double east, Double north, String name) {}

    /// Embedded.
    record Place(String street, int zip, @Embedded Spot spot) {}

    boolean flag;
    byte tiny;
    short small;
    char sign;
    int number;
    long large;
    float half;
    double whole;
    Boolean anyFlag;
    Byte anyTiny;
    Short anySmall;
    Character anySign;
    Integer anyNumber;
    Long anyLarge;
    Float anyHalf;
    Double anyWhole;
    String text;
    byte[] bytes;
    boolean[] flags;
    short[] smalls;
    char[] signs;
    int[] numbers;
    long[] larges;
    float[] halves;
    double[] wholes;

    @FixedLength(3)
    double[] point = new double[3];

    @FixedLength(5)
    byte[] code = new byte[5];

    @FixedLength(11)
    boolean[] bits = new boolean[11];

    @FixedLength(2)
    char[] pair = new char[2];

    Color color;
    UUID uuid;
    Instant instant;
    LocalDate date;
    LocalDateTime dateTime;
    LocalTime time;
    Duration duration;
    BigInteger integer;
    BigDecimal decimal;
    @Embedded Place place;
    Sample next;
    List<Integer> scores;

    @Tier(DISK)
    int diskNumber;

    @Tier(DISK)
    Long diskLarge;

    @Tier(DISK)
    String diskText;

    @Tier(DISK)
    Instant diskInstant;

    @Tier({PMEM, DISK})
    byte[] anywhere;

    @Tier(DISK)
    @FixedLength(4)
    int[] diskPoint = new int[4];

    @Tier(DISK)
    @Embedded
    Place diskPlace;

    @Tier(DRAM)
    int visits;
}
