//! What a device holds already: for those who are about to overwrite it.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

use crate::error::{IoOp, MediaError, errno_of};
use crate::length::open_device_len;
use crate::pm::{Pm, PmOpenOptions};

/// What was found on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceContents {
    /// The first and the last MiB are zero.
    Empty,
    /// Something known: what it is, with its article ("an ext4 file system").
    Found(&'static str),
    /// Something unknown: a byte of the first or the last MiB is not zero.
    Data,
}

impl fmt::Display for DeviceContents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            DeviceContents::Empty => "nothing",
            DeviceContents::Found(what) => what,
            DeviceContents::Data => "data of an unknown kind",
        })
    }
}

/// How much of each end of a device is looked at.
const END_BYTES: u64 = 1 << 20;

/// Looks at a block device, a file or a device-DAX device. Changes nothing and takes no lock.
///
/// # Errors
/// It cannot be opened or read.
pub fn probe_device(path: &Path) -> Result<DeviceContents, MediaError> {
    let source = Source::open(path)?;
    let len = source.len(path)?;
    let first_end = END_BYTES.min(len);
    let first = source.read(path, 0, first_end)?;
    if let Some(what) = recognize(&first) {
        return Ok(DeviceContents::Found(what));
    }
    let last =
        source.read(path, (len - first_end).max(first_end), (len - first_end).min(END_BYTES))?;
    let all_zero = first.iter().chain(&last).all(|&byte| byte == 0);
    Ok(if all_zero { DeviceContents::Empty } else { DeviceContents::Data })
}

/// Where the bytes come from: device-DAX can be mapped but not read.
enum Source {
    File(File),
    Dax(std::sync::Arc<Pm>),
}

impl Source {
    fn open(path: &Path) -> Result<Self, MediaError> {
        let file = File::open(path).map_err(|error| MediaError::open(path, "open", error))?;
        let metadata = file.metadata().map_err(|error| MediaError::open(path, "examine", error))?;
        if metadata.file_type().is_char_device() {
            return Pm::open(path, &PmOpenOptions { read_only: true, ..Default::default() })
                .map(Source::Dax);
        }
        Ok(Source::File(file))
    }

    fn len(&self, path: &Path) -> Result<u64, MediaError> {
        match self {
            Source::File(file) => open_device_len(path, file),
            Source::Dax(pm) => Ok(pm.len()),
        }
    }

    fn read(&self, path: &Path, offset: u64, len_bytes: u64) -> Result<Vec<u8>, MediaError> {
        let mut bytes = vec![0; len_bytes as usize];
        match self {
            Source::Dax(pm) => pm.read(offset, &mut bytes),
            Source::File(file) => {
                file.read_exact_at(&mut bytes, offset).map_err(|error| match error.kind() {
                    io::ErrorKind::UnexpectedEof => {
                        MediaError::Ended { path: path.to_owned(), op: IoOp::Read, offset }
                    }
                    _ => MediaError::Io {
                        path: path.to_owned(),
                        op: IoOp::Read,
                        offset,
                        len_bytes,
                        errno: errno_of(&error),
                    },
                })?
            }
        }
        Ok(bytes)
    }
}

/// The signatures that say what begins here: what they say, where they stand, what they are. The
/// more telling come first: a boot sector may stand in front of anything.
const SIGNATURES: [(&str, usize, &[u8]); 12] = [
    ("a LUKS encrypted volume", 0, b"LUKS\xba\xbe"),
    ("an XFS file system", 0, b"XFSB"),
    ("a btrfs file system", 0x1_0040, b"_BHRfS_M"),
    ("an LVM physical volume", 0, b"LABELONE"),
    ("an LVM physical volume", 512, b"LABELONE"),
    ("an LVM physical volume", 1024, b"LABELONE"),
    ("an LVM physical volume", 1536, b"LABELONE"),
    ("swap space", 4096 - 10, b"SWAPSPACE2"),
    ("swap space", 65536 - 10, b"SWAPSPACE2"),
    ("a GPT partition table", 512, b"EFI PART"),
    ("a GPT partition table", 4096, b"EFI PART"),
    ("an MBR partition table or boot sector", 510, b"\x55\xaa"),
];

fn recognize(start: &[u8]) -> Option<&'static str> {
    let has = |at: usize, magic: &[u8]| start.get(at..at + magic.len()) == Some(magic);
    let known =
        || SIGNATURES.iter().find(|(_, at, magic)| has(*at, magic)).map(|&(what, _, _)| what);
    recognize_ext(start).or_else(known)
}

/// ext2, ext3 and ext4 share their superblock; what it demands tells them apart.
fn recognize_ext(start: &[u8]) -> Option<&'static str> {
    const SUPERBLOCK: usize = 1024;
    const COMPAT_HAS_JOURNAL: u32 = 0x4;
    /// Extents, 64-bit block numbers, flexible block groups: any of them makes it ext4.
    const INCOMPAT_EXT4: u32 = 0x40 | 0x80 | 0x200;
    let superblock = start.get(SUPERBLOCK..SUPERBLOCK + 1024)?;
    if superblock[56..58] != [0x53, 0xef] {
        return None;
    }
    let word = |at: usize| {
        u32::from_le_bytes([
            superblock[at],
            superblock[at + 1],
            superblock[at + 2],
            superblock[at + 3],
        ])
    };
    Some(if word(96) & INCOMPAT_EXT4 != 0 {
        "an ext4 file system"
    } else if word(92) & COMPAT_HAS_JOURNAL != 0 {
        "an ext3 file system"
    } else {
        "an ext2 file system"
    })
}
