//! What a side of a contest runs on.

use std::fmt;

/// A volume, a file system behind FUSE, or one of the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    /// A volume in process.
    Engine,
    /// A mounted volume whose PM has room for everything; `durable` as in `terrace mount -o
    /// durable`.
    Mount { durable: bool },
    /// A volume that Terrace's own program has mounted, whose PM has room for everything, and whose
    /// files are lent.
    Lending,
    /// A mounted volume that keeps file data on its disk.
    MountOnDisk,
    /// A mounted volume with a disk like that of [`Ground::MountOnDisk`] and all that the policy
    /// does; `small`: its PM is a few percent of the data.
    Tiered { small: bool, durable: bool },
    /// The same without a mount.
    EngineTiered { small: bool },
    /// The FUSE file system that does nothing, mounted like a volume.
    Null { durable: bool },
    /// The kernel's file system in memory.
    Tmpfs,
    /// The same, of huge pages: mapped PM has some, too.
    TmpfsHuge,
    /// ext4 on a device like that of [`Ground::MountOnDisk`].
    Ext4,
    /// ext4 with `data=journal` on such a device, its journal on a device in memory.
    Ext4Journal,
    /// XFS on such a device, its log on a device in memory.
    XfsLog,
}

impl Ground {
    /// Whether FUSE is needed.
    pub fn is_fuse(self) -> bool {
        matches!(
            self,
            Ground::Mount { .. }
                | Ground::Lending
                | Ground::MountOnDisk
                | Ground::Tiered { .. }
                | Ground::Null { .. }
        )
    }

    /// Whether a file on a disk serves it as a block device.
    pub fn has_image(self) -> bool {
        let is_tiered = matches!(
            self,
            Ground::MountOnDisk | Ground::Tiered { .. } | Ground::EngineTiered { .. }
        );
        is_tiered || matches!(self, Ground::Ext4 | Ground::Ext4Journal | Ground::XfsLog)
    }

    /// Whether it is a volume whose PM is a few percent of the data.
    pub fn has_small_pm(self) -> bool {
        matches!(self, Ground::Tiered { small: true, .. } | Ground::EngineTiered { small: true })
    }

    /// Whether it is a volume that no kernel is in front of.
    pub fn is_in_process(self) -> bool {
        matches!(self, Ground::Engine | Ground::EngineTiered { .. })
    }

    /// Whether a volume is behind it.
    pub fn is_volume(self) -> bool {
        let is_mounted = matches!(
            self,
            Ground::Mount { .. } | Ground::Lending | Ground::MountOnDisk | Ground::Tiered { .. }
        );
        is_mounted || self.is_in_process()
    }
}

impl fmt::Display for Ground {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Ground::Engine => "engine",
            Ground::Mount { durable: false } => "mount",
            Ground::Mount { durable: true } => "mount -o durable",
            Ground::Lending => "mount that lends",
            Ground::MountOnDisk => "mount, file on disk",
            Ground::Tiered { small: false, durable: false } => "mount, PM and disk",
            Ground::Tiered { small: false, durable: true } => "mount -o durable, PM and disk",
            Ground::Tiered { small: true, durable: false } => "mount, small PM and disk",
            Ground::Tiered { small: true, durable: true } => "mount -o durable, small PM and disk",
            Ground::EngineTiered { small: false } => "engine, PM and disk",
            Ground::EngineTiered { small: true } => "engine, small PM and disk",
            Ground::Null { durable: false } => "do-nothing FUSE",
            Ground::Null { durable: true } => "do-nothing FUSE -o durable",
            Ground::Tmpfs => "tmpfs",
            Ground::TmpfsHuge => "tmpfs of huge pages",
            Ground::Ext4 => "ext4",
            Ground::Ext4Journal => "ext4 data=journal, journal in memory",
            Ground::XfsLog => "XFS, log in memory",
        })
    }
}
