package dev.terrace.objects.spark;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.NumericType;
import org.apache.spark.sql.types.StructType;
import org.jspecify.annotations.Nullable;

/// A query's condition for whole blocks, or parts: whether one of them may have a row that meets
/// the condition; and for the rows of a block: which of them may meet it.
///
/// Invariant: what is left out does not meet the condition. What is kept may not, either: Spark
/// looks at that itself.
sealed interface BlockFilter extends Serializable
        permits BlockFilter.Comparison, BlockFilter.Nullness, BlockFilter.Several, OneOf {
    /// Characters of a constant that are shown.
    int CONSTANT_MAX = 60;

    /// Of so many alternatives no row is looked at: that would take longer than to read the row.
    int ALTERNATIVES_MAX = 16;

    /// Whether rows of which this is known may meet the condition.
    boolean mayMatch(Facts facts);

    /// Whether all rows of which this is known meet the condition, as far as it shows.
    boolean mustMatch(Facts facts);

    /// Clears rows of a block that do not meet the condition.
    ///
    /// @param rows true for those of which that is not known yet
    void keep(Values values, boolean[] rows);

    /// The condition as SQL has it, of columns with these names.
    String words(List<String> columns);

    /// The values of a block.
    @FunctionalInterface
    interface Values {
        /// Those of a column.
        BlockVector of(int column);
    }

    /// Facts about the columns of some rows.
    interface Facts {
        /// How many rows there are.
        long rows();

        /// How many are null in a column.
        long nulls(int column);

        /// A key that no value is less than; null: there is none.
        byte @Nullable [] min(int column);

        /// A key that no value is greater than; null: there is none.
        byte @Nullable [] max(int column);
    }

    /// How a value compares with a key.
    enum Order {
        EQUAL("="),
        LESS("<"),
        LESS_OR_EQUAL("<="),
        GREATER(">"),
        GREATER_OR_EQUAL(">="),
        STARTS_WITH("starts with");

        private final String words;

        Order(String words) {
            this.words = words;
        }
    }

    /// Compares a column with a constant.
    ///
    /// @param constant as SQL has it
    record Comparison(int column, Order order, byte[] key, String constant) implements BlockFilter {
        @Override
        public String words(List<String> columns) {
            return columns.get(column) + " " + order.words + " " + constant;
        }

        @Override
        public boolean mayMatch(Facts facts) {
            if (facts.nulls(column) == facts.rows()) {
                return false;
            }
            byte[] min = facts.min(column);
            byte[] max = facts.max(column);
            // Each is true where nothing is known.
            boolean less = min == null || OrderKeys.compare(min, key) < 0;
            boolean lessOrEqual = min == null || OrderKeys.compare(min, key) <= 0;
            boolean greater = max == null || OrderKeys.compare(max, key) > 0;
            boolean greaterOrEqual = max == null || OrderKeys.compare(max, key) >= 0;
            return switch (order) {
                case EQUAL -> lessOrEqual && greaterOrEqual;
                case LESS -> less;
                case LESS_OR_EQUAL -> lessOrEqual;
                case GREATER -> greater;
                case GREATER_OR_EQUAL -> greaterOrEqual;
                case STARTS_WITH -> greaterOrEqual && (lessOrEqual || startsWith(min, key));
            };
        }

        @Override
        public boolean mustMatch(Facts facts) {
            byte[] min = facts.min(column);
            byte[] max = facts.max(column);
            if (facts.nulls(column) > 0 || min == null || max == null) {
                return false;
            }
            return switch (order) {
                case EQUAL -> Arrays.equals(min, key) && Arrays.equals(max, key);
                case LESS -> OrderKeys.compare(max, key) < 0;
                case LESS_OR_EQUAL -> OrderKeys.compare(max, key) <= 0;
                case GREATER -> OrderKeys.compare(min, key) > 0;
                case GREATER_OR_EQUAL -> OrderKeys.compare(min, key) >= 0;
                case STARTS_WITH -> startsWith(min, key) && startsWith(max, key);
            };
        }

        @Override
        public void keep(Values values, boolean[] rows) {
            BlockVector vector = values.of(column);
            if (vector.areNumbers()) {
                keepNumbers(vector, OrderKeys.toLong(key), rows);
            } else if (vector.areBytesOrdered()) {
                vector.keepBytes(this::isMetBy, rows);
            } else {
                vector.keepNulls(false, rows);
            }
        }

        private void keepNumbers(BlockVector vector, long number, boolean[] rows) {
            switch (order) {
                case EQUAL -> vector.keepBetween(number, number, rows);
                case LESS_OR_EQUAL -> vector.keepBetween(Long.MIN_VALUE, number, rows);
                case GREATER_OR_EQUAL -> vector.keepBetween(number, Long.MAX_VALUE, rows);
                case LESS -> {
                    if (number == Long.MIN_VALUE) {
                        Arrays.fill(rows, false);
                    } else {
                        vector.keepBetween(Long.MIN_VALUE, number - 1, rows);
                    }
                }
                case GREATER -> {
                    if (number == Long.MAX_VALUE) {
                        Arrays.fill(rows, false);
                    } else {
                        vector.keepBetween(number + 1, Long.MAX_VALUE, rows);
                    }
                }
                case STARTS_WITH -> throw new AssertionError("numbers have no beginning");
            }
        }

        /// Whether the bytes of a value meet the condition.
        private boolean isMetBy(byte[] bytes, int from, int to) {
            if (order == Order.STARTS_WITH || order == Order.EQUAL) {
                int length = to - from;
                boolean mayBe = order == Order.EQUAL ? length == key.length : length >= key.length;
                return mayBe && Arrays.equals(bytes, from, from + key.length, key, 0, key.length);
            }
            int compared = Arrays.compareUnsigned(bytes, from, to, key, 0, key.length);
            return switch (order) {
                case LESS -> compared < 0;
                case LESS_OR_EQUAL -> compared <= 0;
                case GREATER -> compared > 0;
                default -> compared >= 0;
            };
        }

        private static boolean startsWith(byte @Nullable [] value, byte[] prefix) {
            return value != null
                    && value.length >= prefix.length
                    && Arrays.equals(value, 0, prefix.length, prefix, 0, prefix.length);
        }
    }

    /// Asks whether a column is null, or is not.
    record Nullness(int column, boolean isNull) implements BlockFilter {
        @Override
        public String words(List<String> columns) {
            return columns.get(column) + (isNull ? " is null" : " is not null");
        }

        @Override
        public boolean mayMatch(Facts facts) {
            return isNull ? facts.nulls(column) > 0 : facts.nulls(column) < facts.rows();
        }

        @Override
        public boolean mustMatch(Facts facts) {
            return facts.nulls(column) == (isNull ? facts.rows() : 0);
        }

        @Override
        public void keep(Values values, boolean[] rows) {
            values.of(column).keepNulls(isNull, rows);
        }
    }

    /// All of several conditions, or any.
    record Several(boolean all, List<BlockFilter> conditions) implements BlockFilter {
        @Override
        public String words(List<String> columns) {
            List<String> each =
                    conditions.stream().map(condition -> condition.words(columns)).toList();
            if (each.isEmpty()) {
                return Boolean.toString(all);
            }
            return each.size() == 1
                    ? each.getFirst()
                    : "(" + String.join(all ? " and " : " or ", each) + ")";
        }

        @Override
        public boolean mayMatch(Facts facts) {
            return all
                    ? conditions.stream().allMatch(condition -> condition.mayMatch(facts))
                    : conditions.stream().anyMatch(condition -> condition.mayMatch(facts));
        }

        @Override
        public boolean mustMatch(Facts facts) {
            return all
                    ? conditions.stream().allMatch(condition -> condition.mustMatch(facts))
                    : conditions.stream().anyMatch(condition -> condition.mustMatch(facts));
        }

        @Override
        public void keep(Values values, boolean[] rows) {
            if (all) {
                conditions.forEach(condition -> condition.keep(values, rows));
            } else if (conditions.size() <= ALTERNATIVES_MAX) {
                keepAny(values, rows);
            }
        }

        private void keepAny(Values values, boolean[] rows) {
            boolean[] any = new boolean[rows.length];
            for (BlockFilter condition : conditions) {
                boolean[] left = rows.clone();
                condition.keep(values, left);
                for (int row = 0; row < rows.length; row++) {
                    any[row] |= left[row];
                }
            }
            System.arraycopy(any, 0, rows, 0, rows.length);
        }
    }

    /// The filter of blocks for a predicate; null if there is none.
    ///
    /// Handled: comparisons of a column with a constant of its type by `=`, `<=>`, `<`, `<=`, `>`,
    /// `>=`, `IN` and `STARTS_WITH`, `IS NULL`, `IS NOT NULL`, and `AND` and `OR` of them.
    static @Nullable BlockFilter of(Predicate predicate, StructType schema) {
        Expression[] children = predicate.children();
        return switch (predicate.name()) {
            case "AND" -> several(true, known(children, schema));
            case "OR" -> {
                List<BlockFilter> conditions = known(children, schema);
                yield conditions.size() == children.length ? several(false, conditions) : null;
            }
            case "IS_NULL" -> nullness(children[0], schema, true);
            case "IS_NOT_NULL" -> nullness(children[0], schema, false);
            case "=", "<=>" -> comparison(children, Order.EQUAL, schema);
            case "<" -> comparison(children, Order.LESS, schema);
            case "<=" -> comparison(children, Order.LESS_OR_EQUAL, schema);
            case ">" -> comparison(children, Order.GREATER, schema);
            case ">=" -> comparison(children, Order.GREATER_OR_EQUAL, schema);
            case "STARTS_WITH" -> comparison(children, Order.STARTS_WITH, schema);
            case "IN" -> in(children, schema);
            default -> null;
        };
    }

    /// The filter that means the same as a predicate; null if there is none. That of [#of] may
    /// leave parts of an `AND` out.
    static @Nullable BlockFilter exactly(Predicate predicate, StructType schema) {
        return predicate.name().equals("ALWAYS_TRUE")
                ? new Several(true, List.of())
                : isKnown(predicate, schema) ? of(predicate, schema) : null;
    }

    private static boolean isKnown(Expression expression, StructType schema) {
        return expression instanceof Predicate predicate
                && of(predicate, schema) != null
                && (!predicate.name().equals("AND") && !predicate.name().equals("OR")
                        || Stream.of(predicate.children())
                                .allMatch(child -> isKnown(child, schema)));
    }

    private static List<BlockFilter> known(Expression[] children, StructType schema) {
        List<BlockFilter> known = new ArrayList<>();
        for (Expression child : children) {
            BlockFilter condition =
                    child instanceof Predicate predicate ? of(predicate, schema) : null;
            if (condition != null) {
                known.add(condition);
            }
        }
        return known;
    }

    private static @Nullable BlockFilter several(boolean all, List<BlockFilter> conditions) {
        return conditions.isEmpty() ? null : new Several(all, List.copyOf(conditions));
    }

    private static @Nullable BlockFilter nullness(
            Expression child, StructType schema, boolean isNull) {
        int column = column(child, schema);
        return column < 0 ? null : new Nullness(column, isNull);
    }

    private static @Nullable BlockFilter comparison(
            Expression[] children, Order order, StructType schema) {
        int column = column(children[0], schema);
        return column < 0
                ? null
                : comparison(column, order, children[1], schema.fields()[column].dataType());
    }

    private static @Nullable BlockFilter comparison(
            int column, Order order, Expression constant, DataType type) {
        if (!(constant instanceof Literal<?> literal) || !literal.dataType().equals(type)) {
            return null;
        }
        byte[] key = OrderKeys.of(literal.value(), type);
        return key == null
                ? null
                : new Comparison(column, order, key, inSql(literal.value(), type));
    }

    /// The text of a constant in the plan; constants may have any length.
    private static String inSql(Object value, DataType type) {
        String sql =
                type instanceof NumericType
                        ? value.toString()
                        : new org.apache.spark.sql.catalyst.expressions.Literal(value, type).sql();
        return sql.length() > CONSTANT_MAX ? sql.substring(0, CONSTANT_MAX) + "..." : sql;
    }

    private static @Nullable BlockFilter in(Expression[] children, StructType schema) {
        int column = column(children[0], schema);
        if (children.length > ALTERNATIVES_MAX
                && column >= 0
                && ColumnSummary.isExact(schema.fields()[column].dataType())) {
            return oneOf(column, children, schema.fields()[column].dataType());
        }
        List<BlockFilter> any = new ArrayList<>();
        for (int i = 1; i < children.length && column >= 0; i++) {
            BlockFilter one =
                    comparison(
                            column, Order.EQUAL, children[i], schema.fields()[column].dataType());
            boolean isNull = children[i] instanceof Literal<?> literal && literal.value() == null;
            if (one == null && !isNull) {
                return null;
            }
            if (one != null) {
                any.add(one);
            }
        }
        // Of no value, no row is one.
        return column < 0 ? null : new Several(false, List.copyOf(any));
    }

    /// Of numbers: each is looked up rather than compared with all.
    private static @Nullable BlockFilter oneOf(int column, Expression[] children, DataType type) {
        long[] numbers = new long[children.length - 1];
        StringBuilder words = new StringBuilder();
        int count = 0;
        for (int i = 1; i < children.length; i++) {
            if (!(children[i] instanceof Literal<?> literal)) {
                return null;
            }
            Object value = literal.value();
            if (value == null) {
                continue;
            }
            byte[] key = literal.dataType().equals(type) ? OrderKeys.of(value, type) : null;
            if (key == null) {
                return null;
            }
            if (words.length() < CONSTANT_MAX) {
                words.append(count == 0 ? "" : ", ").append(inSql(value, type));
            }
            numbers[count++] = OrderKeys.toLong(key);
        }
        String more = words.length() < CONSTANT_MAX ? "" : ", ...";
        return new OneOf(column, Arrays.copyOf(numbers, count), words + more);
    }

    /// The number of the column that an expression is; -1 if it is none.
    private static int column(Expression expression, StructType schema) {
        return expression instanceof NamedReference reference && reference.fieldNames().length == 1
                ? List.of(schema.fieldNames()).indexOf(reference.fieldNames()[0])
                : -1;
    }
}
