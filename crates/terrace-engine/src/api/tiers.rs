//! Where data lies, as people and programs decide: moves, pins, thresholds.

use terrace_policy::{Param, Params};
use terrace_store::error::{FsError, FsResult};
use terrace_store::sync::atomic::Ordering;

use super::Volume;
use crate::base::types::{FileMoved, Ino};
use crate::mount::threads::spawn_migration;

impl Volume {
    /// Relocates a file's data to a tier, 0 for PM, while programs go on using it, as far as
    /// there is room: what is dirty goes to a disk first. To PM, its log comes along if that lies
    /// on a disk.
    ///
    /// # Errors
    /// `EISDIR`, `EINVAL` for what has no data or a tier that there is not; `EPERM` for a file that
    /// is pinned to another; `EIO` with the place; `EROFS`.
    pub fn move_file(&self, ino: Ino, tier: u8) -> FsResult<FileMoved> {
        self.move_range(ino, tier, 0, u64::MAX)
    }

    /// As [`Self::move_file`], of the blocks that hold `len` bytes from `offset` on. A program that
    /// maps a part of a file from PM has it moved there first (TPFS, section 5.4).
    ///
    /// # Errors
    /// As [`Self::move_file`].
    pub fn move_range(&self, ino: Ino, tier: u8, offset: u64, len: u64) -> FsResult<FileMoved> {
        let end = offset.saturating_add(len);
        let mut moved = self.move_some(ino, tier, offset, len)?;
        while let Some(next) = moved.next_bytes {
            moved += self.move_some(ino, tier, next, end.saturating_sub(next))?;
        }
        Ok(moved)
    }

    /// As [`Self::move_range`], one stretch, of 64 MiB at most: whoever asks for more is kept no
    /// longer than that takes.
    ///
    /// # Errors
    /// As [`Self::move_file`].
    pub fn move_some(&self, ino: Ino, tier: u8, offset: u64, len: u64) -> FsResult<FileMoved> {
        self.parts.tiering.by_hand.move_range(ino, tier, offset, len)
    }

    /// The policy's thresholds as they are now.
    pub fn params(&self) -> Params {
        self.parts.tuning.params()
    }

    /// Changes one of the policy's thresholds, until the volume is unmounted.
    ///
    /// # Errors
    /// `EINVAL` for a value outside its range.
    pub fn tune(&self, param: Param, value: u64) -> FsResult<()> {
        let set = self.parts.tuning.set(param, value);
        set.map_err(|error| FsError::with_message(libc::EINVAL, error.to_string()))?;
        self.start_migration()
    }

    /// Migration may be wanted, or possible, from now on.
    pub(crate) fn start_migration(&self) -> FsResult<()> {
        self.parts.tiering.schedule.set_floor();
        // The thread that closes the volume announces that first, then takes the handles under this
        // lock.
        let mut workers = self.workers.lock();
        if !self.parts.health.stopping.load(Ordering::Acquire) {
            spawn_migration(&self.parts, &mut workers)?;
        }
        Ok(())
    }

    /// Relocates data as background migration would now, and returns when nothing more is to be
    /// done, or why it cannot be: for volumes without workers, and tests. `seconds` of the policy's
    /// clock pass first.
    ///
    /// # Errors
    /// What keeps data from moving.
    pub fn migrate(&self, seconds: u32) -> FsResult<()> {
        self.pass_seconds(seconds);
        (0..self.parts.store.shards()).try_for_each(|shard| self.migrate_shard(shard))
    }

    /// Has so many seconds of the policy's clock pass, without waiting for them.
    pub fn pass_seconds(&self, seconds: u32) {
        (0..seconds).for_each(|_| self.parts.tiering.schedule.tick_now());
    }

    /// As [`Self::migrate`], of one shard's files: what that shard's thread would do.
    ///
    /// # Errors
    /// As [`Self::migrate`].
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn migrate_shard(&self, shard: usize) -> FsResult<()> {
        while self
            .parts
            .inodes
            .before_closing(|| self.parts.tiering.schedule.migrate_some(shard).into_progress())?
        {
        }
        Ok(())
    }

    /// How many shards the volume has, each with a part of the files and threads of its own.
    pub fn shards(&self) -> usize {
        self.parts.store.shards()
    }

    /// The tier that a file or directory is pinned to.
    ///
    /// # Errors
    /// `ESTALE` if it is gone; damage.
    pub fn pin_of(&self, ino: Ino) -> FsResult<Option<u8>> {
        Ok(self.parts.inodes.get(ino)?.tiers.pin.get())
    }

    /// Does all that the policy does for a durable write of `len` bytes at `offset`, and nothing
    /// else: `times` times its place is chosen and learned from. So benchmarks can tell what of a
    /// write's time that takes. The file is as warm afterwards as after its last write; nothing is
    /// stored, and nothing is counted as written.
    ///
    /// # Errors
    /// `EISDIR`, `EINVAL` for what has no data; `EFBIG`.
    pub fn rehearse_placement(&self, ino: Ino, offset: u64, len: u64, times: u32) -> FsResult<()> {
        self.parts.tiering.placement.rehearse(ino, offset, len, times)
    }
}
