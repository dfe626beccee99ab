//! Between the engine's words and fuser's. Nothing here decides anything.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, Generation, INodeNo, TimeOrNow};
use terrace_engine::{Attr, Fallocate, FileKind, Ino, RenameFlags, SetTime, Time, XattrFlags};

/// What `st_blksize` says: the engine's block.
pub(crate) const BLOCK_BYTES: u32 = 4096;

pub(crate) fn ino(number: INodeNo) -> Ino {
    Ino(number.0)
}

/// The kernel knows the root before it has asked for it, as generation 0.
pub(crate) fn generation(attr: &Attr) -> Generation {
    Generation(if attr.ino == Ino::ROOT { 0 } else { attr.generation.into() })
}

pub(crate) fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::CharDevice => FileType::CharDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
    }
}

pub(crate) fn file_attr(attr: &Attr) -> FileAttr {
    FileAttr {
        ino: INodeNo(attr.ino.0),
        size: attr.size,
        blocks: attr.blocks_512,
        atime: system_time(attr.atime),
        mtime: system_time(attr.mtime),
        ctime: system_time(attr.ctime),
        crtime: system_time(attr.crtime),
        kind: file_type(attr.kind),
        perm: (attr.mode & 0o7777) as u16,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        blksize: BLOCK_BYTES,
        flags: 0,
    }
}

fn system_time(time: Time) -> SystemTime {
    let distance = Duration::from_nanos(time.0.unsigned_abs());
    if time.0 >= 0 { UNIX_EPOCH + distance } else { UNIX_EPOCH - distance }
}

/// A time that a program set. Before the epoch, fuser puts the nanoseconds on the wrong side of the
/// seconds (-2 s + 0.25 s arrives as -2.25 s); this takes its number apart the same way.
fn time(system_time: SystemTime) -> Time {
    let seconds = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    match system_time.duration_since(UNIX_EPOCH) {
        Ok(after) => Time::from_parts(seconds(after), after.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            Time::from_parts(-seconds(before), before.subsec_nanos())
        }
    }
}

pub(crate) fn set_time(time_or_now: TimeOrNow) -> SetTime {
    match time_or_now {
        TimeOrNow::Now => SetTime::Now,
        TimeOrNow::SpecificTime(at) => SetTime::At(time(at)),
    }
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

pub(crate) fn rename_flags(flags: fuser::RenameFlags) -> RenameFlags {
    RenameFlags {
        no_replace: flags.contains(fuser::RenameFlags::RENAME_NOREPLACE),
        exchange: flags.contains(fuser::RenameFlags::RENAME_EXCHANGE),
        whiteout: flags.contains(fuser::RenameFlags::RENAME_WHITEOUT),
    }
}

pub(crate) fn xattr_flags(flags: i32) -> XattrFlags {
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
        // What fuser makes of tv_sec = -2, tv_nsec = 250,000,000.
        let arrived = UNIX_EPOCH - Duration::new(2, 250_000_000);
        assert_eq!(time(arrived), Time::from_parts(-2, 250_000_000));
        assert_eq!(
            system_time(Time::from_parts(-2, 250_000_000)),
            UNIX_EPOCH - Duration::new(1, 750_000_000)
        );
        let after = UNIX_EPOCH + Duration::new(1_700_000_000, 7);
        assert_eq!(time(after), Time::from_parts(1_700_000_000, 7));
        assert_eq!(system_time(time(after)), after);
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
