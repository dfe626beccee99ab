package dev.terrace.objects.tools;

import dev.terrace.objects.FieldSpec;
import dev.terrace.objects.PoolDump;
import dev.terrace.objects.PoolDump.Constant;
import dev.terrace.objects.PoolDump.Elements;
import dev.terrace.objects.PoolDump.GenericObject;
import dev.terrace.objects.PoolDump.Reference;
import dev.terrace.objects.StoredType;
import java.io.PrintWriter;
import java.lang.reflect.Array;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.temporal.TemporalAccessor;
import java.time.temporal.TemporalAmount;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/// Writes what a pool holds: one line for each thing, or JSON.
final class DumpWriter {
    /// Elements of an array that are shown.
    private static final int ELEMENTS_MAX = 16;

    /// Characters of a string that are shown.
    private static final int CHARACTERS_MAX = 200;

    private final PoolDump dump;
    private final PrintWriter out;

    DumpWriter(PoolDump dump, PrintWriter out) {
        this.dump = dump;
        this.out = out;
    }

    // To be read

    void text(@Nullable String wanted, long limit) {
        dump.roots()
                .forEach((name, leads) ->
                        out.println("root " + Json.of(name) + " -> " + text(leads)));
        for (StoredType type : dump.types()) {
            out.println(
                    "class "
                            + type.name()
                            + ", form "
                            + type.id()
                            + ", "
                            + Text.count(type.layout().bytes(), "byte")
                            + " each"
                            + (type.columnar() ? ", in columns" : ""));
            for (int i = 0; i < type.fields().size(); i++) {
                out.println("  " + describe(type.fields().get(i), type.layout().offsets()[i]));
            }
        }
        if (limit > 0) {
            dump.forEach(wanted, limit, this::print);
        }
    }

    private static String describe(FieldSpec field, int offset) {
        String length = field.fixedLength() > 0 ? "[" + field.fixedLength() + "]" : "";
        String target = field.target().isEmpty() ? "" : " " + field.target();
        String constants = field.constants().isEmpty() ? "" : " " + field.constants();
        return field.name()
                + ": "
                + lower(field.kind())
                + length
                + target
                + constants
                + (field.nullable() ? " or null" : "")
                + " on "
                + String.join(", ", field.tiers().stream().map(DumpWriter::lower).toList())
                + (offset < 0
                        ? ""
                        : ", "
                                + (field.isInline()
                                        ? "at "
                                        : field.grouped() ? "shared slot at " : "slot at ")
                                + offset);
    }

    private static String lower(Enum<?> constant) {
        return constant.name().toLowerCase(Locale.ROOT);
    }

    private void print(GenericObject object) {
        out.println(
                "object "
                        + hex(object.reference())
                        + " of "
                        + object.type().name()
                        + ", form "
                        + object.type().id());
        object.fields().forEach((name, value) -> out.println("  " + name + " = " + text(value)));
        for (GenericObject part = object.extension(); part != null; part = part.extension()) {
            out.println("  since form " + part.type().id() + ":");
            part.fields().forEach((name, value) -> out.println("  " + name + " = " + text(value)));
        }
    }

    private static String text(@Nullable Object value) {
        return switch (value) {
            case null -> "null";
            case String string ->
                    string.length() <= CHARACTERS_MAX
                            ? Json.of(string)
                            : Json.of(string.substring(0, CHARACTERS_MAX))
                                    + "... "
                                    + string.length()
                                    + " characters";
            case Character character -> Json.of(character.toString());
            case Constant constant -> constant.name();
            case Reference leads ->
                    hex(leads.reference())
                            + (leads.type() == null ? " (deleted)" : " of " + leads.type())
                            + (leads.elements() == null
                                    ? ""
                                    : " " + elementsText(leads.elements()));
            default -> value.getClass().isArray() ? arrayText(value) : value.toString();
        };
    }

    private static String elementsText(Elements elements) {
        List<String> shown = new ArrayList<>();
        int step = elements.areEntries() ? 2 : 1;
        List<@Nullable Object> all = elements.first();
        for (int i = 0; i < all.size(); i += step) {
            shown.add(text(all.get(i)) + (step == 2 ? ": " + text(all.get(i + 1)) : ""));
        }
        if (shown.size() < elements.count()) {
            shown.add("...");
        }
        String joined = String.join(", ", shown);
        return elements.areEntries() ? "{" + joined + "}" : "[" + joined + "]";
    }

    private static String arrayText(Object array) {
        int length = Array.getLength(array);
        List<String> shown = new ArrayList<>();
        for (int i = 0; i < Math.min(length, ELEMENTS_MAX); i++) {
            shown.add(text(Array.get(array, i)));
        }
        String all = String.join(", ", shown);
        return length > ELEMENTS_MAX
                ? "[" + all + ", ...] " + length + " elements"
                : "[" + all + "]";
    }

    private static String hex(long reference) {
        return "0x" + Long.toHexString(reference);
    }

    // JSON

    /// Objects are written one by one: there may be more than memory has room for.
    void json(@Nullable String wanted, long limit) {
        Map<String, Object> roots = new LinkedHashMap<>();
        dump.roots().forEach((name, leads) -> roots.put(name, asMap(leads)));
        out.print("{\"roots\":" + Json.of(roots) + ",\"classes\":");
        out.print(Json.of(dump.types().stream().map(DumpWriter::asMap).toList()));
        if (limit > 0) {
            out.print(",\"objects\":[");
            String[] before = {"\n"};
            dump.forEach(
                    wanted,
                    limit,
                    object -> {
                        out.print(before[0] + Json.of(asMap(object)));
                        before[0] = ",\n";
                    });
            out.print("]");
        }
        out.println("}");
    }

    private static Map<String, @Nullable Object> asMap(Reference leads) {
        Map<String, @Nullable Object> map = new LinkedHashMap<>();
        map.put("reference", hex(leads.reference()));
        map.put("class", leads.type());
        if (leads.elements() != null) {
            map.put("count", leads.elements().count());
            map.put("first", elementsMap(leads.elements()));
        }
        return map;
    }

    /// Of a map a list of pairs: keys need not be strings.
    private static List<Object> elementsMap(Elements elements) {
        List<@Nullable Object> shown = new ArrayList<>();
        List<@Nullable Object> all = elements.first();
        for (int i = 0; i < all.size(); i += elements.areEntries() ? 2 : 1) {
            Object element = jsonValue(all.get(i));
            shown.add(
                    elements.areEntries()
                            ? Arrays.asList(element, jsonValue(all.get(i + 1)))
                            : element);
        }
        return shown;
    }

    private static Map<String, Object> asMap(StoredType type) {
        List<Object> fields = new ArrayList<>();
        for (int i = 0; i < type.fields().size(); i++) {
            FieldSpec field = type.fields().get(i);
            Map<String, Object> map = new LinkedHashMap<>();
            map.put("name", field.name());
            map.put("kind", lower(field.kind()));
            map.put("fixed_length", field.fixedLength());
            map.put("nullable", field.nullable());
            map.put("tiers", field.tiers().stream().map(DumpWriter::lower).toList());
            map.put("target", field.target());
            map.put("constants", field.constants());
            map.put("offset", type.layout().offsets()[i]);
            map.put("grouped", field.grouped());
            fields.add(map);
        }
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("name", type.name());
        map.put("form", type.id());
        map.put("bytes", type.layout().bytes());
        map.put("columnar", type.columnar());
        map.put("fields", fields);
        return map;
    }

    private static Map<String, Object> asMap(GenericObject object) {
        Map<String, @Nullable Object> fields = new LinkedHashMap<>();
        object.fields().forEach((name, value) -> fields.put(name, jsonValue(value)));
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("reference", hex(object.reference()));
        map.put("class", object.type().name());
        map.put("form", object.type().id());
        map.put("fields", fields);
        if (object.extension() != null) {
            map.put("extension", asMap(object.extension()));
        }
        return map;
    }

    private static @Nullable Object jsonValue(@Nullable Object value) {
        return switch (value) {
            case null -> null;
            case Constant constant -> constant.name();
            case Reference leads -> asMap(leads);
            case BigInteger _, BigDecimal _, UUID _, TemporalAccessor _, TemporalAmount _ ->
                    value.toString();
            default -> value.getClass().isArray() ? arrayMap(value) : value;
        };
    }

    /// The first elements of an array, and how many it has.
    private static Map<String, Object> arrayMap(Object array) {
        List<Object> shown = new ArrayList<>();
        for (int i = 0; i < Math.min(Array.getLength(array), ELEMENTS_MAX); i++) {
            shown.add(Array.get(array, i));
        }
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("length", Array.getLength(array));
        map.put("first", shown);
        return map;
    }
}
