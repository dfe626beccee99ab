//! What a daemon that died left in the cache's file: finding it, and keeping it until it is safe
//! elsewhere.
//!
//! The files of a volume are `terrace-<uuid>.cache`, which the running daemon uses, and
//! `terrace-<uuid>.cache.old-<n>`, which daemons that died left behind. The latter stay until the
//! mount has published their pages again, so a daemon that dies during recovery loses nothing
//! either. A file that adds nothing to what the others hold is deleted.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use terrace_store::error::{FsError, FsResult};
use terrace_store::sync::Arc;
use terrace_store::sync::atomic::Ordering;

use super::slots::{CLEAN, DIRTY, FREE, Identity, PAGE_BYTES, SlotId, SlotMeta, Slots};

/// Where the cache's file lives, and whose it is.
#[derive(Clone, Debug)]
pub(crate) struct CacheBacking {
    /// A directory in memory that outlives the daemon.
    pub dir: PathBuf,
    /// UUID of the volume, as text.
    pub uuid: String,
    /// Pages of another epoch belong to another state of the volume and are not recovered.
    pub epoch: u64,
}

impl CacheBacking {
    /// The file that the running daemon uses.
    pub(super) fn path(&self) -> PathBuf {
        self.dir.join(self.file_name())
    }

    fn file_name(&self) -> String {
        format!("terrace-{}.cache", self.uuid)
    }

    fn old_path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{}.old-{number}", self.file_name()))
    }

    /// The numbers of the old files that are there.
    fn old_numbers(&self) -> FsResult<Vec<u64>> {
        let failed = |error| file_error(&self.dir, "list", &error);
        let prefix = format!("{}.old-", self.file_name());
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix(&prefix));
            numbers.extend(number.and_then(|number| number.parse::<u64>().ok()));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }
}

/// Inode, generation, file block.
type PageKey = (u64, u32, u64);

/// A dirty page that a daemon left.
pub(crate) struct RecoveredPage {
    /// Inode.
    pub ino: u64,
    /// The inode's generation.
    pub generation: u32,
    /// File block.
    pub block: u64,
    /// File size in bytes as of the write.
    pub size: u64,
    /// Time of the write.
    pub mtime_ns: i64,
    /// Number of the write among all writes to the cache.
    pub seq: u64,
    slots: Arc<Slots>,
    slot: SlotId,
}

impl RecoveredPage {
    fn new(slots: &Arc<Slots>, slot: SlotId) -> RecoveredPage {
        let meta = slots.meta(slot);
        RecoveredPage {
            ino: meta.ino.load(Ordering::Relaxed),
            generation: meta.generation.load(Ordering::Relaxed),
            block: meta.block.load(Ordering::Relaxed),
            size: meta.size.load(Ordering::Relaxed),
            mtime_ns: meta.mtime_ns.load(Ordering::Relaxed),
            seq: meta.seq.load(Ordering::Relaxed),
            slots: slots.clone(),
            slot,
        }
    }

    fn key(&self) -> PageKey {
        (self.ino, self.generation, self.block)
    }

    /// The page.
    pub fn data(&self) -> &[u8; PAGE_BYTES] {
        // SAFETY: the mapping is read-only and lives as long as `slots`; the process that wrote the
        // file is dead.
        unsafe { self.slots.page(self.slot).as_ref() }
    }
}

impl std::fmt::Debug for RecoveredPage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { ino, generation, block, size, mtime_ns, seq, .. } = self;
        write!(f, "{ino}/{generation} block {block} size {size} mtime {mtime_ns} seq {seq}")
    }
}

/// What was found.
pub(super) struct Recovered {
    /// The newest dirty version of each page, by inode and block.
    pub pages: Vec<RecoveredPage>,
    /// The files that hold them.
    pub files: Vec<PathBuf>,
    /// Sequence numbers start above this.
    pub seq: u64,
}

/// Reads what earlier daemons left, and makes room for the new file.
pub(super) fn recover(backing: &CacheBacking, identity: &Identity) -> FsResult<Recovered> {
    let mut newest: HashMap<PageKey, (RecoveredPage, usize)> = HashMap::new();
    let mut seq = 0;
    let found = open_files(backing, identity)?;
    let mut paths = Vec::with_capacity(found.len());
    for (file, (path, slots)) in found.into_iter().enumerate() {
        let (pages, last_seq) = slots.map_or_else(Default::default, |s| dirty_pages(&path, s));
        seq = seq.max(last_seq);
        for page in pages {
            let older = newest.get(&page.key()).is_some_and(|(there, _)| there.seq >= page.seq);
            if !older {
                newest.insert(page.key(), (page, file));
            }
        }
        paths.push(path);
    }
    let needed: HashSet<usize> = newest.values().map(|&(_, file)| file).collect();
    let mut files = Vec::new();
    for (file, path) in paths.into_iter().enumerate() {
        if needed.contains(&file) {
            files.push(path);
        } else {
            tracing::debug!("page cache: nothing to recover in {}", path.display());
            remove(&path)?;
        }
    }
    let mut pages: Vec<RecoveredPage> = newest.into_values().map(|(page, _)| page).collect();
    pages.sort_unstable_by_key(RecoveredPage::key);
    Ok(Recovered { pages, files, seq })
}

/// The files of daemons that died, with the number of dirty pages in each that has any. Nothing is
/// changed.
pub(super) fn waiting(
    backing: &CacheBacking,
    identity: &Identity,
) -> FsResult<Vec<(PathBuf, u64)>> {
    let old = backing.old_numbers()?.into_iter().map(|number| backing.old_path(number));
    let mut waiting = Vec::new();
    for path in old.chain([backing.path()]).filter(|path| fs::symlink_metadata(path).is_ok()) {
        if let Some(slots) = Slots::open(&path, identity, backing.epoch)? {
            let (pages, _) = dirty_pages(&path, slots);
            waiting.push((path, pages.len() as u64));
        }
    }
    waiting.retain(|&(_, pages)| pages > 0);
    Ok(waiting)
}

/// Opens the files of earlier daemons (`None`: stale), and renames the current one to an old one.
fn open_files(
    backing: &CacheBacking,
    identity: &Identity,
) -> FsResult<Vec<(PathBuf, Option<Slots>)>> {
    let numbers = backing.old_numbers()?;
    let mut files = Vec::new();
    for &number in &numbers {
        let path = backing.old_path(number);
        let slots = Slots::open(&path, identity, backing.epoch)?;
        files.push((path, slots));
    }
    let current = backing.path();
    if fs::symlink_metadata(&current).is_ok() {
        // Opened first: a file that is not ours stays as it is.
        let slots = Slots::open(&current, identity, backing.epoch)?;
        let old = backing.old_path(numbers.last().map_or(0, |n| n.saturating_add(1)));
        fs::rename(&current, &old).map_err(|error| file_error(&current, "rename", &error))?;
        files.push((old, slots));
    }
    Ok(files)
}

/// The dirty pages of a file whose publication had finished, and the highest sequence number in
/// use.
fn dirty_pages(path: &Path, slots: Slots) -> (Vec<RecoveredPage>, u64) {
    let slots = Arc::new(slots);
    let in_flight: HashSet<u64> =
        slots.in_flight().iter().map(|word| word.load(Ordering::Relaxed)).collect();
    let mut pages = Vec::new();
    let mut last_seq = in_flight.iter().copied().max().unwrap_or(0);
    for slot in 0..slots.count() {
        let meta = slots.meta(slot);
        last_seq = last_seq.max(meta.seq.load(Ordering::Relaxed));
        match meta.state.load(Ordering::Acquire) {
            FREE | CLEAN => {}
            DIRTY if in_flight.contains(&meta.seq.load(Ordering::Relaxed)) => {}
            DIRTY if plausible(meta) => pages.push(RecoveredPage::new(&slots, slot)),
            state => {
                tracing::warn!(
                    "page cache: {} is damaged (slot {slot}: state {state}); ignored",
                    path.display()
                );
                return (Vec::new(), 0);
            }
        }
    }
    (pages, last_seq)
}

/// Whether a dirty slot's numbers can have been written by us.
fn plausible(meta: &SlotMeta) -> bool {
    let block = meta.block.load(Ordering::Relaxed);
    let size = meta.size.load(Ordering::Relaxed);
    meta.ino.load(Ordering::Relaxed) != 0
        && meta.seq.load(Ordering::Relaxed) != 0
        && size <= terrace_layout::FILE_BYTES_MAX
        && block <= terrace_layout::FILE_BYTES_MAX / terrace_layout::BLOCK_BYTES
}

/// Removes what daemons of the volume with this UUID left in `dir`, for a volume that is no more.
///
/// # Errors
/// A file cannot be removed, or the directory not be listed. It need not exist.
pub fn discard_page_cache(dir: &Path, uuid: &str) -> FsResult<()> {
    let backing = CacheBacking { dir: dir.to_owned(), uuid: uuid.to_owned(), epoch: 0 };
    if !dir.is_dir() {
        return Ok(());
    }
    remove(&backing.path())?;
    backing.old_numbers()?.into_iter().try_for_each(|number| remove(&backing.old_path(number)))
}

/// Removes a cache file; it need not be there.
pub(super) fn remove(path: &Path) -> FsResult<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(file_error(path, "remove", &error))
        }
        _ => Ok(()),
    }
}

fn file_error(path: &Path, what: &str, error: &io::Error) -> FsError {
    let message = format!(
        "page cache: cannot {what} {}: {error}; give the cache a directory of its own user in \
         memory",
        path.display()
    );
    FsError::with_message(error.raw_os_error().unwrap_or(libc::EIO), message)
}
