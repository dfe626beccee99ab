package dev.terrace.objects.arrow;

/// How an export is saved.
public enum SaveOption {
    /// A file of this name is replaced. Without this option, it is left as it is, and the export is
    /// refused.
    REPLACE,

    /// All rows are of one commit. Without this option, those of each batch are. In the process
    /// that writes, nobody else commits meanwhile. In another process the export begins anew when
    /// somebody has committed, for as long as the pool's patience lasts.
    ONE_COMMIT
}
