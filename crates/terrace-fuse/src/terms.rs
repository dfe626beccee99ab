//! The terms between a mount and the kernel: the features asked for at INIT, how long the kernel
//! may cache, and the answers that make later messages unnecessary. Every file system that
//! [`mount_with`](crate::mount_with) mounts keeps them.
//!
//! Invariants:
//! * The daemon sees every change, because all changes come through this one mount; so everything
//!   is cached for good. Files that are lent are the exception (`direct`).
//! * OPEN, OPENDIR, FLUSH, FSYNCDIR and ACCESS are answered with ENOSYS, after which the kernel
//!   never sends them again. No file handles exist, so RELEASE and RELEASEDIR are never needed. A
//!   mount that lends files answers OPEN and RELEASE.
//! * ENOSYS means "never ask again" for most kinds of messages; no other answer may be ENOSYS by
//!   accident.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use terrace_transport::abi::{
    Attr, AttrOut, EntryOut, InitFlags, OpenFlags, OpenOut, Statx, StatxOut, StatxTime,
};
use terrace_transport::{Ledger, Terms};

use crate::config::Transport;
use crate::transport::RingOffer;

/// How long the kernel may keep names (absent ones too) and attributes: beyond any uptime.
const FOREVER: Duration = Duration::from_secs(1 << 31);

/// Longest WRITE, and the longest READ: what 256 pages hold, the kernel's default limit.
pub const MESSAGE_BYTES_MAX: u32 = 1 << 20;

/// The same over io_uring. Each entry has a buffer for it, and with a keeper all of that is memory:
/// twice as many entries are worth more than messages of twice the length (FUSE.md, "Threads").
pub const RING_MESSAGE_BYTES_MAX: u32 = 512 << 10;

/// How far the kernel may read ahead: so that several READs of a sequential reader are under way,
/// and its disk does not wait for the answer to one before it gets the next.
pub(crate) const READ_AHEAD_BYTES_MAX: u32 = 4 * MESSAGE_BYTES_MAX;

/// Requests in the background (read-ahead, asynchronous direct I/O, write-back of mappings) that
/// the kernel keeps under way, if it allows us that many. Its default of 12 would hold back 4 KiB
/// direct I/O at queue depth 32. Three quarters of them may be direct writes that wait for the
/// kernel's cache (see `coherence`).
pub(crate) const BACKGROUND_MAX: u16 = 256;

/// Requests in the background that end read-ahead beyond what a reader asked for.
const CONGESTED: u16 = 48;

/// Features without which answers of this crate would be wrong, not just slow. Linux 5.11 has them
/// all.
const REQUIRED: InitFlags = InitFlags::NO_OPEN_SUPPORT
    .union(InitFlags::NO_OPENDIR_SUPPORT)
    .union(InitFlags::BIG_WRITES)
    .union(InitFlags::MAX_PAGES)
    .union(InitFlags::DONT_MASK)
    .union(InitFlags::EXPLICIT_INVAL_DATA)
    .union(InitFlags::HANDLE_KILLPRIV_V2);

/// Features that save time, EXPORT_SUPPORT: inodes that the kernel has forgotten are looked up by
/// number, and DIRECT_IO_ALLOW_MMAP: files that are opened past the kernel's cache can be mapped
/// (only mounts that lend files have such). Left out on purpose: WRITEBACK_CACHE (the placement
/// predictors must see each write, and a synchronous write would cost three messages),
/// AUTO_INVAL_DATA (nothing changes behind the kernel's back), ATOMIC_O_TRUNC (it needs OPEN),
/// POSIX_LOCKS and FLOCK_LOCKS (the kernel keeps locks itself, and can interrupt a waiter).
const WANTED: InitFlags = InitFlags::PARALLEL_DIROPS
    .union(InitFlags::ASYNC_READ)
    .union(InitFlags::ASYNC_DIO)
    .union(InitFlags::CACHE_SYMLINKS)
    .union(InitFlags::DO_READDIRPLUS)
    .union(InitFlags::READDIRPLUS_AUTO)
    .union(InitFlags::HAS_IOCTL_DIR)
    .union(InitFlags::EXPORT_SUPPORT)
    .union(InitFlags::DIRECT_IO_ALLOW_MMAP);

/// The daemon's side of INIT. `kernel_checks`: whether the kernel checks permissions
/// (`default_permissions`).
/// `has_ledger`: whether a successor of the daemon may take the connection up.
pub(crate) fn terms(kernel_checks: bool, transport: Transport, has_ledger: bool) -> Terms {
    // With POSIX_ACL the kernel turns default_permissions on by itself, so a mount that goes
    // without the checks must go without this as well (see `KernelCache::forget_attributes` for
    // what that takes).
    let acl = if kernel_checks { InitFlags::POSIX_ACL } else { InitFlags::empty() };
    // Once agreed on, there is no way back: so only if this machine can have rings.
    let ring = match transport {
        Transport::Device => InitFlags::empty(),
        Transport::Auto if RingOffer::here() != RingOffer::Offered => InitFlags::empty(),
        Transport::Auto | Transport::IoUring => InitFlags::OVER_IO_URING,
    };
    let resend = if has_ledger { InitFlags::HAS_RESEND } else { InitFlags::empty() };
    Terms {
        required: if transport == Transport::IoUring { REQUIRED | ring } else { REQUIRED },
        wanted: WANTED | acl | ring | resend,
        message_bytes_max: message_bytes_max(ring),
        background_max: BACKGROUND_MAX,
        congested: CONGESTED,
    }
}

/// The longest message of a mount with these flags.
fn message_bytes_max(flags: InitFlags) -> u32 {
    match flags.contains(InitFlags::OVER_IO_URING) {
        true => RING_MESSAGE_BYTES_MAX,
        false => MESSAGE_BYTES_MAX,
    }
}

/// A program that takes a mount up must know this of it: a number that changes when mounts expect
/// other answers than [`terms`](self) of this program gives, the flags of INIT, and the longest
/// message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agreed {
    answers: u32,
    flags: u64,
    message_bytes_max: u32,
}

/// [`Agreed::answers`] of this program.
const ANSWERS: u32 = 1;

impl Default for Agreed {
    /// With the oldest kernel.
    fn default() -> Self {
        let (flags, message_bytes_max) = (REQUIRED.bits(), MESSAGE_BYTES_MAX);
        Agreed { answers: ANSWERS, flags, message_bytes_max }
    }
}

impl Agreed {
    /// By the daemons of this ledger and the kernel.
    pub fn of(ledger: &Ledger) -> Agreed {
        let message_bytes_max = message_bytes_max(ledger.flags());
        Agreed { flags: ledger.flags().bits(), message_bytes_max, ..Agreed::default() }
    }

    /// Why a daemon of this program cannot keep to it; `None`: it can.
    pub fn obstacle(&self) -> Option<String> {
        let agreed = InitFlags::from_bits_retain(self.flags);
        let sometimes = InitFlags::POSIX_ACL | InitFlags::HAS_RESEND | InitFlags::OVER_IO_URING;
        let known = REQUIRED | WANTED | sometimes;
        let (unknown, missing) = (agreed - (known | InitFlags::INIT_EXT), REQUIRED - agreed);
        if self.answers != ANSWERS {
            let theirs = self.answers;
            return Some(format!("answers of kind {theirs} to the kernel; it gives {ANSWERS}"));
        }
        if !unknown.is_empty() {
            return Some(format!("features {:#x} of the kernel's FUSE", unknown.bits()));
        }
        if !missing.is_empty() {
            let bits = missing.bits();
            return Some(format!("a mount without features {bits:#x} of the kernel's FUSE"));
        }
        let (longest, ours) = (self.message_bytes_max, message_bytes_max(agreed));
        // Over io_uring, the layout of entries follows from it.
        let is_other = longest != ours && agreed.contains(InitFlags::OVER_IO_URING);
        (longest > ours || is_other).then(|| format!("messages of up to {longest} bytes"))
    }
}

/// An answer that names an inode.
pub fn entry(attr: Attr, generation: u64) -> EntryOut {
    EntryOut {
        nodeid: attr.ino,
        generation,
        entry_valid: FOREVER.as_secs(),
        attr_valid: FOREVER.as_secs(),
        attr,
        ..EntryOut::default()
    }
}

/// An answer of "no such file" that the kernel may remember: an entry whose inode number is 0.
pub fn absent() -> EntryOut {
    EntryOut { entry_valid: FOREVER.as_secs(), ..EntryOut::default() }
}

/// An answer that gives attributes.
pub fn attributes(attr: Attr) -> AttrOut {
    AttrOut { attr_valid: FOREVER.as_secs(), attr, ..AttrOut::default() }
}

/// The same for statx(2), with the time of birth.
pub fn statx(attr: &Attr, btime: StatxTime) -> StatxOut {
    let time = |tv_sec, tv_nsec| StatxTime { tv_sec, tv_nsec, reserved: 0 };
    let stat = Statx {
        mask: libc::STATX_BASIC_STATS | libc::STATX_BTIME,
        blksize: attr.blksize,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        mode: attr.mode as u16,
        ino: attr.ino,
        size: attr.size,
        blocks: attr.blocks,
        atime: time(attr.atime, attr.atimensec),
        btime,
        ctime: time(attr.ctime, attr.ctimensec),
        mtime: time(attr.mtime, attr.mtimensec),
        rdev_major: attr.rdev >> 8 & 0xfff,
        rdev_minor: attr.rdev & 0xff | attr.rdev >> 12 & 0xf_ff00,
        ..Statx::default()
    };
    StatxOut { attr_valid: FOREVER.as_secs(), stat, ..StatxOut::default() }
}

/// Workers of all queues over io_uring: `depth` for each CPU that is online, and two for each other
/// one that the machine may get.
pub fn ring_workers(online: usize, possible: usize, depth: usize) -> usize {
    online * depth + possible.saturating_sub(online) * depth.min(2)
}

/// Memory of the buffers of so many workers.
pub fn ring_buffer_bytes(workers: usize) -> u64 {
    workers as u64 * u64::from(RING_MESSAGE_BYTES_MAX)
}

/// How a created file is opened: as the kernel assumes by itself for one that it opens without a
/// message.
pub fn opened() -> OpenOut {
    let flags = OpenFlags::KEEP_CACHE | OpenFlags::PARALLEL_DIRECT_WRITES | OpenFlags::NOFLUSH;
    OpenOut { open_flags: flags.bits(), ..OpenOut::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_of_other_terms_is_refused_with_what_is_not_known() {
        let flags = (REQUIRED | WANTED | InitFlags::HAS_RESEND).bits();
        let agreed = Agreed { flags, ..Agreed::default() };
        assert_eq!([agreed, Agreed::default()].map(|agreed| agreed.obstacle()), [None, None]);
        for (other, named) in [
            (Agreed { answers: 9, ..agreed }, "kind 9"),
            (Agreed { flags: flags | 1 << 55, ..agreed }, "0x80000000000000"),
            (Agreed { flags: 0, ..agreed }, "without features"),
            (Agreed { message_bytes_max: 2 << 20, ..agreed }, "2097152 bytes"),
        ] {
            let obstacle = other.obstacle().expect(named);
            assert!(obstacle.contains(named), "{obstacle}");
        }
    }

    #[test]
    fn device_numbers_are_taken_apart_as_the_kernel_puts_them_together() {
        let rdev = 0x78 | 0x123 << 8 | 0x4_5600 << 12;
        let stat = statx(&Attr { rdev, ..Attr::default() }, StatxTime::default()).stat;
        assert_eq!((stat.rdev_major, stat.rdev_minor), (0x123, 0x4_5678));
    }
}
