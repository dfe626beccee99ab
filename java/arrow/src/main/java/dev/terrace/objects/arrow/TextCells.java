package dev.terrace.objects.arrow;

import java.nio.charset.StandardCharsets;
import org.apache.arrow.vector.VarCharVector;
import org.apache.arrow.vector.types.pojo.ArrowType;

/// Texts, names of constants, and numbers of any length in decimal digits.
final class TextCells extends Cells {
    @Override
    ArrowType type() {
        return ArrowType.Utf8.INSTANCE;
    }

    @Override
    int width() {
        return Integer.BYTES;
    }

    @Override
    long set(int row, Object value) {
        byte[] bytes = value.toString().getBytes(StandardCharsets.UTF_8);
        ((VarCharVector) vector()).setSafe(row, bytes);
        return bytes.length;
    }
}
