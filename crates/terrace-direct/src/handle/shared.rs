//! Files of this process that are open, each inode once.
//!
//! Lock order: the table, then what is in a [`DirectFile`]. A thread that forks holds the table
//! until the child is there.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::file::DirectFile;
use crate::known::{Mounts, identity};
use crate::mount::{Mount, NoMount};

/// The state that open files of one inode share.
#[derive(Debug)]
pub(super) struct Shared {
    pub direct: DirectFile,
    /// How many open files of the inode this process has.
    opens: Arc<AtomicU64>,
    /// The process has forked: the file stays on the mount.
    is_left: AtomicBool,
}

#[derive(Debug)]
struct Entry {
    shared: Arc<Shared>,
    /// Its open files.
    descriptors: Vec<RawFd>,
}

/// A mount, by its address, which no other one ever has; and an inode number.
type Key = (usize, u64);

#[derive(Debug)]
struct Table {
    mounts: Mounts,
    files: BTreeMap<Key, Entry>,
}

/// Forks so far. It changes with the table locked.
static FORKS: AtomicU32 = AtomicU32::new(0);
static TABLE: Mutex<Table> = Mutex::new(Table { mounts: Mounts::new(), files: BTreeMap::new() });

fn key(mount: &Arc<Mount>, ino: u64) -> Key {
    (Arc::as_ptr(mount).addr(), ino)
}

/// Has the kernel ask the file system for the attributes of an open file.
fn ask_attributes(fd: BorrowedFd<'_>) {
    // Only the question matters.
    let _ = rustix::fs::fstat(fd);
}

/// How often this process has forked.
pub(super) fn forks() -> u32 {
    FORKS.load(Ordering::SeqCst)
}

/// Notes that a file was opened, when the process had forked so many times.
///
/// # Errors
/// The file cannot go direct. One that a child has, too, never can.
pub(super) fn opened(fd: BorrowedFd<'_>, forks_then: u32) -> Result<Arc<Shared>, NoMount> {
    let (device, ino) = identity(fd).ok_or(NoMount::NotOurs)?;
    let mut table = TABLE.lock();
    if forks() != forks_then {
        return Err(NoMount::Refused);
    }
    let mount = table.mounts.of(fd, device)?;
    let entry = table.files.entry(key(&mount, ino)).or_insert_with(|| Entry {
        shared: Arc::new(Shared::new(mount, ino)),
        descriptors: Vec::new(),
    });
    entry.descriptors.push(fd.as_raw_fd());
    // It is open already: the daemon never counts fewer.
    entry.shared.opens.fetch_add(1, Ordering::SeqCst);
    Ok(Arc::clone(&entry.shared))
}

/// Notes that a file is about to be closed. The last one of an inode gives it back.
pub(super) fn closing(shared: &Shared, fd: BorrowedFd<'_>) {
    let mut table = TABLE.lock();
    // It is open still: the daemon never counts fewer.
    shared.opens.fetch_sub(1, Ordering::SeqCst);
    let key = key(shared.direct.mount(), shared.direct.ino());
    let Some(entry) = table.files.get_mut(&key) else { return };
    entry.descriptors.retain(|&descriptor| descriptor != fd.as_raw_fd());
    if entry.descriptors.is_empty() {
        let last = table.files.remove(&key);
        drop(table);
        shared.leave(fd);
        drop(last);
    }
}

/// Gives all files back to the mount for good, and keeps the table: no file is opened or closed
/// before [`unlock`].
pub(super) fn lock_and_leave_all() {
    let table = TABLE.lock();
    FORKS.fetch_add(1, Ordering::SeqCst);
    for entry in table.files.values() {
        if let Some(&descriptor) = entry.descriptors.first()
            && !entry.shared.is_left()
        {
            // SAFETY: who closes it takes it from the table first.
            let fd = unsafe { BorrowedFd::borrow_raw(descriptor) };
            // It never comes back.
            entry.shared.direct.leave(|| ask_attributes(fd));
            // Only now: other threads make system calls at once then.
            entry.shared.is_left.store(true, Ordering::Release);
        }
    }
    MutexGuard::leak(table);
}

/// Lets others have the table again. The thread has called [`lock_and_leave_all`].
pub(super) fn unlock() {
    // SAFETY: this thread has locked it, and has leaked the guard.
    unsafe { TABLE.force_unlock() };
}

impl Shared {
    fn new(mount: Arc<Mount>, ino: u64) -> Self {
        let opens = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&opens);
        let direct = DirectFile::new(mount, ino, move |_| counted.load(Ordering::SeqCst));
        Self { direct, opens, is_left: AtomicBool::new(false) }
    }

    /// Whether it stays on the mount.
    #[inline]
    pub(super) fn is_left(&self) -> bool {
        self.is_left.load(Ordering::Acquire)
    }

    /// A system call on the mount is about to be made with this descriptor. The file is not
    /// borrowed as long as the result lives.
    pub(super) fn leave(&self, fd: BorrowedFd<'_>) -> Outside<'_> {
        self.direct.leave(|| ask_attributes(fd));
        Outside(&self.direct)
    }
}

/// See [`Shared::leave`].
#[derive(Debug)]
pub(super) struct Outside<'a>(&'a DirectFile);

impl Drop for Outside<'_> {
    fn drop(&mut self) {
        self.0.come_back();
    }
}
