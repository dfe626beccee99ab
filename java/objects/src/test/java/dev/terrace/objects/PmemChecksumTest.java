package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Objects;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Checksums of values in persistent memory, which a pool has if it was ever told so.
class PmemChecksumTest {
    private static final PoolOptions SMALL = PoolOptions.defaults().extents(1 << 20);
    private static final String TEXT = "a text with a buffer of its own";

    /// Length, checksum and seal, and the byte that says how the text is encoded.
    private static final int FRONT_BYTES = 17;

    @TempDir(factory = InMemory.class)
    Path dir;

    /// Stores the text; returns where it is in the pool's file.
    private int store() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            DurablePerson person = DurablePerson.create(pool);
            person.setPlace(TEXT);
            pool.root("person", DurablePerson.TYPE).set(person);
        }
        return new String(Files.readAllBytes(dir.resolve("pool")), StandardCharsets.ISO_8859_1)
                .indexOf(TEXT);
    }

    private void flip(int bit) throws IOException {
        try (RandomAccessFile file = new RandomAccessFile(dir.resolve("pool").toFile(), "rw")) {
            file.seek(bit / Byte.SIZE);
            int before = file.read();
            file.seek(bit / Byte.SIZE);
            file.write(before ^ 1 << bit % Byte.SIZE);
        }
    }

    private static String place(Pool pool) {
        return String.valueOf(
                Objects.requireNonNull(pool.root("person", DurablePerson.TYPE).get()).getPlace());
    }

    @Test
    void eachBitThatIsFlippedIsNoticedWhoeverHasWritten() throws IOException {
        Pool.open(dir, SMALL.withPmemChecksums()).close();
        int at = store();
        for (int bit = Byte.SIZE * (at - FRONT_BYTES);
                bit < Byte.SIZE * (at + TEXT.length());
                bit++) {
            flip(bit);
            try (Pool pool = Pool.open(dir, SMALL.toRead())) {
                assertThrows(PoolDamagedException.class, () -> place(pool), "bit " + bit);
                assertFalse(pool.check().problems().isEmpty(), "bit " + bit);
            }
            flip(bit);
        }
        try (Pool pool = Pool.open(dir, SMALL.toRead())) {
            assertEquals(TEXT, place(pool));
            assertEquals(List.of(), pool.check().problems());
        }
    }

    /// What was there before gets its checksum when it is written again.
    @Test
    void bothKindsOfValuesAreRead() throws IOException {
        int at = store();
        try (Pool pool = Pool.open(dir, SMALL.withPmemChecksums())) {
            DurablePerson person =
                    Objects.requireNonNull(pool.root("person", DurablePerson.TYPE).get());
            assertEquals(TEXT, person.getPlace());
            person.setName(TEXT);
            assertEquals(TEXT, person.getName());
            assertEquals(List.of(), pool.check().problems());
        }
        flip(Byte.SIZE * at);
        try (Pool pool = Pool.open(dir, SMALL)) {
            assertTrue(place(pool).endsWith(TEXT.substring(1)), "nothing vouches for it");
            Objects.requireNonNull(pool.root("person", DurablePerson.TYPE).get()).setPlace(TEXT);
            assertEquals(TEXT, place(pool));
        }
    }
}
