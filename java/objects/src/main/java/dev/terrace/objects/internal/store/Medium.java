package dev.terrace.objects.internal.store;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/// What values lie on. The numbers of these constants are part of the pool's format.
public enum Medium {
    /// Memory of this process: nothing of the store lies there.
    DRAM,
    /// Persistent memory, byte by byte.
    PMEM,
    /// A solid-state disk.
    SSD,
    /// A rotating disk.
    HDD,
    /// The fastest disk, whichever kind that is.
    DISK,
    /// A distributed file system.
    REMOTE;

    /// A writer asks for the same few lists again and again.
    private static final Map<List<?>, List<Medium>> NAMED = new ConcurrentHashMap<>();

    /// The media that are called as these tiers are.
    public static List<Medium> named(List<? extends Enum<?>> tiers) {
        List<Medium> known = NAMED.get(tiers);
        if (known == null) {
            known = tiers.stream().map(Medium::named).toList();
            NAMED.put(List.copyOf(tiers), known);
        }
        return known;
    }

    /// The medium that is called as this tier is.
    public static Medium named(Enum<?> tier) {
        return valueOf(tier.name());
    }
}
