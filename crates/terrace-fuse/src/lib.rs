//! FUSE front end of Terrace FS.
