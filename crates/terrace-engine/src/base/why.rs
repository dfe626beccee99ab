//! Why a file's data lies where it does, and what would move it, in numbers. As JSON, it may be of
//! a daemon of another version: what that does not know is missing here.

use serde::{Deserialize, Serialize};

use crate::base::types::FileOpinion;

/// A part of a file that one rule has put into one place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Share {
    /// `pm`, `disk1`, …, or `page cache`: what waits there for a disk.
    pub place: String,
    /// The rule's name (`docs/POLICY.md`).
    pub rule: String,
    /// The rule in words.
    pub why: String,
    /// Bytes, whole blocks.
    pub bytes: u64,
}

/// Traits that are expected of a file, and whether it or its siblings have shown them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Kind {
    /// Somebody waits for its writes.
    pub awaited: bool,
    /// Its writes do not follow on each other.
    pub scattered: bool,
    /// Its writes replace what was there.
    pub rewritten: bool,
    /// It will be gone soon.
    pub brief: bool,
    /// Its own writes and syncs decided whether it is awaited.
    pub awaited_by_itself: bool,
    /// Its own writes decided whether it is scattered and rewritten.
    pub shape_by_itself: bool,
    /// Siblings that are known, with a weight that fades: at most 64. 0: too few, or the file was
    /// not made since the mount.
    pub siblings: u8,
    /// They are of its directory.
    pub of_its_directory: bool,
}

/// A tier that data of the file is in, and when it leaves that.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Leaves {
    /// Its name.
    pub tier: String,
    /// How full it is, in percent.
    pub used_percent: f64,
    /// Cold data leaves it while it is fuller than that.
    pub above_percent: f64,
    /// The tier that cold data goes to, the next; none is slower, if there is no name.
    pub to: Option<String>,
    /// Why nothing goes there now: budgets.
    pub held_up: Option<String>,
}

/// The side to which the volume's reads lean (formula 2), as of the last second with traffic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Leaning {
    /// The migration that follows: `none`, `read` or `reverse`.
    pub migration: String,
    /// Bytes that were read from PM in that second.
    pub pm_read_bytes: u64,
    /// The same from DRAM.
    pub dram_read_bytes: u64,
    /// Seconds in a row that it takes to begin.
    pub seconds: u64,
    /// Read migration begins if reads from PM are above this share of those from DRAM, in percent.
    pub high_percent: u64,
    /// Reverse migration begins if they are below this share.
    pub low_percent: u64,
    /// Reverse migration waits for so many seconds more, because data had to leave PM.
    pub settles_in_seconds: u64,
    /// Read migration needs a PM that takes so much longer than memory; 0: it does not.
    pub helpers_percent: u64,
    /// PM takes so much longer for what is read; none: that is not known.
    pub pm_is_slower: Option<bool>,
}

/// Dirty pages of the file, and when they are written back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Dirty {
    /// Bytes that are on no device yet.
    pub bytes: u64,
    /// For how long some of it has waited.
    pub seconds: u64,
    /// It is written back when it has waited for so long.
    pub after_seconds: u64,
    /// Dirty pages of all files, as a share of the page cache in percent.
    pub cache_percent: u64,
}

/// Why a file's data lies where it does, and what would move it, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileWhy {
    /// Inode number.
    pub ino: u64,
    /// Length of the file in bytes.
    pub size_bytes: u64,
    /// The rules that put its pieces where they are: tiers in order, then the page cache; of each
    /// place the rule of most bytes first.
    pub shares: Vec<Share>,
    /// Bytes of its clean pages in the page cache: copies of what disks have.
    pub copies_bytes: u64,
    /// Name of the tier that the file is pinned to, if it is.
    pub pin: Option<String>,
    /// The policy's opinion of the file.
    pub opinion: FileOpinion,
    /// Its expected traits.
    pub kind: Kind,
    /// Data moves by itself: migration is on, there are disks, and the volume may be written.
    pub migrates: bool,
    /// The tiers that it has data in.
    pub leaves: Vec<Leaves>,
    /// Age in seconds of its last write; none if nothing was written.
    pub unwritten_seconds: Option<u64>,
    /// It is cold as a whole if that is so much.
    pub cold_age_seconds: u64,
    /// By how much it counts as younger than it is; less than 0: as older.
    pub grace_seconds: i64,
    /// Nobody has written it for so long, all in all.
    pub cold: bool,
    /// Blocks that were read since it was last written.
    pub blocks_read: u64,
    /// So many, or less, are no reason for read migration to take it.
    pub blocks_read_of_others: u64,
    /// The side to which reads lean.
    pub leaning: Leaning,
    /// What waits in the page cache.
    pub dirty: Dirty,
}
