package dev.terrace.objects.collections;

import java.util.Map;
import java.util.TreeMap;

/// Stand-in.
public final class DurableTree<K, V> extends TreeMap<K, V> {
    private static final long serialVersionUID = 1;

    public DurableTree(Map<? extends K, ? extends V> elements) {
        super(elements);
    }
}
