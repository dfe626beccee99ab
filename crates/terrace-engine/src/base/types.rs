//! The engine's own vocabulary: what goes in and out of [`Volume`](crate::Volume).

use serde::{Deserialize, Serialize};

pub use terrace_store::{FileKind, Ino, Time};

use super::wear::VolumeWear;

/// The attributes of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Inode number.
    pub ino: Ino,
    /// Distinguishes successive inodes with the same number.
    pub generation: u32,
    /// What it is.
    pub kind: FileKind,
    /// Permission bits, set-id bits and sticky bit (`07777`).
    pub mode: u32,
    /// Number of hard links; of a directory, 2 plus its subdirectories.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device file (Linux's 32-bit encoding), else 0.
    pub rdev: u32,
    /// Length in bytes.
    pub size: u64,
    /// Space taken on all tiers, in 512-byte units.
    pub blocks_512: u64,
    /// Last access.
    pub atime: Time,
    /// Last change of contents.
    pub mtime: Time,
    /// Last change of attributes or contents.
    pub ctime: Time,
    /// Creation.
    pub crtime: Time,
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The present moment.
    Now,
    /// This moment.
    At(Time),
}

/// A change of attributes; `None` leaves an attribute alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// Permission and set-id bits (`07777`).
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length in bytes: truncate or extend.
    pub size: Option<u64>,
    /// Access time.
    pub atime: Option<SetTime>,
    /// Modification time.
    pub mtime: Option<SetTime>,
    /// Set-id bits to clear: the contents change, or are about to. Changes of owner clear
    /// [`KillPriv::Member`]'s by themselves.
    pub kill_priv: KillPriv,
}

/// What to create: everything but its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewInode {
    /// Kind; symbolic links come from [`Volume::symlink`](crate::Volume::symlink).
    pub kind: FileKind,
    /// Permission bits as the program asked for them.
    pub mode: u32,
    /// The program's umask; ignored where the parent has a default ACL.
    pub umask: u32,
    /// Owner.
    pub uid: u32,
    /// Group; a set-group-id parent overrides it.
    pub gid: u32,
    /// Device number of a device file.
    pub rdev: u32,
}

/// Which set-id bits a change clears: it depends on who makes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KillPriv {
    /// None: the caller has the privilege to keep them.
    #[default]
    Nothing,
    /// Set-user-id, and set-group-id where the group may execute; without that it makes no program
    /// run as the group.
    Member,
    /// Both: the caller is not in the file's group.
    Stranger,
}

/// How to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Write at the end of the file, whatever the offset says (`O_APPEND`).
    pub append: bool,
    /// Durable when it returns (`O_SYNC`, `O_DSYNC`, `-o durable`).
    pub durable: bool,
    /// Set-id bits to clear.
    pub kill_priv: KillPriv,
}

/// `fallocate` modes, as Linux file systems support them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallocate {
    /// Reserve space; grow the file if the range ends beyond it.
    Allocate,
    /// Reserve space, leave the size alone.
    AllocateKeepSize,
    /// Deallocate: the range reads as zeros.
    PunchHole,
    /// Zero; grow the file if the range ends beyond it.
    ZeroRange,
    /// Zero, leave the size alone.
    ZeroRangeKeepSize,
}

/// `renameat2` flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RenameFlags {
    /// Fail with `EEXIST` if the new name exists.
    pub no_replace: bool,
    /// Swap the two names.
    pub exchange: bool,
    /// Leave a whiteout (character device 0:0) at the old name.
    pub whiteout: bool,
}

/// `setxattr` flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XattrFlags {
    /// Fail with `EEXIST` if the attribute exists.
    pub create: bool,
    /// Fail with `ENODATA` if it does not.
    pub replace: bool,
}

/// One entry of a directory listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirEntry<'a> {
    /// The inode.
    pub ino: Ino,
    /// What it is.
    pub kind: FileKind,
    /// Name, without `/` and NUL, 1 to 255 bytes.
    pub name: &'a [u8],
    /// Where a later listing resumes to get what comes after this entry; stable as long as the
    /// entry exists.
    pub next: u64,
}

/// Totals for `statfs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StatFs {
    /// Block size in bytes.
    pub block_bytes: u32,
    /// Blocks on all tiers.
    pub blocks: u64,
    /// Free blocks on all tiers.
    pub blocks_free: u64,
    /// Those that file data can take; the rest is for metadata, and for checksums.
    pub blocks_available: u64,
    /// Inodes in use and free together.
    pub files: u64,
    /// Inodes that can still be made.
    pub files_free: u64,
    /// Longest name in bytes.
    pub name_bytes_max: u32,
}

/// When reads update the access time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AtimePolicy {
    /// Where it is not after the modification time, or older than a day.
    #[default]
    Relatime,
    /// Never.
    Noatime,
    /// At every read that reaches the engine.
    Strictatime,
}

/// A piece of a file and where it lies (for `terrace where`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExtentInfo {
    /// First byte of the piece in the file.
    pub offset_bytes: u64,
    /// Its length.
    pub len_bytes: u64,
    /// `pm`, `disk1`, …: the tier; `hole` is not listed.
    pub tier: String,
    /// Device path.
    pub device: String,
    /// First byte on that device.
    pub device_offset_bytes: u64,
    /// Allocated but never written: reads as zeros.
    pub unwritten: bool,
    /// Bytes of it that the page cache holds clean.
    pub cached_bytes: u64,
    /// How often in a row it was rewritten in long pieces of a stable size: the write-size
    /// predictor's counter.
    pub write_counter: u8,
}

/// Bytes of a file that wait in the page cache for a disk: their newest version is there, and on no
/// device yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DirtyRange {
    /// First byte in the file.
    pub offset_bytes: u64,
    /// How many.
    pub len_bytes: u64,
}

/// Where a file's data is: its committed extents, and what waits in the page cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileMap {
    /// Inode number.
    pub ino: u64,
    /// Length of the file in bytes.
    pub size_bytes: u64,
    /// Extents in file order.
    pub extents: Vec<ExtentInfo>,
    /// Bytes in the page cache that are not on a device yet.
    pub dirty_bytes: u64,
    /// Where in the file they are, in order.
    pub dirty: Vec<DirtyRange>,
    /// 4 KiB log pages that the inode owns, beyond its record.
    pub log_pages: u64,
    /// The part of its log that lies on a disk, if there is one.
    pub log_archive: Option<ArchiveInfo>,
    /// The policy's opinion of the file.
    pub opinion: FileOpinion,
    /// Name of the tier that the file is pinned to, if it is.
    pub pin: Option<String>,
    /// Where the next part begins; nothing, if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more: Option<MapFrom>,
}

/// Where a part of a [`FileMap`] begins; by default at its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapFrom {
    /// Extents that begin before this byte of the file are left out.
    pub extents_bytes: u64,
    /// So is what is dirty in memory before this one.
    pub dirty_bytes: u64,
}

/// Where the part of a log is that lies on a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchiveInfo {
    /// Name of the tier.
    pub tier: String,
    /// Path of the disk.
    pub device: String,
    /// Where on the disk it begins, in bytes.
    pub device_offset_bytes: u64,
    /// Its length in bytes, whole blocks.
    pub len_bytes: u64,
}

/// What the policy makes of a file at this moment (`docs/POLICY.md`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileOpinion {
    /// It will be synced soon: the synchronicity predictor.
    pub synchronous: bool,
    /// It is mostly read: the read-frequency predictor.
    pub read_dominated: bool,
    /// Nobody waits for its writes, and what is written stays: PM takes them only while it has
    /// room.
    #[serde(default)]
    pub bulk: bool,
    /// Files like it are removed within seconds, so it leaves PM last.
    #[serde(default)]
    pub brief: bool,
    /// Nobody has written it for so long that it is cold as a whole.
    pub cold: bool,
    /// Age in seconds of its blocks, on average, since they were written (amtime); none without
    /// blocks.
    pub mean_write_age_seconds: Option<u64>,
    /// The same since they were read (artime); none if nobody has read it since it was loaded.
    pub mean_read_age_seconds: Option<u64>,
}

/// One device, for `terrace status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceStatus {
    /// 0 is PM.
    pub index: u16,
    /// Tier: 0 is PM.
    pub tier: u8,
    /// Path it was opened by.
    pub path: String,
    /// `pm` or `disk`.
    pub role: String,
    /// Kind of PM (`dax`, `emulated`, `msync`), or `block`/`file` of a disk.
    pub kind: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Bytes in use (data, logs, tables).
    pub used_bytes: u64,
    /// `ok`, or what is wrong.
    pub health: String,
    /// What is wrong, if anything is, without further words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// The state of a volume, for `terrace status`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Status {
    /// Volume UUID.
    pub uuid: String,
    /// On-media format, `major.minor`.
    pub format: String,
    /// `mounted`, `clean` or `needs recovery`.
    pub state: String,
    /// Why the volume turned read-only, if it did.
    pub read_only: Option<String>,
    /// Devices, PM first.
    pub devices: Vec<DeviceStatus>,
    /// Bytes of the page cache's budget; 0 offline.
    pub cache_budget_bytes: u64,
    /// Clean bytes in the page cache.
    pub cache_clean_bytes: u64,
    /// Dirty bytes in the page cache.
    pub cache_dirty_bytes: u64,
    /// Inodes in use.
    pub inodes: u64,
    /// Warnings in plain words (contents lost at reboot, …).
    pub notes: Vec<String>,
    /// The scrub that runs, or the last one since the volume was mounted.
    pub scrub: Option<ScrubStatus>,
    /// What migration is about; none offline.
    pub migration: Option<MigrationStatus>,
    /// The removal of a disk that is under way, or the last one since the volume was mounted.
    pub removal: Option<RemovalStatus>,
    /// Bytes written to the devices; none offline if nobody has counted.
    pub wear: Option<VolumeWear>,
}

/// What migration is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigrationStatus {
    /// In words: off, idle, or which kind of migration is wanted and why.
    pub state: String,
    /// How full PM is, in percent.
    pub pm_used_percent: u8,
    /// Usage in percent above which cold data leaves PM (TPFS, formula 1), as of the last second
    /// with traffic.
    pub threshold_percent: u8,
    /// Why what is wanted does not get on, if it does not.
    pub trouble: Option<String>,
    /// Files that are pinned to a tier, of those that have been used since the mount.
    #[serde(default)]
    pub pinned_files: u64,
    /// Those of them that have data on another tier.
    #[serde(default)]
    pub pinned_elsewhere: u64,
}

/// How to scrub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubOptions {
    /// Bytes to read per second at most, from all devices together; 0: as fast as they are.
    pub bytes_per_second: u64,
}

impl Default for ScrubOptions {
    fn default() -> Self {
        Self { bytes_per_second: 100 << 20 }
    }
}

/// What became of a scrub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScrubState {
    /// None has been started since the volume was mounted.
    #[default]
    Never,
    /// It is under way.
    Running,
    /// It went through everything.
    Finished,
    /// Somebody cancelled it.
    Cancelled,
    /// The volume was unmounted meanwhile.
    Unmounted,
}

/// How far a scrub is, and what it found so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ScrubStatus {
    /// What became of it.
    pub state: ScrubState,
    /// When it began, in seconds since the epoch.
    pub started_unix_seconds: i64,
    /// When it ended; `None` while it runs.
    pub ended_unix_seconds: Option<i64>,
    /// How long it took, or has been running.
    pub elapsed_ms: u64,
    /// Its rate limit; 0: none.
    pub bytes_per_second: u64,
    /// Bytes in use on all devices when it began: what it has to go through.
    pub total_bytes: u64,
    /// Bytes that it has gone through: verified, read without having a checksum, or changed
    /// meanwhile.
    pub passed_bytes: u64,
    /// How much of it is done.
    pub percent: u8,
    /// When it will be done at the pace it has had; `None` if it does not run or has hardly begun.
    pub remaining_seconds: Option<u64>,
    /// Bytes whose checksums were compared.
    pub verified_bytes: u64,
    /// Damaged blocks and structures.
    pub errors: u64,
    /// Those among them that were repaired.
    pub repaired: u64,
}

/// What a scrub verifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScrubKind {
    /// The two copies of a device's superblock.
    Superblock,
    /// Head and journal of a shard.
    Journal,
    /// Bitmaps of free space that the last clean unmount left and that are still needed.
    FreeSpace,
    /// Inode tables: records, used and free ones.
    InodeTable,
    /// Logs of inodes.
    Log,
    /// Long values of extended attributes.
    Attribute,
    /// Blocks of checksums.
    Checksums,
    /// Data of files. Data in PM without a checksum is read, too: memory can fail.
    Data,
}

/// What was verified of one kind on one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ScrubTally {
    /// Index of the device; 0 is PM.
    pub device_index: u16,
    /// Its path.
    pub device: String,
    /// What.
    pub kind: ScrubKind,
    /// Bytes whose checksums were compared.
    pub verified_bytes: u64,
    /// Damaged blocks and structures.
    pub errors: u64,
}

/// Damage that a scrub found: one structure, or adjacent blocks of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ScrubError {
    /// Index of the device; 0 is PM.
    pub device_index: u16,
    /// Its path.
    pub device: String,
    /// What is damaged.
    pub kind: ScrubKind,
    /// Where it is on the device.
    pub offset_bytes: u64,
    /// How much of the device it takes.
    pub len_bytes: u64,
    /// The inode that it belongs to.
    pub ino: Option<u64>,
    /// A path of that inode below the mountpoint, with special characters escaped; known when the
    /// scrub has ended.
    pub path: Option<String>,
    /// Of data: where in the file.
    pub file_offset_bytes: Option<u64>,
    /// What is wrong.
    pub what: String,
    /// It was repaired.
    pub repaired: bool,
}

/// All about a scrub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ScrubReport {
    /// How far it is, and what it found so far.
    #[serde(flatten)]
    pub status: ScrubStatus,
    /// What was verified, by device and kind.
    pub tallies: Vec<ScrubTally>,
    /// What is damaged: as much as is worth listing.
    pub damage: Vec<ScrubError>,
    /// Damaged blocks and structures beyond those listed.
    pub unlisted_errors: u64,
}

/// What became of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RemovalState {
    /// It is under way.
    Running,
    /// The disk is no part of the volume any more.
    Finished,
    /// Somebody cancelled it, or the volume was unmounted: the disk is in use.
    Cancelled,
    /// It could not be done: the disk is in use.
    Failed,
}

/// The removal of a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovalStatus {
    /// Index of the disk.
    pub device_index: u16,
    /// Its path.
    pub path: String,
    /// What became of it.
    pub state: RemovalState,
    /// Bytes that were on it when the removal began.
    pub total_bytes: u64,
    /// Bytes that are on it.
    pub left_bytes: u64,
    /// Why it failed, or what to know about the disk.
    pub message: Option<String>,
}

/// What came of moving a file to a tier, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FileMoved {
    /// There now, and elsewhere before.
    pub moved_bytes: u64,
    /// On tiers below the wanted one, which has no room for them.
    #[serde(default)]
    pub below_bytes: u64,
    /// Still elsewhere: for want of room, or changed meanwhile.
    pub left_bytes: u64,
    /// Where to go on: what lies from there on has not been looked at. Nothing, at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_bytes: Option<u64>,
}

impl std::ops::AddAssign for FileMoved {
    fn add_assign(&mut self, other: FileMoved) {
        self.moved_bytes += other.moved_bytes;
        self.below_bytes += other.below_bytes;
        self.left_bytes += other.left_bytes;
        self.next_bytes = other.next_bytes;
    }
}
