package dev.terrace.objects.arrow;

import dev.terrace.objects.FieldKind;
import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.BitVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.Float4Vector;
import org.apache.arrow.vector.Float8Vector;
import org.apache.arrow.vector.IntVector;
import org.apache.arrow.vector.SmallIntVector;
import org.apache.arrow.vector.TinyIntVector;
import org.apache.arrow.vector.UInt2Vector;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.jspecify.annotations.Nullable;

/// Numbers, booleans, characters, and references, which are numbers that name objects.
final class NumberCells extends Cells {
    private final FieldKind kind;

    NumberCells(FieldKind kind) {
        this.kind = kind;
    }

    @Override
    ArrowType type() {
        return Elements.typeOf(kind);
    }

    @Override
    int width() {
        return kind.width();
    }

    @Override
    @Nullable FieldKind strideKind() {
        return kind == FieldKind.REFERENCE ? null : kind;
    }

    @Override
    long set(int row, Object value) {
        FieldVector into = vector();
        switch (into) {
            case BitVector bits -> bits.setSafe(row, (Boolean) value ? 1 : 0);
            case TinyIntVector bytes -> bytes.setSafe(row, (Byte) value);
            case SmallIntVector shorts -> shorts.setSafe(row, (Short) value);
            case UInt2Vector chars -> chars.setSafe(row, (Character) value);
            case IntVector ints -> ints.setSafe(row, (Integer) value);
            case BigIntVector longs -> longs.setSafe(row, (Long) value);
            case Float4Vector floats -> floats.setSafe(row, (Float) value);
            case Float8Vector doubles -> doubles.setSafe(row, (Double) value);
            default -> throw new AssertionError(into.getClass());
        }
        return 0;
    }
}
