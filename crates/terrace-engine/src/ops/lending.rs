//! Lending files to other processes, which then read and write them in PM by themselves.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use terrace_layout::BLOCK_BYTES;
use terrace_media::PmKind;
use terrace_policy::Param;
use terrace_store::delegation::NotLent;
use terrace_store::error::FsResult;
use terrace_store::file::FileData;
use terrace_store::planted::{Bug, planted};
use terrace_store::sync::Arc;

use crate::base::recorder::Recorder;
use crate::base::tuning::Tuning;
use crate::base::types::{FileKind, Ino};
use crate::inode::activity::Activity;
use crate::inode::commits::Commits;
use crate::inode::health::Health;
use crate::inode::resident::loans::{Lent, Loans};
use crate::inode::resident::{Inner, Inode};
use crate::inode::store::Store;
use crate::inode::table::Inodes;

/// A borrower gets no more of PM's free room at a time than this part of it.
const SHARE_OF_ROOM: u64 = 8;
/// Nothing is lent if PM has less free room than this (blocks).
const ROOM_MIN: u64 = 256;
/// The attribute by which a program that is run has privileges. A write takes it away.
const CAPABILITY: &[u8] = b"security.capability";

/// A loan that has been renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// The new loan.
    pub lent: Lent,
    /// The log is as the borrower left it: it need not be read anew.
    pub log_is_same: bool,
}

/// Loans at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoanStats {
    /// Files.
    pub files: u64,
    /// Processes that have them.
    pub processes: u64,
    /// Bytes of PM to which a process may still store, although its loan has ended.
    pub quarantined_bytes: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Lending {
    pub store: Arc<Store>,
    pub health: Arc<Health>,
    pub activity: Arc<Activity>,
    pub commits: Arc<Commits>,
    pub inodes: Arc<Inodes>,
    pub loans: Arc<Loans>,
    pub tuning: Arc<Tuning>,
    pub recorder: Arc<Recorder>,
}

impl Lending {
    /// Lends a file to a process, with about so many blocks.
    ///
    /// # Errors
    /// `ESTALE`; damage. PM errors.
    pub fn lend(&self, ino: Ino, borrower: u64, blocks: u64) -> FsResult<Result<Lent, NotLent>> {
        if !self.may_lend() {
            return Ok(Err(NotLent::Off));
        }
        self.inodes.mutate(|| {
            let inode = self.inodes.get(ino)?;
            if inode.inner.borrower().is_some_and(|other| other != borrower) {
                return Ok(Err(NotLent::Elsewhere));
            }
            let mut inner = inode.exclusive()?;
            self.lend_locked(&inode, &mut inner, borrower, blocks)
        })
    }

    /// The same for a file that the process has: the log is tidied up meanwhile.
    ///
    /// # Errors
    /// As [`Self::lend`].
    pub fn renew(
        &self,
        ino: Ino,
        borrower: u64,
        blocks: u64,
    ) -> FsResult<Result<Renewed, NotLent>> {
        self.inodes.mutate(|| {
            let inode = self.inodes.get(ino)?;
            if inode.inner.borrower() != Some(borrower) {
                return Ok(Err(NotLent::Elsewhere));
            }
            let mut inner = inode.exclusive()?;
            let left = inner.log.tail();
            self.commits.tidy(inode.shard, &mut inner)?;
            let lent = self.lend_locked(&inode, &mut inner, borrower, blocks)?;
            let log_is_same = inner.log.tail() == left;
            Ok(lent.map(|lent| Renewed { lent, log_is_same }))
        })
    }

    fn lend_locked(
        &self,
        inode: &Arc<Inode>,
        inner: &mut Inner,
        borrower: u64,
        blocks: u64,
    ) -> FsResult<Result<Lent, NotLent>> {
        if self.recorder.is_in_use() {
            return Ok(Err(NotLent::Off));
        }
        let room = self.store.space.room_for_data();
        let refused = self.obstacle(inode, inner).or((room < ROOM_MIN).then_some(NotLent::NoRoom));
        if let Some(reason) = refused {
            return Ok(Err(reason));
        }
        // The cache holds copies of what the borrower is going to change.
        self.inodes.drop_pages(inode, 0, u64::MAX);
        let blocks = blocks.clamp(1, room / SHARE_OF_ROOM);
        // Its data in PM may be found cold later, when the borrower has gone.
        self.activity.note_data_in(inode, 0);
        self.activity.note_traffic();
        match self.loans.lend(inode, inner, borrower, blocks) {
            // A recording that has begun meanwhile may not have met this loan.
            Ok(_) if self.recorder.is_on() => {
                inner.take_back();
                Ok(Err(NotLent::Off))
            }
            Ok(lent) => {
                self.activity.note_pm_use(inode.shard);
                Ok(Ok(lent))
            }
            Err(error) if error.is_no_room() || error.errno() == libc::EMFILE => {
                Ok(Err(NotLent::NoRoom))
            }
            Err(error) => Err(error),
        }
    }

    /// Whether this volume lends files at all.
    pub fn may_lend(&self) -> bool {
        self.loans.is_on() && self.lends_nothing().is_none() && !self.health.is_read_only()
    }

    /// Why no file of this volume can be lent, whatever the options of the mount.
    pub fn lends_nothing(&self) -> Option<&'static str> {
        if self.store.data_crc {
            return Some("its data has checksums, which programs would have to keep");
        }
        (self.store.pm.kind() == PmKind::Msync)
            .then_some("it is no memory that programs can make durable without system calls")
    }

    /// Why a file cannot be lent now; `None`: nothing is known to be in the way.
    pub fn obstacle_of(&self, ino: Ino) -> Option<NotLent> {
        let inode = self.inodes.get(ino).ok()?;
        let inner = inode.shared().ok()?;
        self.obstacle(&inode, &inner)
    }

    fn obstacle(&self, inode: &Inode, inner: &Inner) -> Option<NotLent> {
        let Ok(file) = inner.file() else { return Some(NotLent::NotAFile) };
        let meta = &inner.meta;
        if inode.kind != FileKind::Regular || meta.nlink == 0 {
            return Some(NotLent::NotAFile);
        }
        if meta.mode & 0o6000 != 0 || inner.xattrs.contains_key(CAPABILITY) {
            return Some(NotLent::Privileged);
        }
        if inode.tiers.pin.get().is_some_and(|tier| tier > 0) {
            return Some(NotLent::Pinned);
        }
        let is_ahead = inode.pages.has_dirty() || file.size > file.committed;
        if is_ahead || inner.log.archive().is_some() || !is_in_pm(file) {
            return Some(NotLent::NotInPm);
        }
        let blocks = file.size.div_ceil(BLOCK_BYTES);
        let is_long = blocks >= self.tuning.get(Param::LargeBlocks);
        if is_long && !file.habits.is_synchronous() {
            return Some(NotLent::Asynchronous);
        }
        (file.is_relocating() || inode.moving.try_lock().is_none()).then_some(NotLent::Moving)
    }

    /// Takes a file back, if it is lent.
    ///
    /// # Errors
    /// `ESTALE`.
    pub fn take_back(&self, ino: Ino) -> FsResult<()> {
        self.inodes.get(ino)?.exclusive().map(drop)
    }

    /// A process is done with a file: takes it back, if it is lent to this process.
    pub fn give_back(&self, ino: Ino, borrower: u64) {
        // One that is gone is lent to nobody.
        if let Ok(inode) = self.inodes.get(ino)
            && inode.inner.borrower() == Some(borrower)
        {
            drop(inode.exclusive());
        }
    }

    /// A process stores no more to what a broken loan of it has left in quarantine.
    pub fn let_go(&self, borrower: u64, page: usize, generation: u32) {
        // It may say so before the owner is done with breaking the loan, under the file's lock.
        // Then the file is in memory.
        if let Some(ino) = self.loans.file_of(page, borrower)
            && let Some(inode) = self.inodes.resident(ino)
            && !planted(Bug::LoanLetGoUnlocked)
        {
            inode.inner.borrower();
        }
        self.loans.let_go(borrower, page, generation);
    }

    /// A process has ended, or has closed its connection: takes back what it has borrowed.
    pub fn take_back_from(&self, borrower: u64) {
        for ino in self.loans.lent_to(borrower) {
            // One that is gone is lent to nobody.
            let _ = self.take_back(ino);
        }
        self.loans.release_quarantined();
    }

    /// Takes back all that is lent.
    pub fn take_back_all(&self) {
        for ino in self.loans.lent() {
            let _ = self.take_back(ino);
        }
        self.loans.release_quarantined();
    }

    /// Counts what processes have done by themselves so far. No loan ends for it.
    pub fn count(&self) {
        for (ino, _) in self.loans.files() {
            // One that is gone is lent to nobody.
            if let Ok(inode) = self.inodes.get(ino) {
                inode.inner.peek();
            }
        }
    }

    /// How many files are lent now, and to how many processes.
    pub fn stats(&self) -> LoanStats {
        // A process that had closed its connection may have been ending still.
        self.loans.release_quarantined();
        let files = self.loans.files();
        let processes: HashSet<u64> = files.iter().map(|&(_, process)| process).collect();
        LoanStats {
            files: files.len() as u64,
            processes: processes.len() as u64,
            quarantined_bytes: self.loans.quarantined_blocks() * BLOCK_BYTES,
        }
    }

    /// Whether a file is lent.
    pub fn is_lent(&self, ino: Ino) -> bool {
        self.loans.is_lent(ino)
    }
}

/// Whether all that a file has lies in PM.
fn is_in_pm(file: &FileData) -> bool {
    file.index.iter().all(|(_, extent)| extent.addr.is_pm())
}
