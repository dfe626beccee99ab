//! Orphans: inodes without a name. One that a program still uses is open; one that nobody uses
//! waits to be reclaimed, with others.

use std::time::Duration;

use terrace_store::error::FsResult;
use terrace_store::index::Freed;
use terrace_store::sync::atomic::{AtomicU64, Ordering};
use terrace_store::sync::thread;

use crate::base::patience;
use crate::base::types::Ino;

/// How often, and how long each time, who finds no room waits for what was removed.
const FORGET_TRIES: u32 = 50;
const FORGET_WAIT: Duration = Duration::from_millis(2);

/// A removed inode whose record and blocks are not free yet.
#[derive(Debug)]
pub(crate) struct Orphan {
    pub ino: Ino,
    pub record_at: u64,
    pub owned: Freed,
}

/// Files without names that somebody still has looked up: they go when the kernel forgets them.
#[derive(Debug, Default)]
pub(crate) struct OpenOrphans {
    count: AtomicU64,
    /// How many of them somebody has waited for in vain: those are open, and are not waited for
    /// again.
    outlasted: AtomicU64,
}

impl OpenOrphans {
    /// A file has lost its last name.
    pub fn come(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
    }

    /// One of them is gone: its room can be found.
    pub fn go(&self) {
        let left = self.count.fetch_sub(1, Ordering::AcqRel) - 1;
        self.outlasted.fetch_min(left, Ordering::AcqRel);
    }

    /// Waits a moment for those that the kernel may have forgotten: that message may have come
    /// before ours, and not be read to its end.
    ///
    /// # Errors
    /// `EINTR`: the program waits no longer.
    pub fn wait(&self) -> FsResult<()> {
        for _ in 0..FORGET_TRIES {
            if self.count.load(Ordering::Acquire) <= self.outlasted.load(Ordering::Acquire) {
                return Ok(());
            }
            patience::go_on()?;
            thread::sleep(FORGET_WAIT);
        }
        self.outlasted.store(self.count.load(Ordering::Acquire), Ordering::Release);
        // Some may have gone in between.
        self.outlasted.fetch_min(self.count.load(Ordering::Acquire), Ordering::AcqRel);
        Ok(())
    }
}
