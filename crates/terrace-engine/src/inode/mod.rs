//! inode

pub(crate) mod cache;
pub(crate) mod core;
pub(crate) mod dir;
pub(crate) mod resident;
