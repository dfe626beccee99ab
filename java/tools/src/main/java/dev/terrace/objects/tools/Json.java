package dev.terrace.objects.tools;

import java.util.Iterator;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// Maps, lists, strings, numbers, booleans and null as JSON, all in ASCII. Numbers that JSON has
/// not (NaN, infinities) are strings.
final class Json {
    private Json() {}

    static String of(@Nullable Object value) {
        StringBuilder into = new StringBuilder();
        append(value, into);
        return into.toString();
    }

    private static void append(@Nullable Object value, StringBuilder into) {
        switch (value) {
            case null -> into.append("null");
            case Map<?, ?> map -> appendMap(map, into);
            case Iterable<?> list -> appendList(list, into);
            case Double number when !Double.isFinite(number) -> quote(number.toString(), into);
            case Float number when !Float.isFinite(number) -> quote(number.toString(), into);
            case Number number -> into.append(number);
            case Boolean flag -> into.append(flag);
            default -> quote(value.toString(), into);
        }
    }

    private static void appendMap(Map<?, ?> map, StringBuilder into) {
        String before = "{";
        for (Map.Entry<?, ?> entry : map.entrySet()) {
            into.append(before);
            quote(String.valueOf(entry.getKey()), into);
            into.append(':');
            append(entry.getValue(), into);
            before = ",";
        }
        into.append(map.isEmpty() ? "{}" : "}");
    }

    private static void appendList(Iterable<?> list, StringBuilder into) {
        into.append('[');
        for (Iterator<?> items = list.iterator(); items.hasNext(); ) {
            append(items.next(), into);
            into.append(items.hasNext() ? "," : "");
        }
        into.append(']');
    }

    private static void quote(String text, StringBuilder into) {
        into.append('"');
        for (int i = 0; i < text.length(); i++) {
            char character = text.charAt(i);
            switch (character) {
                case '"', '\\' -> into.append('\\').append(character);
                case '\n' -> into.append("\\n");
                case '\r' -> into.append("\\r");
                case '\t' -> into.append("\\t");
                default -> {
                    if (character < ' ' || character > '~') {
                        into.append(String.format("\\u%04x", (int) character));
                    } else {
                        into.append(character);
                    }
                }
            }
        }
        into.append('"');
    }
}
