package dev.terrace.objects.processor.model;

import static dev.terrace.objects.StorageTier.DISK;

import dev.terrace.objects.Durable;
import dev.terrace.objects.Embedded;
import dev.terrace.objects.Tier;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.NavigableSet;
import java.util.Set;
import java.util.SortedSet;
import java.util.UUID;

/// A field of each class of the JDK whose values can be stored, and sets.
@Durable
record Invoice(
        UUID id,
        Instant sent,
        LocalDate due,
        LocalTime opens,
        @Tier(DISK) LocalDateTime printed,
        @Tier(DISK) Duration delay,
        BigDecimal sum,
        @Tier(DISK) BigInteger serial,
        Set<String> tags,
        NavigableSet<Long> numbers,
        SortedSet<Integer> none,
        @Embedded @Tier(DISK) Payment payment) {

    record Payment(UUID id, BigDecimal sum, Instant at) {}
}
