//! The superblock: two copies at the start of every device, in blocks 0 and 1.
//!
//! A writer makes the second copy durable before it touches the first, so at least one is whole at
//! any time. A reader takes the valid copy with the higher sequence. Both say the same but for that
//! sequence and the mount epoch.

use crate::checkpoint::GroupSummary;
use crate::crc::crc_with_hole;
use crate::field::media_struct;
use crate::{BLOCK_BYTES, DEVICE_BLOCKS_MAX, DEVICES_MAX, LayoutError, MediaStruct};
use zerocopy::IntoBytes;

/// First eight bytes of every device of a volume.
pub const MAGIC: [u8; 8] = *b"TERRACE\x1a";
/// Format that this code writes: a reader of another major refuses it.
pub const FORMAT_MAJOR: u16 = 3;
/// Minor format: older minors are readable.
pub const FORMAT_MINOR: u16 = 6;
/// Blocks that the superblock copies take.
pub const SUPERBLOCK_BLOCKS: u64 = 2;
/// Largest mount epoch and sequence: they are times in nanoseconds, or counted.
pub const EPOCH_MAX: u64 = i64::MAX as u64;
/// Longest device path that the device table holds, in bytes.
pub const DEVICE_PATH_BYTES_MAX: usize = 198;

/// Incompatible feature: PM data carries checksums.
pub const INCOMPAT_PM_DATA_CRC: u64 = 1;
/// Incompatible feature: logs may hold moves.
pub const INCOMPAT_MOVES: u64 = 2;
/// Incompatible feature: rows of the device table may be absent.
pub const INCOMPAT_ABSENT: u64 = 4;
/// Incompatible feature: parts of logs may lie on disks.
pub const INCOMPAT_ARCHIVES: u64 = 8;
/// Incompatible feature: inode tables may have gaps.
pub const INCOMPAT_GAPS: u64 = 16;
/// Every incompatible feature that this code understands.
pub const INCOMPAT_KNOWN: u64 =
    INCOMPAT_PM_DATA_CRC | INCOMPAT_MOVES | INCOMPAT_ABSENT | INCOMPAT_ARCHIVES | INCOMPAT_GAPS;
/// Every feature that this code understands well enough to write beside.
pub const RO_COMPAT_KNOWN: u64 = 0;

/// Role of a device: persistent memory.
pub const ROLE_PM: u8 = 0;
/// Role of a device: a disk.
pub const ROLE_DISK: u8 = 1;
/// Role in a row of the device table that is no device's: one was removed, and another may take its
/// index.
pub const ROLE_ABSENT: u8 = 2;

media_struct! {
    /// One row of the device table.
    pub struct DeviceEntry [240] {
        /// Index of the device, 0 for PM.
        pub index: u16,
        /// Tier: 0 for PM, then faster before slower.
        pub tier: u8,
        /// [`ROLE_PM`], [`ROLE_DISK`] or [`ROLE_ABSENT`].
        pub role: u8,
        /// Blocks in an allocation group: a power of two, at least 1024.
        pub group_blocks: u32,
        /// Blocks of the device in use by the volume.
        pub blocks: u64,
        /// First block of the device's checkpoint area: group summaries, then bitmaps.
        pub checkpoint_start: u64,
        /// Blocks of that area.
        pub checkpoint_blocks: u64,
        /// First block that files may own.
        pub data_start: u64,
        /// Bytes of `path` in use.
        pub path_bytes: u16,
        /// Where the device was last found.
        pub path: [u8; 198],
    }
}

media_struct! {
    /// The superblock of a device. On disks the device table stays zero.
    pub struct Superblock [4096] {
        /// [`MAGIC`].
        pub magic: [u8; 8],
        /// [`FORMAT_MAJOR`] of the writer.
        pub major: u16,
        /// [`FORMAT_MINOR`] of the writer.
        pub minor: u16,
        /// CRC32C of the block, this field taken as zero.
        pub crc: u32,
        /// Features that anybody may ignore.
        pub compat: u64,
        /// Features that a writer must know.
        pub ro_compat: u64,
        /// Features that a reader must know.
        pub incompat: u64,
        /// The volume.
        pub uuid: [u8; 16],
        /// Which device of the volume this is.
        pub device_index: u16,
        /// Shards: inode tables and journals.
        pub shards: u16,
        /// Bytes in a block: 4096.
        pub block_bytes: u32,
        /// Of two valid copies the higher counts.
        pub sequence: u64,
        /// Distinguishes the writable mounts: larger than the last one's.
        pub mount_epoch: u64,
        /// When the volume was formatted, nanoseconds since the epoch.
        pub created_ns: i64,
        /// First of the shard pages, one per shard (PM only).
        pub shards_start: u64,
        /// Block of the checkpoint header (PM only).
        pub checkpoint_header: u64,
        /// Blocks of this device.
        pub blocks: u64,
        /// Rows of the device table in use (PM only).
        pub device_count: u16,
        /// Zero.
        pub reserved0: [u8; 6],
        /// [`Self::mount_epoch`] before it last changed (PM only): the disks, which follow PM, may
        /// still have it. When all have followed, that is the same.
        pub previous_epoch: u64,
        /// Zero.
        pub reserved1: [u8; 128],
        /// The devices of the volume (PM only).
        pub devices: [DeviceEntry; 16],
    }
}

const CRC_OFFSET: usize = core::mem::offset_of!(Superblock, crc);

impl DeviceEntry {
    /// A row of zeros.
    pub const EMPTY: DeviceEntry = DeviceEntry {
        index: 0,
        tier: 0,
        role: 0,
        group_blocks: 0,
        blocks: 0,
        checkpoint_start: 0,
        checkpoint_blocks: 0,
        data_start: 0,
        path_bytes: 0,
        path: [0; DEVICE_PATH_BYTES_MAX],
    };

    /// A row that is no device's; nothing but its index and role is set.
    pub fn absent(index: u16) -> DeviceEntry {
        DeviceEntry { index, role: ROLE_ABSENT, ..DeviceEntry::EMPTY }
    }

    /// Whether the row is no device's.
    pub fn is_absent(&self) -> bool {
        self.role == ROLE_ABSENT
    }

    /// The path that the row holds.
    pub fn path(&self) -> &[u8] {
        &self.path[..usize::from(self.path_bytes).min(DEVICE_PATH_BYTES_MAX)]
    }

    /// Sets the path.
    ///
    /// # Errors
    /// If it is longer than [`DEVICE_PATH_BYTES_MAX`].
    pub fn set_path(&mut self, path: &[u8]) -> Result<(), LayoutError> {
        if path.len() > DEVICE_PATH_BYTES_MAX {
            return Err(LayoutError(format!(
                "device path {} is {} bytes long, the device table holds \
                 {DEVICE_PATH_BYTES_MAX}: use a shorter path or a symbolic link",
                String::from_utf8_lossy(path),
                path.len()
            )));
        }
        self.path = [0; DEVICE_PATH_BYTES_MAX];
        self.path[..path.len()].copy_from_slice(path);
        self.path_bytes = path.len() as u16;
        Ok(())
    }

    /// Allocation groups of the device; the last may be short.
    pub fn groups(&self) -> u64 {
        self.blocks.div_ceil(u64::from(self.group_blocks.max(1)))
    }

    /// Blocks that the group summaries take in the checkpoint area.
    pub fn summary_blocks(&self) -> u64 {
        (self.groups() * size_of::<GroupSummary>() as u64).div_ceil(BLOCK_BYTES)
    }

    /// Blocks that the checkpoint area of such a device needs: summaries, then one bit per block.
    pub fn checkpoint_blocks_needed(&self) -> u64 {
        let bitmap_bytes = self.groups() * u64::from(self.group_blocks) / 8;
        self.summary_blocks() + bitmap_bytes.div_ceil(BLOCK_BYTES)
    }

    fn validate(&self, row: usize, may_be_absent: bool) -> Result<(), LayoutError> {
        let area_end = self.checkpoint_start.checked_add(self.checkpoint_blocks);
        let sound = usize::from(self.index) == row
            && (self.role == ROLE_PM) == (row == 0)
            && self.role <= ROLE_DISK
            && self.group_blocks.is_power_of_two()
            && (1024..=32768).contains(&self.group_blocks)
            && self.blocks > 0
            && self.blocks < DEVICE_BLOCKS_MAX
            && area_end.is_some_and(|end| end <= self.data_start)
            && self.checkpoint_start >= SUPERBLOCK_BLOCKS
            && self.checkpoint_blocks >= self.checkpoint_blocks_needed()
            && self.data_start < self.blocks
            && usize::from(self.path_bytes) <= DEVICE_PATH_BYTES_MAX;
        let absent = may_be_absent
            && row > 0
            && self.as_bytes() == DeviceEntry::absent(row as u16).as_bytes();
        if sound || absent {
            Ok(())
        } else {
            Err(LayoutError(format!("row {row} of the device table is not sound")))
        }
    }
}

impl Superblock {
    /// Sets the checksum.
    pub fn seal(&mut self) {
        self.crc = crc_with_hole(0, self.as_bytes(), CRC_OFFSET);
    }

    /// The rows of the device table in use, absent ones among them (PM's superblock only).
    pub fn devices(&self) -> &[DeviceEntry] {
        &self.devices[..usize::from(self.device_count).min(DEVICES_MAX)]
    }

    /// The devices that there are, PM first (PM's superblock only).
    pub fn present(&self) -> impl Iterator<Item = &DeviceEntry> {
        self.devices().iter().filter(|device| !device.is_absent())
    }

    /// The first row that no device has; `None` if the table is full.
    pub fn free_row(&self, usable: impl Fn(u16) -> bool) -> Option<u16> {
        let is_free =
            |row: &u16| self.devices().get(usize::from(*row)).is_none_or(DeviceEntry::is_absent);
        (1..DEVICES_MAX as u16).find(|row| is_free(row) && usable(*row))
    }

    /// Puts a device into its row, or, if the row is an absent one, takes what was there out. The
    /// table is as short as can be, and says by a feature whether it has absent rows.
    pub fn set_row(&mut self, entry: DeviceEntry) {
        let row = usize::from(entry.index);
        while usize::from(self.device_count) <= row {
            self.devices[usize::from(self.device_count)] = DeviceEntry::absent(self.device_count);
            self.device_count += 1;
        }
        self.devices[row] = entry;
        while self.devices().last().is_some_and(DeviceEntry::is_absent) {
            self.device_count -= 1;
            self.devices[usize::from(self.device_count)] = DeviceEntry::EMPTY;
        }
        let absent =
            if self.devices().iter().any(DeviceEntry::is_absent) { INCOMPAT_ABSENT } else { 0 };
        self.incompat = self.incompat & !INCOMPAT_ABSENT | absent;
    }

    /// Reads one copy. `Ok(None)` if the block does not start with the magic: not ours.
    ///
    /// # Errors
    /// Names what is wrong: a newer version, an unknown feature, a damaged block, an impossible
    /// value.
    pub fn decode(bytes: &[u8]) -> Result<Option<Superblock>, LayoutError> {
        let sb = Superblock::from_bytes(bytes);
        if sb.magic != MAGIC {
            return Ok(None);
        }
        if sb.major != FORMAT_MAJOR {
            return Err(LayoutError(format!(
                "format version {}.{} is not supported (this program reads {FORMAT_MAJOR}.x): \
                 use a matching version of terrace",
                sb.major, sb.minor
            )));
        }
        if sb.crc != crc_with_hole(0, bytes, CRC_OFFSET) {
            return Err(LayoutError("superblock checksum does not match".into()));
        }
        if sb.incompat & !INCOMPAT_KNOWN != 0 {
            return Err(LayoutError(format!(
                "unknown incompatible features {:#x}: use a newer version of terrace",
                sb.incompat & !INCOMPAT_KNOWN
            )));
        }
        sb.validate()?;
        Ok(Some(sb))
    }

    /// Features unknown to this code that forbid writing.
    pub fn unknown_ro_compat(&self) -> u64 {
        self.ro_compat & !RO_COMPAT_KNOWN
    }

    fn validate(&self) -> Result<(), LayoutError> {
        let bad = |what: &str| Err(LayoutError(format!("superblock: {what}")));
        if u64::from(self.block_bytes) != BLOCK_BYTES {
            return bad("block size is not 4096");
        }
        if self.reserved0 != [0; 6] || self.reserved1 != [0; 128] {
            return bad("reserved bytes are not zero");
        }
        if self.sequence > EPOCH_MAX || self.mount_epoch > EPOCH_MAX {
            return bad("sequence or mount epoch out of range");
        }
        if usize::from(self.device_index) >= DEVICES_MAX || self.blocks >= DEVICE_BLOCKS_MAX {
            return bad("device index or size out of range");
        }
        if self.device_index != 0 {
            return Ok(());
        }
        if self.shards == 0 || self.shards > crate::SHARDS_MAX {
            return bad("shard count out of range");
        }
        if self.device_count < 1 || usize::from(self.device_count) > DEVICES_MAX {
            return bad("device count out of range");
        }
        for (row, device) in self.devices().iter().enumerate() {
            device.validate(row, self.incompat & INCOMPAT_ABSENT != 0)?;
        }
        let pm = &self.devices[0];
        let shards_end = self.shards_start.checked_add(u64::from(self.shards));
        if pm.blocks != self.blocks
            || self.shards_start < SUPERBLOCK_BLOCKS
            || shards_end.is_none_or(|end| end > self.checkpoint_header)
            || self.checkpoint_header >= pm.checkpoint_start
        {
            return bad("regions overlap or lie outside the device");
        }
        Ok(())
    }
}
