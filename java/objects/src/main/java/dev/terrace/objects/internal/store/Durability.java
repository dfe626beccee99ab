package dev.terrace.objects.internal.store;

/// How stores to a mapped file become durable.
public enum Durability {
    /// Persistent memory, mapped so that a flush of the processor's caches is enough.
    DAX,
    /// Memory of this machine as a substitute: it survives the process, but not a power cut.
    EMULATED,
    /// A file of any other file system: the system writes pages to the device.
    MSYNC
}
