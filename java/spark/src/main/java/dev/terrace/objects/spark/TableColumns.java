package dev.terrace.objects.spark;

import java.io.Serial;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.expressions.OrderUtils;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/// The columns of a table, and those among them by whose values its rows are kept apart.
///
/// @param partitioning the names of partition columns, as the schema has them; empty: the table has
///   no partitions
record TableColumns(StructType schema, List<String> partitioning) implements Serializable {
    @Serial private static final long serialVersionUID = 1L;

    /// Spark's name of partitions by the values of a column.
    private static final String IDENTITY = "identity";

    /// A name, in backticks or not, and the comma behind it.
    private static final Pattern NAME =
            Pattern.compile("\\G\\s*(?:`((?:[^`]|``)+)`|([^`,]*[^`,\\s]))\\s*(?:(,)|$)");

    TableColumns {
        partitioning = List.copyOf(partitioning);
        for (String name : partitioning) {
            requireKey(name, schema.apply(name).dataType());
        }
    }

    private static void requireKey(String name, DataType type) {
        if (!OrderKeys.areExact(type)) {
            throw new IllegalArgumentException(
                    "column "
                            + name
                            + ": a table cannot be partitioned by values of type "
                            + type.sql()
                            + ", but by numbers, booleans, dates, times, intervals, strings in the"
                            + " default collation and binary values");
        }
    }

    /// Those of a table that is there.
    static TableColumns of(Manifest manifest) {
        return new TableColumns(TerraceTable.schema(manifest), manifest.partitioning());
    }

    /// Those of a table with partitions as a statement describes them.
    ///
    /// @throws IllegalArgumentException if they are others than by the values of columns
    static TableColumns of(StructType schema, Transform[] partitions) {
        List<String> names = new ArrayList<>();
        for (Transform partition : partitions) {
            if (!partition.name().equals(IDENTITY)) {
                throw new IllegalArgumentException(
                        "a table cannot be partitioned by "
                                + partition.describe()
                                + ", but by the values of columns: make a column of it");
            }
            String name = String.join(".", partition.references()[0].fieldNames());
            names.add(TableOptions.requireColumn("PARTITIONED BY", name, schema));
        }
        return new TableColumns(schema, different("PARTITIONED BY", names));
    }

    /// These columns, with partitions by those that the options name, if they name any.
    ///
    /// @throws IllegalArgumentException if they are partitioned by others already
    TableColumns partitionedBy(CaseInsensitiveStringMap options) {
        String value = options.get(TableOptions.PARTITION_BY);
        if (value == null) {
            return this;
        }
        List<String> names = named(TableOptions.PARTITION_BY, value, schema);
        return partitioning.isEmpty() ? new TableColumns(schema, names) : requirePartitions(names);
    }

    /// These columns, which the partitions that the options name do not change.
    ///
    /// @throws IllegalArgumentException if they name others
    TableColumns requirePartitions(CaseInsensitiveStringMap options) {
        String value = options.get(TableOptions.PARTITION_BY);
        return value == null
                ? this
                : requirePartitions(named(TableOptions.PARTITION_BY, value, schema));
    }

    private TableColumns requirePartitions(List<String> names) {
        if (!names.equals(partitioning)) {
            throw new IllegalArgumentException(
                    "option "
                            + TableOptions.PARTITION_BY
                            + ": the table is partitioned by "
                            + partitioning
                            + ", and that stays: leave the option out, or make another table");
        }
        return this;
    }

    /// A column's name, if there is an order of its values.
    ///
    /// @param what names it, for a message
    static String requireOrder(String what, String name, StructType schema) {
        DataType type = schema.apply(name).dataType();
        if (!OrderUtils.isOrderable(type)) {
            throw new IllegalArgumentException(
                    what
                            + ": values of the column "
                            + name
                            + ", of type "
                            + type.sql()
                            + ", have no order: name another");
        }
        return name;
    }

    /// Names of columns in the value of an option: with commas between them, in backticks if they
    /// have a comma.
    ///
    /// @return the names as the schema has them
    /// @throws IllegalArgumentException if they are none, or one is there twice
    static List<String> named(String option, String value, StructType schema) {
        List<String> names = new ArrayList<>();
        Matcher matcher = NAME.matcher(value);
        boolean goesOn = !value.isBlank();
        while (goesOn) {
            if (!matcher.find()) {
                throw new IllegalArgumentException(
                        "option "
                                + option
                                + ": '"
                                + value
                                + "' is no list of columns: write their names with commas between"
                                + " them, those with commas in backticks");
            }
            String name =
                    matcher.group(1) == null
                            ? matcher.group(2)
                            : matcher.group(1).replace("``", "`");
            names.add(TableOptions.requireColumn("option " + option, name, schema));
            goesOn = matcher.group(3) != null;
        }
        return different("option " + option, names);
    }

    private static List<String> different(String what, List<String> names) {
        for (int i = 0; i < names.size(); i++) {
            if (names.subList(0, i).contains(names.get(i))) {
                throw new IllegalArgumentException(
                        what + ": the column " + names.get(i) + " is there twice: once is enough");
            }
        }
        return names;
    }

    /// A column by its name, whatever characters that has.
    static NamedReference reference(String column) {
        return Expressions.column(quoted(column));
    }

    private static String quoted(String column) {
        return "`" + column.replace("`", "``") + "`";
    }

    /// The numbers of the partition columns.
    int[] partitionNumbers() {
        return partitioning.stream().mapToInt(schema::fieldIndex).toArray();
    }

    /// The partition columns.
    StructType partitionSchema() {
        return new StructType(partitioning.stream().map(schema::apply).toArray(StructField[]::new));
    }

    /// The partition columns as references.
    NamedReference[] partitionReferences() {
        return partitioning.stream().map(TableColumns::reference).toArray(NamedReference[]::new);
    }

    /// The partitions as Spark describes them.
    Transform[] transforms() {
        return partitioning.stream()
                .map(name -> Expressions.identity(quoted(name)))
                .toArray(Transform[]::new);
    }

    /// The partition that a part is in.
    PartitionKey partitionOf(Part part) {
        return PartitionKey.of(
                Arrays.stream(partitionNumbers())
                        .mapToObj(column -> part.columns().get(column).min())
                        .toArray(byte[][]::new));
    }
}
