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
/// the condition. Spark itself finds these rows.
sealed interface BlockFilter extends Serializable {
    /// Characters of a constant that are shown.
    int CONSTANT_MAX = 60;

    /// Whether rows of which this is known may meet the condition.
    boolean mayMatch(Facts facts);

    /// Whether all rows of which this is known meet the condition, as far as it shows.
    boolean mustMatch(Facts facts);

    /// The condition as SQL has it, of columns with these names.
    String words(List<String> columns);

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
    }

    /// All of several conditions, or any.
    record Several(boolean all, List<BlockFilter> conditions) implements BlockFilter {
        @Override
        public String words(List<String> columns) {
            List<String> each =
                    conditions.stream().map(condition -> condition.words(columns)).toList();
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
        return several(false, any);
    }

    /// The number of the column that an expression is; -1 if it is none.
    private static int column(Expression expression, StructType schema) {
        return expression instanceof NamedReference reference && reference.fieldNames().length == 1
                ? List.of(schema.fieldNames()).indexOf(reference.fieldNames()[0])
                : -1;
    }
}
