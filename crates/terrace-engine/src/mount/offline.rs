//! An unmounted volume, read without changing it: what the offline tools start from.
//!
//! Invariant: nothing here stores to PM. A committed journal record counts as if it had been
//! replayed, but for a volume that was unmounted cleanly: nothing was left to do then, and what its
//! journals hold means nothing.

use std::collections::BTreeMap;

use terrace_layout::{
    BLOCK_BYTES, HEAD_OFFSET, INODE_BYTES, InodeRecord, LOG_PAGE_MAGIC, MediaStruct, Stamp,
    Superblock,
};
use terrace_media::Pm;
use terrace_store::checkpoint;
use terrace_store::error::{FsError, FsResult};
use terrace_store::itable::{InodeTable, RecordState, shard_of};
use terrace_store::journal::{Journal, Pending};
use terrace_store::log::LogMedia;
use terrace_store::superblock::{Disks, read_pm_superblock};

use crate::base::types::Ino;
use crate::mount::scan::Unfinished;

/// The inode tables and journals of a volume, as far as they can be read.
pub(crate) struct Offline {
    /// Tables of the shards that could be read.
    pub tables: Vec<InodeTable>,
    /// Of the mount that wrote last: what it left may not have been recovered.
    pub stamp: Stamp,
    /// Index in `tables`, by shard.
    by_shard: Vec<Option<usize>>,
    /// Words of committed journal records: what stands in PM in their place does not count.
    pub pending: Pending,
    /// What could not be read, by shard.
    pub damage: BTreeMap<u16, FsError>,
}

/// PM's superblock.
///
/// # Errors
/// If PM holds no volume, or a newer one, or it is too short for its volume.
pub(crate) fn volume_on(pm: &Pm) -> FsResult<Superblock> {
    let wrong = |message: String| Err(FsError::about(pm.path(), libc::EINVAL, message));
    match read_pm_superblock(pm)? {
        None => wrong("no Terrace volume".to_owned()),
        Some(sb) if sb.device_index != 0 => {
            wrong(format!("this is disk {} of a volume, not its PM device", sb.device_index))
        }
        Some(sb) if pm.len() < sb.blocks * BLOCK_BYTES => wrong(format!(
            "truncated: {} bytes, the volume needs {}: restore the device's full size",
            pm.len(),
            sb.blocks * BLOCK_BYTES
        )),
        Some(sb) => Ok(sb),
    }
}

/// The journal of shard `shard`.
pub(crate) fn journal(sb: &Superblock, shard: u16) -> Journal {
    Journal::new(sb.shards_start + u64::from(shard))
}

impl Offline {
    /// Reads tables and journals.
    pub fn load(pm: &Pm, sb: &Superblock) -> Self {
        let stamp = Stamp::of_epoch(sb.mount_epoch);
        let mut this = Offline {
            tables: Vec::new(),
            stamp,
            by_shard: Vec::new(),
            pending: Pending::new(),
            damage: BTreeMap::new(),
        };
        let clean = checkpoint::usable_header(pm, sb).is_some();
        for shard in 0..sb.shards {
            match journal(sb, shard).pending(pm) {
                _ if clean => {}
                Ok(words) => this.pending.extend(words.iter().flatten().map(|w| (w.at, w.value))),
                Err(error) => drop(this.damage.insert(shard, error)),
            }
        }
        for shard in 0..sb.shards {
            match InodeTable::load(
                pm,
                sb.shards_start + u64::from(shard),
                shard,
                sb.shards,
                Some(&this.pending),
            ) {
                Ok(table) => {
                    this.by_shard.push(Some(this.tables.len()));
                    this.tables.push(table);
                }
                Err(error) => {
                    this.by_shard.push(None);
                    this.damage.insert(shard, error);
                }
            }
        }
        this
    }

    /// How to read logs; `disks`: those that are there.
    pub fn media<'a>(&'a self, pm: &'a Pm, disks: &'a Disks) -> LogMedia<'a> {
        LogMedia { pm, disks, pending: Some(&self.pending) }
    }

    /// How to read records.
    pub fn unfinished(&self) -> Unfinished<'_> {
        Unfinished::Imagine(&self.pending)
    }

    /// Whether the table of a shard could be read.
    pub fn has_table(&self, shard: u16) -> bool {
        self.by_shard[usize::from(shard)].is_some()
    }

    /// Why the table that has inode `ino` cannot be read.
    pub fn damage_to(&self, ino: Ino) -> Option<&FsError> {
        let shard = shard_of(Ino(ino.0.max(1)), self.by_shard.len() as u64);
        self.damage.get(&(shard as u16)).filter(|_| self.by_shard[shard].is_none())
    }

    /// Byte of an inode's record in PM, if a table that could be read reaches that far.
    pub fn locate(&self, ino: Ino) -> Option<u64> {
        if ino.0 == 0 {
            return None;
        }
        let table = self.by_shard[shard_of(ino, self.by_shard.len() as u64)]?;
        self.tables[table].locate(ino)
    }

    /// The record of inode `ino`, if it is in use and can be read.
    pub fn record(&self, pm: &Pm, ino: Ino) -> Option<(u64, InodeRecord)> {
        let at = self.locate(ino)?;
        match self.unfinished().record_state(pm, at, ino) {
            RecordState::Used(record) => Some((at, record)),
            RecordState::Free | RecordState::Damaged => None,
        }
    }

    /// A word of a journal that is no head, tail or slot of an inode's record, nor in a log page or
    /// the header of an inode table's chunk: nothing here understands what it will change.
    pub fn strange_word(&self, pm: &Pm) -> Option<u64> {
        let is_of_log = |at: u64| {
            let mut magic = [0u8; 4];
            pm.try_read(at - at % BLOCK_BYTES, &mut magic).is_ok()
                && magic == LOG_PAGE_MAGIC.to_le_bytes()
        };
        let is_of_header = |at: u64| self.tables.iter().any(|table| table.has_header_at(at));
        let is_of_record = |at: u64| {
            let (offset, record_at) = (at % INODE_BYTES, at - at % INODE_BYTES);
            if offset < HEAD_OFFSET || record_at + INODE_BYTES > pm.len() {
                return false;
            }
            let mut bytes = [0u8; size_of::<InodeRecord>()];
            pm.read(record_at, &mut bytes);
            self.locate(Ino(InodeRecord::from_bytes(&bytes).ino)) == Some(record_at)
        };
        self.pending
            .keys()
            .copied()
            .find(|&at| !(is_of_record(at) || is_of_log(at) || is_of_header(at)))
    }
}
