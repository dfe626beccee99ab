//! A PM region that other processes map, too: the process that has it open hands out descriptors.
//!
//! Such a descriptor holds a lock on a byte beyond all contents. The lock belongs to the open file,
//! so it goes with the last descriptor and the last mapping of it, and a fork does not multiply it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

use super::{Pm, PmOpenOptions};
use crate::error::MediaError;

/// The byte that is locked.
const SHARED_BYTE: libc::off_t = libc::off_t::MAX - 1;

impl Pm {
    /// A descriptor by which another process can map the region, to read and to store
    /// ([`Pm::of_shared`]). As long as any process has it open or mapped, the region is *shared*.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn share(&self) -> Result<File, MediaError> {
        let path = self.path();
        let opened = OpenOptions::new().read(true).write(true).open(path);
        let file = opened.map_err(|error| MediaError::open(path, "open", error))?;
        let lock = lock_of(libc::F_RDLCK);
        // SAFETY: the descriptor is open, and the lock a valid one of this frame.
        match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &lock) } {
            0 => Ok(file),
            _ => Err(MediaError::open(path, "lock", io::Error::last_os_error())),
        }
    }

    /// Maps the region of a descriptor that another process has shared. The descriptor is closed;
    /// the mapping keeps its lock.
    ///
    /// # Errors
    /// The system refuses to map it.
    pub fn of_shared(file: File) -> Result<Arc<Pm>, MediaError> {
        let path = Path::new("(shared PM)");
        let examined = file.metadata().map_err(|error| MediaError::open(path, "examine", error))?;
        let options = PmOpenOptions { lock: false, ..PmOpenOptions::default() };
        let mut pm = Pm::of_file(path, file, examined.len(), &options)?;
        Arc::get_mut(&mut pm).expect("it was made just now").mapping.close_file();
        Ok(pm)
    }

    /// An error if other processes have the region open or mapped by a descriptor of
    /// [`Pm::share`].
    ///
    /// # Errors
    /// [`MediaError::Shared`].
    pub fn must_not_be_shared(&self) -> Result<(), MediaError> {
        let Some(file) = self.mapping.file() else { return Ok(()) };
        let mut lock = lock_of(libc::F_WRLCK);
        // SAFETY: the descriptor is open; the system writes to the lock, one of this frame.
        let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut lock) };
        // A file system without locks has nobody who shares.
        match result == 0 && lock.l_type != libc::F_UNLCK as libc::c_short {
            true => Err(MediaError::Shared { path: self.path().to_owned() }),
            false => Ok(()),
        }
    }
}

fn lock_of(kind: libc::c_int) -> libc::flock {
    // SAFETY: a flock is plain numbers, for which zeros are valid.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    (lock.l_start, lock.l_len) = (SHARED_BYTE, 1);
    lock
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_shares_when_its_descriptor_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pm");
        Pm::create_file(&path, 1 << 20).unwrap();
        let owner = Pm::open(&path, &PmOpenOptions::default()).unwrap();
        let shared = Pm::of_shared(owner.share().unwrap()).unwrap();
        assert!(matches!(owner.must_not_be_shared(), Err(MediaError::Shared { .. })));
        drop(owner);
        let owner = Pm::open(&path, &PmOpenOptions::default()).unwrap();
        assert!(matches!(owner.must_not_be_shared(), Err(MediaError::Shared { .. })));
        shared.store_u64(0, 7);
        assert_eq!(owner.load_u64(0), 7);
        drop(shared);
        owner.must_not_be_shared().unwrap();
    }
}
