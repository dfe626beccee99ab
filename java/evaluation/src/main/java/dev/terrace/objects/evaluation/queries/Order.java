package dev.terrace.objects.evaluation.queries;

import java.math.BigDecimal;
import java.sql.Date;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;

/// An order with its lines: their dates follow its own, and its status and price follow from them
/// (TPC-H 4.2.3).
///
/// @param random for what is left of the order when its lines are made
record Order(Scale scale, long key, int day, List<Line> lines, SplittableRandom random) {
    private static final int FIRST_DAY = day(1992, 1, 1);
    private static final int LAST_DAY = day(1998, 12, 31);

    /// The day that it is.
    private static final int TODAY = day(1995, 6, 17);

    private static final int LINES_MAX = 7;
    private static final int SUPPLIERS_OF_PART = 4;

    /// Keys are sparse: of so many, the first eight are there.
    private static final long KEYS_EACH = 32;

    private static final long KEYS_USED = 8;

    /// A line of an order.
    ///
    /// @param price in cents, of all of the quantity
    /// @param discount in percent
    /// @param tax in percent
    /// @param shipped, committed and received: days
    record Line(
            long part,
            long supplier,
            int quantity,
            long price,
            int discount,
            int tax,
            int shipped,
            int committed,
            int received) {
        boolean isOpen() {
            return shipped > TODAY;
        }
    }

    private static int day(int year, int month, int day) {
        return (int) LocalDate.of(year, month, day).toEpochDay();
    }

    /// The order with this number, from 0.
    static Order of(Scale scale, long number, SplittableRandom random) {
        long key = number / KEYS_USED * KEYS_EACH + number % KEYS_USED + 1;
        // All lines are received before the last day.
        int day = random.nextInt(FIRST_DAY, LAST_DAY - 151 + 1);
        List<Line> lines = new ArrayList<>();
        for (int i = random.nextInt(LINES_MAX); i >= 0; i--) {
            lines.add(line(scale, day, random));
        }
        return new Order(scale, key, day, lines, random);
    }

    private static Line line(Scale scale, int day, SplittableRandom random) {
        long part = random.nextLong(scale.parts()) + 1;
        long suppliers = scale.suppliers();
        long step = suppliers / SUPPLIERS_OF_PART + (part - 1) / suppliers;
        long supplier = (part + random.nextInt(SUPPLIERS_OF_PART) * step) % suppliers + 1;
        int quantity = random.nextInt(50) + 1;
        int shipped = day + random.nextInt(121) + 1;
        return new Line(
                part,
                supplier,
                quantity,
                quantity * retailPrice(part),
                random.nextInt(11),
                random.nextInt(9),
                shipped,
                day + random.nextInt(30, 91),
                shipped + random.nextInt(30) + 1);
    }

    /// The price of a part, in cents.
    static long retailPrice(long part) {
        return 90_000 + part / 10 % 20_001 + 100 * (part % 1000);
    }

    /// As the table of orders has it.
    Row row() {
        // A third of all customers never orders.
        long customers = scale.customers();
        long customer = random.nextLong(customers) + 1;
        while (customer % 3 == 0) {
            customer = random.nextLong(customers) + 1;
        }
        boolean isAnyOpen = lines.stream().anyMatch(Line::isOpen);
        boolean areAllOpen = lines.stream().allMatch(Line::isOpen);
        long price =
                lines.stream()
                        .mapToLong(line ->
                                line.price * (100 + line.tax) * (100 - line.discount) / 10_000)
                        .sum();
        return RowFactory.create(
                key,
                customer,
                areAllOpen ? "O" : isAnyOpen ? "P" : "F",
                hundredths(price),
                date(day),
                Words.any(Words.PRIORITIES, random),
                String.format("Clerk#%09d", random.nextLong(scale.clerks()) + 1),
                0,
                Words.comment(19, 78, random));
    }

    /// As the table of lines has them.
    List<Row> lineRows() {
        List<Row> rows = new ArrayList<>();
        for (Line line : lines) {
            rows.add(
                    RowFactory.create(
                            key,
                            line.part,
                            line.supplier,
                            rows.size() + 1,
                            hundredths(100L * line.quantity),
                            hundredths(line.price),
                            hundredths(line.discount),
                            hundredths(line.tax),
                            line.received <= TODAY ? random.nextBoolean() ? "R" : "A" : "N",
                            line.isOpen() ? "O" : "F",
                            date(line.shipped),
                            date(line.committed),
                            date(line.received),
                            Words.any(Words.INSTRUCTIONS, random),
                            Words.any(Words.MODES, random),
                            Words.comment(10, 43, random)));
        }
        return rows;
    }

    static BigDecimal hundredths(long number) {
        return BigDecimal.valueOf(number, 2);
    }

    private static Date date(int day) {
        return Date.valueOf(LocalDate.ofEpochDay(day));
    }
}
