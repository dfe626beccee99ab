package dev.terrace.objects.collections;

import java.util.LinkedHashMap;
import java.util.Map;

/// Stand-in.
public final class DurableMap<K, V> extends LinkedHashMap<K, V> {
    private static final long serialVersionUID = 1;

    public DurableMap(Map<? extends K, ? extends V> elements) {
        super(elements);
    }
}
