//! The floor of inodes: those in memory, the table of all of them, orphans, and the page cache.
//!
//! | component | owns |
//! |---|---|
//! | [`store::Store`] | PM, free space of all devices, journals |
//! | [`health::Health`] | whether the volume may be written, failures of disks |
//! | [`device_table::DeviceTable`] | the superblock; disks join and leave |
//! | [`commits::Commits`] | committing logs, and keeping them short |
//! | [`activity::Activity`] | what the tiering floor is told |
//! | [`dirty::DirtyFiles`] | files with dirty pages |
//! | [`resident::loans::Loans`] | files that other processes read and write in PM themselves |
//! | [`table::Inodes`] | inodes in memory, tables of records, orphans |
//! | [`cache::PageCache`] | pages in shared memory |
//!
//! It uses `base` and `terrace-store`. It knows nothing of reading and writing files, of tiers to
//! which data moves, or of names beyond the entries of a directory.
//!
//! # Lock order
//!
//! Outermost first; a thread that holds one of these takes only later ones:
//!
//! 0. `Relief::turn`
//! 1. `Reports::paths`; `Names::rename` (renames of directories)
//! 2. `Inode::moving`, then `Inode::flush` (a thread that holds one waits for no other, but may try
//!    to take it); or `ColdLogs::under_way`
//! 3. `Inode::inner`: parents before children; several directories or several files in order of
//!    inode number
//! 4. `Shard::table`, then one of `Shard::inodes`, `DirtyShard::dirty`, `Shard::orphans`, or the
//!    pulse (its bell first), then `ShardActivity::lists` (of the other locks of `activity` and
//!    `tiering`, a thread that holds one takes no other)
//! 5. a file's page map and the cache's pool
//! 6. `Journal`, then `Space::members`, then allocator groups; or `Gate`
//!
//! `DeviceTable::unerased`, then `DeviceTable::sb`, are held while the device table changes, and
//! then only `Space::members`. `Wear::state` is taken with any of these but `Space::members`, and
//! then only that.

pub(crate) mod activity;
pub(crate) mod cache;
pub(crate) mod commits;
pub(crate) mod device_table;
pub(crate) mod dir;
pub(crate) mod dirty;
pub(crate) mod health;
pub(crate) mod kin;
pub(crate) mod lists;
pub(crate) mod orphans;
pub(crate) mod paths;
pub(crate) mod predictors;
pub(crate) mod reclaim;
pub(crate) mod resident;
pub(crate) mod store;
pub(crate) mod table;
pub(crate) mod wear;
