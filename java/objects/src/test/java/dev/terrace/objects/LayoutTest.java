package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.junit.jupiter.api.Test;

/// A pool's records are laid out so for ever: what is written here is the format.
class LayoutTest {
    @Test
    void theWidestFieldsComeFirstAndArraysLast() {
        Layout layout =
                Layout.of(
                        List.of(
                                FieldSpec.of("bytes", FieldKind.BYTES).ofLength(13),
                                FieldSpec.of("flag", FieldKind.BOOLEAN),
                                FieldSpec.of("boxed", FieldKind.INT).orNull(),
                                FieldSpec.of("row", FieldKind.DOUBLES).ofLength(2),
                                FieldSpec.of("text", FieldKind.STRING).orNull(),
                                FieldSpec.of("score", FieldKind.DOUBLE).on(StorageTier.DRAM),
                                FieldSpec.of("small", FieldKind.SHORT)));
        // Header, extension, bits that say whether boxed values are there, text, boxed, small,
        // flag, a byte of nothing, bytes, row.
        assertArrayEquals(new int[] {40, 38, 32, 56, 24, -1, 36}, layout.offsets());
        assertArrayEquals(new int[] {-1, -1, 128, -1, -1, -1, -1}, layout.presence());
        assertEquals(72, layout.bytes());
        assertArrayEquals(new int[] {16, 1, 4, 16, 8, 8, 2}, layout.widths());
    }
}
