//! What the log and the data of one inode need on media.
//!
//! [`file::FileData`] with its [`log::Log`] reads and writes one file's data: it knows a mapping of
//! PM and a [`space::BlockSource`], and nothing of a volume. Beside them stand what several inodes
//! share: the [`journal`], which changes words of several logs at once, the allocators ([`alloc`],
//! [`space`]) with the disks ([`members`]), the table of inode records ([`itable`]), the
//! [`superblock`], the [`checkpoint`] of free space and the record of [`wear`].
//!
//! Here are no names, no threads, no page cache and no policy of when data moves.

pub mod alloc;
pub mod checkpoint;
pub mod damage;
pub mod delegation;
pub mod device;
pub mod disks;
pub mod error;
pub mod file;
pub mod index;
pub mod itable;
pub mod journal;
pub mod log;
pub mod members;
pub mod planted;
pub mod seal;
pub mod source;
pub mod space;
pub mod superblock;
pub mod sync;
mod types;
pub mod wear;

pub use damage::{Damage, DamageKind, Structure};
pub use error::{FsError, FsResult};
pub use types::{FileKind, Ino, Time};
