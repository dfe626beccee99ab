//! The volume: opening (with recovery), closing, and the operations, which live in `core`'s
//! modules.

use std::path::{Path, PathBuf};

use terrace_layout::{FORMAT_MINOR, INCOMPAT_MOVES, Superblock};
use terrace_media::{Disk, Pm};
use terrace_policy::Placement;
use terrace_store::checkpoint;
use terrace_store::error::{FsError, FsResult};
use terrace_store::superblock::{uuid_text, write_pm_superblock};
use terrace_store::sync::Arc;
use terrace_store::sync::thread::JoinHandle;

use crate::base::options::{CACHE_BYTES_MIN, OpenOptions, Progress};
use crate::base::types::Ino;
use crate::base::words::counted;
use crate::inode::cache::{CacheBacking, PageCache, RecoveredPage};
use crate::inode::resident::loans::{Broken, end_loans, open_segment};
use crate::inode::wear::{self, Beginning};
use crate::mount::devices::{Devices, match_devices};
use crate::mount::epoch::begin_epoch;
use crate::mount::offline::{journal, volume_on};
use crate::mount::parts::{Media, Parts};
use crate::mount::recovery::{FreeSpace, Outlived, load_tables};
use crate::mount::threads::spawn_workers;

/// A volume that has been opened.
pub(crate) struct Opened {
    pub parts: Parts,
    pub workers: Vec<JoinHandle<()>>,
    /// What recovery has undone, in words, if anything.
    pub undone: Option<String>,
}

/// Opens a volume: recovers it if need be, and starts its threads.
///
/// # Errors
/// As [`Volume::open`](crate::Volume::open).
pub(crate) fn open(
    pm: Arc<Pm>,
    disks: Vec<Arc<dyn Disk>>,
    mut options: OpenOptions,
    progress: Progress<'_>,
) -> FsResult<Opened> {
    let Devices { mut sb, disks } = match_devices(&pm, disks)?;
    let wear = Beginning {
        budgets: wear::resolve(&options.wear, options.goes_on, &pm, &sb, &disks)?,
        counted: wear::counted(&pm, &disks),
        read_only: options.read_only,
    };
    if sb.unknown_ro_compat() != 0 && !options.read_only {
        return Err(FsError::with_message(
            libc::EROFS,
            format!(
                "{}: features {:#x} are unknown to this version: mount it with -o ro, or use a \
                 newer terrace",
                pm.path().display(),
                sb.unknown_ro_compat()
            ),
        ));
    }
    // Before a log is read: from now on nobody else changes one.
    if options.loans.is_none() {
        options.loans = open_segment(&pm, &options, &sb)?;
    }
    let broken = options.loans.as_ref().map_or_else(Vec::new, |segment| end_loans(segment));
    let mut tables = load_tables(&pm, &sb)?;
    let lent: Vec<Ino> = broken.iter().map(Broken::ino).collect();
    let outlived = Outlived { heritage: options.heritage.as_ref(), lent: &lent };
    let mut free_space = FreeSpace::load(&pm, &disks, &sb, &mut tables, outlived, progress)?;
    let clean = checkpoint::usable_header(&pm, &sb).is_some();
    let (cache, recovered) = open_cache(&options, &sb)?;
    // Written data survives the daemon (P-04): without memory that does, it has to be durable.
    options.durable |= cache.dies_with_daemon();
    if !clean {
        tracing::warn!(
            "the volume was not unmounted cleanly: recovered from its logs, and {} of the last \
             daemon from its page cache",
            counted(recovered.len() as u64, "dirty page", "dirty pages")
        );
    }
    if let Some(undone) = &free_space.undone {
        tracing::info!("{undone}");
    }
    if clean {
        // A journal's contents mean nothing now, and must mean nothing once this mount has crashed.
        // One that is empty may be so in a cache only.
        (0..sb.shards).try_for_each(|shard| journal(&sb, shard).clear(&pm))?;
    }
    checkpoint::invalidate(&pm, &sb)?;
    for (&index, disk) in &disks {
        use std::os::unix::ffi::OsStrExt;
        // A path too long for the table stays as it was: --disk names the device.
        let _ = sb.devices[usize::from(index)].set_path(disk.path().as_os_str().as_bytes());
    }
    sb.sequence += 1;
    // From now on, structures may be written that older programs do not know.
    sb.minor = sb.minor.max(FORMAT_MINOR);
    sb.incompat |= INCOMPAT_MOVES;
    write_pm_superblock(&pm, &sb)?;
    let placement = Placement { pm_full_percent: options.pm_full_percent };
    let space = free_space.space(&pm, disks, &sb, placement);
    let parts = Parts::new(Media { pm, sb, space, tables, cache, wear }, options);
    if let Some(reason) = free_space.damage {
        parts.health.turn_read_only(&reason);
    }
    broken.iter().for_each(|loan| parts.loans.inherit(loan));
    for loan in &broken {
        let before = free_space.lent.remove(&loan.ino()).unwrap_or_default();
        parts.loans.save(loan, before, &|| parts.inodes.recover_anew(loan.ino()))?;
    }
    parts.inodes.adopt_open(&free_space.open);
    adopt(&parts, recovered)?;
    begin_epoch(&parts)?;
    if !parts.health.is_read_only() {
        parts.wear.begin()?;
    }
    let workers = spawn_workers(&parts)?;
    Ok(Opened { parts, workers, undone: free_space.undone })
}

/// What a daemon that died has left of the volume on `pm`: files in `cache_dir`, and how many pages
/// in each wait for a writable mount to take them to their disk. Nothing is changed.
///
/// # Errors
/// PM holds no volume; the directory or a file of it cannot be read.
pub fn waiting_pages(pm: &Pm, cache_dir: &Path) -> FsResult<Vec<(PathBuf, u64)>> {
    if !cache_dir.exists() {
        return Ok(Vec::new());
    }
    let sb = volume_on(pm)?;
    PageCache::waiting(&CacheBacking {
        dir: cache_dir.to_owned(),
        uuid: uuid_text(&sb),
        epoch: sb.mount_epoch,
    })
}

fn open_cache(
    options: &OpenOptions,
    sb: &Superblock,
) -> FsResult<(Arc<PageCache>, Vec<RecoveredPage>)> {
    let dir = options.cache_dir.as_ref().filter(|_| !options.read_only);
    let backing = dir.map(|dir| CacheBacking {
        dir: dir.clone(),
        uuid: uuid_text(sb),
        epoch: sb.mount_epoch,
    });
    PageCache::new(options.cache_bytes.max(CACHE_BYTES_MIN), backing.as_ref())
}

/// Dirty pages that a dead daemon left go back into the cache, and to disk at once.
fn adopt(parts: &Parts, pages: Vec<RecoveredPage>) -> FsResult<()> {
    if pages.is_empty() || parts.health.is_read_only() {
        return Ok(());
    }
    for page in &pages {
        // The file may have been removed since.
        let Ok(inode) = parts.inodes.get(Ino(page.ino)) else {
            continue;
        };
        if inode.generation == page.generation {
            parts.files.adopt_page(&inode, page)?;
        }
    }
    parts.inodes.mutate(|| parts.pages.flush_all())?;
    drop(pages);
    parts.cache.forget_recovered()
}
