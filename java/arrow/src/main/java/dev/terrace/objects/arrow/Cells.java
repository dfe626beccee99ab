package dev.terrace.objects.arrow;

import dev.terrace.objects.FieldKind;
import java.util.List;
import java.util.Objects;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.apache.arrow.vector.types.pojo.Field;
import org.jspecify.annotations.Nullable;

/// The values of a column of a batch, all of one type, which it puts into a vector. They come in
/// the order of the rows.
///
/// Invariant: who sets a value sets all values of the batch again if it is read again, so values in
/// the vector are either of the present attempt or zero.
abstract class Cells {
    /// Of columns of an embedded object: those of its fields.
    final List<Field> children;

    private @Nullable FieldVector bound;

    Cells(List<Field> children) {
        this.children = children;
    }

    Cells() {
        this(List.of());
    }

    /// How Arrow calls the values.
    abstract ArrowType type();

    /// Bytes that each value takes, at least.
    abstract int width();

    /// The kind of the primitives of which values consist, as a cursor copies them; null if it
    /// cannot.
    @Nullable FieldKind strideKind() {
        return null;
    }

    /// Values go into this vector from now on.
    void bind(FieldVector vector) {
        bound = vector;
    }

    final FieldVector vector() {
        return Objects.requireNonNull(bound);
    }

    /// Sets the value of a row, and returns how many bytes it takes beyond [#width()].
    abstract long set(int row, Object value);

    /// Sets the value of a row to null.
    void setNull(int row) {
        vector().setNull(row);
    }

    /// Sets the values of rows that follow each other.
    ///
    /// @param array of [#strideKind()], the values one behind the other
    void put(int row, Object array, int rows) {
        Elements.put(vector(), row, array, rows);
    }
}
