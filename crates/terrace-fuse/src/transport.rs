//! The way of messages between kernel and daemon, as people see it: whether the kernel offers
//! io_uring, and how a mount is served.

use std::path::Path;

use serde::{Deserialize, Serialize};
use terrace_transport::{LoadMeter, has_rings};

/// The parameter of the kernel's module `fuse` that switches io_uring on.
const SWITCH: &str = "sys/module/fuse/parameters/enable_uring";

/// Whether a mount can have its messages over io_uring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingOffer {
    /// It can.
    Offered,
    /// The kernel has not loaded its module `fuse`, whose parameters are not known therefore.
    NotLoaded,
    /// The kernel does not know it.
    Unknown,
    /// The kernel has it switched off.
    SwitchedOff {
        /// FUSE is a part of the kernel, not a module.
        built_in: bool,
    },
    /// The daemon gets no rings.
    NoRings,
}

impl RingOffer {
    /// On this machine.
    pub fn here() -> RingOffer {
        RingOffer::below(Path::new("/"), has_rings)
    }

    /// On the machine whose files are below `root`; `has_rings` says whether programs get rings.
    pub fn below(root: &Path, has_rings: impl FnOnce() -> bool) -> RingOffer {
        let module = root.join("sys/module/fuse");
        match std::fs::read_to_string(root.join(SWITCH)) {
            Err(_) if !module.exists() => RingOffer::NotLoaded,
            Err(_) => RingOffer::Unknown,
            // A module that was loaded has a state, one that is built in has none.
            Ok(state) if state.trim() != "Y" => {
                RingOffer::SwitchedOff { built_in: !module.join("initstate").exists() }
            }
            Ok(_) if !has_rings() => RingOffer::NoRings,
            Ok(_) => RingOffer::Offered,
        }
    }

    /// The obstacle in a few words; `None`: there is none.
    pub fn obstacle(self) -> Option<&'static str> {
        Some(match self {
            RingOffer::Offered => return None,
            RingOffer::NotLoaded => "the kernel has not loaded its module fuse",
            RingOffer::Unknown => {
                "this kernel has no FUSE over io_uring: Linux 6.14 or later has it, if built with \
                 CONFIG_FUSE_IO_URING"
            }
            RingOffer::SwitchedOff { .. } => "FUSE over io_uring is switched off",
            RingOffer::NoRings => "this machine lets the daemon have no rings of io_uring",
        })
    }

    /// The remedy until the machine is started again; `None`: none is needed, or there is none.
    pub fn remedy_now(self) -> Option<&'static str> {
        Some(match self {
            RingOffer::Offered | RingOffer::Unknown => return None,
            RingOffer::NotLoaded => "`modprobe fuse`",
            RingOffer::SwitchedOff { .. } => {
                "`echo Y > /sys/module/fuse/parameters/enable_uring` before the mount"
            }
            RingOffer::NoRings => {
                "`sysctl kernel.io_uring_disabled=0`; in a container, a seccomp profile that \
                 allows io_uring_setup"
            }
        })
    }

    /// The remedy for good.
    pub fn remedy_for_good(self) -> Option<&'static str> {
        Some(match self {
            RingOffer::Offered | RingOffer::NotLoaded => return None,
            RingOffer::Unknown => "a newer kernel",
            RingOffer::SwitchedOff { built_in: false } => {
                "`options fuse enable_uring=1` in a file of /etc/modprobe.d"
            }
            RingOffer::SwitchedOff { built_in: true } => {
                "`fuse.enable_uring=1` on the kernel's command line"
            }
            RingOffer::NoRings => "kernel.io_uring_disabled=0 in a file of /etc/sysctl.d",
        })
    }
}

/// How a mount is served, a part of its state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TransportStatus {
    /// `io_uring` or `device`.
    pub way: String,
    /// Threads that take messages from `/dev/fuse`; over io_uring, those that bring no answer.
    pub threads: usize,
    /// Queues of io_uring, one for each CPU that the machine may ever have.
    pub queues: usize,
    /// Threads that take messages from them.
    pub workers: usize,
    /// Messages that these can have under way.
    pub entries: usize,
    /// Entries that a queue may get.
    pub entries_per_queue_max: usize,
    /// Buffers of all threads. They take memory as far as messages were long.
    pub buffer_bytes: usize,
}

/// Tells how a mount is served.
#[derive(Clone, Debug)]
pub(crate) struct Serving {
    /// What serves.
    pub load: LoadMeter,
    /// Over io_uring: how many entries a queue may get.
    pub entries_per_queue_max: Option<usize>,
}

impl Serving {
    /// At this moment.
    pub fn status(&self) -> TransportStatus {
        let load = self.load.now();
        TransportStatus {
            way: if self.entries_per_queue_max.is_some() { "io_uring" } else { "device" }.into(),
            threads: load.threads,
            queues: load.queues,
            workers: load.workers,
            entries: load.entries,
            entries_per_queue_max: self.entries_per_queue_max.unwrap_or(0),
            buffer_bytes: load.buffer_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A machine with these files.
    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join("sys/module/fuse").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn offer(files: &[(&str, &str)], has_rings: bool) -> RingOffer {
        RingOffer::below(machine(files).path(), || has_rings)
    }

    #[test]
    fn each_machine_offers_what_it_has() {
        let (on, off) = (("parameters/enable_uring", "Y\n"), ("parameters/enable_uring", "N\n"));
        let (old, module) = (("parameters/max_user_bgreq", "9\n"), ("initstate", "live\n"));
        assert_eq!(offer(&[], true), RingOffer::NotLoaded);
        assert_eq!(offer(&[old], true), RingOffer::Unknown);
        assert_eq!(offer(&[off], true), RingOffer::SwitchedOff { built_in: true });
        assert_eq!(offer(&[off, module], true), RingOffer::SwitchedOff { built_in: false });
        assert_eq!(offer(&[on, module], false), RingOffer::NoRings);
        assert_eq!(offer(&[on], true), RingOffer::Offered);
    }

    #[test]
    fn each_obstacle_has_a_remedy() {
        let offers = [
            RingOffer::NotLoaded,
            RingOffer::Unknown,
            RingOffer::SwitchedOff { built_in: true },
            RingOffer::SwitchedOff { built_in: false },
            RingOffer::NoRings,
        ];
        for offer in offers {
            assert!(offer.obstacle().is_some());
            assert!(offer.remedy_now().or(offer.remedy_for_good()).is_some(), "{offer:?}");
        }
        assert_eq!(RingOffer::Offered.obstacle(), None);
        let for_good = |built_in| RingOffer::SwitchedOff { built_in }.remedy_for_good().unwrap();
        assert!(for_good(true).contains("fuse.enable_uring=1"), "{}", for_good(true));
        assert!(for_good(false).contains("/etc/modprobe.d"), "{}", for_good(false));
    }
}
