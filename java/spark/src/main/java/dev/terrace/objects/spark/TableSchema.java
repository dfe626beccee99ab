package dev.terrace.objects.spark;

import java.util.HashSet;
import java.util.Locale;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/// The schema of a table that is made of some rows.
final class TableSchema {
    private TableSchema() {}

    /// All may be null in later rows, and of what else is known of a column, or a field of structs,
    /// only its comment stays.
    ///
    /// @throws IllegalArgumentException if two columns, or two fields of a struct, have the same
    ///   name, as the session compares names
    static StructType of(StructType rows) {
        requireDifferentNames(rows, "two columns");
        return struct(rows, true);
    }

    /// The same without comments.
    static StructType withoutComments(StructType schema) {
        return struct(schema, false);
    }

    private static StructType struct(StructType of, boolean keepsComments) {
        return new StructType(
                Stream.of(of.fields())
                        .map(field -> field(field, keepsComments))
                        .toArray(StructField[]::new));
    }

    private static StructField field(StructField of, boolean keepsComments) {
        DataType type = type(of.dataType(), keepsComments);
        StructField field = new StructField(of.name(), type, true, Metadata.empty());
        String comment = keepsComments ? of.getComment().getOrElse(() -> null) : null;
        return comment == null ? field : field.withComment(comment);
    }

    private static DataType type(DataType of, boolean keepsComments) {
        return switch (of) {
            case ArrayType array -> new ArrayType(type(array.elementType(), keepsComments), true);
            case MapType map ->
                    new MapType(
                            type(map.keyType(), keepsComments),
                            type(map.valueType(), keepsComments),
                            true);
            case StructType struct -> {
                requireDifferentNames(struct, "two fields of a struct");
                yield struct(struct, keepsComments);
            }
            default -> of;
        };
    }

    private static void requireDifferentNames(StructType rows, String what) {
        boolean isCaseSensitive =
                Boolean.parseBoolean(SparkSession.active().conf().get("spark.sql.caseSensitive"));
        Set<String> names = new HashSet<>();
        for (String name : rows.fieldNames()) {
            if (!names.add(isCaseSensitive ? name : name.toLowerCase(Locale.ROOT))) {
                throw new IllegalArgumentException(
                        what + " have the name " + name + ": give one another");
            }
        }
    }
}
