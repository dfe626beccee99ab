//! Pure placement decisions of Terrace FS.
