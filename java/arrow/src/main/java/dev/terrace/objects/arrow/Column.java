package dev.terrace.objects.arrow;

import dev.terrace.objects.Cursor;
import dev.terrace.objects.DurableRecord;
import dev.terrace.objects.FieldKind;
import dev.terrace.objects.FieldSpec;
import dev.terrace.objects.ObjectType;
import dev.terrace.objects.ValueType;
import java.lang.reflect.Array;
import java.util.Arrays;
import java.util.Map;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.arrow.vector.types.pojo.FieldType;
import org.jspecify.annotations.Nullable;

/// A field of a class as a column of a batch.
final class Column {
    private final int number;
    private final FieldSpec field;
    private final @Nullable ValueType<?> valueType;
    private final Cells cells;
    private final Field described;

    /// The kind of the primitives that a cursor copies of the field; null if it is read object by
    /// object.
    private final @Nullable FieldKind stride;

    /// How many of them each value has.
    private final int each;

    /// Room for those of a cursor's batch; null until there were any.
    private @Nullable Object copied;

    /// @param number the number of the field in its class
    /// @param name of the column
    /// @param mayBeNull whether there may be rows without an object
    Column(ObjectType<?> type, int number, String name, Cells cells, boolean mayBeNull) {
        this.number = number;
        this.cells = cells;
        field = type.fields().get(number);
        valueType = ValueType.of(field);
        each = Math.max(1, field.fixedLength());
        FieldKind kind = field.kind();
        boolean isRegular = kind.isArray() ? field.fixedLength() > 0 : !field.nullable();
        boolean areNumbers = isRegular && valueType == null && cells.strideKind() != null;
        boolean isCopied =
                type.offset(number) >= 0 && (areNumbers || isRegular && valueType != null);
        stride = isCopied ? kind.isArray() ? kind.element() : kind : null;
        boolean isNeverNull = areNumbers && !mayBeNull && !(cells instanceof EmbeddedCells);
        described =
                new Field(
                        name,
                        new FieldType(!isNeverNull, cells.type(), null, notes()),
                        cells.children);
    }

    /// More than the column's type says.
    private Map<String, String> notes() {
        String key = field.kind() == FieldKind.REFERENCE ? Columns.LEADS_TO : Columns.TYPE;
        return field.target().isEmpty() ? Map.of() : Map.of(key, field.target());
    }

    /// How Arrow describes it.
    Field described() {
        return described;
    }

    Cells cells() {
        return cells;
    }

    /// Whether a cursor copies the values of many objects at once.
    boolean isCopied() {
        return stride != null;
    }

    /// Copies the values of the first objects of a cursor's batch to rows from `row` on.
    ///
    /// @param all how many objects the batch has
    void copy(Cursor<?> cursor, int row, int objects, int all) {
        FieldKind kind = stride;
        if (kind == null) {
            throw new IllegalStateException(field.name() + " is read object by object");
        }
        Object values = copied;
        if (values == null || Array.getLength(values) < all * each) {
            values = Elements.array(kind, all * each);
            copied = values;
        }
        Elements.copy(cursor, number, values);
        if (valueType == null) {
            cells.put(row, values, objects);
        } else {
            long[] words = (long[]) values;
            for (int i = 0; i < objects; i++) {
                long[] stored = Arrays.copyOfRange(words, i * each, (i + 1) * each);
                set(row + i, valueType.decode(field.kind().isArray() ? stored : stored[0]));
            }
        }
    }

    /// Sets the value of a row to that of an object, and returns how many bytes it takes beyond
    /// those that each value takes.
    long set(int row, DurableRecord object) {
        Object stored = stored(object);
        return set(row, valueType == null ? stored : valueType.decode(stored));
    }

    private long set(int row, @Nullable Object value) {
        if (value == null) {
            cells.setNull(row);
            return 0;
        }
        return cells.set(row, value);
    }

    private @Nullable Object stored(DurableRecord object) {
        FieldKind kind = field.kind();
        if (kind.isArray()) {
            return object.getArray(number);
        }
        return switch (kind) {
            case STRING -> object.getString(number);
            case ENUM -> object.getConstant(number);
            case REFERENCE -> {
                long reference = object.getReference(number);
                yield reference == 0 ? null : (Long) reference;
            }
            default -> field.nullable() ? object.getBoxed(number) : number(object, kind);
        };
    }

    private Object number(DurableRecord object, FieldKind kind) {
        return switch (kind) {
            case BOOLEAN -> object.getBoolean(number);
            case BYTE -> object.getByte(number);
            case SHORT -> object.getShort(number);
            case CHAR -> object.getChar(number);
            case INT -> object.getInt(number);
            case FLOAT -> object.getFloat(number);
            case LONG -> object.getLong(number);
            case DOUBLE -> object.getDouble(number);
            default -> throw new AssertionError(kind);
        };
    }
}
