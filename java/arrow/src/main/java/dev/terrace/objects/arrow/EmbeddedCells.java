package dev.terrace.objects.arrow;

import dev.terrace.objects.FieldKind;
import java.util.List;
import org.apache.arrow.vector.complex.StructVector;
import org.apache.arrow.vector.types.pojo.ArrowType;

/// Embedded objects: of each, whether it is there. Its fields are columns of their own.
final class EmbeddedCells extends Cells {
    final List<Column> fields;

    EmbeddedCells(List<Column> fields) {
        super(fields.stream().map(Column::described).toList());
        this.fields = fields;
    }

    @Override
    ArrowType type() {
        return ArrowType.Struct.INSTANCE;
    }

    @Override
    int width() {
        return 1;
    }

    @Override
    FieldKind strideKind() {
        return FieldKind.BOOLEAN;
    }

    @Override
    long set(int row, Object value) {
        if ((Boolean) value) {
            ((StructVector) vector()).setIndexDefined(row);
        } else {
            setNull(row);
        }
        return 0;
    }

    @Override
    void put(int row, Object array, int rows) {
        boolean[] areThere = (boolean[]) array;
        for (int i = 0; i < rows; i++) {
            set(row + i, areThere[i]);
        }
    }
}
