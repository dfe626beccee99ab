//! The rows by which the mount is judged, and those of the direct path, whatever else there is to
//! measure.

/// The names of the direct path's rows begin so.
pub const DIRECT: &str = "direct: ";

/// What the names of these rows begin with.
const ROWS: &[&str] = &[
    "message: ",
    "mount: RocksDB fillseq, sync vs ",
    "mount -o durable: RocksDB fillseq, sync vs ",
    "mount: fileserver vs ",
    "mount: webserver vs ",
    "mount: webproxy vs ",
    "mount: varmail vs ",
    "mount: untar vs ",
    "mount: git clone vs ",
    "mount: build vs ",
    "mount: rm -r vs ",
    "mount: sequential read of a file on disk, cold vs ",
    "mount: sequential write of a file on disk + fsync vs ",
    "mount: 64 KiB random reads of a file on disk, 32 at a time vs ",
];

/// Whether a row is one of them.
pub fn contains(row_name: &str) -> bool {
    ROWS.iter().any(|beginning| row_name.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::benchmark::Benchmark;
    use crate::catalog;

    #[test]
    fn each_beginning_is_one_of_rows() {
        let names: Vec<String> = catalog::all().flat_map(Benchmark::row_names).collect();
        for beginning in ROWS {
            assert!(names.iter().any(|name| name.starts_with(beginning)), "{beginning}");
        }
        assert!(!contains("engine: 4 KiB random read vs tmpfs"));
    }
}
