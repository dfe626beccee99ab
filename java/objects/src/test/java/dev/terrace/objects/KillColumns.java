package dev.terrace.objects;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;

/// The part of the [KillWorkload] that is in columns: small objects, several of which share a word
/// of each narrow column. Each transaction makes, changes and deletes some, as its number says.
final class KillColumns {
    /// So many that several words of a bitmap tell which there are.
    static final int TICKS = 100;

    private static final int CHANGES_MAX = 16;
    private static final int ABSENT = -1;

    private static final ObjectType<DurableRecord> TYPE =
            ObjectType.of(
                            "dev.terrace.objects.KillTick",
                            FieldSpec.of("place", FieldKind.SHORT),
                            FieldSpec.of("flag", FieldKind.BOOLEAN),
                            FieldSpec.of("small", FieldKind.BYTE),
                            FieldSpec.of("number", FieldKind.INT),
                            FieldSpec.of("maybe", FieldKind.INT).orNull(),
                            FieldSpec.of("row", FieldKind.SHORTS).ofLength(5),
                            FieldSpec.of("text", FieldKind.STRING).orNull())
                    .inColumns();

    private final Pool pool;

    /// The model: of each object, the last transaction that wrote to it; [#ABSENT] if it is not
    /// there.
    private final int[] expected = new int[TICKS];

    KillColumns(Pool pool) {
        this.pool = pool;
        Arrays.fill(expected, ABSENT);
    }

    /// What a transaction does to one object.
    private record Change(int place, boolean deletes) {}

    private static List<Change> changes(int number) {
        Random random = new Random(number * 15_485_863L);
        // Some transactions delete nearly everything, so that chunks come and go.
        int deletions = random.nextInt(8) == 0 ? 95 : 30;
        int count = deletions > 50 ? TICKS : random.nextInt(CHANGES_MAX);
        int from = random.nextInt(TICKS);
        return random.ints(0, count > CHANGES_MAX ? TICKS : 2 * CHANGES_MAX)
                .distinct()
                .limit(count)
                .mapToObj(i -> new Change((from + i) % TICKS, random.nextInt(100) < deletions))
                .toList();
    }

    /// Does what a transaction does. In one.
    void change(int number) {
        DurableRecord[] there = there();
        for (Change change : changes(number)) {
            DurableRecord tick = there[change.place];
            if (!change.deletes) {
                write(tick == null ? pool.create(TYPE) : tick, change.place, number);
            } else if (tick != null) {
                tick.delete();
            }
        }
    }

    private DurableRecord[] there() {
        DurableRecord[] there = new DurableRecord[TICKS];
        for (Cursor<DurableRecord> each = pool.cursor(TYPE); each.next(); ) {
            there[each.get().getShort(0)] = each.copy();
        }
        return there;
    }

    private static short[] row(int place, int number) {
        short[] row = new short[5];
        Arrays.fill(row, (short) (place * number));
        return row;
    }

    private static String text(int place, int number) {
        return "tick " + place + " of " + number + " ".repeat(number % 50);
    }

    private static void write(DurableRecord tick, int place, int number) {
        tick.setShort(0, (short) place);
        tick.setBoolean(1, (number & 1) != 0);
        tick.setByte(2, (byte) (place + number));
        tick.setInt(3, number);
        tick.setBoxed(4, number % 3 == 0 ? null : place - number);
        tick.setArray(5, row(place, number));
        tick.setString(6, text(place, number));
    }

    /// What a transaction has left of an object.
    private static String content(int place, int number) {
        return place
                + " "
                + ((number & 1) != 0)
                + " "
                + (byte) (place + number)
                + " "
                + number
                + " "
                + (number % 3 == 0 ? null : place - number)
                + " "
                + Arrays.toString(row(place, number))
                + " "
                + text(place, number);
    }

    private static String content(DurableRecord tick) {
        return tick.getShort(0)
                + " "
                + tick.getBoolean(1)
                + " "
                + tick.getByte(2)
                + " "
                + tick.getInt(3)
                + " "
                + tick.getBoxed(4)
                + " "
                + Arrays.toString((short[]) tick.getArray(5))
                + " "
                + tick.getString(6);
    }

    /// All that is there, one by one.
    List<String> look() {
        List<String> found = new ArrayList<>();
        for (Cursor<DurableRecord> each = pool.cursor(TYPE); each.next(); ) {
            found.add(content(each.get()));
        }
        return found;
    }

    /// The model after a transaction, if it was that of the one before.
    void model(int number) {
        for (Change change : changes(number)) {
            expected[change.place] = change.deletes ? ABSENT : number;
        }
    }

    /// Compares what was found with the model.
    void expect(int number, List<String> found) {
        List<String> all = new ArrayList<>();
        for (int place = 0; place < TICKS; place++) {
            if (expected[place] != ABSENT) {
                all.add(content(place, expected[place]));
            }
        }
        if (!all.stream().sorted().toList().equals(found.stream().sorted().toList())) {
            List<String> missing = new ArrayList<>(all);
            missing.removeAll(found);
            List<String> other = new ArrayList<>(found);
            other.removeAll(all);
            throw new AssertionError(
                    "after transaction " + number + " there is " + other + ", not " + missing);
        }
    }
}
