package dev.terrace.objects.internal.store;

import java.nio.charset.StandardCharsets;
import org.jspecify.annotations.Nullable;

/// Strings as buffers hold them, and the text for values that cannot be shown.
public final class Text {
    /// The text for a value that cannot be read.
    public static final String UNREADABLE = "<unreadable>";

    private static final byte LATIN_1 = 0;
    private static final byte UTF_16 = 1;

    /// The greatest number of characters: more than an extent holds, and few enough for an array of
    /// bytes.
    private static final int CHARACTERS_MAX = (1 << 30) - 64;

    private Text() {}

    /// Whether a string is not too long for any buffer.
    static boolean fits(String text) {
        return text.length() <= CHARACTERS_MAX;
    }

    /// A string as a buffer holds it: the encoding of its characters, then the characters. Any
    /// string can be restored exactly.
    ///
    /// @throws StoreFailure.Full if it is too long for any buffer
    public static byte[] encode(String text) {
        if (!fits(text)) {
            throw new StoreFailure.Full(
                    "a text of "
                            + text.length()
                            + " characters: none has more than "
                            + CHARACTERS_MAX);
        }
        byte[] narrow = text.getBytes(StandardCharsets.ISO_8859_1);
        boolean fits = new String(narrow, StandardCharsets.ISO_8859_1).equals(text);
        byte[] bytes = new byte[1 + (fits ? narrow.length : 2 * text.length())];
        bytes[0] = fits ? LATIN_1 : UTF_16;
        if (fits) {
            System.arraycopy(narrow, 0, bytes, 1, narrow.length);
        } else {
            for (int i = 0; i < text.length(); i++) {
                bytes[1 + 2 * i] = (byte) text.charAt(i);
                bytes[2 + 2 * i] = (byte) (text.charAt(i) >>> 8);
            }
        }
        return bytes;
    }

    /// The string that a buffer holds.
    ///
    /// @throws StoreFailure.Damaged if it does not hold a string
    public static @Nullable String decode(byte @Nullable [] bytes) {
        if (bytes == null) {
            return null;
        }
        if (bytes.length > 0 && bytes[0] == LATIN_1) {
            return new String(bytes, 1, bytes.length - 1, StandardCharsets.ISO_8859_1);
        }
        if (bytes.length % 2 == 0 || bytes[0] != UTF_16) {
            throw new StoreFailure.Damaged("a stored string is damaged");
        }
        char[] chars = new char[bytes.length / 2];
        for (int i = 0; i < chars.length; i++) {
            chars[i] = (char) (bytes[1 + 2 * i] & 0xff | bytes[2 + 2 * i] << 8);
        }
        return new String(chars);
    }

    /// The reason for [#UNREADABLE] in a text.
    public static String because(Throwable failure) {
        return " (" + failure.getClass().getSimpleName() + ": " + failure.getMessage() + ")";
    }
}
