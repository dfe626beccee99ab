//! How much of a file's traffic went which way.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use terrace_store::delegation::NotLent;

use crate::borrowed::Reason;

/// Why a call took the mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Why {
    /// The file is on no Terrace mount that lends files.
    NotOurs,
    /// The daemon lends nothing to this process, or not this file.
    Refused,
    /// The program is run by `terrace run`, whose library has the direct path then.
    Preloaded,
    /// The process has forked since, or is a child of one that had used the library.
    Shared,
    /// The arguments are for the kernel to judge, or too many bytes.
    Arguments,
    /// Another process has the file open, or the daemon needed it.
    OtherProcess,
    /// Another thread, or the daemon, had the file for long.
    Busy,
    /// Some of it is on a disk, or belongs there by the policy.
    NotInPm,
    /// Persistent memory is nearly full.
    NoRoom,
}

impl Why {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 9] = [
        Self::NotOurs,
        Self::Refused,
        Self::Preloaded,
        Self::Shared,
        Self::Arguments,
        Self::OtherProcess,
        Self::Busy,
        Self::NotInPm,
        Self::NoRoom,
    ];

    /// How reports name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.c_name().to_str().expect("names are ASCII")
    }

    /// The same, for C.
    #[must_use]
    pub const fn c_name(self) -> &'static CStr {
        match self {
            Self::NotOurs => c"not on a mount that lends files",
            Self::Refused => c"refused",
            Self::Preloaded => c"under terrace run",
            Self::Shared => c"shared with a process",
            Self::Arguments => c"arguments",
            Self::OtherProcess => c"another process",
            Self::Busy => c"busy",
            Self::NotInPm => c"not in PM",
            Self::NoRoom => c"no room",
        }
    }
}

impl From<Reason> for Why {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Ended | Reason::NotLent(NotLent::Moving | NotLent::Elsewhere) => {
                Self::OtherProcess
            }
            Reason::Busy => Self::Busy,
            Reason::Renew | Reason::NotLent(NotLent::NoRoom) => Self::NoRoom,
            Reason::NotInPm
            | Reason::NotLent(NotLent::Pinned | NotLent::NotInPm | NotLent::Asynchronous) => {
                Self::NotInPm
            }
            Reason::Damaged
            | Reason::NotLent(NotLent::Off | NotLent::NotAFile | NotLent::Privileged) => {
                Self::Refused
            }
        }
    }
}

/// Calls of one [`File`](crate::File) that have succeeded, and the bytes that they read or wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Calls that made no system call.
    pub direct_calls: u64,
    /// Bytes of these.
    pub direct_bytes: u64,
    /// Calls on the mount, or on another file system.
    pub mount_calls: u64,
    /// Bytes of these.
    pub mount_bytes: u64,
    /// Why the last of these took the mount.
    pub why: Option<Why>,
}

/// Counts them.
#[derive(Debug, Default)]
pub(super) struct Counts {
    direct_calls: AtomicU64,
    direct_bytes: AtomicU64,
    mount_calls: AtomicU64,
    mount_bytes: AtomicU64,
    /// Number of the reason, plus 1.
    why: AtomicU8,
}

impl Counts {
    #[inline]
    pub(super) fn direct(&self, bytes: u64) {
        self.direct_calls.fetch_add(1, Relaxed);
        self.direct_bytes.fetch_add(bytes, Relaxed);
    }

    pub(super) fn mount(&self, why: Why, bytes: u64) {
        self.mount_calls.fetch_add(1, Relaxed);
        self.mount_bytes.fetch_add(bytes, Relaxed);
        self.why.store(why as u8 + 1, Relaxed);
    }

    pub(super) fn read(&self) -> Usage {
        let why = usize::from(self.why.load(Relaxed)).checked_sub(1);
        Usage {
            direct_calls: self.direct_calls.load(Relaxed),
            direct_bytes: self.direct_bytes.load(Relaxed),
            mount_calls: self.mount_calls.load(Relaxed),
            mount_bytes: self.mount_bytes.load(Relaxed),
            why: why.map(|number| Why::ALL[number]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_found_by_their_numbers() {
        for (number, why) in Why::ALL.into_iter().enumerate() {
            assert_eq!(why as usize, number);
            assert!(!why.name().is_empty());
            let counts = Counts::default();
            counts.mount(why, 7);
            let expected =
                Usage { mount_calls: 1, mount_bytes: 7, why: Some(why), ..Usage::default() };
            assert_eq!(counts.read(), expected);
        }
    }
}
