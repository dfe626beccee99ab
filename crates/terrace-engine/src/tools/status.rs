//! What the volume and its files look like from outside.

use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use terrace_layout::{BLOCK_BYTES, INODE_BYTES, NAME_BYTES_MAX, Superblock};
use terrace_media::{Disk, Pm, PmKind};
use terrace_store::checkpoint;
use terrace_store::error::FsResult;
use terrace_store::superblock::{Disks, format_text, uuid_text};
use terrace_store::sync::Arc;

use crate::base::counters::Counters;
use crate::base::options::OpenOptions;
use crate::base::types::{
    ArchiveInfo, DeviceStatus, DirtyRange, ExtentInfo, FileMap, Ino, MapFrom, StatFs, Status,
};
use crate::base::words::{tier_name, with_advice};
use crate::inode::cache::PageCache;
use crate::inode::device_table::DeviceTable;
use crate::inode::dirty::DirtyFiles;
use crate::inode::health::Health;
use crate::inode::store::Store;
use crate::inode::table::Inodes;
use crate::inode::wear::{Wear, offline_report};
use crate::mount::devices::match_present_devices;
use crate::mount::parts::Parts;
use crate::ops::lending::Lending;
use crate::tiering::drain::Drain;
use crate::tiering::placement::Placement;
use crate::tiering::schedule::Schedule;

fn disk_kind(path: &Path) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    match std::fs::metadata(path) {
        Ok(m) if m.file_type().is_block_device() => "block",
        Ok(_) => "file",
        Err(_) => "memory",
    }
}

fn notes(pm: &Pm) -> Vec<String> {
    match pm.kind() {
        PmKind::Emulated => vec![format!(
            "{} is in RAM: its contents are lost at reboot; `terrace save` carries them across one",
            pm.path().display()
        )],
        PmKind::Msync => vec![format!(
            "{} is an ordinary file: each commit waits for msync, which is slow but true",
            pm.path().display()
        )],
        _ => Vec::new(),
    }
}

fn pm_failure(pm: &Pm) -> Option<String> {
    let bad = pm.bad_ranges();
    let first = bad.first()?;
    let bytes: u64 = bad.iter().map(|range| range.end - range.start).sum();
    Some(format!("{bytes} bytes cannot be read, the first at byte {}", first.start))
}

fn has_failed(device: &mut DeviceStatus, failure: String) {
    device.health = format!("failing: {failure}");
    device.failure = Some(failure);
}

/// Rows of the device table, also for disks that are missing.
fn devices(
    pm: &Pm,
    disks: &Disks,
    sb: &Superblock,
    used_blocks: impl Fn(usize) -> u64,
) -> Vec<DeviceStatus> {
    let row = |i: usize, path: String, role: &str, kind: String| DeviceStatus {
        index: i as u16,
        tier: sb.devices[i].tier,
        path,
        role: role.into(),
        kind,
        size_bytes: sb.devices[i].blocks * BLOCK_BYTES,
        used_bytes: used_blocks(i) * BLOCK_BYTES,
        health: "ok".into(),
        failure: None,
    };
    let mut rows = vec![row(0, pm.path().display().to_string(), "pm", pm.kind().to_string())];
    if let Some(failure) = pm_failure(pm) {
        has_failed(&mut rows[0], failure);
    }
    rows.extend(sb.present().skip(1).map(|entry| match disks.get(&entry.index) {
        Some(disk) => {
            let path = disk.path();
            row(entry.index.into(), path.display().to_string(), "disk", disk_kind(path).into())
        }
        None => {
            let last_seen = String::from_utf8_lossy(entry.path()).into_owned();
            let why = "missing: name it with --disk".to_owned();
            let row = row(entry.index.into(), last_seen, "disk", "missing".into());
            DeviceStatus { health: why.clone(), failure: Some(why), ..row }
        }
    }));
    rows
}

/// What a volume says of itself.
#[derive(Debug)]
pub(crate) struct Reports {
    pub store: Arc<Store>,
    pub health: Arc<Health>,
    pub devices: Arc<DeviceTable>,
    pub wear: Arc<Wear>,
    pub cache: Arc<PageCache>,
    pub dirty: Arc<DirtyFiles>,
    pub inodes: Arc<Inodes>,
    pub placement: Arc<Placement>,
    pub schedule: Arc<Schedule>,
    pub drain: Arc<Drain>,
    pub counters: Arc<Counters>,
    pub lending: Arc<Lending>,
    pub options: Arc<OpenOptions>,
    pub opened: Instant,
}

impl Reports {
    /// Of the volume that these are the parts of; it has just been opened.
    pub fn of(parts: &Parts) -> Self {
        Self {
            store: parts.store.clone(),
            health: parts.health.clone(),
            devices: parts.devices.clone(),
            wear: parts.wear.clone(),
            cache: parts.cache.clone(),
            dirty: parts.dirty.clone(),
            inodes: parts.inodes.clone(),
            placement: parts.tiering.placement.clone(),
            schedule: parts.tiering.schedule.clone(),
            drain: parts.tiering.drain.clone(),
            counters: parts.counters.clone(),
            lending: parts.lending.clone(),
            options: parts.options.clone(),
            opened: Instant::now(),
        }
    }

    pub fn status(&self) -> Status {
        self.lending.count();
        let sb = *self.devices.sb.lock();
        let used = |i: usize| {
            let (blocks, free) = self.store.space.device_space(i as u16);
            blocks - free
        };
        let reason = self.health.read_only_reason();
        let disks = self
            .store
            .space
            .members
            .all()
            .iter()
            .map(|m| (m.entry.index, m.disk.clone()))
            .collect();
        let mut devices = devices(&self.store.pm, &disks, &sb, used);
        for device in devices.iter_mut().skip(1) {
            let trouble = || {
                self.store.space.members.get(device.index)?.alloc.trouble().map(|e| e.to_string())
            };
            if let Some(failure) = self.health.disk_failure(device.index).or_else(trouble) {
                has_failed(device, failure);
            }
        }
        if let Some(reason) = &reason {
            let is_it = |d: &&mut DeviceStatus| reason.device() == Some(Path::new(&d.path));
            for device in devices.iter_mut().filter(is_it) {
                device.health = reason.to_string();
                device.failure = Some(reason.to_string());
            }
        }
        Status {
            uuid: uuid_text(&sb),
            format: format_text(&sb),
            state: "mounted".into(),
            read_only: reason
                .map(|reason| with_advice(&reason, self.store.pm.path()))
                .or_else(|| self.options.read_only.then(|| "mounted with -o ro".into())),
            devices,
            cache_budget_bytes: self.cache.budget_pages() * BLOCK_BYTES,
            cache_clean_bytes: self.cache.clean_pages() * BLOCK_BYTES,
            cache_dirty_bytes: self.cache.dirty_pages() * BLOCK_BYTES,
            inodes: self.inodes.inodes_in_use(),
            notes: notes(&self.store.pm).into_iter().chain(self.cache.note()).collect(),
            scrub: None,
            migration: Some(self.schedule.status()),
            removal: self.drain.removal_status(),
            wear: Some(self.wear.report()),
        }
    }

    /// Totals of all tiers.
    ///
    /// # Errors
    /// If reclaiming removed inodes fails.
    pub fn statfs(&self) -> FsResult<StatFs> {
        if !self.health.is_read_only() {
            self.inodes.mutate(|| self.inodes.reclaim_all())?;
        }
        let disk_blocks: u64 =
            self.store.space.members.all().iter().map(|member| member.alloc.blocks()).sum();
        let blocks = self.store.space.pm().blocks() + disk_blocks;
        let pm_free = self.store.space.pm().free_blocks();
        let used = self.inodes.inodes_in_use();
        // PM is what records come from; a record and its name take about six cache lines.
        let files_free = pm_free * BLOCK_BYTES / (INODE_BYTES + 128);
        Ok(StatFs {
            block_bytes: BLOCK_BYTES as u32,
            blocks,
            blocks_free: pm_free + self.store.space.disk_available(),
            blocks_available: self.store.space.available(),
            files: used + files_free,
            files_free,
            name_bytes_max: NAME_BYTES_MAX as u32,
        })
    }

    pub fn file_map(&self, ino: Ino, from: MapFrom, most: usize) -> FsResult<FileMap> {
        let inode = self.inodes.get(ino)?;
        let inner = inode.shared()?;
        let file = inner.file()?;
        let extents: Vec<_> =
            file.index.extents_from(from.extents_bytes.div_ceil(BLOCK_BYTES)).take(most).collect();
        let dirty =
            self.cache.dirty_runs(&inode.pages, from.dirty_bytes.div_ceil(BLOCK_BYTES), most);
        let extents_end = extents.get(most - 1).map(|&(block, e)| block + u64::from(e.blocks));
        let dirty_end = dirty.get(most - 1).map(|run| run.end);
        // A listing that has reached its end goes on nowhere.
        let bytes = |end: Option<u64>| end.map_or(u64::MAX, |end| end * BLOCK_BYTES);
        let more = MapFrom { extents_bytes: bytes(extents_end), dirty_bytes: bytes(dirty_end) };
        let extents = extents.into_iter().map(|(block, e)| {
            let end = block + u64::from(e.blocks);
            let cached = self.cache.cached_blocks(&inode.pages, block, end).len();
            let dirty = self.cache.dirty_blocks(&inode.pages, block, end).len();
            ExtentInfo {
                offset_bytes: block * BLOCK_BYTES,
                len_bytes: u64::from(e.blocks) * BLOCK_BYTES,
                tier: tier_name(self.store.space.tier_of(e.addr)),
                device: self.store.device_path(e.addr.device()).display().to_string(),
                device_offset_bytes: e.addr.byte(),
                unwritten: e.unwritten(),
                cached_bytes: (cached - dirty) as u64 * BLOCK_BYTES,
                write_counter: e.counter(),
            }
        });
        Ok(FileMap {
            ino: ino.0,
            size_bytes: file.size,
            extents: extents.collect(),
            dirty_bytes: inode.pages.dirty_pages() * BLOCK_BYTES,
            dirty: dirty.into_iter().map(dirty_range).collect(),
            log_pages: inner.log.pages().count() as u64,
            log_archive: inner.log.archive().map(|archive| ArchiveInfo {
                tier: tier_name(self.store.space.tier_of(archive.addr)),
                device: self.store.device_path(archive.addr.device()).display().to_string(),
                device_offset_bytes: archive.addr.byte(),
                len_bytes: archive.blocks() * BLOCK_BYTES,
            }),
            opinion: self.placement.opinion_of(&inode, file),
            pin: inode.tiers.pin.get().map(tier_name),
            more: (extents_end.is_some() || dirty_end.is_some()).then_some(more),
        })
    }
}

fn dirty_range(blocks: Range<u64>) -> DirtyRange {
    DirtyRange {
        offset_bytes: blocks.start * BLOCK_BYTES,
        len_bytes: (blocks.end - blocks.start) * BLOCK_BYTES,
    }
}

/// Status of a volume that is not mounted; disks may be missing.
///
/// # Errors
/// As [`Volume::open`](crate::Volume::open), but for missing disks.
pub fn offline_status(pm: &Arc<Pm>, disks: &[Arc<dyn Disk>]) -> FsResult<Status> {
    let (sb, disks) = match_present_devices(pm, disks.to_vec())?;
    let header = checkpoint::usable_header(pm, &sb);
    let used = |i: usize| header.map_or(0, |h| sb.devices[i].blocks - h.devices[i].free);
    let mut notes = notes(pm);
    if header.is_none() {
        notes.push(
            "it was not unmounted cleanly: usage is known after the next mount, which recovers it"
                .into(),
        );
    }
    Ok(Status {
        uuid: uuid_text(&sb),
        format: format_text(&sb),
        state: if header.is_some() { "clean" } else { "needs recovery" }.into(),
        read_only: None,
        devices: devices(pm, &disks, &sb, used),
        cache_budget_bytes: 0,
        cache_clean_bytes: 0,
        cache_dirty_bytes: 0,
        inodes: header.map_or(0, |h| h.inodes),
        notes,
        scrub: None,
        migration: None,
        removal: None,
        wear: offline_report(pm, &sb),
    })
}
