package dev.terrace.objects;

/// The places where a field's value may be kept.
public enum StorageTier {
    /// Memory of this process: the value is gone when the pool is closed.
    DRAM,
    /// Persistent memory, byte by byte.
    PMEM,
    /// A solid-state disk.
    SSD,
    /// A rotating disk.
    HDD,
    /// The pool's fastest disk, of either kind.
    DISK,
    /// A distributed file system.
    REMOTE
}
