//! Every structure that Terrace FS keeps on media, and nothing else.
//!
//! Invariants of this crate:
//!
//! * Each structure has a fixed size, no padding, and little-endian fields; the compiler checks all
//!   three.
//! * Each structure carries a checksum, or is a single word that carries check bits of its own.
//! * Nothing here changes after it was written, but for the words that commit: an inode's tail and
//!   head, a log page's next pointer, a journal's state, a checkpoint's validity. Each is one
//!   aligned 8-byte store.
//! * Decoding bounds everything that it returns; bytes from media never index anything unchecked.
//!
//! `docs/FORMAT.md` describes the bytes; a test compares its tables with these structures.

#![allow(
    missing_debug_implementations,
    reason = "zerocopy's derives expand to hidden types without it"
)]

#[cfg(target_endian = "big")]
compile_error!(
    "Terrace keeps its structures little-endian in place; big-endian machines are not supported"
);

mod addr;
mod checkpoint;
mod crc;
mod entry;
mod error;
mod field;
mod image;
mod inode;
mod log;
mod shard;
mod superblock;
mod wear;

pub use addr::*;
pub use checkpoint::*;
pub use crc::{
    CRCS_PER_BLOCK, crc_append, crc_blocks_for, data_crc, seal_crc_block, verify_crc_block,
};
pub use entry::*;
pub use error::LayoutError;
pub use field::{Field, MediaStruct};
pub use image::*;
pub use inode::*;
pub use log::*;
pub use shard::*;
pub use superblock::*;
pub use wear::*;

/// Every structure with its fields, for the test that compares them with `docs/FORMAT.md`.
pub fn all_structures() -> Vec<(&'static str, usize, &'static [Field])> {
    fn row<T: MediaStruct>() -> (&'static str, usize, &'static [Field]) {
        (T::NAME, size_of::<T>(), T::FIELDS)
    }
    vec![
        row::<Superblock>(),
        row::<DeviceEntry>(),
        row::<ShardPage>(),
        row::<JournalRecord>(),
        row::<JournalWord>(),
        row::<WearRecord>(),
        row::<WearRow>(),
        row::<CheckpointHeader>(),
        row::<CheckpointDevice>(),
        row::<GroupSummary>(),
        row::<SiblingRow>(),
        row::<ChunkHeader>(),
        row::<InodeRecord>(),
        row::<LogPageHeader>(),
        row::<WriteEntry>(),
        row::<AppendEntry>(),
        row::<PatchEntry>(),
        row::<SetSizeEntry>(),
        row::<HoleEntry>(),
        row::<AttrEntry>(),
        row::<XattrEntry>(),
        row::<DentryAddEntry>(),
        row::<DentryRemoveEntry>(),
        row::<TargetEntry>(),
        row::<PadEntry>(),
        row::<ArchiveEntry>(),
        row::<ImageHeader>(),
        row::<ImageRun>(),
        row::<ImageTrailer>(),
    ]
}
