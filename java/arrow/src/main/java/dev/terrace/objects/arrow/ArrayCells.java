package dev.terrace.objects.arrow;

import dev.terrace.objects.FieldKind;
import java.lang.reflect.Array;
import java.util.List;
import org.apache.arrow.vector.complex.ListVector;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.arrow.vector.types.pojo.FieldType;

/// Arrays of primitives of any length, but for bytes.
final class ArrayCells extends Cells {
    private final FieldKind kind;

    /// @param kind of the elements
    ArrayCells(FieldKind kind) {
        super(List.of(elements(kind)));
        this.kind = kind;
    }

    /// The column of the elements of arrays. None of them is null.
    static Field elements(FieldKind kind) {
        return new Field(
                ListVector.DATA_VECTOR_NAME,
                FieldType.notNullable(Elements.typeOf(kind)),
                List.of());
    }

    @Override
    ArrowType type() {
        return ArrowType.List.INSTANCE;
    }

    @Override
    int width() {
        return Integer.BYTES;
    }

    @Override
    long set(int row, Object value) {
        ListVector into = (ListVector) vector();
        int length = Array.getLength(value);
        int begin = into.startNewValue(row);
        Elements.put(into.getDataVector(), begin, value, length);
        into.endValue(row, length);
        return (long) length * kind.width();
    }
}
