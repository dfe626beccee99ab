//! One side of the comparison: a tree and the files held open in it.

use crate::ops::{Op, SLOTS};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT,
    Uid, XattrFlags,
};
use rustix::io::Errno;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use terrace_proof::{Rng, Scratch};

/// What a call gave: a number that stands for its result (a length, a checksum), or its errno.
pub type Outcome = Result<u64, Errno>;

/// For messages.
pub fn describe(outcome: Outcome) -> String {
    match outcome {
        Ok(value) => format!("success ({value:#x})"),
        Err(errno) => format!("{errno:?}"),
    }
}

/// What the reference file system supports; the rest cannot be compared here.
#[derive(Debug, Clone, Copy)]
pub struct Features {
    pub direct: bool,
    pub xattrs: bool,
    pub acls: bool,
    punch: bool,
    zero: bool,
}

impl Features {
    /// Tries each on a file in `dir`.
    pub fn of(dir: &Scratch) -> anyhow::Result<Features> {
        let path = dir.join("probe");
        let file = File::create(&path)?;
        file.set_len(8192)?;
        let allocates = |mode| rustix::fs::fallocate(&file, mode, 0, 4096).is_ok();
        let features = Features {
            direct: open(&path, OFlags::RDONLY | OFlags::DIRECT).is_ok(),
            xattrs: rustix::fs::setxattr(&path, "user.probe", b"1", XattrFlags::empty()).is_ok(),
            acls: set_acl(&path, false, 0o640).is_ok(),
            punch: allocates(FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE),
            zero: allocates(FallocateFlags::ZERO_RANGE),
        };
        std::fs::remove_file(path)?;
        Ok(features)
    }

    /// The modes to draw from. Collapsing and inserting ranges never reach a FUSE file system.
    pub fn fallocate_modes(&self) -> Vec<FallocateFlags> {
        let mut modes = vec![FallocateFlags::empty(), FallocateFlags::KEEP_SIZE];
        if self.punch {
            modes.push(FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE);
        }
        if self.zero {
            modes.extend([
                FallocateFlags::ZERO_RANGE,
                FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
            ]);
        }
        modes
    }
}

/// A tree and the files held open in it.
pub struct Side {
    root: PathBuf,
    slots: [Option<File>; SLOTS],
}

impl Side {
    pub fn new(root: &Path) -> Self {
        Side { root: root.to_owned(), slots: Default::default() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn close_all(&mut self) {
        self.slots = Default::default();
    }

    /// Runs one operation.
    pub fn apply(&mut self, op: &Op) -> Outcome {
        let at = |path: &String| self.root.join(path);
        match op {
            Op::Create { path, mode } => rustix::fs::open(
                at(path),
                OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY,
                Mode::from_raw_mode(*mode),
            )
            .map(|_| 0),
            Op::Mkdir { path, mode } => {
                done(rustix::fs::mkdir(at(path), Mode::from_raw_mode(*mode)))
            }
            Op::Mkfifo { path, mode } => done(rustix::fs::mknodat(
                CWD,
                at(path),
                FileType::Fifo,
                Mode::from_raw_mode(*mode),
                0,
            )),
            Op::Symlink { target, path } => done(rustix::fs::symlink(target.as_str(), at(path))),
            Op::Link { from, to } => done(rustix::fs::link(at(from), at(to))),
            Op::Unlink { path } => done(rustix::fs::unlink(at(path))),
            Op::Rmdir { path } => done(rustix::fs::rmdir(at(path))),
            Op::Rename { from, to, flags } => {
                done(rustix::fs::renameat_with(CWD, at(from), CWD, at(to), *flags))
            }
            Op::Readlink { path } => {
                Ok(checksum(rustix::fs::readlink(at(path), Vec::new())?.as_bytes()))
            }
            Op::Open { slot, path, truncate } => {
                let flags = OFlags::RDWR
                    | OFlags::CREATE
                    | if *truncate { OFlags::TRUNC } else { OFlags::empty() };
                self.slots[*slot] = None;
                self.slots[*slot] = Some(open(&self.root.join(path), flags)?);
                Ok(0)
            }
            Op::WriteOpen { slot, .. }
            | Op::ReadOpen { slot, .. }
            | Op::TruncateOpen { slot, .. }
            | Op::Close { slot } => self.apply_open(*slot, op),
            Op::SetXattr { .. }
            | Op::RemoveXattr { .. }
            | Op::SetAcl { .. }
            | Op::Chmod { .. }
            | Op::Chown { .. }
            | Op::Utimens { .. } => self.apply_attribute(op),
            _ => self.apply_data(op),
        }
    }

    fn apply_data(&self, op: &Op) -> Outcome {
        let at = |path: &String| self.root.join(path);
        match op {
            Op::Write { path, offset, len, seed } => write_all(
                &open(&at(path), OFlags::WRONLY | OFlags::CREATE)?,
                *offset,
                &Rng::new(*seed).bytes(*len),
            ),
            Op::Append { path, len, seed } => {
                let mut file = open(&at(path), OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE)?;
                file.write_all(&Rng::new(*seed).bytes(*len)).map_err(errno)?;
                Ok(file.metadata().map_err(errno)?.size())
            }
            Op::WriteDirect { path, block, blocks, seed } => {
                let file = open(&at(path), OFlags::WRONLY | OFlags::DIRECT)?;
                let mut buffer = Aligned::new(*blocks);
                buffer.bytes().copy_from_slice(&Rng::new(*seed).bytes(blocks << 12));
                write_all(&file, block << 12, buffer.bytes())
            }
            Op::WriteMapped { path, offset, len, seed } => {
                write_mapped(&at(path), *offset, &Rng::new(*seed).bytes(*len))
            }
            Op::Read { path, offset, len } => {
                read(&open(&at(path), OFlags::RDONLY)?, *offset, &mut vec![0; *len])
            }
            Op::ReadDirect { path, block, blocks } => {
                let file = open(&at(path), OFlags::RDONLY | OFlags::DIRECT)?;
                read(&file, block << 12, Aligned::new(*blocks).bytes())
            }
            Op::Truncate { path, size } => {
                done(unless_of_size(std::fs::metadata(at(path)), *size, || {
                    truncate(&at(path), *size)
                }))
            }
            Op::Fallocate { path, mode, offset, len } => {
                done(rustix::fs::fallocate(open(&at(path), OFlags::WRONLY)?, *mode, *offset, *len))
            }
            Op::CopyRange { from, from_offset, to, to_offset, len } => {
                let from = open(&at(from), OFlags::RDONLY)?;
                let to = open(&at(to), OFlags::WRONLY)?;
                copy_range(&from, *from_offset, &to, *to_offset, *len)
            }
            Op::Fsync { path } => done(open(&at(path), OFlags::RDONLY)?.sync_all().map_err(errno)),
            other => unreachable!("{other:?} is not a data operation"),
        }
    }

    fn apply_attribute(&self, op: &Op) -> Outcome {
        let at = |path: &String| self.root.join(path);
        match op {
            Op::SetXattr { path, name, len, seed, flags } => {
                done(rustix::fs::lsetxattr(at(path), *name, &Rng::new(*seed).bytes(*len), *flags))
            }
            Op::RemoveXattr { path, name } => done(rustix::fs::lremovexattr(at(path), *name)),
            Op::SetAcl { path, default, permissions } => {
                done(set_acl(&at(path), *default, *permissions))
            }
            Op::Chmod { path, mode } => done(
                std::fs::set_permissions(at(path), PermissionsExt::from_mode(*mode)).map_err(errno),
            ),
            Op::Chown { path, owner, group } => done(rustix::fs::chownat(
                CWD,
                at(path),
                owner.map(Uid::from_raw),
                group.map(Gid::from_raw),
                AtFlags::SYMLINK_NOFOLLOW,
            )),
            Op::Utimens { path, access, modification } => {
                let spec = |time: &Option<(i64, i64)>| match time {
                    Some((tv_sec, tv_nsec)) => Timespec { tv_sec: *tv_sec, tv_nsec: *tv_nsec },
                    None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
                };
                let times =
                    Timestamps { last_access: spec(access), last_modification: spec(modification) };
                done(rustix::fs::utimensat(CWD, at(path), &times, AtFlags::SYMLINK_NOFOLLOW))
            }
            other => unreachable!("{other:?} is not an attribute operation"),
        }
    }

    /// Operations on a file that may have lost its name meanwhile.
    fn apply_open(&mut self, slot: usize, op: &Op) -> Outcome {
        let Some(file) = &self.slots[slot] else {
            return Err(Errno::BADF);
        };
        match op {
            Op::WriteOpen { offset, len, seed, .. } => {
                write_all(file, *offset, &Rng::new(*seed).bytes(*len))
            }
            Op::ReadOpen { offset, len, .. } => {
                let meta = file.metadata().map_err(errno)?;
                let content = read(file, *offset, &mut vec![0; *len])?;
                Ok(content
                    ^ checksum(&[meta.size().to_le_bytes(), meta.nlink().to_le_bytes()].concat()))
            }
            Op::TruncateOpen { size, .. } => {
                done(unless_of_size(file.metadata(), *size, || file.set_len(*size).map_err(errno)))
            }
            Op::Close { .. } => {
                self.slots[slot] = None;
                Ok(0)
            }
            other => unreachable!("{other:?} is not an operation on an open file"),
        }
    }
}

fn done(result: Result<(), Errno>) -> Outcome {
    result.map(|()| 0)
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

/// A file that is created has mode 0640. A FIFO is refused: what is written into it never reaches
/// its file system, and whether its times change depends on the kernel alone.
fn open(path: &Path, flags: OFlags) -> Result<File, Errno> {
    let flags = flags | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::from_raw_mode(0o640))?);
    if file.metadata().map_err(errno)?.file_type().is_fifo() { Err(Errno::NXIO) } else { Ok(file) }
}

/// Leaves out a truncation to the size that a file already has: whether its times change then
/// differs even between ext4 and tmpfs.
fn unless_of_size(
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
fn truncate(path: &Path, size: u64) -> Result<(), Errno> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?;
    // SAFETY: `path` is a C string that lives until the call returns.
    let result = unsafe { libc::truncate64(path.as_ptr(), size as i64) };
    if result == 0 { Ok(()) } else { Err(errno(std::io::Error::last_os_error())) }
}

fn write_all(file: &File, offset: u64, bytes: &[u8]) -> Outcome {
    file.write_all_at(bytes, offset).map_err(errno)?;
    Ok(bytes.len() as u64)
}

/// Reads until the buffer is full or the file ends: the length and a checksum.
fn read(file: &File, offset: u64, buffer: &mut [u8]) -> Outcome {
    let mut len = 0;
    while len < buffer.len() {
        match file.read_at(&mut buffer[len..], offset + len as u64).map_err(errno)? {
            0 => break,
            more => len += more,
        }
    }
    Ok((len as u64) << 32 | checksum(&buffer[..len]))
}

fn checksum(bytes: &[u8]) -> u64 {
    u64::from(crc32c::crc32c(bytes))
}

fn copy_range(from: &File, from_offset: u64, to: &File, to_offset: u64, len: usize) -> Outcome {
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
fn write_mapped(path: &Path, offset: u64, bytes: &[u8]) -> Outcome {
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
struct Aligned {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    fn new(blocks: usize) -> Self {
        let len = blocks << 12;
        let memory = vec![0u8; len + 4096];
        let start = memory.as_ptr().align_offset(4096);
        Aligned { memory, start, len }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

/// An ACL in the kernel's own form: owner, user 1000, group, mask and others from `permissions`.
fn set_acl(path: &Path, default: bool, permissions: u16) -> Result<(), Errno> {
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
