package dev.terrace.objects.bench;

import dev.terrace.objects.DurableObject;
import dev.terrace.objects.FieldKind;
import dev.terrace.objects.FieldSpec;
import dev.terrace.objects.ObjectType;
import dev.terrace.objects.Pool;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// A number, a row of numbers, and a text, all in persistent memory.
final class DurableSample extends DurableObject {
    /// Elements of a row.
    static final int DIMENSIONS = 12;

    static final ObjectType<DurableSample> TYPE = ObjectType.of(
            "dev.terrace.objects.bench.Sample",
            DurableSample.class,
            DurableSample::new,
            List.of(),
            FieldSpec.of("number", FieldKind.INT),
            FieldSpec.of("row", FieldKind.DOUBLES).ofLength(DIMENSIONS),
            FieldSpec.of("text", FieldKind.STRING).orNull());

    /// Where the number and the row begin in a record.
    static final int NUMBER_AT = TYPE.offset(0);

    static final int ROW_AT = TYPE.offset(1);
    private static final int TEXT_AT = TYPE.offset(2);

    static DurableSample create(Pool pool) {
        return pool.create(TYPE);
    }

    int getNumber() {
        return getInt(0, NUMBER_AT);
    }

    void setNumber(int number) {
        setInt(0, NUMBER_AT, number);
    }

    double getRow(int index) {
        return getDoubleAt(1, ROW_AT, index);
    }

    int copyRow(double[] into) {
        return copyDoubles(1, ROW_AT, into);
    }

    void setRow(double[] row) {
        setDoubles(1, ROW_AT, row);
    }

    @Nullable String getText() {
        return getString(2, TEXT_AT);
    }

    void setText(@Nullable String text) {
        setString(2, TEXT_AT, text);
    }
}
