package dev.terrace.objects.processor.model;

import static dev.terrace.objects.StorageTier.DISK;
import static dev.terrace.objects.StorageTier.PMEM;

import dev.terrace.objects.Durable;
import dev.terrace.objects.Tier;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.List;
import java.util.Map;
import java.util.NavigableSet;
import java.util.Set;
import java.util.SortedMap;
import java.util.UUID;

/// Collections of values of each class of the JDK that can be stored.
@Durable
record Ledger(
        Map<UUID, BigDecimal> balances,
        SortedMap<Instant, UUID> booked,
        @Tier({PMEM, DISK}) Map<LocalDate, Duration> open,
        @Tier(DISK) List<LocalDateTime> closed,
        List<LocalTime> bells,
        Set<BigInteger> serials,
        NavigableSet<BigDecimal> prices,
        NavigableSet<LocalDate> holidays) {}
