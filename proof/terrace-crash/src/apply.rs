//! The model's operations, applied to a volume.

use std::ops::Range;

use terrace_direct::{Borrowed, Refusal};
use terrace_engine::{
    Attr, Fallocate, FileKind, FsError, FsResult, Ino, KillPriv, NewInode, PIN_XATTR, RenameFlags,
    SetAttr, SetTime, Time, Volume, WriteOptions, XattrFlags, pin_value,
};

use crate::op::{
    COPY_BYTES, FallocHow, Op, Path, RenameHow, Special, access_acl, default_acl, dir_name, name,
    pattern,
};

const ACL_ACCESS: &[u8] = b"system.posix_acl_access";
const ACL_DEFAULT: &[u8] = b"system.posix_acl_default";

/// Makes the two directories to play in.
///
/// # Errors
/// What the volume says.
pub fn prepare(volume: &Volume) -> FsResult<()> {
    for i in 0..2 {
        let attr =
            volume.create(Ino::ROOT, dir_name(i).as_bytes(), &new(FileKind::Directory, 0o755))?;
        volume.forget(attr.ino, 1);
    }
    Ok(())
}

/// Applies an operation to a volume; the errno it fails with.
///
/// # Errors
/// Errno.
pub fn apply(volume: &Volume, op: &Op) -> Result<(), i32> {
    run(volume, op).map_err(|error| error.errno())
}

fn new(kind: FileKind, mode: u32) -> NewInode {
    NewInode { kind, mode, umask: 0, uid: 0, gid: 0, rdev: 0 }
}

fn parent(volume: &Volume, path: Path) -> FsResult<Ino> {
    match path.0 {
        None => Ok(Ino::ROOT),
        Some(i) => {
            let ino = volume.lookup(Ino::ROOT, dir_name(i).as_bytes())?.ino;
            volume.forget(ino, 1);
            Ok(ino)
        }
    }
}

fn find(volume: &Volume, path: Path) -> FsResult<Ino> {
    let ino = volume.lookup(parent(volume, path)?, name(path.1).as_bytes())?.ino;
    volume.forget(ino, 1);
    Ok(ino)
}

/// As [`find`], of a regular file.
fn file(volume: &Volume, path: Path) -> FsResult<Ino> {
    let ino = find(volume, path)?;
    match volume.getattr(ino)?.kind {
        FileKind::Regular => Ok(ino),
        FileKind::Directory => Err(FsError::new(libc::EISDIR)),
        _ => Err(FsError::new(libc::EINVAL)),
    }
}

/// Whether some of these bytes of a file wait in the page cache, and are on no device yet.
///
/// # Panics
/// When there is no such file.
pub fn is_dirty(volume: &Volume, path: Path, bytes: &Range<usize>) -> bool {
    let map = file(volume, path)
        .and_then(|ino| volume.file_map(ino))
        .expect("a file that was just written");
    let dirty = map.dirty.iter().map(|d| d.offset_bytes..d.offset_bytes + d.len_bytes);
    dirty.into_iter().any(|d| d.start < bytes.end as u64 && (bytes.start as u64) < d.end)
}

fn run(volume: &Volume, op: &Op) -> FsResult<()> {
    let made = |attr: Attr| volume.forget(attr.ino, 1);
    let put = |ino, at: u32, len: u32, seed, options| {
        volume.write(ino, at.into(), &pattern(len as usize, seed), options).map(drop)
    };
    let set = |path, set: SetAttr| volume.setattr(find(volume, path)?, &set).map(drop);
    let create = |p: Path, kind, mode| {
        volume.create(parent(volume, p)?, name(p.1).as_bytes(), &new(kind, mode)).map(made)
    };
    match *op {
        Op::Create(p) => create(p, FileKind::Regular, 0o644),
        Op::CreateByLink(p) => {
            let (dir, new) = (parent(volume, p)?, new(FileKind::Regular, 0o644));
            let unnamed = volume.create_unnamed(dir, &new, true)?;
            let named = volume.link(unnamed.ino, dir, name(p.1).as_bytes()).map(made);
            made(unnamed);
            named
        }
        Op::Mkdir(p) => create(p, FileKind::Directory, 0o755),
        Op::Mknod(p) => create(p, FileKind::Fifo, 0o640),
        Op::MknodSpecial(p, special) => {
            let kind = match special {
                Special::Block => FileKind::BlockDevice,
                Special::Char => FileKind::CharDevice,
                Special::Socket => FileKind::Socket,
            };
            let new = NewInode { rdev: special.rdev(), ..new(kind, 0o600) };
            volume.create(parent(volume, p)?, name(p.1).as_bytes(), &new).map(made)
        }
        Op::Symlink(p, n) => {
            volume.symlink(parent(volume, p)?, name(p.1).as_bytes(), &pattern(n, 3), 0, 0).map(made)
        }
        Op::Link(from, to) => {
            volume.link(find(volume, from)?, parent(volume, to)?, name(to.1).as_bytes()).map(made)
        }
        Op::Unlink(p) => volume.unlink(parent(volume, p)?, name(p.1).as_bytes()),
        Op::UnlinkHeld(p) => unlink_held(volume, p),
        Op::Rmdir(p) => volume.rmdir(parent(volume, p)?, name(p.1).as_bytes()),
        Op::RmdirHeld(p) => rmdir_held(volume, p),
        Op::Rename(from, to, how) => {
            let flags = RenameFlags {
                no_replace: how == RenameHow::NoReplace,
                exchange: how == RenameHow::Exchange,
                whiteout: how == RenameHow::Whiteout,
            };
            let (from_name, to_name) = (name(from.1), name(to.1));
            volume.rename(
                parent(volume, from)?,
                from_name.as_bytes(),
                parent(volume, to)?,
                to_name.as_bytes(),
                flags,
            )
        }
        Op::Write(p, at, len, seed) => {
            put(find(volume, p)?, at, len, seed, WriteOptions::default())
        }
        Op::WriteUnprivileged(p, at, len, seed) => put(
            find(volume, p)?,
            at,
            len,
            seed,
            WriteOptions { kill_priv: KillPriv::Member, ..Default::default() },
        ),
        Op::Append(p, len, seed) => {
            put(find(volume, p)?, 0, len, seed, WriteOptions { append: true, ..Default::default() })
        }
        Op::WriteDurable(p, at, len, seed) => put(
            find(volume, p)?,
            at,
            len,
            seed,
            WriteOptions { durable: true, ..Default::default() },
        ),
        Op::AppendDurable(p, len, seed) => put(
            find(volume, p)?,
            0,
            len,
            seed,
            WriteOptions { append: true, durable: true, ..Default::default() },
        ),
        Op::Truncate(p, size) => set(p, SetAttr { size: Some(size.into()), ..Default::default() }),
        Op::WriteLent(p, at, len, seed) => {
            let data = pattern(len as usize, seed);
            let change = |file: &mut Borrowed| file.write_at(Some(at.into()), &data).map(drop);
            lent(volume, p, change, &Op::Write(p, at, len, seed))
        }
        Op::AppendLent(p, len, seed) => {
            let data = pattern(len as usize, seed);
            let change = |file: &mut Borrowed| file.write_at(None, &data).map(drop);
            lent(volume, p, change, &Op::Append(p, len, seed))
        }
        Op::TruncateLent(p, size) => {
            lent(volume, p, |file| file.truncate(size.into()), &Op::Truncate(p, size))
        }
        Op::Falloc(p, how, at, len) => {
            let mode = match how {
                FallocHow::Allocate => Fallocate::Allocate,
                FallocHow::AllocateKeepSize => Fallocate::AllocateKeepSize,
                FallocHow::PunchHole => Fallocate::PunchHole,
                FallocHow::ZeroRange => Fallocate::ZeroRange,
                FallocHow::ZeroRangeKeepSize => Fallocate::ZeroRangeKeepSize,
            };
            volume.fallocate(find(volume, p)?, mode, at.into(), len.into())
        }
        Op::Chmod(p, mode) => set(p, SetAttr { mode: Some(mode), ..Default::default() }),
        Op::Chown(p, owner) => {
            set(p, SetAttr { uid: Some(owner), gid: Some(owner), ..Default::default() })
        }
        Op::Chgrp(p, group) => set(p, SetAttr { gid: Some(group), ..Default::default() }),
        Op::Utimes(p, seconds) => {
            let mtime = Some(SetTime::At(Time::from_parts(seconds.into(), 0)));
            set(p, SetAttr { mtime, ..Default::default() })
        }
        Op::SizeAndMode(p, size, mode) => {
            file(volume, p)?;
            set(p, SetAttr { size: Some(size.into()), mode: Some(mode), ..Default::default() })
        }
        Op::SetXattr(p, n, len) => {
            let value = pattern(len.into(), n as u8);
            volume.setxattr(
                find(volume, p)?,
                format!("user.{n}").as_bytes(),
                &value,
                XattrFlags::default(),
                None,
            )
        }
        Op::RemoveXattr(p, n) => {
            volume.removexattr(find(volume, p)?, format!("user.{n}").as_bytes())
        }
        Op::AccessAcl(p, perm) => {
            let (acl, mode) = access_acl(perm);
            volume.setxattr(
                find(volume, p)?,
                ACL_ACCESS,
                &acl.encode(mode),
                XattrFlags::default(),
                None,
            )
        }
        Op::DefaultAcl(dir, perm) => {
            let (acl, bits) = default_acl(perm);
            let dir = parent(volume, (Some(dir), 0))?;
            volume.setxattr(dir, ACL_DEFAULT, &acl.encode(bits), XattrFlags::default(), None)
        }
        Op::RemoveAccessAcl(p) => volume.removexattr(find(volume, p)?, ACL_ACCESS),
        Op::RemoveDefaultAcl(dir) => {
            volume.removexattr(parent(volume, (Some(dir), 0))?, ACL_DEFAULT)
        }
        Op::PinDir(dir, tier) => {
            let dir = parent(volume, (Some(dir), 0))?;
            volume.setxattr(
                dir,
                PIN_XATTR.as_bytes(),
                pin_value(tier).as_bytes(),
                XattrFlags::default(),
                None,
            )
        }
        Op::Copy(from, to, at) => {
            let (from, to) = (file(volume, from)?, file(volume, to)?);
            volume.copy_range(from, 0, to, at.into(), COPY_BYTES as u64).map(drop)
        }
        Op::Fsync(p) => volume.fsync(find(volume, p)?, false),
        Op::Fdatasync(p) => volume.fsync(find(volume, p)?, true),
        Op::Move(p, tier) => {
            let ino = file(volume, p)?;
            let no_such_tier =
                |moved: &FsResult<_>| matches!(moved, Err(error) if error.errno() == libc::EINVAL);
            let moved = (0..=tier)
                .rev()
                .map(|tier| volume.move_file(ino, tier))
                .find(|moved| !no_such_tier(moved));
            moved.expect("there is PM").map(drop)
        }
        Op::Migrate { .. } => match volume.migrate(1) {
            // What it ends with when there is nothing left that it could do.
            Err(error) if error.errno() == libc::EAGAIN => Ok(()),
            other => other,
        },
        Op::Read(p, times) => {
            let ino = file(volume, p)?;
            let mut buf = vec![0; volume.getattr(ino)?.size as usize];
            (0..times).try_for_each(|_| volume.read(ino, 0, &mut buf).map(drop))
        }
    }
}

/// Blocks of a loan.
const LENT_BLOCKS: u64 = 8;

/// Changes a file as the process does that has borrowed it. If it cannot be lent, or the loan has
/// no room, it is changed by `otherwise`.
fn lent(
    volume: &Volume,
    path: Path,
    change: impl FnOnce(&mut Borrowed) -> Result<(), Refusal>,
    otherwise: &Op,
) -> FsResult<()> {
    let ino = find(volume, path)?;
    let process = std::process::id();
    let (Some((pm, segment)), Ok(loan)) =
        (volume.loan_memory(), volume.lend(ino, process.into(), LENT_BLOCKS)?)
    else {
        return run(volume, otherwise);
    };
    let mut file = Borrowed::new(pm, segment, loan.page, loan.generation, process)?;
    match change(&mut file) {
        Ok(()) => Ok(()),
        Err(Refusal::Errno(errno)) => Err(FsError::new(errno)),
        Err(Refusal::Mount(_)) => run(volume, otherwise),
    }
}

/// The inode outlives its name, changes, and goes with the last lookup.
fn unlink_held(volume: &Volume, path: Path) -> FsResult<()> {
    let dir = parent(volume, path)?;
    let attr = volume.lookup(dir, name(path.1).as_bytes())?;
    let result = volume.unlink(dir, name(path.1).as_bytes());
    if result.is_ok() && attr.kind == FileKind::Regular && attr.nlink == 1 {
        volume.write(attr.ino, 0, &pattern(5000, 99), WriteOptions::default())?;
    }
    volume.forget(attr.ino, 1);
    result
}

/// The directory outlives its name, takes no new ones, and goes with the last lookup.
fn rmdir_held(volume: &Volume, path: Path) -> FsResult<()> {
    let dir = parent(volume, path)?;
    let attr = volume.lookup(dir, name(path.1).as_bytes())?;
    let result = volume.rmdir(dir, name(path.1).as_bytes());
    if result.is_ok() {
        let late = volume.create(attr.ino, b"late", &new(FileKind::Regular, 0o644));
        assert_eq!(
            late.map_err(|e| e.errno()).err(),
            Some(libc::ENOENT),
            "a removed directory takes no names"
        );
    }
    volume.forget(attr.ino, 1);
    result
}

#[cfg(test)]
mod tests {
    use terrace_engine::LoanStats;

    use super::*;
    use crate::catalog::PREPS;
    use crate::paths::A;
    use crate::rig::Devices;

    #[test]
    fn files_are_really_lent() {
        let config = PREPS[0].config;
        let devices = Devices::in_memory(&config.blank());
        devices.format(config).unwrap();
        let volume = config.open(&devices).unwrap();
        [Op::Create(A), Op::AppendLent(A, 100, 1)]
            .iter()
            .for_each(|op| apply(&volume, op).unwrap());
        assert_eq!(volume.loans().files, 1);
        apply(&volume, &Op::Append(A, 100, 1)).unwrap();
        assert_eq!(volume.loans(), LoanStats::default());
    }
}
