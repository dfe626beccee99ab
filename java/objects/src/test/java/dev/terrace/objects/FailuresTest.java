package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.terrace.objects.internal.store.Medium;
import dev.terrace.objects.internal.store.StoreFailure;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/// What the store says is told to programs in their own words.
class FailuresTest {
    private static final Map<StoreFailure, Class<? extends TerraceException>> TOLD =
            Map.of(
                    new StoreFailure.Busy("why"), PoolBusyException.class,
                    new StoreFailure.Closed("why"), PoolClosedException.class,
                    new StoreFailure.Damaged("why"), PoolDamagedException.class,
                    new StoreFailure.UnknownFormat("why"), PoolFormatException.class,
                    new StoreFailure.Full("why"), PoolFullException.class,
                    new StoreFailure.Aborted("why", null), TransactionAbortedException.class,
                    new StoreFailure.Mismatch("why"), SchemaMismatchException.class,
                    new StoreFailure.ReadOnly("why"), PoolReadOnlyException.class,
                    new StoreFailure.Stale("why"), StaleReferenceException.class,
                    new StoreFailure.Unavailable("why", null), TierUnavailableException.class);

    @Test
    void eachFailureIsToldWithWhatItSaysAndWhereItHappened() {
        assertEquals(StoreFailure.class.getPermittedSubclasses().length, TOLD.size());
        TOLD.forEach((failure, wanted) -> {
            TerraceException told = Failures.told(failure);
            assertEquals(wanted, told.getClass());
            assertEquals("why", told.getMessage());
            assertNull(told.getCause());
            assertArrayEquals(failure.getStackTrace(), told.getStackTrace());
        });
    }

    @Test
    void causesAndWhatWasSuppressedAreToldToo() {
        StoreFailure failure =
                new StoreFailure.Full("no room", new StoreFailure.Damaged("damaged"));
        failure.addSuppressed(new StoreFailure.Unavailable("away", null));
        TerraceException told = Failures.told(failure);
        assertEquals(PoolDamagedException.class, told.getCause().getClass());
        assertEquals(TierUnavailableException.class, told.getSuppressed()[0].getClass());
    }

    @Test
    void whatAProgramHasSeenAlreadyIsTheSameWhenItComesBack() {
        for (TerraceException seen :
                List.of(
                        new PoolDamagedException("why"),
                        new PoolFullException("why"),
                        new TierUnavailableException("why", null),
                        new PoolClosedException("why"))) {
            TerraceException back =
                    assertThrows(
                            TerraceException.class,
                            () ->
                                    Failures.telling(() ->
                                            Failures.turningBack(() -> {
                                                throw seen;
                                            })));
            assertSame(seen, back);
        }
    }

    @Test
    void mediaAreCalledAndCountedAsTiersAre() {
        assertEquals(
                Arrays.stream(StorageTier.values()).map(StorageTier::name).toList(),
                Arrays.stream(Medium.values()).map(Medium::name).toList());
        assertEquals(
                List.of(Medium.SSD, Medium.REMOTE),
                Medium.named(List.of(StorageTier.SSD, StorageTier.REMOTE)));
    }
}
