//! The floor of operations: what programs ask for.
//!
//! [`data::Files`] reads, writes and truncates; `fallocate` is part of it. [`names::Names`]
//! creates, links, renames, removes and lists. [`xattr::Attributes`] knows stat, chmod, times,
//! extended attributes and ACLs.
//!
//! It uses `tiering`, `pageio`, `inode` and what lies below.

pub(crate) mod acl;
pub(crate) mod data;
pub(crate) mod fallocate;
pub(crate) mod lending;
pub(crate) mod names;
pub(crate) mod xattr;
