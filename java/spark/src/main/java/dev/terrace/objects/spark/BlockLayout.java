package dev.terrace.objects.spark;

import dev.terrace.objects.DurableRecord;
import dev.terrace.objects.FieldKind;
import dev.terrace.objects.FieldSpec;
import dev.terrace.objects.ObjectType;
import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolDamagedException;
import dev.terrace.objects.PoolDump;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.StoredType;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.function.Function;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/// How rows are kept: some thousand of them are a durable object, a *block*, in which each column
/// is a field, on the tier that the column has. So a query that does not name a column does not
/// touch its tier.
final class BlockLayout {
    /// The class of blocks, as pools know it.
    static final String TYPE = "dev.terrace.objects.spark.Block";

    /// The field that says how many rows a block has.
    static final int ROWS = 0;

    /// The class of each open pool's blocks. A pool keeps something for each class that it meets,
    /// and may stay open for many tasks, so all of them use the same one.
    private static final Map<Pool, ObjectType<DurableRecord>> STORED =
            Collections.synchronizedMap(new WeakHashMap<>());

    private final List<FieldSpec> fields = new ArrayList<>();
    private final List<ColumnLayout> columns = new ArrayList<>();

    /// @param tierOf the tier of each column, by its name
    /// @throws IllegalArgumentException if a column has a type that cannot be stored
    BlockLayout(StructType schema, Function<String, StorageTier> tierOf) {
        fields.add(FieldSpec.of("rows", FieldKind.INT));
        for (StructField column : schema.fields()) {
            columns.add(
                    ColumnLayout.addColumn(
                            fields, column.name(), column.dataType(), tierOf.apply(column.name())));
        }
    }

    /// Of rows that were written, on whichever tiers they are.
    static BlockLayout of(StructType schema) {
        return new BlockLayout(schema, _ -> StorageTier.PMEM);
    }

    ColumnLayout column(int number) {
        return columns.get(number);
    }

    List<ColumnLayout> columns() {
        return columns;
    }

    /// The class of new blocks.
    ObjectType<DurableRecord> type() {
        return ObjectType.of(TYPE, fields.toArray(new FieldSpec[0]));
    }

    /// The class of blocks as they were stored: other columns may have been on other tiers then.
    ObjectType<DurableRecord> storedType(Pool pool, String part) {
        ObjectType<DurableRecord> stored = STORED.get(pool);
        if (stored == null) {
            ObjectType<DurableRecord> found = ObjectType.of(find(pool, part));
            ObjectType<DurableRecord> earlier = STORED.putIfAbsent(pool, found);
            stored = earlier == null ? found : earlier;
        }
        if (!names(stored.fields()).equals(names(fields))) {
            throw new PoolDamagedException(
                    "part "
                            + part
                            + " has other columns than its table: it is not what the manifest"
                            + " says");
        }
        return stored;
    }

    private static StoredType find(Pool pool, String part) {
        return new PoolDump(pool)
                .types().stream()
                        .filter(type -> type.name().equals(TYPE))
                        .findFirst()
                        .orElseThrow(() ->
                                new PoolDamagedException(
                                        "part "
                                                + part
                                                + " holds no rows: it is not what the manifest"
                                                + " says"));
    }

    private static List<String> names(List<FieldSpec> fields) {
        return fields.stream().map(field -> field.kind() + " " + field.name()).toList();
    }
}
