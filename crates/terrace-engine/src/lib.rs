//! The Terrace file system: inodes, namespace, data, page cache, recovery, check.
