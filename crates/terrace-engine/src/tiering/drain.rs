//! Removing a disk from a mounted volume: everything on it moves to other devices, while programs
//! go on; then it is forgotten.
//!
//! Invariants:
//! * From its beginning on the disk takes nothing more, as far as the others can keep all promises
//!   of room (`Space::leave`).
//! * It is forgotten only when its allocator says that nothing is on it. Blocks that were allocated
//!   before the beginning may be committed any time later, so the removal looks at all inodes again
//!   until that is so.
//! * A removal that ends in any other way leaves the disk in use, with less on it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use terrace_layout::BLOCK_BYTES;
use terrace_policy::Rule;
use terrace_store::error::{FsError, FsResult, fail};
use terrace_store::index::Extent;
use terrace_store::space::Tiers;
use terrace_store::sync::thread::{Builder, JoinHandle};
use terrace_store::sync::{Arc, Condvar, Mutex};

use crate::base::types::{Ino, RemovalState, RemovalStatus};
use crate::base::words::with_advice;
use crate::inode::device_table::DeviceTable;
use crate::inode::health::Health;
use crate::inode::resident::Inode;
use crate::inode::store::Store;
use crate::inode::table::Inodes;
use crate::pageio::PageIo;
use crate::tiering::cold_logs::ColdLogs;
use crate::tiering::gate::Gate;
use crate::tiering::relocate::{Order, Relocator, Wanted};

/// How often in a row all inodes may be looked at in vain before what is left on the disk counts as
/// nobody's.
const VAIN_PASSES_MAX: u32 = 20;
/// How long others get before that, to commit what they have allocated.
const REST: Duration = Duration::from_millis(50);

/// See the module.
#[derive(Debug)]
pub(crate) struct Drain {
    pub store: Arc<Store>,
    pub health: Arc<Health>,
    pub devices: Arc<DeviceTable>,
    pub inodes: Arc<Inodes>,
    pub pages: Arc<PageIo>,
    pub gate: Arc<Gate>,
    pub relocator: Arc<Relocator>,
    pub cold_logs: Arc<ColdLogs>,
    pub removals: Mutex<Removals>,
}

/// The removals of a volume.
#[derive(Debug, Default)]
pub(crate) struct Removals {
    /// The one that runs, or the last one.
    last: Option<Arc<Job>>,
    thread: Option<JoinHandle<()>>,
    /// The volume is being closed: no more removals.
    closed: bool,
}

/// A removal.
#[derive(Debug)]
struct Job {
    device: u16,
    path: PathBuf,
    /// The disk that gets what it can of it; 0: none.
    successor: u16,
    total_blocks: u64,
    progress: Mutex<Progress>,
    /// It is to stop, or has ended.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Progress {
    stop: bool,
    ended: Option<(RemovalState, Option<String>)>,
}

impl Job {
    fn is_running(&self) -> bool {
        self.progress.lock().ended.is_none()
    }

    /// # Errors
    /// `ECANCELED`, if it is to stop.
    fn go_on(&self) -> FsResult<()> {
        if self.progress.lock().stop { fail(libc::ECANCELED) } else { Ok(()) }
    }

    fn stop(&self) {
        self.progress.lock().stop = true;
        self.changed.notify_all();
    }

    fn rest(&self) {
        let mut progress = self.progress.lock();
        if !progress.stop {
            self.changed.wait_for(&mut progress, REST);
        }
    }

    fn end(&self, outcome: FsResult<Option<String>>) {
        let ended = match outcome {
            Ok(note) => (RemovalState::Finished, note),
            Err(error) if error.errno() == libc::ECANCELED => (RemovalState::Cancelled, None),
            Err(error) => (RemovalState::Failed, Some(error.naming(&self.path).to_string())),
        };
        match &ended {
            (RemovalState::Failed, Some(why)) => tracing::error!("removal: {why}"),
            (state, _) => tracing::info!("removing {}: {state:?}", self.path.display()),
        }
        self.progress.lock().ended = Some(ended);
        self.changed.notify_all();
    }

    fn wait(&self) {
        let mut progress = self.progress.lock();
        while progress.ended.is_none() {
            self.changed.wait(&mut progress);
        }
    }
}

impl Drain {
    /// See [`Volume::cancel_removal`](crate::Volume::cancel_removal).
    pub fn cancel(&self) -> FsResult<()> {
        match self.last().filter(|job| job.is_running()) {
            Some(job) => {
                job.stop();
                Ok(())
            }
            None => fail(libc::ESRCH),
        }
    }

    fn last(&self) -> Option<Arc<Job>> {
        self.removals.lock().last.clone()
    }

    /// The volume is being closed: the removal ends, and none begins any more.
    pub fn close(&self) {
        let thread = {
            let mut state = self.removals.lock();
            state.closed = true;
            state.last.iter().for_each(|job| job.stop());
            state.thread.take()
        };
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }

    /// See [`Volume::start_removal`](crate::Volume::start_removal).
    pub fn start_removal(self: &Arc<Self>, device: u16, successor: Option<u16>) -> FsResult<()> {
        let mut state = self.removals.lock();
        let job = self.begin_removal(&mut state, device, successor)?;
        // The one before it has ended.
        if let Some(ended) = state.thread.take() {
            let _ = ended.join();
        }
        let (drain, shared) = (self.clone(), job.clone());
        let spawned =
            Builder::new().name("terrace-drain".into()).spawn(move || drain.run_removal(&shared));
        state.thread = Some(spawned.map_err(|e| {
            let error = FsError::with_message(
                libc::EAGAIN,
                format!("cannot start a thread for the removal: {e}"),
            );
            job.end(Err(FsError::with_message(libc::EAGAIN, error.to_string())));
            error
        })?);
        Ok(())
    }

    /// See [`Volume::remove_disk`](crate::Volume::remove_disk).
    pub fn remove_disk(&self, device: u16, successor: Option<u16>) -> FsResult<RemovalStatus> {
        let job = self.begin_removal(&mut self.removals.lock(), device, successor)?;
        self.run_removal(&job);
        Ok(self.status_of(&job))
    }

    /// See [`Volume::wait_for_removal`](crate::Volume::wait_for_removal).
    pub fn wait_for_removal(&self) -> Option<RemovalStatus> {
        let job = self.last()?;
        job.wait();
        Some(self.status_of(&job))
    }

    /// The removal that runs, or the last one.
    pub fn removal_status(&self) -> Option<RemovalStatus> {
        self.last().map(|job| self.status_of(&job))
    }

    fn status_of(&self, job: &Job) -> RemovalStatus {
        let ended = job.progress.lock().ended.clone();
        let (state, message) = ended.unwrap_or((RemovalState::Running, None));
        let left_blocks = match state {
            RemovalState::Finished => 0,
            _ => self.store.space.members.get(job.device).map_or(0, |member| member.data_blocks()),
        };
        RemovalStatus {
            device_index: job.device,
            path: job.path.display().to_string(),
            state,
            total_bytes: job.total_blocks * BLOCK_BYTES,
            left_bytes: left_blocks * BLOCK_BYTES,
            message,
        }
    }

    /// Begins a removal. An error names the disk, if there is such a disk.
    fn begin_removal(
        &self,
        state: &mut Removals,
        device: u16,
        successor: Option<u16>,
    ) -> FsResult<Arc<Job>> {
        let begun = self.try_begin(state, device, successor);
        begun.map_err(|error| match self.store.space.members.get(device) {
            Some(member) => error.naming(member.disk.path()),
            None => error,
        })
    }

    fn try_begin(
        &self,
        state: &mut Removals,
        device: u16,
        successor: Option<u16>,
    ) -> FsResult<Arc<Job>> {
        if state.closed {
            return fail(libc::ESHUTDOWN);
        }
        if self.health.is_read_only() {
            return fail(libc::EROFS);
        }
        if let Some(other) = state.last.as_ref().filter(|job| job.is_running()) {
            let message = format!("{} is being removed: one at a time", other.path.display());
            return Err(FsError::with_message(libc::EBUSY, message));
        }
        let (Some(member), true) =
            (self.store.space.members.get(device), successor != Some(device))
        else {
            let message = format!("device {device} is no disk of the volume that can be removed");
            return Err(FsError::with_message(libc::EINVAL, message));
        };
        let path = member.disk.path();
        // Removed files make room at once, and need not move.
        self.inodes.mutate(|| self.inodes.reclaim_all())?;
        let lacking = self.lacks_to_empty(device)?;
        if lacking > 0 {
            return Err(no_room(path, member.data_blocks(), lacking));
        }
        let job = Arc::new(Job {
            device,
            path: path.to_owned(),
            successor: successor.unwrap_or(0),
            total_blocks: member.data_blocks(),
            progress: Mutex::default(),
            changed: Condvar::new(),
        });
        state.last = Some(job.clone());
        Ok(job)
    }

    /// How many blocks have no room elsewhere if the disk is emptied.
    fn lacks_to_empty(&self, device: u16) -> FsResult<u64> {
        // Logs that lie on a disk go to PM if there is no other disk.
        let growth = if self.store.space.has_disks_beside(device) {
            0
        } else {
            self.cold_logs.archives_grow_by(device)
        };
        self.store.space.lacks_to_empty(device, growth)
    }

    fn run_removal(&self, job: &Job) {
        self.store.space.prefer(job.successor);
        let removed = self
            .empty_disk(job)
            .and_then(|()| self.inodes.mutate(|| self.devices.forget_disk(job.device)));
        self.store.space.prefer(0);
        self.relocator.buffers.release();
        if removed.is_err() {
            self.store.space.stay(job.device);
        }
        job.end(removed);
    }

    fn empty_disk(&self, job: &Job) -> FsResult<()> {
        let (mut in_vain, mut waited) = (0, false);
        loop {
            self.store.space.leave(job.device);
            let moved = self.empty_pass(job, in_vain > 0)?;
            self.inodes.mutate(|| self.inodes.reclaim_all())?;
            job.go_on()?;
            if self.store.space.close_if_empty(job.device) {
                return Ok(());
            }
            (in_vain, waited) = if moved == 0 { (in_vain + 1, waited) } else { (0, false) };
            if in_vain > VAIN_PASSES_MAX {
                if waited {
                    return Err(self.cannot_empty(job)?);
                }
                self.wait_for_runs_under_way(job)?;
                (in_vain, waited) = (VAIN_PASSES_MAX, true);
            }
            if in_vain > 0 {
                job.rest();
            }
        }
    }

    /// Waits for writebacks and moves, of data and of logs, that have begun: what they have
    /// allocated on a slow disk is in no file yet. Others than these hold what they allocate for a
    /// moment only.
    fn wait_for_runs_under_way(&self, job: &Job) -> FsResult<()> {
        for (shard, under_way) in self.inodes.shards.iter().zip(&self.cold_logs.under_way) {
            // A thread that has something under way for an inode keeps it in DRAM.
            drop(under_way.lock());
            let inodes: Vec<Arc<Inode>> = shard.inodes.read().values().cloned().collect();
            for inode in inodes {
                job.go_on()?;
                drop(inode.moving.lock());
                drop(inode.flush.lock());
            }
        }
        Ok(())
    }

    /// Why nothing more moves.
    fn cannot_empty(&self, job: &Job) -> FsResult<FsError> {
        let left = self.store.space.disk(job.device)?.data_blocks();
        Ok(match left {
            0 => FsError::about(
                &job.path,
                libc::ENOSPC,
                "is promised to data in memory for which the others have no room: add a disk",
            ),
            _ => FsError::about(
                &job.path,
                libc::EIO,
                format!(
                    "{} bytes on it belong to no file: unmount the volume and run `terrace check \
                     {}`",
                    left * BLOCK_BYTES,
                    self.store.pm.path().display()
                ),
            ),
        })
    }

    /// Looks at all inodes and moves what of them is on the disk; returns how many blocks. `again`:
    /// the pass before was in vain.
    fn empty_pass(&self, job: &Job, again: bool) -> FsResult<u64> {
        if self.store.space.takes_promised(job.device) {
            self.inodes
                .mutate(|| self.pages.flush_all())
                .map_err(|error| self.explain(job, None, error))?;
        }
        let mut moved = 0;
        for shard in 0..self.store.shards() {
            let records = self.inodes.shards[shard].table.read().end();
            self.inodes.visit_inodes(shard, 0..records, &mut |found| {
                job.go_on()?;
                match found {
                    Ok(inode) => moved += self.empty_inode(inode, job, again)?,
                    // Nobody uses it, or not any more.
                    Err(error) if error.errno() == libc::ESTALE => {}
                    // It may have something there: the message names it, and the remedy.
                    Err(error) => {
                        let what = with_advice(&error, self.store.pm.path());
                        let message = format!("stays in use: {what}");
                        return Err(FsError::about(&job.path, error.errno(), message));
                    }
                }
                Ok(())
            })?;
        }
        Ok(moved)
    }

    /// Relocates what of an inode is on the disk; returns how many blocks.
    fn empty_inode(&self, inode: &Arc<Inode>, job: &Job, again: bool) -> FsResult<u64> {
        let data = if inode.is_file() { self.move_off(inode, job) } else { Ok(0) };
        match data.and_then(|data| Ok(data + self.move_log_off(inode, job, again)?)) {
            // It has gone meanwhile.
            Err(error) if error.errno() == libc::ESTALE => Ok(0),
            Err(error) if error.errno() == libc::ECANCELED => Err(error),
            Err(error) => Err(self.explain(job, Some(inode.ino), error)),
            moved => moved,
        }
    }

    fn move_off(&self, inode: &Arc<Inode>, job: &Job) -> FsResult<u64> {
        let is_there = |extent: &Extent| extent.addr.device() == job.device;
        let wanted = Wanted { there: &is_there, such: None };
        let (mut rest, mut moved) = (0..u64::MAX, 0);
        while let Some(stretch) = inode.next_stretch(&mut rest, &is_there)? {
            job.go_on()?;
            if inode.pages.has_dirty() {
                // Data that is about to be replaced does not move.
                self.inodes.mutate(|| self.pages.flush_file(inode))?;
            }
            moved += self.move_to_any(inode, &stretch, wanted, job)?;
        }
        Ok(moved)
    }

    /// Relocates the part of a log that is on the disk: to the first tier that takes it, or to
    /// PM; `again`: rather to PM, where nobody who uses the inode overtakes it.
    fn move_log_off(&self, inode: &Arc<Inode>, job: &Job, again: bool) -> FsResult<u64> {
        let disks = self
            .tiers_beside(job)
            .into_iter()
            .filter(|&tier| tier > 0)
            .map(|tier| Some(Tiers::from(tier)));
        let mut tiers: Vec<Option<Tiers>> = disks.chain([None]).collect();
        if again {
            tiers.rotate_right(1);
        }
        let mut moved = Ok(0);
        for tiers in tiers {
            moved = self.inodes.mutate(|| self.cold_logs.move_archive(inode, job.device, tiers));
            if !moved.as_ref().is_err_and(may_go_elsewhere) {
                break;
            }
        }
        moved
    }

    /// The tiers that may take the disk's data, the best first: the disk's own tier and slower
    /// ones, any other, or, without other disks, PM.
    fn tiers_beside(&self, job: &Job) -> Vec<u8> {
        match self.store.space.has_disks_beside(job.device) {
            true => vec![self.store.space.tier(job.device), 1],
            false => vec![0],
        }
    }

    /// Relocates a stretch to the first tier that takes it.
    fn move_to_any(
        &self,
        inode: &Arc<Inode>,
        stretch: &std::ops::Range<u64>,
        wanted: Wanted<'_>,
        job: &Job,
    ) -> FsResult<u64> {
        let (stretches, rule) = (std::slice::from_ref(stretch), Rule::Drained);
        let mut result = Ok(0);
        for tier in self.tiers_beside(job) {
            let order =
                Order { stretches, wanted, tiers: Tiers::from(tier), keep_cached: false, rule };
            let _under_way = self.gate.begin_after_seekers();
            result = self.inodes.mutate(|| self.relocator.relocate(inode, order).all());
            if !result.as_ref().is_err_and(may_go_elsewhere) {
                break;
            }
        }
        result
    }

    /// Names the disk and the file, and what to do.
    fn explain(&self, job: &Job, ino: Option<Ino>, error: FsError) -> FsError {
        if error.is_fatal() {
            return error;
        }
        if error.is_no_room() {
            let left =
                self.store.space.members.get(job.device).map_or(0, |member| member.data_blocks());
            let lacking = self.lacks_to_empty(job.device).unwrap_or(0);
            return no_room(&job.path, left, lacking);
        }
        let file = ino.map_or_else(String::new, |ino| {
            let path = self
                .inodes
                .paths_of(&HashSet::from([ino.0]), &|| job.go_on().is_err())
                .remove(&ino.0);
            format!("{} (inode {}): ", path.as_deref().unwrap_or("a removed file"), ino.0)
        });
        let advice = match error.device() == Some(&job.path) {
            true => "remove the file, or restore it from a backup, and try again",
            false => "try again when the other device works",
        };
        let message = format!("stays in use: {file}{error}: {advice}");
        FsError::about(&job.path, error.errno(), message)
    }
}

/// Whether what one tier did not take may go to another.
fn may_go_elsewhere(error: &FsError) -> bool {
    !error.is_fatal() && error.errno() != libc::ESTALE
}

fn no_room(path: &Path, left_blocks: u64, lacking_blocks: u64) -> FsError {
    let left = left_blocks * BLOCK_BYTES;
    let what = match lacking_blocks {
        0 => "the other devices are too full to take them piece by piece".to_owned(),
        _ => format!("{} of them have no room on the other devices", lacking_blocks * BLOCK_BYTES),
    };
    let message = format!("holds {left} bytes: {what}: add a disk or remove files first");
    FsError::about(path, libc::ENOSPC, message)
}
