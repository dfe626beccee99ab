package dev.terrace.objects.arrow;

import dev.terrace.objects.FieldKind;
import dev.terrace.objects.collections.DurableSequence;
import dev.terrace.objects.collections.ElementType;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.arrow.vector.types.pojo.FieldType;
import org.apache.arrow.vector.types.pojo.Schema;
import org.jspecify.annotations.Nullable;

/// The values of a list, by their numbers, in one column.
final class ValueRows implements Rows {
    /// The column.
    private static final String NAME = "value";

    private final DurableSequence<?> list;
    private final String className;
    private final Cells cells;
    private int next;
    private int filled;

    /// @throws IllegalArgumentException if the elements are objects, or what the program has said
    ///   does not fit them
    ValueRows(DurableSequence<?> list, ElementType<?> type, Shape shape) {
        this.list = list;
        className = type.name();
        if (shape.names() != null && !shape.names().equals(Set.of(NAME))) {
            throw new IllegalArgumentException(
                    "a list of values has one column, " + NAME + ", not " + shape.names());
        }
        Cells found = cells(className, shape);
        if (found == null) {
            throw new IllegalArgumentException(
                    "elements of class " + className + " are objects: name their class");
        }
        if (!shape.decimals().isEmpty() && !(found.type() instanceof ArrowType.Decimal)) {
            throw new IllegalArgumentException(
                    "only the column " + NAME + " of BigDecimals or BigIntegers has decimals");
        }
        cells = found;
    }

    private static @Nullable Cells cells(String className, Shape shape) {
        return switch (className) {
            case "java.lang.String" -> new TextCells();
            case "byte[]" -> new BytesCells();
            case "java.lang.Boolean" -> new NumberCells(FieldKind.BOOLEAN);
            case "java.lang.Byte" -> new NumberCells(FieldKind.BYTE);
            case "java.lang.Short" -> new NumberCells(FieldKind.SHORT);
            case "java.lang.Character" -> new NumberCells(FieldKind.CHAR);
            case "java.lang.Integer" -> new NumberCells(FieldKind.INT);
            case "java.lang.Long" -> new NumberCells(FieldKind.LONG);
            case "java.lang.Float" -> new NumberCells(FieldKind.FLOAT);
            case "java.lang.Double" -> new NumberCells(FieldKind.DOUBLE);
            default -> ValueCells.of(className, NAME, shape);
        };
    }

    @Override
    public Schema schema() {
        Map<String, String> notes = Map.of(Columns.TYPE, className);
        Field column = new Field(NAME, new FieldType(true, cells.type(), null, notes), List.of());
        return new Schema(List.of(column), Map.of(Columns.POOL, list.pool().id().toString()));
    }

    @Override
    public int width() {
        return cells.width();
    }

    @Override
    public void bind(VectorSchemaRoot root) {
        cells.bind(root.getVector(NAME));
    }

    @Override
    public int fill(int rowsMax) {
        int end = (int) Math.min(list.size(), (long) next + rowsMax);
        long bytes = 0;
        filled = 0;
        for (int i = next; i < end && bytes < BYTES_MAX; i++) {
            Object value = list.get(i);
            bytes += cells.width();
            if (value == null) {
                cells.setNull(filled);
            } else {
                bytes += cells.set(filled, value);
            }
            filled++;
        }
        return filled;
    }

    @Override
    public void accept() {
        next += filled;
    }
}
