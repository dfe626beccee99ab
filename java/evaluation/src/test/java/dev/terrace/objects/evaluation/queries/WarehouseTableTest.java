package dev.terrace.objects.evaluation.queries;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigDecimal;
import java.math.RoundingMode;
import java.sql.Date;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.spark.sql.Row;
import org.junit.jupiter.api.Test;

/// Generated rows have the shape that TPC-H's specification gives them.
class WarehouseTableTest {
    private static final Scale SCALE = new Scale(0.004);
    private static final Date TODAY = Date.valueOf("1995-06-17");

    private static List<Row> rows(WarehouseTable table) {
        List<Row> rows = new ArrayList<>();
        table.rows(SCALE, 0, table.count(SCALE)).forEachRemaining(rows::add);
        return rows;
    }

    private static Set<Object> values(List<Row> rows, int column) {
        return rows.stream().map(row -> row.get(column)).collect(Collectors.toSet());
    }

    @Test
    void tablesHaveTheRowsOfTheirScale() {
        assertEquals(5, rows(WarehouseTable.REGION).size());
        assertEquals(25, rows(WarehouseTable.NATION).size());
        assertEquals(40, rows(WarehouseTable.SUPPLIER).size());
        assertEquals(600, rows(WarehouseTable.CUSTOMER).size());
        assertEquals(800, rows(WarehouseTable.PART).size());
        assertEquals(6000, rows(WarehouseTable.ORDERS).size());
        // One to seven of each order.
        assertEquals(24_000, rows(WarehouseTable.LINEITEM).size(), 600);
    }

    @Test
    void rowsFitTheirColumnsAndKeysAreUnique() {
        for (WarehouseTable table : WarehouseTable.values()) {
            List<Row> rows = rows(table);
            for (Row row : rows) {
                assertEquals(table.schema().size(), row.size(), table.title());
            }
            Set<Object> keys = new HashSet<>();
            for (Row row : rows) {
                boolean isLine = table == WarehouseTable.LINEITEM;
                keys.add(isLine ? List.of(row.get(0), row.get(3)) : row.get(0));
            }
            assertEquals(rows.size(), keys.size(), table.title());
        }
    }

    @Test
    void rowsAreTheSameHoweverTheyAreDealtOut() {
        for (WarehouseTable table : WarehouseTable.values()) {
            List<Row> parts = new ArrayList<>();
            long count = table.count(SCALE);
            for (long from : List.of(0L, count / 3, count / 2)) {
                long to = from == 0 ? count / 3 : from == count / 3 ? count / 2 : count;
                table.rows(SCALE, from, to).forEachRemaining(parts::add);
            }
            assertEquals(rows(table), parts, table.title());
        }
    }

    @Test
    void keysThatLeadToOtherTablesAreThere() {
        Set<Object> nations = values(rows(WarehouseTable.NATION), 0);
        assertEquals(Set.of(0L, 1L, 2L, 3L, 4L), values(rows(WarehouseTable.NATION), 2));
        assertEquals(nations, values(rows(WarehouseTable.CUSTOMER), 3));
        List<Row> lines = rows(WarehouseTable.LINEITEM);
        assertEquals(values(rows(WarehouseTable.ORDERS), 0), values(lines, 0));
        assertTrue(values(rows(WarehouseTable.PART), 0).containsAll(values(lines, 1)));
        assertEquals(values(rows(WarehouseTable.SUPPLIER), 0), values(lines, 2));
    }

    @Test
    void aThirdOfAllCustomersHasNoOrderAndKeysOfOrdersAreSparse() {
        List<Row> orders = rows(WarehouseTable.ORDERS);
        Set<Object> customers = values(orders, 1);
        assertTrue(customers.stream().noneMatch(key -> (long) key % 3 == 0));
        assertEquals(400, customers.size(), 4);
        assertTrue(orders.stream().allMatch(row -> (row.getLong(0) - 1) % 32 < 8));
        assertEquals(6000 / 8 * 32 - 32 + 8, orders.getLast().getLong(0));
    }

    @Test
    void datesPricesAndStatesOfAnOrderFollowFromItsLines() {
        Map<Long, List<Row>> lines =
                rows(WarehouseTable.LINEITEM).stream()
                        .collect(Collectors.groupingBy(row -> row.getLong(0)));
        Map<String, Integer> states = new HashMap<>();
        for (Row order : rows(WarehouseTable.ORDERS)) {
            List<Row> own = lines.get(order.getLong(0));
            assertTrue(own.size() <= 7);
            Set<Object> open = values(own, 9);
            String state = open.size() == 2 ? "P" : (String) open.iterator().next();
            assertEquals(state, order.getString(2));
            states.merge(state, 1, Integer::sum);
            BigDecimal sum = BigDecimal.ZERO;
            for (Row line : own) {
                BigDecimal one = BigDecimal.ONE;
                sum =
                        sum.add(
                                line.getDecimal(5)
                                        .multiply(one.add(line.getDecimal(7)))
                                        .multiply(one.subtract(line.getDecimal(6)))
                                        .setScale(2, RoundingMode.DOWN));
                checkDates(order.getDate(4), line);
            }
            assertEquals(sum, order.getDecimal(3));
        }
        // Half of all orders are from before, and few have lines on both sides.
        assertTrue(states.get("P") < states.get("O") / 5, states::toString);
    }

    private static void checkDates(Date ordered, Row line) {
        Date shipped = line.getDate(10);
        Date received = line.getDate(12);
        assertTrue(!shipped.before(ordered) && received.after(shipped));
        assertFalse(received.after(Date.valueOf("1998-12-31")));
        assertEquals(shipped.after(TODAY) ? "O" : "F", line.getString(9));
        assertEquals(received.after(TODAY), line.getString(8).equals("N"));
    }

    @Test
    void valuesAreThoseThatQueriesAskFor() {
        List<Row> lines = rows(WarehouseTable.LINEITEM);
        assertEquals(Set.of("R", "A", "N"), values(lines, 8));
        assertEquals(Set.copyOf(Words.MODES), values(lines, 14));
        assertEquals(Set.copyOf(Words.INSTRUCTIONS), values(lines, 13));
        assertEquals(50, values(lines, 4).size());
        assertEquals(11, values(lines, 6).size());
        List<Row> parts = rows(WarehouseTable.PART);
        assertEquals(25, values(parts, 3).size());
        assertEquals(40, values(parts, 6).size());
        assertTrue(parts.stream().anyMatch(row -> row.getString(4).startsWith("PROMO ")));
        assertEquals(Set.copyOf(Words.SEGMENTS), values(rows(WarehouseTable.CUSTOMER), 6));
        assertEquals(92, Words.COLOURS.size());
    }
}
