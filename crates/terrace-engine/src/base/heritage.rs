//! The heritage that a dying daemon leaves to its successor, beside the media and the page cache:
//! the kernel's lookups of each inode, and the effect that each request under way was about to
//! have. The front end keeps it in memory that outlives the daemon.
//!
//! Invariants:
//! * A request tells of its effect under its locks and right before the commit, so the effect is
//!   either told of and perhaps there, or not there.
//! * A count is never lower than the kernel's. A count that is too high keeps an inode without
//!   names longer than necessary, at most until the volume is unmounted. One that is too low would
//!   free a file that is open.

use std::fmt::Debug;

use terrace_store::planted::{Bug, planted};
use terrace_store::sync::Arc;
use terrace_store::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::types::Ino;

/// The effect that a request is about to have. Only requests that cannot simply be carried out
/// again have one: a write at an offset, a truncation or a change of mode does the same the second
/// time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The new name leads to this inode: create, link, rename.
    Named(Ino),
    /// The name is gone: unlink, rmdir.
    Unnamed,
    /// Data is appended from this byte on.
    Appended(u64),
    /// An extended attribute is set or removed.
    Attribute,
}

/// Memory that outlives the daemon.
pub trait Heritage: Debug + Send + Sync {
    /// The request of the calling thread is about to have this effect.
    fn is_about_to(&self, effect: Effect);

    /// Lookups of an inode that the kernel has not taken back.
    fn lookups(&self, ino: Ino) -> u64;

    /// The request of the calling thread answers with the inode: one lookup more.
    fn look_up(&self, ino: Ino);

    /// The kernel takes `count` lookups back. Returns how many there were before.
    fn take_back(&self, ino: Ino, count: u64) -> u64;

    /// Whether an inode without names may get one, as [`Self::set_linkable`] was told.
    fn is_linkable(&self, ino: Ino) -> bool;

    /// Notes whether an inode without names may get one.
    fn set_linkable(&self, ino: Ino, linkable: bool);
}

/// Lookups of one inode that the kernel has not taken back, and whether it may get a first name.
#[derive(Debug)]
pub(crate) enum Lookups {
    /// Known to this daemon only.
    Own { count: AtomicU64, linkable: AtomicBool },
    /// Kept for a successor.
    Kept(Ino, Arc<dyn Heritage>),
}

impl Lookups {
    /// Those of an inode that comes to memory.
    pub fn new(ino: Ino, heritage: Option<&Arc<dyn Heritage>>) -> Self {
        match heritage {
            Some(heritage) => Self::Kept(ino, Arc::clone(heritage)),
            None => Self::Own { count: AtomicU64::new(0), linkable: AtomicBool::new(false) },
        }
    }

    pub fn count(&self) -> u64 {
        match self {
            Self::Own { count, .. } => count.load(Ordering::Acquire),
            Self::Kept(ino, heritage) => heritage.lookups(*ino),
        }
    }

    pub fn add(&self) {
        match self {
            Self::Own { count, .. } => drop(count.fetch_add(1, Ordering::AcqRel)),
            Self::Kept(ino, heritage) => heritage.look_up(*ino),
        }
    }

    /// Returns how many there were before.
    pub fn take_back(&self, taken: u64) -> u64 {
        let less = |n: u64| Some(n.saturating_sub(taken));
        match self {
            Self::Own { count, .. } => {
                if planted(Bug::ForgetInTwoSteps) {
                    let seen = count.load(Ordering::Acquire);
                    count.store(seen.max(taken), Ordering::Release);
                }
                let before = count.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
                before.unwrap_or_else(|before| before)
            }
            Self::Kept(ino, heritage) => heritage.take_back(*ino, taken),
        }
    }

    pub fn is_linkable(&self) -> bool {
        match self {
            Self::Own { linkable, .. } => linkable.load(Ordering::Acquire),
            Self::Kept(ino, heritage) => heritage.is_linkable(*ino),
        }
    }

    pub fn set_linkable(&self, may: bool) {
        match self {
            Self::Own { linkable, .. } => linkable.store(may, Ordering::Release),
            Self::Kept(ino, heritage) => heritage.set_linkable(*ino, may),
        }
    }
}
