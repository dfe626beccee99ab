package dev.terrace.objects.processor;

import java.util.Map;

/// Replacements for well-known types that are not stored.
final class Remedies {
    private static final Map<String, String> BY_TYPE =
            Map.ofEntries(
                    Map.entry(
                            "java.lang.Object",
                            "declare the field with the class of what it holds"),
                    Map.entry("java.lang.Number", "use one of the boxed types, such as Double"),
                    Map.entry("java.lang.CharSequence", "use String"),
                    Map.entry("java.lang.StringBuilder", "use String"),
                    Map.entry("java.util.Date", "use long with getTime()"),
                    Map.entry("java.util.Optional", "use the type itself: a field may be null"),
                    Map.entry("java.util.OptionalInt", "use Integer, which may be null"),
                    Map.entry("java.util.OptionalLong", "use Long, which may be null"),
                    Map.entry("java.util.OptionalDouble", "use Double, which may be null"),
                    Map.entry("java.util.Collection", "use List"),
                    Map.entry("java.lang.Iterable", "use List"),
                    Map.entry("java.util.ArrayList", "declare the field as List"),
                    Map.entry("java.util.LinkedList", "declare the field as List"),
                    Map.entry("java.util.HashSet", "declare the field as Set"),
                    Map.entry("java.util.LinkedHashSet", "declare the field as Set"),
                    Map.entry(
                            "java.util.TreeSet", "declare the field as SortedSet or NavigableSet"),
                    Map.entry("java.util.HashMap", "declare the field as Map"),
                    Map.entry("java.util.LinkedHashMap", "declare the field as Map"),
                    Map.entry(
                            "java.util.TreeMap", "declare the field as SortedMap or NavigableMap"),
                    Map.entry(
                            "java.util.concurrent.atomic.AtomicInteger",
                            "use int: a transaction is atomic"),
                    Map.entry(
                            "java.util.concurrent.atomic.AtomicLong",
                            "use long: a transaction is atomic"),
                    Map.entry("java.time.ZoneId", "use String with getId()"));

    private Remedies() {}

    /// The replacement for a type, by its fully qualified name.
    static String of(String type) {
        String known = BY_TYPE.get(type);
        if (known != null) {
            return known;
        }
        if (type.startsWith("java.time.")) {
            return "use String with toString() and parse(), or the numbers that it consists of";
        }
        if (type.startsWith("java.") || type.startsWith("javax.")) {
            return "store what it consists of, keep it in DRAM with @Tier(DRAM), or make the field"
                    + " transient";
        }
        return "tag the class with @Durable, keep the field in DRAM with @Tier(DRAM), or make it"
                + " transient";
    }
}
