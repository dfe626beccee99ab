//! The names of all mount options.

/// Every option (name, with `=VALUE` where it takes one) and what it does.
pub const OPTIONS: &[(&str, &str)] = &[
    ("ro", "read-only; nothing is written to any device, not even by recovery"),
    ("rw", "read and write (default)"),
    (
        "remount",
        "of a mount, change those of ro, rw, dev, suid and exec that are given, and nothing \
         else; for root",
    ),
    (
        "relatime",
        "update access times that are not after the modification time or older than a day \
         (default)",
    ),
    ("noatime", "never update access times"),
    ("strictatime", "update access times at every read that reaches the daemon"),
    ("durable", "every write is durable when it returns; fsync then costs nothing"),
    ("sync", "the same as durable"),
    ("allow_other", "other users may use the mount"),
    (
        "default_permissions",
        "the kernel checks permissions (always, but for root's mounts without allow_other)",
    ),
    (
        "cache=SIZE",
        "memory for the page cache (default: an eighth of what machine and cgroup allow, 8M to 8G)",
    ),
    ("cache_dir=DIR", "tmpfs directory for the page cache's file (default: /dev/shm/terrace-UID)"),
    ("writeback=SECONDS", "age at which dirty data is written back (default: 5)"),
    (
        "pm_full=PERCENT",
        "use of PM above which new data goes to a disk tier, large writes somewhat earlier \
         (default: 90)",
    ),
    (
        "transport=auto|io_uring|device",
        "how messages come from the kernel: over io_uring where it offers that and it suits the \
         machine, over io_uring, a queue for each CPU, or over /dev/fuse (default: auto)",
    ),
    ("queue_depth=N", "over io_uring: requests of a CPU served at a time (default: 8 to 30)"),
    ("threads=N", "over /dev/fuse: threads that serve (default: one per processor, 2 to 8)"),
    ("clone_fd", "give each of those threads its own descriptor of /dev/fuse"),
    (
        "keeper",
        "when the daemon dies, another one takes the mount up, and programs see a pause (default \
         with Linux 6.9 or later)",
    ),
    ("nokeeper", "the mount dies with its daemon"),
    ("dev", "honour device files (default for root)"),
    ("nodev", "ignore device files (default for other users)"),
    ("suid", "honour set-id bits (default for root)"),
    ("nosuid", "ignore set-id bits (default for other users)"),
    ("exec", "programs may be run (default)"),
    ("noexec", "programs may not be run"),
    (
        "engine=uring|sync|auto",
        "how disks are driven: io_uring, pread/pwrite, or what the system allows (default: auto)",
    ),
    (
        "lend=off|owner|group=NAME",
        "whose programs may read and write PM themselves: nobody's, yours, or those of the members \
         of a group, too (default: off)",
    ),
    ("direct", "disk I/O bypasses the kernel's page cache, where the disk can (default)"),
    ("nodirect", "disk I/O goes through the kernel's page cache"),
    ("disk=PATH", "where a disk of the volume is now, if not where it was; may be repeated"),
    ("model=DEVICE=MODEL", "make a device (pm, disk, disk1, …) as slow as MODEL; may be repeated"),
    (
        "wear=DEVICE:BYTES/day",
        "what migration may write to a device (pm, disk1, … or a path) in a day (default: any \
         number of bytes); may be repeated",
    ),
    ("log=FILE", "the daemon's log"),
    (
        "metrics=ADDRESS",
        "serve metrics for Prometheus on a UNIX socket (a path) or a TCP port (PORT: of \
         127.0.0.1; IP:PORT)",
    ),
];

/// Options that mount(8) and fstab pass along and that mean nothing to a file system. Those ending
/// in `=` or `-` are prefixes.
pub(super) const IGNORED: &[&str] = &[
    "defaults",
    "user",
    "users",
    "nouser",
    "owner",
    "group",
    "auto",
    "noauto",
    "nofail",
    "_netdev",
    "async",
    "dirsync",
    "atime",
    "diratime",
    "nodiratime",
    "norelatime",
    "nostrictatime",
    "lazytime",
    "nolazytime",
    "mand",
    "nomand",
    "silent",
    "loud",
    "iversion",
    "noiversion",
    "symfollow",
    "nosymfollow",
    "rootcontext=",
    "context=",
    "fscontext=",
    "defcontext=",
    "user=",
    "users=",
    "helper=",
    "uhelper=",
    "comment=",
    // What the kernel's table says of a mount, which mount(8) repeats when it is to be changed.
    "user_id=",
    "group_id=",
    "max_read=",
    "x-",
    "X-",
];
