//! Damage: what on media is not as it must be, where, and to whom it belongs.
//!
//! Whoever finds damage says so with this type: a mount, a read, `check`, `scrub`. So all of them
//! use the same words, and nobody has to read a sentence to learn what it is about. Advice about
//! damage is no part of it: see [`advice`].

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use terrace_layout::{BlockAddr, LayoutError};
use terrace_media::Pm;

use crate::types::Ino;

/// Something on media that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Index of the device; 0 is PM.
    pub device: u16,
    /// Where the device is.
    pub path: PathBuf,
    /// Where on the device, if it is one place.
    pub byte: Option<u64>,
    /// What is damaged.
    pub structure: Structure,
    /// The inode to which it belongs.
    pub ino: Option<Ino>,
    /// What is wrong with it.
    pub kind: DamageKind,
}

/// What is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Structure {
    /// A copy of a device's superblock, 0 or 1.
    Superblock(u64),
    /// The journal of a shard, if its number is known.
    Journal(Option<u16>),
    /// The page of a shard, which leads to its inode table.
    ShardPage(u16),
    /// What was counted of the devices' wear.
    Wear,
    /// The chunk of a shard's inode table that begins at this index.
    Chunk(u16, u64),
    /// The table of inode records of a shard.
    InodeTable(u16),
    /// The tables of inode records of all shards.
    Tables,
    /// Free space in the checkpoint.
    FreeSpace,
    /// The bitmap of an allocation group.
    Bitmap(u64),
    /// The record of an inode.
    Record,
    /// A log as a whole.
    Log,
    /// The word that says where a log ends.
    LogTail,
    /// A page of a log.
    LogPage,
    /// A pointer that leads to a log or on to its next page.
    LogPointer,
    /// An entry of a log.
    LogEntry,
    /// An entry at this byte of a log's part on a disk.
    ArchivedEntry(u64),
    /// The part of a log on a disk.
    Archive,
    /// The value of an extended attribute, by name.
    Attribute(Box<[u8]>),
    /// A block of checksums.
    ChecksumBlock,
    /// Data of a file: bytes, first and last, if they are known.
    Data(Option<(u64, u64)>),
    /// An inode, in what it says of others.
    Inode,
    /// A block, by number.
    Block(u64),
    /// So many bytes of PM.
    Memory(u64),
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// It is not what was written.
    Damaged,
    /// It is not what was written: this shows it.
    Malformed(LayoutError),
    /// Its checksum is another one.
    Checksum,
    /// The device does not give it back: an errno.
    Unreadable(i32),
    /// It lies on the disk with this index, which the volume does not have.
    NoDisk(u16),
    /// There is none where one must be.
    Missing,
    /// It claims blocks that do not exist.
    Outside(BlockAddr, u64),
    /// It claims blocks of which another has some.
    Contested(BlockAddr, u64),
    /// It contradicts itself or others; the text goes on after the structure.
    Wrong(Cow<'static, str>),
}

impl Damage {
    /// Damage on a device.
    pub fn new(device: u16, path: &Path, structure: Structure, kind: DamageKind) -> Self {
        Self { device, path: path.to_owned(), byte: None, structure, ino: None, kind }
    }

    /// Damage in PM.
    pub fn in_pm(pm: &Pm, structure: Structure, kind: DamageKind) -> Self {
        Self::new(0, pm.path(), structure, kind)
    }

    /// It is at this byte of the device.
    pub fn at(self, byte: u64) -> Self {
        Self { byte: Some(byte), ..self }
    }

    /// It belongs to this inode.
    pub fn of(self, ino: Ino) -> Self {
        Self { ino: Some(ino), ..self }
    }

    /// What is damaged, and how: the words without device, byte and inode.
    pub fn words(&self) -> impl fmt::Display {
        Words(self)
    }

    /// The words, and the byte.
    pub fn words_and_byte(&self) -> impl fmt::Display {
        WordsAndByte(self)
    }

    /// Whether a check finds what it leads to: metadata, not the contents of a file.
    pub fn concerns_metadata(&self) -> bool {
        !matches!(
            self.structure,
            Structure::Data(_) | Structure::ChecksumBlock | Structure::Attribute(_)
        )
    }
}

/// The whole sentence, with device, inode and byte.
impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        if let Some(ino) = self.ino {
            write!(f, "inode {}: ", ino.0)?;
        }
        write!(f, "{}", self.words_and_byte())
    }
}

struct Words<'a>(&'a Damage);

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0.structure, self.0.kind)
    }
}

struct WordsAndByte<'a>(&'a Damage);

impl fmt::Display for WordsAndByte<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Words(self.0))?;
        self.0.byte.map_or(Ok(()), |byte| write!(f, " (at byte {byte})"))
    }
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Structure::Superblock(copy) => write!(f, "copy {copy} of the superblock"),
            Structure::Journal(None) => f.write_str("a journal"),
            Structure::Journal(Some(shard)) => write!(f, "the journal of shard {shard}"),
            Structure::ShardPage(shard) => write!(f, "the page of shard {shard}"),
            Structure::Wear => f.write_str("the wear record"),
            Structure::Chunk(shard, index) => {
                write!(f, "in the inode table of shard {shard}, the chunk at index {index}")
            }
            Structure::InodeTable(shard) => write!(f, "the inode table of shard {shard}"),
            Structure::Tables => f.write_str("an inode table"),
            Structure::FreeSpace => f.write_str("the checkpoint of free space"),
            Structure::Bitmap(group) => write!(f, "the bitmap of allocation group {group}"),
            Structure::Record => f.write_str("the inode's record"),
            Structure::Log => f.write_str("the log"),
            Structure::LogTail => f.write_str("the log tail"),
            Structure::LogPage => f.write_str("a log page"),
            Structure::LogPointer => f.write_str("a block pointer of the log"),
            Structure::LogEntry => f.write_str("a log entry"),
            Structure::ArchivedEntry(byte) => {
                write!(f, "a log entry at byte {byte} of its archive")
            }
            Structure::Archive => f.write_str("a part of the log"),
            Structure::Attribute(name) => {
                let name = String::from_utf8_lossy(name);
                write!(f, "the value of extended attribute {}", name.escape_debug())
            }
            Structure::ChecksumBlock => f.write_str("a checksum block"),
            Structure::Data(None) => f.write_str("data"),
            Structure::Data(Some((first, last))) => {
                write!(f, "data in bytes {first} to {last} of the file")
            }
            Structure::Inode => f.write_str("the inode"),
            Structure::Block(block) => write!(f, "block {block}"),
            Structure::Memory(bytes) => write!(f, "{bytes} bytes of memory"),
        }
    }
}

impl fmt::Display for DamageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DamageKind::Damaged => f.write_str("is damaged"),
            DamageKind::Malformed(error) => write!(f, "is damaged: {error}"),
            DamageKind::Checksum => f.write_str("does not match its checksum"),
            DamageKind::Unreadable(errno) => {
                write!(f, "cannot be read: {}", io::Error::from_raw_os_error(*errno))
            }
            DamageKind::NoDisk(disk) => {
                write!(f, "lies on disk {disk}, which the volume does not have")
            }
            DamageKind::Missing => f.write_str("is missing where one must be"),
            DamageKind::Outside(addr, blocks) => {
                write!(f, "claims {blocks} blocks at {addr:?}, which lie outside the device")
            }
            DamageKind::Contested(addr, blocks) => {
                write!(f, "claims {blocks} blocks at {addr:?}, of which another has some")
            }
            DamageKind::Wrong(what) => f.write_str(what),
        }
    }
}

/// What a person may do about damaged metadata of the volume whose PM is at `pm`.
pub fn advice(pm: &Path) -> String {
    let pm = pm.display();
    format!(
        "run `terrace check {pm}`; where nothing else helps, `terrace check --repair --give-up \
         {pm}`, unmounted, gives up what cannot be read"
    )
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn entry() -> Damage {
        Damage::new(2, Path::new("/dev/x"), Structure::LogEntry, DamageKind::Damaged)
    }

    #[test]
    fn a_sentence_names_device_inode_and_byte_as_far_as_they_are_known() {
        assert_eq!(entry().to_string(), "/dev/x: a log entry is damaged");
        let known = entry().at(4096).of(Ino(7));
        assert_eq!(known.to_string(), "/dev/x: inode 7: a log entry is damaged (at byte 4096)");
        assert_eq!(known.words().to_string(), "a log entry is damaged");
        assert_eq!(known.words_and_byte().to_string(), "a log entry is damaged (at byte 4096)");
    }

    #[test]
    fn names_of_attributes_do_not_reach_a_terminal_as_they_are() {
        let structure = Structure::Attribute(b"user.\x1b[2J".as_slice().into());
        let damage = Damage { structure, kind: DamageKind::Checksum, ..entry() };
        let words = "the value of extended attribute user.\\u{1b}[2J does not match its checksum";
        assert_eq!(damage.words().to_string(), words);
        assert!(!damage.concerns_metadata());
    }

    #[test]
    fn what_is_read_says_why_it_cannot_be_read() {
        let lost = Damage { kind: DamageKind::Unreadable(libc::EIO), ..entry() };
        assert!(lost.words().to_string().starts_with("a log entry cannot be read: Input/output"));
        assert!(lost.concerns_metadata());
    }
}
