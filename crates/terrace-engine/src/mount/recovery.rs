//! What a mount starts from: inode tables, and free space, from the checkpoint or the logs.

use std::collections::{BTreeMap, HashMap, HashSet};

use terrace_layout::{DeviceEntry, InodeRecord, Superblock};
use terrace_media::Pm;
use terrace_policy::Placement;
use terrace_store::alloc::DeviceAlloc;
use terrace_store::checkpoint;
use terrace_store::error::{FsError, FsResult, fence};
use terrace_store::index::Freed;
use terrace_store::itable::InodeTable;
use terrace_store::journal::{Journal, Pending};
use terrace_store::members::Member;
use terrace_store::planted::{Bug, planted};
use terrace_store::space::Space;
use terrace_store::superblock::{Disks, areas, flush_superblock};
use terrace_store::sync::{Arc, Mutex, thread};

use crate::base::heritage::Heritage;
use crate::base::options::Progress;
use crate::base::types::Ino;
use crate::base::words::counted;
use crate::inode::reclaim::free_record;
use crate::inode::resident::Inner;
use crate::mount::scan::{Scanned, Unfinished, scan};

/// Inode tables of all shards, after replaying their journals if a crash may have left something
/// there.
///
/// # Errors
/// Damage to one of them; nothing is changed then.
pub(crate) fn load_tables(pm: &Pm, sb: &Superblock) -> FsResult<Vec<InodeTable>> {
    let pages = (0..sb.shards).map(|s| (s, sb.shards_start + u64::from(s)));
    let (mut journals, mut pending): (Vec<Journal>, _) = (Vec::new(), Pending::new());
    // After a clean unmount the journals have nothing to say.
    if checkpoint::usable_header(pm, sb).is_none() {
        journals.extend(pages.clone().map(|(_, page)| Journal::new(page)));
        for journal in &journals {
            pending.extend(journal.pending(pm)?.iter().flatten().map(|word| (word.at, word.value)));
        }
    }
    let load = |(s, page)| InodeTable::load(pm, page, s, sb.shards, Some(&pending));
    let tables: Vec<InodeTable> = pages.map(load).collect::<FsResult<_>>()?;
    if !journals.is_empty() {
        settle_roots(pm, sb, &tables)?;
    }
    let replayed =
        if planted(Bug::JournalOfOtherShard) { journals.len().min(1) } else { journals.len() };
    journals[..replayed].iter().try_for_each(|journal| journal.replay(pm))?;
    Ok(tables)
}

/// Makes durable what leads to everything else: superblock, checkpoint, and chunks of inode tables.
/// A daemon that was killed may have left them in a cache only.
///
/// # Errors
/// PM errors.
pub(crate) fn settle_roots(pm: &Pm, sb: &Superblock, tables: &[InodeTable]) -> FsResult<()> {
    if planted(Bug::RootsTrusted) {
        return Ok(());
    }
    flush_superblock(pm);
    checkpoint::flush_header(pm, sb);
    tables.iter().for_each(|table| table.flush_headers(pm));
    fence(pm)
}

/// How many threads recovery uses.
pub(crate) fn scan_threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Free space of all devices: from the checkpoint, or rebuilt from the logs.
pub(super) struct FreeSpace {
    /// Allocators by device index.
    allocs: BTreeMap<u16, DeviceAlloc>,
    /// What was found damaged: the volume must not be written.
    pub damage: Option<FsError>,
    /// What recovery has undone, in words.
    pub undone: Option<String>,
    /// Inodes without names that are open.
    pub open: Vec<Ino>,
    /// Blocks that count as used because these inodes of broken loans had them: borrowers may have
    /// changed them since.
    pub lent: HashMap<Ino, Freed>,
}

/// The things that a daemon which died has left beside the devices.
#[derive(Clone, Copy)]
pub(super) struct Outlived<'a> {
    pub heritage: Option<&'a Arc<dyn Heritage>>,
    /// The inodes of broken loans.
    pub lent: &'a [Ino],
}

impl FreeSpace {
    pub fn load(
        pm: &Arc<Pm>,
        disks: &Disks,
        sb: &Superblock,
        tables: &mut [InodeTable],
        outlived: Outlived<'_>,
        progress: Progress<'_>,
    ) -> FsResult<Self> {
        if let Some(header) = checkpoint::usable_header(pm, sb) {
            let load = |(i, area): (usize, _)| {
                let alloc = checkpoint::load_device(
                    area,
                    sb.devices[i],
                    &header.devices[i],
                    sb.shards.into(),
                )?;
                Ok((i as u16, alloc))
            };
            match areas(pm, disks).into_iter().map(load).collect::<FsResult<BTreeMap<_, _>>>() {
                Ok(allocs) => {
                    return Ok(Self {
                        allocs,
                        damage: None,
                        undone: None,
                        open: Vec::new(),
                        lent: HashMap::new(),
                    });
                }
                Err(error) => tracing::warn!("{error}; recovering from the logs instead"),
            }
        }
        Self::recover(pm, disks, sb, tables, outlived, progress)
    }

    fn recover(
        pm: &Arc<Pm>,
        disks: &Disks,
        sb: &Superblock,
        tables: &mut [InodeTable],
        Outlived { heritage, lent }: Outlived<'_>,
        progress: Progress<'_>,
    ) -> FsResult<Self> {
        let lent: HashSet<Ino> = lent.iter().copied().collect();
        let found_lent = Mutex::new(HashMap::new());
        let note_lent = |record: &InodeRecord, inner: &Inner| {
            if lent.contains(&Ino(record.ino)) {
                found_lent.lock().insert(Ino(record.ino), inner.owned());
            }
        };
        let what = Scanned { pm, disks, sb, tables, unfinished: Unfinished::Finish, heritage };
        let found = scan(what, scan_threads(), progress, &note_lent)?;
        let damage = found.problems.first().map(|problem| problem.damage.clone().into());
        if damage.is_none() {
            for &(ino, at) in found.unnamed.iter().filter(|_| !planted(Bug::UnnamedNotFreed)) {
                free_record(pm, at, ino);
            }
            fence(pm)?;
        }
        tables.iter_mut().for_each(|table| table.recount(pm));
        let allocs = found.usage.into_iter().zip(sb.devices()).filter(|(_, d)| !d.is_absent()).map(
            |(usage, d)| {
                let group_blocks = u64::from(d.group_blocks);
                let alloc = DeviceAlloc::from_bitmap(
                    d.blocks,
                    group_blocks,
                    sb.shards.into(),
                    usage.into_words(),
                );
                (d.index, alloc)
            },
        );
        let undone = undone_in_words(pm, &found.undone);
        let lent = found_lent.into_inner();
        Ok(Self { allocs: allocs.collect(), damage, undone, open: found.open, lent })
    }

    /// The allocators with their devices.
    pub fn space(
        &mut self,
        pm: &Arc<Pm>,
        disks: Disks,
        sb: &Superblock,
        placement: Placement,
    ) -> Space {
        let mut alloc_of =
            |entry: &DeviceEntry| self.allocs.remove(&entry.index).expect("one for each device");
        let pm_alloc = alloc_of(&sb.devices[0]);
        let member = |(index, disk)| {
            let entry = sb.devices[usize::from(index)];
            Member { entry, disk, alloc: alloc_of(&entry) }
        };
        let members = disks.into_iter().map(member).collect();
        Space::new(Arc::clone(pm), sb.devices[0], pm_alloc, members, placement)
    }
}

/// What recovery has undone. That is what a power cut leaves, not an error; but if nobody cut the
/// power, something has damaged data in PM.
fn undone_in_words(pm: &Pm, undone: &[(Ino, u64)]) -> Option<String> {
    let (ino, at) = undone.iter().min()?;
    Some(format!(
        "{}: recovery undid the last change of {}, of which not all had arrived: the first is \
         inode {}, with its log entry at byte {at}",
        pm.path().display(),
        counted(undone.len() as u64, "inode", "inodes"),
        ino.0
    ))
}
