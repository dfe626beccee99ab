//! System calls on one file, each with what it gave.

use std::fs::File;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags, XattrFlags};
use rustix::io::Errno;

/// What a call gave: a number that stands for its result (a length, a checksum), or its errno.
pub type Outcome = Result<u64, Errno>;

/// For messages.
pub fn describe(outcome: Outcome) -> String {
    match outcome {
        Ok(value) => format!("success ({value:#x})"),
        Err(errno) => format!("{errno:?}"),
    }
}

pub fn done(result: Result<(), Errno>) -> Outcome {
    result.map(|()| 0)
}

pub fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

/// A file that is created has mode 0640. A FIFO is refused: what is written into it never reaches
/// its file system, and whether its times change depends on the kernel alone.
pub fn open(path: &Path, flags: OFlags) -> Result<File, Errno> {
    let flags = flags | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::from_raw_mode(0o640))?);
    if file.metadata().map_err(errno)?.file_type().is_fifo() { Err(Errno::NXIO) } else { Ok(file) }
}

/// Leaves out a truncation to the size that a file already has: whether its times change then
/// differs even between ext4 and tmpfs.
pub fn unless_of_size(
    meta: std::io::Result<std::fs::Metadata>,
    size: u64,
    truncate: impl FnOnce() -> Result<(), Errno>,
) -> Result<(), Errno> {
    match meta {
        Ok(meta) if meta.is_file() && meta.size() == size => Ok(()),
        _ => truncate(),
    }
}

/// truncate(2), which std offers for open files only.
pub fn truncate(path: &Path, size: u64) -> Result<(), Errno> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?;
    // SAFETY: `path` is a C string that lives until the call returns.
    let result = unsafe { libc::truncate64(path.as_ptr(), size as i64) };
    if result == 0 { Ok(()) } else { Err(errno(std::io::Error::last_os_error())) }
}

pub fn write_all(file: &File, offset: u64, bytes: &[u8]) -> Outcome {
    file.write_all_at(bytes, offset).map_err(errno)?;
    Ok(bytes.len() as u64)
}

/// Reads until the buffer is full or the file ends: the length and a checksum.
pub fn read(file: &File, offset: u64, buffer: &mut [u8]) -> Outcome {
    let mut len = 0;
    while len < buffer.len() {
        match file.read_at(&mut buffer[len..], offset + len as u64).map_err(errno)? {
            0 => break,
            more => len += more,
        }
    }
    Ok((len as u64) << 32 | checksum(&buffer[..len]))
}

pub fn checksum(bytes: &[u8]) -> u64 {
    u64::from(terrace_proof::crc32c(bytes))
}

pub fn copy_range(from: &File, from_offset: u64, to: &File, to_offset: u64, len: usize) -> Outcome {
    let (mut from_at, mut to_at) = (from_offset, to_offset);
    let mut copied = 0;
    while copied < len {
        match rustix::fs::copy_file_range(
            from,
            Some(&mut from_at),
            to,
            Some(&mut to_at),
            len - copied,
        )? {
            0 => break,
            more => copied += more,
        }
    }
    Ok(copied as u64)
}

/// Stores through a shared mapping, as far as the file reaches.
pub fn write_mapped(path: &Path, offset: u64, bytes: &[u8]) -> Outcome {
    use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
    let file = open(path, OFlags::RDWR)?;
    let meta = file.metadata().map_err(errno)?;
    let size = meta.size();
    if !meta.is_file() || offset >= size {
        return Ok(0);
    }
    let start = offset & !4095;
    let end = size.min(offset + bytes.len() as u64);
    let (skip, len) = ((offset - start) as usize, (end - offset) as usize);
    // SAFETY: a fresh mapping at an address the kernel chooses, `skip + len` bytes long and wholly
    // inside the file, which nobody truncates meanwhile; used and unmapped here only.
    unsafe {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let map =
            mmap(std::ptr::null_mut(), skip + len, protection, MapFlags::SHARED, &file, start)?;
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), map.cast::<u8>().add(skip), len);
        let synced = msync(map, skip + len, MsyncFlags::SYNC);
        munmap(map, skip + len)?;
        synced?;
    }
    Ok(len as u64)
}

/// A buffer whose address is a multiple of 4096, as O_DIRECT wants it.
pub struct Aligned {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    pub fn new(blocks: usize) -> Self {
        let len = blocks << 12;
        let memory = vec![0u8; len + 4096];
        let start = memory.as_ptr().align_offset(4096);
        Aligned { memory, start, len }
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

/// An ACL in the kernel's own form: owner, user 1000, group, mask and others from `permissions`.
pub fn set_acl(path: &Path, default: bool, permissions: u16) -> Result<(), Errno> {
    // Tags as in <linux/posix_acl.h>, permission bits, and the id that only named users have.
    let (owner, group, other) = (6 | permissions >> 6 & 7, permissions >> 3 & 7, permissions & 7);
    let mut acl = 2u32.to_le_bytes().to_vec();
    for (tag, bits, id) in [
        (0x01u16, owner, u32::MAX),
        (0x02, group ^ 2, 1000),
        (0x04, group, u32::MAX),
        (0x10, group | other, u32::MAX),
        (0x20, other, u32::MAX),
    ] {
        acl.extend_from_slice(&tag.to_le_bytes());
        acl.extend_from_slice(&bits.to_le_bytes());
        acl.extend_from_slice(&id.to_le_bytes());
    }
    let name = if default { "system.posix_acl_default" } else { "system.posix_acl_access" };
    rustix::fs::lsetxattr(path, name, &acl, XattrFlags::empty())
}
