package dev.terrace.objects.processor.model;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolOptions;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// A generated `toString` says what it can, and why it cannot say the rest.
class ToStringTest {
    private static final String STREET = "a street on the disk, which does not fit into its slot";

    @TempDir private Path directory;

    private Pool open() throws IOException {
        return Pool.open(directory.resolve("pool"), PoolOptions.defaults().extents(1 << 20));
    }

    private static DurablePerson person(Pool pool) {
        DurablePerson person = DurablePerson.create(pool);
        person.setAge(11);
        person.setName("Bob");
        person.setHomeStreet(STREET);
        return person;
    }

    private static void isUnreadable(String why, DurablePerson person) {
        String text = person.toString();
        assertTrue(
                text.startsWith("DurablePerson[")
                        && text.contains("age=<unreadable>, ")
                        && text.contains("] (" + why + ": "),
                text);
    }

    @Test
    void anObjectThatIsNoneAnyMoreIsSaidToBe() throws IOException {
        DurablePerson person;
        AtomicReference<DurablePerson> rolledBack = new AtomicReference<>(new DurablePerson());
        isUnreadable("NullPointerException", rolledBack.get());
        try (Pool pool = open()) {
            assertThrows(
                    IllegalStateException.class,
                    () ->
                            pool.transact(() -> {
                                rolledBack.set(person(pool));
                                throw new IllegalStateException("changed my mind");
                            }));
            isUnreadable("StaleReferenceException", rolledBack.get());
            person = person(pool);
            DurablePerson deleted = person(pool);
            deleted.delete();
            isUnreadable("StaleReferenceException", deleted);
        }
        isUnreadable("PoolClosedException", person);
    }

    @Test
    void theOtherFieldsOfADamagedObjectAreShown() throws IOException {
        try (Pool pool = open()) {
            DurablePerson person = person(pool);
            String before = person.toString();
            try (FileChannel disk =
                    FileChannel.open(
                            directory.resolve("pool").resolve("disk-0"),
                            StandardOpenOption.WRITE)) {
                disk.truncate(4096);
            }
            // A handle keeps what it has read.
            String text = pool.object(DurablePerson.TYPE, person.reference()).toString();
            assertTrue(
                    text.startsWith(
                            before.substring(0, before.indexOf("home.street="))
                                    + "home.street=<unreadable>, "),
                    text);
            assertTrue(
                    text.contains("age=11, ")
                            && text.contains("name=Bob, ")
                            && text.contains("] (PoolDamagedException: "),
                    text);
            assertEquals(
                    before.replace("home.street=" + STREET, "home.street=<unreadable>")
                            .replace("home.open=false", "home.open=<unreadable>")
                            .replace(
                                    "0.0, home.geo.lon=0.0",
                                    "<unreadable>, home.geo.lon=<unreadable>"),
                    text.substring(0, text.indexOf(" (")),
                    "fields that share a buffer share its damage");
        }
    }
}
