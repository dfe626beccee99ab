//! Files that the backend gave, each with what the library knows of it.

use std::sync::atomic::{
    AtomicPtr, AtomicU8,
    Ordering::{AcqRel, Acquire, Relaxed},
};

use crate::backend::{File, Reason};
use crate::room;

/// One file. It lives for ever.
pub(crate) struct Inode {
    pub(crate) file: &'static dyn File,
    /// A reason that keeps all descriptors of the file on the mount, `Foreign` for none.
    kept_off: AtomicU8,
    next: *const Inode,
}

// SAFETY: `next` never changes once others see the inode, and the inode it refers to lives for
// ever.
unsafe impl Sync for Inode {}

const BUCKETS: usize = 1024;
static INODES: [AtomicPtr<Inode>; BUCKETS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; BUCKETS];

impl Inode {
    /// The one of a file. `None` if there is no memory.
    pub(crate) fn of(file: &'static dyn File) -> Option<&'static Self> {
        let key = std::ptr::from_ref(file) as *const () as usize;
        let bucket = &INODES[(key >> 4) % BUCKETS];
        let first = bucket.load(Acquire);
        if let Some(known) = Self::find(first, key) {
            return Some(known);
        }
        let fresh: *mut Self = room::take()?;
        let kept_off = AtomicU8::new(Reason::Foreign as u8);
        // SAFETY: The memory is new and has room for one.
        unsafe { fresh.write(Self { file, kept_off, next: first }) };
        match bucket.compare_exchange(first, fresh, AcqRel, Acquire) {
            // SAFETY: It was written just now.
            Ok(_) => Some(unsafe { &*fresh }),
            // Another thread came first, maybe with the same file.
            Err(_) => Self::of(file),
        }
    }

    fn find(mut at: *const Self, key: usize) -> Option<&'static Self> {
        // SAFETY: The list refers to inodes, which live for ever.
        while let Some(inode) = unsafe { at.as_ref() } {
            if std::ptr::from_ref(inode.file) as *const () as usize == key {
                return Some(inode);
            }
            at = inode.next;
        }
        None
    }

    /// Keeps all descriptors of the file on the mount.
    pub(crate) fn keep_off(&self, reason: Reason) {
        self.kept_off.store(reason as u8, Relaxed);
    }

    /// Why all descriptors of the file stay on the mount, if they do.
    pub(crate) fn kept_off(&self) -> Option<Reason> {
        let reason = *Reason::ALL.get(usize::from(self.kept_off.load(Relaxed)))?;
        (reason != Reason::Foreign).then_some(reason)
    }
}

impl std::fmt::Debug for Inode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inode").field("kept_off", &self.kept_off()).finish_non_exhaustive()
    }
}
