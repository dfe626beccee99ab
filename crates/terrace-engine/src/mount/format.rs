//! Making a volume, and reading what superblocks say.

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;

use terrace_layout::{
    BLOCK_BYTES, BlockAddr, CheckedPtr, DEVICES_MAX, DeviceEntry, FORMAT_MAJOR, FORMAT_MINOR,
    INCOMPAT_MOVES, INCOMPAT_PM_DATA_CRC, InodeRecord, MAGIC, Owner, SHARD_MAGIC, SHARDS_MAX,
    SUPERBLOCK_BLOCKS, ShardPage, Superblock,
};
use terrace_media::{Disk, Pm};
use terrace_store::alloc::{DeviceAlloc, Use};
use terrace_store::checkpoint;
use terrace_store::device::{TIER_DEFAULT, device_entry, disk_entry, fresh_alloc, set_path};
use terrace_store::error::{FsError, FsResult, fence};
use terrace_store::itable::{FIRST_CHUNK_BLOCKS, write_chunk, write_record};
use terrace_store::planted::{Bug, planted};
use terrace_store::superblock::{
    areas, format_text, read_disk_superblock, read_pm_superblock, uuid_text, write_disk_superblock,
    write_pm_superblock,
};
use terrace_store::sync::{Arc, thread};
use uuid::Uuid;
use zerocopy::IntoBytes;

use crate::base::types::{Ino, Time};

/// Most shards that a volume gets unless asked otherwise.
const SHARDS_DEFAULT_MAX: usize = 16;
/// Least data blocks that PM must have beyond its tables.
const PM_DATA_BLOCKS_MIN: u64 = 256;

/// How to format.
#[derive(Clone, Debug, Default)]
pub struct FormatOptions {
    /// Shards; by default one per core, at most 16.
    pub shards: Option<u16>,
    /// Checksums over PM data too.
    pub pm_data_checksums: bool,
    /// Tier of each disk, 1 and up; missing ones are tier 1.
    pub tiers: Vec<u8>,
    /// Owner of the root directory.
    pub uid: u32,
    /// Group of the root directory.
    pub gid: u32,
}

/// What a PM superblock says of its volume.
#[derive(Clone, Debug)]
pub struct VolumeLabel {
    /// Volume UUID.
    pub uuid: String,
    /// Format, `major.minor`.
    pub format: String,
    /// Index of the device that was read; 0 is PM.
    pub device_index: u16,
    /// The device table, PM first (empty unless read from PM).
    pub devices: Vec<DeviceLabel>,
    /// It was unmounted cleanly.
    pub clean: bool,
}

/// A row of the device table.
#[derive(Clone, Debug)]
pub struct DeviceLabel {
    /// Index; 0 is PM.
    pub index: u16,
    /// Tier; 0 is PM.
    pub tier: u8,
    /// Where it was last found.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size_bytes: u64,
}

fn invalid(message: String) -> FsError {
    FsError::with_message(libc::EINVAL, message)
}

/// Plans a volume: its superblock, with the device table.
fn plan(pm: &Pm, disks: &[Arc<dyn Disk>], options: &FormatOptions) -> FsResult<Superblock> {
    let cores = thread::available_parallelism().map_or(1, usize::from).min(SHARDS_DEFAULT_MAX);
    let shards = options.shards.unwrap_or(cores as u16);
    if shards == 0 || shards > SHARDS_MAX {
        return Err(invalid(format!("{shards} shards: choose 1 to {SHARDS_MAX}")));
    }
    if disks.len() >= DEVICES_MAX {
        return Err(invalid(format!(
            "{} disks: a volume has at most {}",
            disks.len(),
            DEVICES_MAX - 1
        )));
    }
    let blocks = pm.len() / BLOCK_BYTES;
    let checkpoint_header = SUPERBLOCK_BLOCKS + u64::from(shards);
    let mut sb = Superblock {
        magic: MAGIC,
        major: FORMAT_MAJOR,
        minor: FORMAT_MINOR,
        crc: 0,
        compat: 0,
        ro_compat: 0,
        incompat: INCOMPAT_MOVES | if options.pm_data_checksums { INCOMPAT_PM_DATA_CRC } else { 0 },
        uuid: Uuid::new_v4().into_bytes(),
        device_index: 0,
        shards,
        block_bytes: BLOCK_BYTES as u32,
        sequence: 1,
        mount_epoch: 1,
        created_ns: Time::now().0,
        shards_start: SUPERBLOCK_BLOCKS,
        checkpoint_header,
        blocks,
        device_count: disks.len() as u16 + 1,
        reserved0: [0; 6],
        previous_epoch: 0,
        reserved1: [0; 128],
        devices: [DeviceEntry::EMPTY; DEVICES_MAX],
    };
    sb.devices[0] = device_entry(0, 0, blocks, checkpoint_header + 1, shards.into());
    set_path(&mut sb.devices[0], pm.path())?;
    let tables = u64::from(shards) * FIRST_CHUNK_BLOCKS;
    if blocks < sb.devices[0].data_start + tables + PM_DATA_BLOCKS_MIN {
        return Err(invalid(format!(
            "{}: {} bytes are too few for a volume with {shards} shards: give PM at least {} KiB",
            pm.path().display(),
            pm.len(),
            (sb.devices[0].data_start + tables + PM_DATA_BLOCKS_MIN) * BLOCK_BYTES / 1024
        )));
    }
    for (i, disk) in disks.iter().enumerate() {
        let tier = options.tiers.get(i).copied().unwrap_or(TIER_DEFAULT);
        sb.devices[i + 1] = disk_entry(disk.as_ref(), i as u16 + 1, tier, shards)?;
    }
    Ok(sb)
}

/// Formats opened devices. The superblock of PM is written last: until then there is no volume.
///
/// # Errors
/// Names the device that is too small, an option out of range, or what failed.
pub fn format(pm: &Arc<Pm>, disks: &[Arc<dyn Disk>], options: &FormatOptions) -> FsResult<()> {
    let sb = plan(pm, disks, options)?;
    if !planted(Bug::FormatKeepsOld) {
        pm.zero_nt(0, SUPERBLOCK_BLOCKS * BLOCK_BYTES);
    }
    fence(pm)?;
    let allocs: Vec<DeviceAlloc> = sb.devices().iter().map(|d| fresh_alloc(d, sb.shards)).collect();
    for shard in 0..sb.shards {
        let first_chunk = allocs[0].alloc(0, FIRST_CHUNK_BLOCKS, Use::Metadata).expect("planned");
        write_chunk(pm, first_chunk.start, first_chunk.len, shard, 0, CheckedPtr::NULL);
        let mut page = ShardPage {
            magic: SHARD_MAGIC,
            crc: 0,
            shard,
            reserved0: 0,
            table: CheckedPtr::new(BlockAddr::pm(first_chunk.start), false).0,
            reserved1: [0; 40],
        };
        page.seal();
        let at = (sb.shards_start + u64::from(shard)) * BLOCK_BYTES;
        pm.zero_nt(at, BLOCK_BYTES);
        pm.write_nt(at, page.as_bytes());
        if shard == 0 {
            let at = first_chunk.start * BLOCK_BYTES + terrace_layout::INODE_BYTES;
            let mode = libc::S_IFDIR | 0o755;
            let secret = RandomState::new().hash_one(sb.uuid) as u32;
            let owner = Owner { uid: options.uid, gid: options.gid };
            let root = InodeRecord::new(at, Ino::ROOT.0, 1, mode, owner, sb.created_ns)
                .with_secret(secret);
            write_record(pm, at, &root);
            // One record fewer is free.
            let free_at = first_chunk.start * BLOCK_BYTES + terrace_layout::CHUNK_FREE_OFFSET;
            pm.store_u64(free_at, pm.load_u64(free_at) - 1);
            pm.flush(free_at, 8);
        }
    }
    fence(pm)?;
    for (disk, entry) in disks.iter().zip(&sb.devices()[1..]) {
        write_disk_superblock(disk.as_ref(), &sb, entry)?;
    }
    pm.zero_nt(sb.checkpoint_header * BLOCK_BYTES, BLOCK_BYTES);
    let disks = (1..).zip(disks.iter().cloned()).collect();
    let parts = areas(pm, &disks).into_iter().map(|(i, area)| (area, &sb.devices[i], &allocs[i]));
    checkpoint::write(pm, &sb, parts, 1, &[])?;
    write_pm_superblock(pm, &sb)
}

/// Reads the label of a PM device; `None` if it holds no Terrace superblock.
///
/// # Errors
/// A newer version, an unknown feature, damage.
pub fn read_pm_label(pm: &Pm) -> FsResult<Option<VolumeLabel>> {
    use std::os::unix::ffi::OsStrExt;
    let Some(sb) = read_pm_superblock(pm)? else {
        return Ok(None);
    };
    let devices = sb.present().map(|d| DeviceLabel {
        index: d.index,
        tier: d.tier,
        path: PathBuf::from(std::ffi::OsStr::from_bytes(d.path())),
        size_bytes: d.blocks * BLOCK_BYTES,
    });
    let is_pm = sb.device_index == 0;
    Ok(Some(VolumeLabel {
        uuid: uuid_text(&sb),
        format: format_text(&sb),
        device_index: sb.device_index,
        devices: devices.collect(),
        clean: is_pm
            && sb.checkpoint_header * BLOCK_BYTES + BLOCK_BYTES <= pm.len()
            && checkpoint::usable_header(pm, &sb).is_some(),
    }))
}

/// Reads the label of a disk: UUID and device index; `None` if it holds no Terrace superblock.
///
/// # Errors
/// As [`read_pm_label`].
pub fn read_disk_label(disk: &dyn Disk) -> FsResult<Option<(String, u16)>> {
    Ok(read_disk_superblock(disk)?.map(|sb| (uuid_text(&sb), sb.device_index)))
}
