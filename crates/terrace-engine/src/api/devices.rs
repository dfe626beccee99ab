//! Disks that join and leave, and scrubs of all devices.

use terrace_store::device::TIER_DEFAULT;
use terrace_store::error::FsResult;

use super::Volume;
use crate::base::types::{RemovalStatus, ScrubOptions, ScrubReport};
use crate::inode::device_table::OpenDisk;
use crate::mount::parts::Parts;
use crate::tools::scrub::View;

impl Volume {
    /// Adds the disk that `open` opens, in tier 1 unless `tier` says otherwise; returns its index.
    /// What was on it is lost.
    ///
    /// # Errors
    /// `EINVAL`: a tier that cannot be, a disk that is too small or whose path is too long, 16
    /// devices; `EROFS`; what `open` or the disk says. The volume is as it was then.
    pub fn add_disk(&self, tier: Option<u8>, open: OpenDisk<'_>) -> FsResult<u16> {
        let index = self
            .parts
            .inodes
            .before_closing(|| self.parts.devices.add_disk(tier.unwrap_or(TIER_DEFAULT), open))?;
        // The first disk is what migration may have been waiting for. The disk has been added, with
        // or without it.
        if let Err(error) = self.start_migration() {
            tracing::warn!("migration does not start: {error}");
        }
        Ok(index)
    }

    /// Begins to remove a disk, in the background: what is on it moves to `successor`, if that is
    /// one, to other disks of its tier, to those of other tiers, or to PM if there is no other
    /// disk. One at a time.
    ///
    /// # Errors
    /// `EINVAL`: there is no such disk; `EBUSY`: another removal is under way; `ENOSPC`: there is
    /// no room, with the bytes that have none; `EROFS`; `ESHUTDOWN`: the volume is being closed.
    /// Nothing has begun then.
    pub fn start_removal(&self, device: u16, successor: Option<u16>) -> FsResult<()> {
        self.parts.tiering.drain.start_removal(device, successor)
    }

    /// Removes a disk as [`Self::start_removal`] does, on this thread. The volume must not be
    /// closed meanwhile.
    ///
    /// # Errors
    /// As [`Self::start_removal`].
    pub fn remove_disk(&self, device: u16, successor: Option<u16>) -> FsResult<RemovalStatus> {
        self.parts.tiering.drain.remove_disk(device, successor)
    }

    /// Asks the removal that runs to stop: soon the disk is in use again.
    ///
    /// # Errors
    /// `ESRCH` if none runs.
    pub fn cancel_removal(&self) -> FsResult<()> {
        self.parts.tiering.drain.cancel()
    }

    /// Waits until no removal runs; what became of the last one.
    pub fn wait_for_removal(&self) -> Option<RemovalStatus> {
        self.parts.tiering.drain.wait_for_removal()
    }

    /// Starts a scrub in the background.
    ///
    /// # Errors
    /// `EBUSY` if one runs already, `ESHUTDOWN` if the volume is being closed, `EAGAIN` if there is
    /// no thread to be had.
    pub fn start_scrub(&self, options: ScrubOptions) -> FsResult<()> {
        self.scrubs.start(self.scrubbed(), options)
    }

    /// Asks the scrub that runs to stop; it does so before it reads anything more.
    ///
    /// # Errors
    /// `ESRCH` if none runs.
    pub fn cancel_scrub(&self) -> FsResult<()> {
        self.scrubs.cancel()
    }

    /// Waits until no scrub runs.
    pub fn wait_for_scrub(&self) {
        self.scrubs.wait()
    }

    /// All about the scrub that runs, or the last one since the volume was opened.
    pub fn scrub_report(&self) -> ScrubReport {
        self.scrubs.report()
    }

    fn scrubbed(&self) -> View {
        let Parts { store, health, devices, inodes, options, .. } = &self.parts;
        View {
            store: store.clone(),
            health: health.clone(),
            devices: devices.clone(),
            inodes: inodes.clone(),
            options: options.clone(),
        }
    }
}
