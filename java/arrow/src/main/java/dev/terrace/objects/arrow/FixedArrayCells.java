package dev.terrace.objects.arrow;

import dev.terrace.objects.FieldKind;
import java.util.List;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.complex.FixedSizeListVector;
import org.apache.arrow.vector.types.pojo.ArrowType;

/// Arrays of primitives that all have the same length.
final class FixedArrayCells extends Cells {
    private final FieldKind kind;
    private final int length;

    /// @param kind of the elements
    FixedArrayCells(FieldKind kind, int length) {
        super(kind == FieldKind.BYTE ? List.of() : List.of(ArrayCells.elements(kind)));
        this.kind = kind;
        this.length = length;
    }

    @Override
    ArrowType type() {
        return kind == FieldKind.BYTE
                ? new ArrowType.FixedSizeBinary(length)
                : new ArrowType.FixedSizeList(length);
    }

    @Override
    int width() {
        return length * kind.width();
    }

    @Override
    FieldKind strideKind() {
        return kind;
    }

    @Override
    long set(int row, Object value) {
        put(row, value, 1);
        return 0;
    }

    @Override
    void put(int row, Object array, int rows) {
        FieldVector into = vector();
        while (into.getValueCapacity() < row + rows) {
            into.reAlloc();
        }
        if (into instanceof FixedSizeListVector list) {
            Elements.put(list.getDataVector(), row * length, array, rows * length);
        } else {
            into.getDataBuffer().setBytes((long) row * length, (byte[]) array, 0, rows * length);
        }
        Elements.setAll(into.getValidityBuffer(), row, rows);
    }
}
