//! One side of the comparison: a tree and the files held open in it.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, Uid,
};
use rustix::io::Errno;
use terrace_proof::Rng;

use crate::calls::{
    Aligned, Outcome, checksum, copy_range, done, errno, open, read, set_acl, truncate,
    unless_of_size, write_all, write_mapped,
};
use crate::ops::{Op, SLOTS};

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
