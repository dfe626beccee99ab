package dev.terrace.objects.spark;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Locale;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/// The stored procedures of the catalog: `CALL terrace.system.optimize(table => '/data/people')`.
enum TableProcedure implements UnboundProcedure {
    /// [Optimization].
    OPTIMIZE(
            "writes small parts, and parts with deleted rows, into few that are well filled",
            List.of(
                    table(),
                    optional("target_bytes", DataTypes.LongType, "134217728"),
                    optional("min_fill", DataTypes.DoubleType, "0.75D"),
                    optional("max_deleted", DataTypes.DoubleType, "0.2D"),
                    optional(
                            "sort_by",
                            DataTypes.createArrayType(DataTypes.StringType),
                            "CAST(array() AS ARRAY<STRING>)"),
                    optional("all_parts", DataTypes.BooleanType, "false")),
            new StructType()
                    .add("parts_before", DataTypes.IntegerType, false)
                    .add("bytes_before", DataTypes.LongType, false)
                    .add("parts_after", DataTypes.IntegerType, false)
                    .add("bytes_after", DataTypes.LongType, false)
                    .add("parts_left", DataTypes.IntegerType, false)) {
        @Override
        Object[] run(SparkSession spark, String directory, InternalRow arguments)
                throws IOException {
            Optimization.Rewritten rewritten =
                    new Optimization(
                                    arguments.getLong(1),
                                    arguments.getDouble(2),
                                    arguments.getDouble(3),
                                    columns(arguments, 4),
                                    arguments.getBoolean(5))
                            .run(spark, directory);
            return new Object[] {
                rewritten.partsBefore(),
                rewritten.bytesBefore(),
                rewritten.partsAfter(),
                rewritten.bytesAfter(),
                rewritten.partsLeft()
            };
        }
    },

    /// [Snapshots#vacuum].
    VACUUM(
            "removes versions of a table that are older than an age, and what only they lead to",
            List.of(table(), optional("age_hours", DataTypes.LongType, "168")),
            new StructType()
                    .add("manifests", DataTypes.IntegerType, false)
                    .add("parts", DataTypes.IntegerType, false)) {
        @Override
        Object[] run(SparkSession spark, String directory, InternalRow arguments)
                throws IOException {
            long hours = arguments.getLong(1);
            if (hours < 0 || hours > AGE_HOURS_MAX) {
                throw new IllegalArgumentException(
                        "age_hours: an age has from 0 to "
                                + AGE_HOURS_MAX
                                + " hours, not "
                                + hours);
            }
            Snapshots.Removed removed =
                    Snapshots.vacuum(
                            JavaSparkContext.fromSparkContext(spark.sparkContext()),
                            directory,
                            Duration.ofHours(hours));
            return new Object[] {removed.manifests(), removed.parts()};
        }
    };

    /// The namespace of all of them.
    private static final String SYSTEM = "system";

    /// About a thousand years: a time so long ago is still one.
    private static final long AGE_HOURS_MAX = 24 * 365 * 1000;

    private final String text;
    private final List<ProcedureParameter> parameters;
    private final StructType resultType;

    TableProcedure(String text, List<ProcedureParameter> parameters, StructType resultType) {
        this.text = text;
        this.parameters = parameters;
        this.resultType = resultType;
    }

    private static ProcedureParameter table() {
        return ProcedureParameter.in("table", DataTypes.StringType)
                .comment("the table's path")
                .build();
    }

    private static ProcedureParameter optional(String name, DataType type, String otherwise) {
        return ProcedureParameter.in(name, type).defaultValue(otherwise).build();
    }

    private static List<String> columns(InternalRow arguments, int parameter) {
        Object[] texts = arguments.getArray(parameter).toObjectArray(DataTypes.StringType);
        for (Object text : texts) {
            if (text == null) {
                throw new IllegalArgumentException(
                        "sort_by: NULL is no column: leave it out of the array");
            }
        }
        return Arrays.stream(texts).map(Object::toString).toList();
    }

    /// The procedure of this name.
    ///
    /// @throws IllegalArgumentException if there is none
    static TableProcedure of(Identifier ident) {
        for (TableProcedure procedure : values()) {
            if (isSystem(ident.namespace()) && ident.name().equalsIgnoreCase(procedure.name())) {
                return procedure;
            }
        }
        throw new IllegalArgumentException(
                "there is no procedure "
                        + ident
                        + ". There are: "
                        + Arrays.toString(identifiers(new String[] {SYSTEM})));
    }

    /// The names of the procedures in a namespace.
    static Identifier[] identifiers(String[] namespace) {
        return isSystem(namespace)
                ? Arrays.stream(values())
                        .map(each ->
                                Identifier.of(
                                        new String[] {SYSTEM},
                                        each.name().toLowerCase(Locale.ROOT)))
                        .toArray(Identifier[]::new)
                : new Identifier[0];
    }

    private static boolean isSystem(String[] namespace) {
        return namespace.length == 1 && namespace[0].equalsIgnoreCase(SYSTEM);
    }

    /// Does it.
    ///
    /// @return the row that Spark shows
    abstract Object[] run(SparkSession spark, String directory, InternalRow arguments)
            throws IOException;

    @Override
    public String description() {
        return text;
    }

    @Override
    public BoundProcedure bind(StructType arguments) {
        return new Bound(this);
    }

    /// A procedure that has its arguments. It is another object than the unbound one: by its class
    /// Spark tells whether it has put the arguments in order, which it does only once it knows the
    /// types of all of them.
    private record Bound(TableProcedure procedure) implements BoundProcedure {
        @Override
        public String name() {
            return procedure.name();
        }

        @Override
        public String description() {
            return procedure.text;
        }

        @Override
        public ProcedureParameter[] parameters() {
            return procedure.parameters.toArray(new ProcedureParameter[0]);
        }

        @Override
        public boolean isDeterministic() {
            return false;
        }

        @Override
        public Iterator<Scan> call(InternalRow arguments) {
            procedure.requireValues(arguments);
            try {
                Object[] row =
                        procedure.run(SparkSession.active(), arguments.getString(0), arguments);
                Scan result = new Result(procedure.resultType, new GenericInternalRow(row));
                return List.of(result).iterator();
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }

    private void requireValues(InternalRow arguments) {
        for (int i = 0; i < parameters.size(); i++) {
            ProcedureParameter parameter = parameters.get(i);
            if (arguments.isNullAt(i)) {
                throw new IllegalArgumentException(
                        parameter.name()
                                + ": NULL is no value: give one"
                                + (parameter.defaultValue() == null ? "" : ", or leave it out"));
            }
        }
    }

    /// The row of a result.
    private record Result(StructType readSchema, InternalRow row) implements LocalScan {
        @Override
        public InternalRow[] rows() {
            return new InternalRow[] {row};
        }
    }
}
