//! The words that media and programs share: inode numbers, times, kinds of inodes.

use serde::Serialize;

/// An inode number. The root directory is [`Ino::ROOT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Ino(pub u64);

impl Ino {
    /// The root directory.
    pub const ROOT: Ino = Ino(1);
}

/// A point in time: nanoseconds since the epoch (1677 to 2262; times outside are clamped).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Time(pub i64);

impl Time {
    /// The wall clock, as of its last tick (some milliseconds ago at most): what the kernel's file
    /// systems put into timestamps, at a fifth of the cost of the exact time.
    #[inline]
    pub fn now() -> Time {
        let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `ts` is a valid, writable timespec; CLOCK_REALTIME_COARSE always exists.
        unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &mut ts) };
        Time::from_parts(ts.tv_sec, ts.tv_nsec as u32)
    }

    /// From seconds and nanoseconds (`0..1_000_000_000`), clamped to the representable range.
    #[inline]
    pub fn from_parts(seconds: i64, nanoseconds: u32) -> Time {
        Time(seconds.saturating_mul(1_000_000_000).saturating_add(i64::from(nanoseconds)))
    }

    /// Whole seconds (rounded down) and the nanoseconds above them.
    #[inline]
    pub fn parts(self) -> (i64, u32) {
        (self.0.div_euclid(1_000_000_000), self.0.rem_euclid(1_000_000_000) as u32)
    }
}

/// What an inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileKind {
    /// Regular file.
    Regular,
    /// Directory.
    Directory,
    /// Symbolic link.
    Symlink,
    /// Character device.
    CharDevice,
    /// Block device.
    BlockDevice,
    /// Named pipe.
    Fifo,
    /// Unix domain socket.
    Socket,
}

impl FileKind {
    /// The `S_IFMT` bits of this kind.
    #[inline]
    pub fn format_bits(self) -> u32 {
        match self {
            FileKind::Regular => libc::S_IFREG,
            FileKind::Directory => libc::S_IFDIR,
            FileKind::Symlink => libc::S_IFLNK,
            FileKind::CharDevice => libc::S_IFCHR,
            FileKind::BlockDevice => libc::S_IFBLK,
            FileKind::Fifo => libc::S_IFIFO,
            FileKind::Socket => libc::S_IFSOCK,
        }
    }

    /// The kind that a mode's `S_IFMT` bits name; `None` for bits that name none.
    #[inline]
    pub fn from_mode(mode: u32) -> Option<FileKind> {
        Some(match mode & libc::S_IFMT {
            libc::S_IFREG => FileKind::Regular,
            libc::S_IFDIR => FileKind::Directory,
            libc::S_IFLNK => FileKind::Symlink,
            libc::S_IFCHR => FileKind::CharDevice,
            libc::S_IFBLK => FileKind::BlockDevice,
            libc::S_IFIFO => FileKind::Fifo,
            libc::S_IFSOCK => FileKind::Socket,
            _ => return None,
        })
    }
}
