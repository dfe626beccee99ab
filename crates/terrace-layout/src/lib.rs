//! Every structure that Terrace FS keeps on media.
