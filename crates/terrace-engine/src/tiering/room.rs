//! Room that is on its way back. Data that moves takes room in both tiers until it has moved. A
//! removed file takes room until it is reclaimed. A dirty page has room promised to it, beside the
//! block that it replaces, until it is written back.
//!
//! Invariant: no write and no `fallocate` of a program is told that there is no room before
//! * dirty pages were written back, as long as any were promised room (at most [`WRITEBACKS_MAX`]
//!   times: others may take what that frees), and
//! * the tiers were looked at while no data moved, neither in the background nor by hand, and after
//!   all removed files that the kernel has forgotten were reclaimed.
//!
//! A write waits for data that moves no longer than [`gate`](crate::tiering::gate) says. With
//! `migrate` off nobody waits: data that is moved by hand then takes room twice. A program that has
//! lost [`patience`] is told so instead.

use terrace_store::error::{FsError, FsResult, fail};
use terrace_store::sync::{Arc, limit, thread};

use crate::base::counters::Counters;
use crate::base::patience;
use crate::base::waits::WaitCause;
use crate::inode::health::Health;
use crate::inode::store::Store;
use crate::inode::table::Inodes;
use crate::pageio::PageIo;
use crate::tiering::conditions::Conditions;
use crate::tiering::gate::Gate;
use crate::tiering::relief::Relief;

/// How often in a row dirty pages are written back for one attempt. Each time others were faster,
/// or write what no disk has room for.
const WRITEBACKS_MAX: usize = limit(32, 2);

/// See the module.
#[derive(Debug)]
pub(crate) struct Room {
    pub store: Arc<Store>,
    pub health: Arc<Health>,
    pub inodes: Arc<Inodes>,
    pub pages: Arc<PageIo>,
    pub conditions: Arc<Conditions>,
    pub gate: Arc<Gate>,
    pub relief: Arc<Relief>,
    pub counters: Arc<Counters>,
}

impl Room {
    /// Does what a program asks for, as [`Inodes::mutate`] does. If PM has next to no room for
    /// metadata, some is made first. The caller holds no lock.
    pub fn operate<T>(&self, operation: impl FnOnce() -> FsResult<T>) -> FsResult<T> {
        if self.store.pm_is_low() {
            let _waiting = self.counters.waits.begin(WaitCause::Room);
            self.relief.relieve(false)?;
        }
        self.inodes.mutate(operation)
    }

    /// As [`Self::operate`], for an operation that frees something, and that changes nothing if it
    /// finds no room. Then room is made once more, even if that was in vain lately, and the
    /// operation is tried again.
    pub fn operate_to_free<T>(&self, mut operation: impl FnMut() -> FsResult<T>) -> FsResult<T> {
        match self.operate(&mut operation) {
            Err(error) if error.is_no_room() => {
                let waiting = self.counters.waits.begin(WaitCause::Room);
                self.relief.relieve(true)?;
                drop(waiting);
                self.inodes.mutate(operation)
            }
            done => done,
        }
    }

    /// Does `attempt`, which leaves everything as it was if it finds no room; then does it again
    /// when all room that is on its way back is there. The caller holds no lock that relocations
    /// take.
    ///
    /// # Errors
    /// Those of `attempt`; `EROFS` if the volume has turned read-only meanwhile; `EINTR` if the
    /// program waits no longer.
    pub fn with_all_room<T>(&self, attempt: impl Fn() -> FsResult<T>) -> FsResult<T> {
        let result = self.with_room_of_dirty(&attempt);
        if !result.as_ref().is_err_and(FsError::is_no_room) {
            return result;
        }
        let waiting = self.counters.waits.begin(WaitCause::Room);
        self.inodes.open_orphans.wait()?;
        let seeking = self.conditions.migrates().then(|| self.gate.seek()).transpose()?;
        if self.health.is_read_only() {
            return fail(libc::EROFS);
        }
        if matches!(seeking, Some(None)) {
            return result;
        }
        self.inodes.reclaim_all()?;
        drop(waiting);
        self.with_room_of_dirty(&attempt)
    }

    /// Does `attempt`; if it finds no room, writes back dirty pages and does it again. Ends when
    /// nothing was promised to dirty pages from before an attempt until after it: then writeback
    /// frees nothing.
    fn with_room_of_dirty<T>(&self, attempt: &impl Fn() -> FsResult<T>) -> FsResult<T> {
        for _ in 0..WRITEBACKS_MAX {
            // Both looks count: meanwhile others may use promised room, or be promised some.
            let were_promises = self.store.space.has_promises();
            let result = attempt();
            let may_come_back = were_promises || self.store.space.has_promises();
            if !may_come_back || !result.as_ref().is_err_and(FsError::is_no_room) {
                return result;
            }
            let waiting = self.counters.waits.begin(WaitCause::Room);
            let flushed = self.pages.flush_all();
            drop(waiting);
            match flushed {
                Err(error) if error.is_fatal() || patience::is_lost(&error) => return Err(error),
                _ if self.health.is_read_only() => return fail(libc::EROFS),
                // A disk that fails frees nothing; another disk may have freed enough.
                Err(_) => return attempt(),
                // Another thread may not have used its promised room yet.
                Ok(()) => thread::yield_now(),
            }
        }
        attempt()
    }
}
