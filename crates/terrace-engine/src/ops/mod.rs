//! ops

pub(crate) mod acl;
pub(crate) mod data;
pub(crate) mod fallocate;
pub(crate) mod names;
pub(crate) mod paths;
pub(crate) mod xattr;
