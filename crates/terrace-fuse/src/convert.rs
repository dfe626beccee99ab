//! Between the engine's words and the protocol's. Nothing here decides anything.

use terrace_engine::{Attr, Fallocate, FileKind, Ino, RenameFlags, SetTime, Time, XattrFlags};
use terrace_transport::abi::{self, SetattrIn, SetattrValid, StatxTime};

/// What `st_blksize` says: the engine's block.
const BLOCK_BYTES: u32 = 4096;

/// The kernel knows the root before it has asked for it, as generation 0.
pub(crate) fn generation(attr: &Attr) -> u64 {
    if attr.ino == Ino::ROOT { 0 } else { attr.generation.into() }
}

/// The kind of an inode in listings.
pub(crate) fn dirent_type(kind: FileKind) -> u32 {
    abi::dirent_type(kind.format_bits())
}

pub(crate) fn file_attr(attr: &Attr) -> abi::Attr {
    let [(atime, atimensec), (mtime, mtimensec), (ctime, ctimensec)] =
        [attr.atime, attr.mtime, attr.ctime].map(parts);
    abi::Attr {
        ino: attr.ino.0,
        size: attr.size,
        blocks: attr.blocks_512,
        atime,
        mtime,
        ctime,
        atimensec,
        mtimensec,
        ctimensec,
        mode: attr.kind.format_bits() | attr.mode & 0o7777,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        blksize: BLOCK_BYTES,
        flags: 0,
    }
}

/// When an inode was created.
pub(crate) fn birth(attr: &Attr) -> StatxTime {
    let (tv_sec, tv_nsec) = parts(attr.crtime);
    StatxTime { tv_sec, tv_nsec, reserved: 0 }
}

/// Seconds since the epoch, rounded down, and nanoseconds after them.
fn parts(time: Time) -> (i64, u32) {
    const SECOND: i64 = 1_000_000_000;
    (time.0.div_euclid(SECOND), time.0.rem_euclid(SECOND) as u32)
}

/// A time that a SETATTR sets, if it does.
fn set_time(
    valid: SetattrValid,
    (now, at): (SetattrValid, SetattrValid),
    (seconds, nanoseconds): (i64, u32),
) -> Option<SetTime> {
    if valid.contains(now) {
        Some(SetTime::Now)
    } else {
        valid.contains(at).then(|| SetTime::At(Time::from_parts(seconds, nanoseconds)))
    }
}

/// The time of access that a SETATTR sets.
pub(crate) fn set_atime(set: &SetattrIn, valid: SetattrValid) -> Option<SetTime> {
    let flags = (SetattrValid::ATIME_NOW, SetattrValid::ATIME);
    set_time(valid, flags, (set.atime, set.atimensec))
}

/// The time of modification that a SETATTR sets.
pub(crate) fn set_mtime(set: &SetattrIn, valid: SetattrValid) -> Option<SetTime> {
    let flags = (SetattrValid::MTIME_NOW, SetattrValid::MTIME);
    set_time(valid, flags, (set.mtime, set.mtimensec))
}

/// `None` for modes that are not supported.
pub(crate) fn fallocate(mode: i32) -> Option<Fallocate> {
    const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    const ZERO_KEEP: i32 = libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE;
    Some(match mode {
        0 => Fallocate::Allocate,
        libc::FALLOC_FL_KEEP_SIZE => Fallocate::AllocateKeepSize,
        PUNCH => Fallocate::PunchHole,
        libc::FALLOC_FL_ZERO_RANGE => Fallocate::ZeroRange,
        ZERO_KEEP => Fallocate::ZeroRangeKeepSize,
        _ => return None,
    })
}

pub(crate) fn rename_flags(flags: u32) -> RenameFlags {
    RenameFlags {
        no_replace: flags & libc::RENAME_NOREPLACE != 0,
        exchange: flags & libc::RENAME_EXCHANGE != 0,
        whiteout: flags & libc::RENAME_WHITEOUT != 0,
    }
}

pub(crate) fn xattr_flags(flags: u32) -> XattrFlags {
    let flags = flags.cast_signed();
    XattrFlags {
        create: flags & libc::XATTR_CREATE != 0,
        replace: flags & libc::XATTR_REPLACE != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_the_epoch_survive_both_ways() {
        for (seconds, nanoseconds) in [(-2, 250_000_000), (0, 0), (1_700_000_000, 7), (-1, 0)] {
            assert_eq!(parts(Time::from_parts(seconds, nanoseconds)), (seconds, nanoseconds));
        }
    }

    #[test]
    fn only_known_fallocate_modes_pass() {
        assert_eq!(
            fallocate(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE),
            Some(Fallocate::PunchHole)
        );
        assert_eq!(fallocate(libc::FALLOC_FL_PUNCH_HOLE), None);
        assert_eq!(fallocate(libc::FALLOC_FL_COLLAPSE_RANGE), None);
        assert_eq!(fallocate(0), Some(Fallocate::Allocate));
    }
}
