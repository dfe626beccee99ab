package dev.terrace.objects.processor.model;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolFullException;
import dev.terrace.objects.PoolOptions;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.processor.model.Person.Color;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class RoundTripTest {
    @TempDir private Path directory;

    private Pool pool;

    @BeforeEach
    void open() throws IOException {
        pool = Pool.open(directory.resolve("pool"), PoolOptions.defaults().extents(1 << 20));
    }

    @AfterEach
    void close() {
        pool.close();
    }

    private long transactions() {
        return pool.statistics().commits();
    }

    private static Person person(String name, int age) {
        Person person = new Person();
        person.name = name;
        person.age = age;
        return person;
    }

    private static Person fullPerson() {
        Person person = person("Bob", 11);
        person.isMember = true;
        person.initial = 'B';
        person.luckyNumber = 7;
        person.image = new byte[] {1, 2, 3, 4, 5, 6, 7, 8};
        person.marks = new double[] {1.5, 2.5, 3.5};
        person.color = Color.GREEN;
        person.home = new Address().zip(1234);
        person.home.setStreet("High Street");
        person.home.setOpen(true);
        person.home.setGeo(new Geo(47.5, 7.5));
        person.home.setBounds(new double[] {1, 2});
        person.words = Arrays.asList("a", null, "c");
        person.counts = Map.of("x", 1L, "y", 2L);
        person.blobs = new TreeMap<>(Map.of("blob", new byte[] {9}));
        person.score = 5;
        person.cache = Map.of("k", List.of(1));
        person.visits = 3;
        return person;
    }

    @Test
    void allFieldsComeBack() {
        Person person = fullPerson();
        Person copy = DurablePerson.of(pool, person).toPerson();
        assertNotSame(person, copy);
        assertEquals("Bob", copy.name);
        assertEquals(11, copy.age);
        assertTrue(copy.isMember);
        assertEquals('B', copy.initial);
        assertEquals(7, copy.luckyNumber);
        assertArrayEquals(person.image, copy.image);
        assertNotSame(person.image, copy.image);
        assertArrayEquals(person.marks, copy.marks);
        assertEquals(Color.GREEN, copy.color);
        assertEquals("High Street", copy.home.getStreet());
        assertEquals(1234, copy.home.zip());
        assertTrue(copy.home.isOpen());
        assertEquals(new Geo(47.5, 7.5), copy.home.getGeo());
        assertArrayEquals(new double[] {1, 2}, copy.home.getBounds());
        assertEquals(person.words, copy.words);
        assertEquals(person.counts, copy.counts);
        assertArrayEquals(new byte[] {9}, copy.blobs.get("blob"));
        assertEquals(5, copy.score);
        assertEquals(person.cache, copy.cache);
        assertEquals(3, copy.visits);
    }

    @Test
    void textsAndBytesAreComparedInPlace() {
        DurablePerson person = DurablePerson.of(pool, fullPerson());
        assertTrue(person.nameEquals("Bob"));
        assertFalse(person.nameEquals("Eve"));
        assertFalse(person.nameEquals(null));
        assertTrue(person.imageEquals(new byte[] {1, 2, 3, 4, 5, 6, 7, 8}));
        assertFalse(person.imageEquals(new byte[8]));
        assertTrue(person.homeStreetEquals("High Street"));
        person.setHome(null);
        assertFalse(person.homeStreetEquals("High Street"));
        assertTrue(person.homeStreetEquals(null));
    }

    @Test
    void nullsComeBackAsNulls() {
        Person copy = DurablePerson.of(pool, person(null, 1)).toPerson();
        assertNull(copy.name);
        assertNull(copy.luckyNumber);
        assertNull(copy.marks);
        assertNull(copy.color);
        assertNull(copy.home);
        assertNull(copy.boss);
        assertNull(copy.friends);
        assertNull(copy.counts);
        assertNull(copy.byTime);
        assertNull(copy.cache);
    }

    @Test
    void createdObjectsAreZeroAndNull() {
        DurablePerson created = DurablePerson.create(pool);
        assertEquals(0, created.getAge());
        assertNull(created.getName());
        assertFalse(created.hasHome());
        assertArrayEquals(new byte[8], created.getImage());
        assertEquals(-1, created.getMarksLength());
        assertEquals(0, created.getVisits());
    }

    @Test
    void copyingInIsOneTransaction() {
        Person person = fullPerson();
        person.boss = person("Eve", 50);
        long before = transactions();
        DurablePerson durable = DurablePerson.of(pool, person);
        assertEquals(before + 1, transactions());
        durable.set(person("Bill", 12));
        assertEquals(before + 2, transactions());
        assertEquals("Bill", durable.getName());
        assertNull(durable.getBoss());
        assertFalse(durable.hasHome());
    }

    @Test
    void sharedObjectsStaySharedAndCyclesEnd() {
        Person ann = person("Ann", 1);
        Person ben = person("Ben", 2);
        ann.boss = ben;
        ben.boss = ann;
        ann.friends = new ArrayList<>(List.of(ben, ann, ben));
        ann.byNumber = Map.of(1, ben, 2, ann);
        ann.byTime = new TreeMap<>(Map.of(5L, ben));
        ann.home = new Address();
        ann.home.setOwner(ann);

        DurablePerson durable = DurablePerson.of(pool, ann);
        DurablePerson boss = durable.getBoss();
        assertNotNull(boss);
        assertEquals(durable, boss.getBoss());
        assertEquals(List.of(boss, durable, boss), durable.getFriends());
        assertEquals(Map.of(1, boss, 2, durable), durable.getByNumber());
        assertEquals(durable, durable.getHomeOwner());

        Person copy = durable.toPerson();
        assertSame(copy, copy.boss.boss);
        assertSame(copy.boss, copy.friends.get(0));
        assertSame(copy, copy.friends.get(1));
        assertSame(copy.boss, copy.byNumber.get(1));
        assertSame(copy.boss, copy.byTime.get(5L));
        assertSame(copy, copy.home.getOwner());
    }

    @Test
    void longChainsNeedNoDeepStack() {
        Node first = new Node();
        Node last = first;
        for (int i = 1; i < 50_000; i++) {
            last.next = new Node();
            last = last.next;
            last.value = i;
        }
        Node copy = DurableNode.of(pool, first).toNode();
        int length = 0;
        for (Node each = copy; each != null; each = each.next) {
            assertEquals(length, each.value);
            length++;
        }
        assertEquals(50_000, length);
    }

    @Test
    void recordsComeBack() {
        Person guide = person("Ann", 1);
        Trip last = new Trip("last", guide, null, null, null, null);
        Trip first =
                new Trip(
                        "first",
                        guide,
                        last,
                        List.of(last, last),
                        Map.of("l", last),
                        new Geo(1, 2));
        Trip copy = DurableTrip.of(pool, first).toTrip();
        assertEquals("last", copy.next().title());
        assertSame(copy.guide(), copy.next().guide());
        assertSame(copy.next(), copy.variants().get(1));
        assertSame(copy.next(), copy.byName().get("l"));
        assertEquals(new Geo(1, 2), copy.start());
        assertNull(copy.next().start());
    }

    @Test
    void aCycleOfRecordsCannotBeMadeOfPlainRecords() {
        DurableTrip trip = DurableTrip.of(pool, new Trip("round", null, null, null, null, null));
        trip.setNext(trip);
        IllegalStateException failure = assertThrows(IllegalStateException.class, trip::toTrip);
        assertTrue(failure.getMessage().contains("leads back to itself"), failure.getMessage());
    }

    @Test
    void objectsOfSubclassesAreRefused() {
        Person special = new Person() {};
        assertThrows(IllegalArgumentException.class, () -> DurablePerson.of(pool, special));
        Person person = person("Ann", 1);
        person.home = new Address() {};
        assertThrows(IllegalArgumentException.class, () -> DurablePerson.of(pool, person));
        person.home = null;
        person.boss = special;
        DurablePerson durable = DurablePerson.of(pool, person("Ben", 2));
        assertThrows(IllegalArgumentException.class, () -> durable.set(person));
        assertEquals("Ben", durable.getName());
    }

    @Test
    void valuesOfTheJdksClassesAreStored() {
        Invoice.Payment payment =
                new Invoice.Payment(new UUID(3, 4), new BigDecimal("0.10"), Instant.MAX);
        Invoice invoice =
                new Invoice(
                        new UUID(1, 2),
                        Instant.ofEpochSecond(-5, 7),
                        LocalDate.of(2026, 11, 29),
                        LocalTime.MAX,
                        LocalDateTime.MIN,
                        Duration.ofNanos(-1),
                        new BigDecimal("1234.50"),
                        BigInteger.TWO.pow(100),
                        Set.of("red", "green"),
                        new TreeSet<>(List.of(3L, -1L, 2L)),
                        null,
                        payment);
        DurableInvoice durable = DurableInvoice.of(pool, invoice);
        assertEquals(invoice, durable.toInvoice());
        assertEquals(new UUID(1, 2), durable.getId());
        assertEquals(Instant.MAX, durable.getPaymentAt());
        durable.setSum(new BigDecimal("1234.5"));
        assertNotEquals(invoice, durable.toInvoice(), "the scale is another");
        durable.setPaymentSum(null);
        assertNull(durable.getPaymentSum());
        assertTrue(
                durable.toString()
                        .startsWith(
                                "DurableInvoice[id=00000000-0000-0001-0000-000000000002,"
                                        + " sent=1969-12-31T23:59:55.000000007Z, due=2026-11-29,"),
                durable::toString);
        assertTrue(durable.contentEquals(durable));
        assertEquals(List.of(-1L, 2L, 3L), List.copyOf(durable.getNumbers()));
        assertEquals(2L, durable.getNumbers().lower(3L));
        assertTrue(durable.getTags().add("blue"));
        assertFalse(durable.getTags().add("blue"));
        durable.setNumbers(Set.of());
        assertTrue(durable.getNumbers().isEmpty());
        assertEquals(Set.of("red", "green", "blue"), durable.toInvoice().tags());
        assertNull(durable.getNone());
        DurableInvoice blank = DurableInvoice.create(pool);
        assertEquals(
                new Invoice(null, null, null, null, null, null, null, null, null, null, null, null),
                blank.toInvoice());
        assertFalse(durable.contentEquals(blank));
    }

    @Test
    void valuesOfTheJdksClassesAreElementsAndKeys() {
        UUID id = new UUID(-1, 2);
        Instant early = Instant.ofEpochSecond(-5, 7);
        Ledger ledger =
                new Ledger(
                        Map.of(id, new BigDecimal("12.50"), new UUID(1, 2), BigDecimal.ZERO),
                        new TreeMap<>(Map.of(early, id, Instant.EPOCH, new UUID(0, 0))),
                        Map.of(LocalDate.of(1969, 7, 20), Duration.ofNanos(-1)),
                        List.of(LocalDateTime.MIN, LocalDateTime.MAX),
                        List.of(LocalTime.MAX, LocalTime.MIDNIGHT),
                        Set.of(BigInteger.TWO.pow(100), BigInteger.ZERO),
                        new TreeSet<>(List.of(new BigDecimal("9"), new BigDecimal("10.0"))),
                        new TreeSet<>(List.of(LocalDate.MIN, LocalDate.EPOCH)));
        DurableLedger durable = DurableLedger.of(pool, ledger);
        assertEquals(ledger, durable.toLedger());
        assertEquals(new BigDecimal("12.50"), durable.getBalances().get(id));
        assertEquals(early, durable.getBooked().firstKey());
        assertEquals(new BigDecimal("10.0"), durable.getPrices().ceiling(new BigDecimal("10")));
        assertTrue(durable.getHolidays().add(LocalDate.of(2026, 12, 25)));
        assertEquals(3, durable.toLedger().holidays().size());
        assertTrue(durable.contentEquals(durable));
        durable.set(ledger);
        assertEquals(ledger, durable.toLedger());
        assertEquals(List.of(), pool.check().problems());
    }

    private static Shelf shelf(int number) {
        Shelf.Box box =
                new Shelf.Box("label " + number, number, "a story", "near", 7, new byte[number]);
        return new Shelf(
                number,
                number + 1,
                number % 2 == 0 ? null : (long) number,
                new byte[256],
                new byte[257],
                new byte[9],
                "some text",
                3,
                number % 3 == 0 ? null : box,
                4,
                'x',
                Shelf.Binding.SOFT,
                0);
    }

    private static List<Object> comparable(Shelf shelf) {
        Shelf.Box box = shelf.box();
        return Arrays.asList(
                shelf.inRecord(),
                shelf.pages(),
                shelf.year(),
                shelf.visits(),
                shelf.cover().length,
                shelf.large().length,
                shelf.ofAnyLength().length,
                shelf.text(),
                shelf.alone(),
                shelf.grade(),
                shelf.binding(),
                box == null ? null : Arrays.asList(box.label(), box.weight(), box.story()),
                box == null ? null : Arrays.asList(box.near(), box.number(), box.picture().length));
    }

    @Test
    void fieldsThatShareABufferAreStoredOnce() {
        for (int number = 0; number < 6; number++) {
            Shelf shelf = shelf(number);
            DurableShelf durable = DurableShelf.of(pool, shelf);
            assertEquals(comparable(shelf), comparable(durable.toShelf()));
            durable.set(shelf(number + 1));
            assertEquals(comparable(shelf(number + 1)), comparable(durable.toShelf()));
        }
        DurableShelf durable = DurableShelf.of(pool, shelf(1));
        Shelf.Box box = new Shelf.Box("other", 2, null, null, 0, new byte[0]);
        durable.setBox(box);
        assertEquals("other", durable.getBoxLabel());
        assertNull(durable.getBoxStory());
        assertEquals(2, durable.getPages());
        durable.setTogether(() -> {
            durable.setPages(10);
            durable.setBoxLabel("third");
            assertEquals(10, durable.getPages());
        });
        assertEquals(10, durable.getPages());
        assertTrue(durable.boxLabelEquals("third"));
        assertEquals(2, durable.getBoxWeight());
    }

    /// There is room for the group once, and not twice within a transaction.
    @Test
    void aGroupIsWrittenOnceByTransactionsThatSetAllOfIt() throws IOException {
        PoolOptions oneExtent =
                PoolOptions.defaults()
                        .extents(1 << 20)
                        .disk(StorageTier.SSD, directory.resolve("small"), 1 << 20);
        try (Pool small = Pool.open(directory.resolve("small"), oneExtent)) {
            Shelf.Box box = new Shelf.Box("x".repeat(600_000), 2, null, null, 0, null);
            Shelf shelf =
                    new Shelf(
                            1,
                            2,
                            3L,
                            new byte[256],
                            new byte[257],
                            null,
                            null,
                            4,
                            box,
                            5,
                            'x',
                            null,
                            0);
            DurableShelf durable = DurableShelf.of(small, shelf);
            durable.setBox(null);
            durable.setBox(box);
            durable.setBox(null);
            durable.set(shelf);
            assertTrue(durable.boxLabelEquals(box.label()));
            durable.setBox(null);
            assertThrows(
                    PoolFullException.class,
                    () ->
                            small.transact(() -> {
                                durable.setBoxLabel(box.label());
                                durable.setBoxWeight(3);
                            }));
        }
    }

    @Test
    void settingWithinAnEmbeddedObjectMakesIt() {
        DurablePerson durable = DurablePerson.create(pool);
        long before = transactions();
        durable.setHomeGeo(new Geo(1, 2));
        assertTrue(durable.hasHome());
        assertTrue(durable.hasHomeGeo());
        durable.setHome(null);
        assertEquals(before + 2, transactions());
        assertFalse(durable.hasHomeGeo());
        assertEquals(0, durable.getHomeGeoLat());

        durable.setHomeGeoLat(3);
        assertEquals(before + 3, transactions());
        assertTrue(durable.hasHome());
        assertEquals(new Geo(3, 0), durable.getHomeGeo());

        durable.setHomeGeo(null);
        assertTrue(durable.hasHome());
        assertFalse(durable.hasHomeGeo());
        durable.setHomeBounds(1, 9.0);
        assertEquals(9.0, durable.getHomeBounds(1));
        Address home = durable.getHome();
        assertNotNull(home);
        assertNull(home.getGeo());
        assertArrayEquals(new double[] {0, 9}, home.getBounds());
    }

    @Test
    void arraysAreReadInBulkAndByElement() {
        DurablePerson durable = DurablePerson.of(pool, fullPerson());
        byte[] into = new byte[3];
        assertEquals(3, durable.copyImage(into));
        assertArrayEquals(new byte[] {1, 2, 3}, into);
        durable.setImage(1, (byte) 42);
        assertEquals(42, durable.getImage(1));
        assertEquals(8, durable.getImageLength());
        durable.setMarks(null);
        assertEquals(-1, durable.copyMarks(new double[1]));
        assertNull(durable.getMarks());
    }

    @Test
    void recomputedFieldsAreComputedWhenTheyAreNotThere() {
        DurablePerson durable = DurablePerson.create(pool);
        durable.setAge(4);
        assertEquals(8, durable.getScore());
        durable.setAge(5);
        assertEquals(8, durable.getScore());
        durable.clearScore();
        assertEquals(10, durable.getScore());
        durable.setScore(1);
        assertEquals(1, durable.getScore());
    }

    @Test
    void contentIsComparedFieldByField() {
        DurablePerson one = DurablePerson.of(pool, fullPerson());
        DurablePerson other = DurablePerson.of(pool, fullPerson());
        assertNotEquals(one, other);
        // Bytes in a collection are compared as Java compares arrays.
        one.setBlobs(null);
        other.setBlobs(null);
        assertTrue(one.contentEquals(other));
        other.setVisits(99);
        assertTrue(one.contentEquals(other));
        one.setHomeGeoLat(Double.NaN);
        assertFalse(one.contentEquals(other));
        other.setHomeGeoLat(Double.NaN);
        assertTrue(one.contentEquals(other));
        one.setHomeGeoLat(47.5);
        other.setHomeGeoLat(47.5);
        other.setImage(0, (byte) 9);
        assertFalse(one.contentEquals(other));
        other.setImage(0, (byte) 1);
        one.setBoss(one);
        other.setBoss(other);
        assertFalse(one.contentEquals(other));
        other.setBoss(one);
        assertTrue(one.contentEquals(other));
    }

    @Test
    void textShowsStoredFields() {
        DurableTrip trip =
                DurableTrip.of(
                        pool,
                        new Trip("t", person("Ann", 1), null, List.of(), null, new Geo(1, 2)));
        trip.setNext(trip);
        assertEquals(
                "DurableTrip[title=t, guide=Person, next=Trip, variants=List, byName=null,"
                        + " start=true, start.lat=1.0, start.lon=2.0]",
                trip.toString());
        String person = DurablePerson.of(pool, fullPerson()).toString();
        assertTrue(person.contains("image=byte[8], name=Bob, marks=double[3]"), person);
    }

    @Test
    void inheritedFieldsComeBack() {
        Wheel wheel = new Wheel();
        wheel.id = 1L << 40;
        wheel.label = "front";
        wheel.weight = 5;
        wheel.spokes = 32;
        wheel.axle = new Part();
        wheel.axle.id = 2;
        wheel.spare = new Wheel.Spare();
        wheel.spare.pressure = 3;
        wheel.spare.of = wheel;
        Wheel copy = DurableWheel.of(pool, wheel).toWheel();
        assertEquals(1L << 40, copy.id);
        assertEquals("front", copy.label);
        assertEquals(5, copy.weight);
        assertEquals(32, copy.spokes);
        assertEquals(2, copy.axle.id);
        assertEquals(3, copy.spare.pressure);
        assertSame(copy, copy.spare.of);
    }
}
