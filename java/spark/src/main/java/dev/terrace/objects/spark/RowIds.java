package dev.terrace.objects.spark;

import java.util.Locale;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/// The ids of a table's rows in one version, a metadata column: the number of the part in the
/// manifest, and the number of the row in the part, in the order in which a cursor meets the
/// blocks. A part is sealed, so that order is the same for all readers.
///
/// An id is one number, so that a statement that sorts or shuffles rows moves little more of them.
final class RowIds {
    /// How many rows of a part have ids.
    static final long PART_ROWS_MAX = 1L << Integer.SIZE;

    private static final String NAME = "_row";

    private RowIds() {}

    /// The column.
    ///
    /// @param name that no other column has
    private record IdColumn(String name) implements MetadataColumn {
        @Override
        public DataType dataType() {
            return DataTypes.LongType;
        }

        @Override
        public boolean isNullable() {
            return false;
        }

        @Override
        public String comment() {
            return "the row's place in this version of the table";
        }
    }

    /// The column of ids. It is `_row`, with as many more underscores as it takes to differ from
    /// the names of a table's columns.
    static MetadataColumn column(StructType schema) {
        Set<String> names =
                Stream.of(schema.fieldNames())
                        .map(name -> name.toLowerCase(Locale.ROOT))
                        .collect(Collectors.toSet());
        String name = NAME;
        while (names.contains(name)) {
            name = "_" + name;
        }
        return new IdColumn(name);
    }

    /// The ids of rows of a part.
    ///
    /// @param part its number in the manifest
    /// @param from the number of the first row in the part
    /// @param rows their numbers, counted from that row
    /// @param into where they go
    /// @throws IllegalArgumentException if a number does not fit
    static void copy(int part, long from, LiveRows rows, long[] into) {
        int count = rows.count();
        if (count > 0 && from + rows.at(count - 1) >= PART_ROWS_MAX) {
            throw new IllegalArgumentException(
                    "a part with more than 4,294,967,296 rows: single rows of it cannot be changed."
                            + " CALL terrace.system.optimize with all_parts => true makes smaller"
                            + " parts");
        }
        for (int i = 0; i < count; i++) {
            into[i] = (long) part << Integer.SIZE | from + rows.at(i);
        }
    }

    /// The number of a row's part in the manifest.
    static int part(long id) {
        return (int) (id >>> Integer.SIZE);
    }

    /// The number of a row in its part, as an unsigned number.
    static int row(long id) {
        return (int) id;
    }
}
