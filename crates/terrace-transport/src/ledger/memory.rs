//! The place of a ledger's memory.
//!
//! The kernel copies messages and answers over io_uring to and from the addresses that it was given
//! for an entry, whoever commits the answer. So the memory lies at the same address in each daemon
//! of a mount over io_uring, also in one of another program: at [`PREFERRED`], where no system puts
//! anything by itself, as long as that is free.

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap};

const PREFERRED: usize = 1 << 45;

/// Maps so many bytes of a file, at the address where another program has it, or at
/// [`PREFERRED`]; elsewhere, if that is not free.
///
/// # Errors
/// The system's.
pub(super) fn map(file: &OwnedFd, bytes: usize, other: Option<usize>) -> io::Result<NonNull<u8>> {
    let (rights, shared) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
    let there = std::ptr::without_provenance_mut(other.unwrap_or(PREFERRED));
    // SAFETY: a new mapping, which replaces none.
    let memory = unsafe { mmap(there, bytes, rights, shared | MapFlags::FIXED_NOREPLACE, file, 0) };
    let memory = match memory {
        Ok(memory) => memory,
        // SAFETY: a new mapping, at no particular address.
        Err(_) => unsafe { mmap(std::ptr::null_mut(), bytes, rights, shared, file, 0)? },
    };
    // SAFETY: the whole mapping; a core dump needs nothing of it.
    unsafe { madvise(memory, bytes, Advice::LinuxDontDump)? };
    Ok(NonNull::new(memory.cast()).expect("a mapping"))
}
