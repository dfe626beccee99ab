package dev.terrace.objects.arrow;

import org.apache.arrow.vector.VarBinaryVector;
import org.apache.arrow.vector.types.pojo.ArrowType;

/// Arrays of bytes of any length.
final class BytesCells extends Cells {
    @Override
    ArrowType type() {
        return ArrowType.Binary.INSTANCE;
    }

    @Override
    int width() {
        return Integer.BYTES;
    }

    @Override
    long set(int row, Object value) {
        byte[] bytes = (byte[]) value;
        ((VarBinaryVector) vector()).setSafe(row, bytes);
        return bytes.length;
    }
}
