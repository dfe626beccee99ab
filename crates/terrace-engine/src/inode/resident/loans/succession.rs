//! Loans of a daemon that has died. Its successor ends them before it reads a log: from then on
//! borrowers change nothing more, but for those that are stopped in the middle of a change.

use std::io;
use std::path::PathBuf;

use terrace_layout::{BLOCK_BYTES, BlockAddr, Superblock};
use terrace_media::Pm;
use terrace_store::alloc::Run;
use terrace_store::checkpoint;
use terrace_store::delegation::{Control, Segment};
use terrace_store::error::{FsError, FsResult};
use terrace_store::index::Freed;
use terrace_store::space::Purpose;
use terrace_store::superblock::uuid_text;
use terrace_store::sync::{Arc, Deadline};

use super::broken::{LOOKS_MAX, Quarantined};
use super::{Loans, PATIENCE, process, wait};
use crate::base::options::OpenOptions;
use crate::base::types::Ino;
use crate::inode::resident::Inode;

/// Control pages of a volume: so many files are lent at a time.
const PAGES: usize = 1023;

/// The file of a volume's control pages. It outlives the daemon.
fn path_of(options: &OpenOptions, sb: &Superblock) -> Option<PathBuf> {
    let dir = options.cache_dir.as_ref().filter(|_| !options.read_only)?;
    Some(dir.join(format!("{}.loans", uuid_text(sb))))
}

/// The control pages: those that a daemon has left, or, if files may be lent, new ones.
///
/// # Errors
/// They cannot be opened; or they are gone, and files may be lent still.
pub(crate) fn open_segment(
    pm: &Pm,
    options: &OpenOptions,
    sb: &Superblock,
) -> FsResult<Option<Arc<Segment>>> {
    let Some(path) = path_of(options, sb) else { return Ok(None) };
    let failed = |error: io::Error| {
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        FsError::with_message(errno, format!("loans: {}: {error}", path.display()))
    };
    let left = Segment::left_at(&path).map_err(failed)?;
    // Nothing of a volume that was unmounted cleanly is lent.
    if left.is_none() && checkpoint::usable_header(pm, sb).is_none() {
        pm.must_not_be_shared()?;
    }
    let segment = match left {
        None if options.lends => Some(Segment::create(&path, PAGES).map_err(failed)?),
        left => left,
    };
    Ok(segment.map(Arc::new))
}

/// Removes the control pages of a volume that is closed.
pub(crate) fn forget_segment(options: &OpenOptions, sb: &Superblock) {
    if let Some(path) = path_of(options, sb)
        && options.loans.is_some()
    {
        // One that is left is found to have no loans.
        let _ = std::fs::remove_file(path);
    }
}

/// A loan that is broken: its borrower may still store to what the control page says.
#[derive(Debug)]
pub(crate) struct Broken {
    page: usize,
    generation: u32,
    ino: Ino,
    borrower: u64,
}

/// Ends all loans; returns those that are broken.
pub(crate) fn end_loans(segment: &Segment) -> Vec<Broken> {
    let deadline = Deadline::after(PATIENCE);
    let mut broken = Vec::new();
    for page in 0..segment.pages() {
        let control = segment.control(page);
        let ino = Ino(control.ino());
        if ino.0 == 0 {
            continue;
        }
        let (word, borrower) = (control.last_word(), control.borrower());
        if !word.is_broken() && !wait(borrower, deadline, || word.end()) {
            word.break_off();
        }
        // Of a process that has ended no store is to come: its log is recovered like any other.
        match word.is_broken() && !process::is_gone(borrower) {
            true => {
                let generation = word.generation();
                broken.push(Broken { page, generation, ino, borrower });
            }
            false => control.clear(),
        }
    }
    broken
}

impl Broken {
    /// The file that was lent.
    pub fn ino(&self) -> Ino {
        self.ino
    }

    fn quarantined(&self, runs: Vec<(BlockAddr, u64)>) -> Quarantined {
        let Self { page, generation, borrower, .. } = *self;
        Quarantined { borrower, page, generation, runs }
    }
}

impl Loans {
    /// Puts what no file has of a broken loan's reach into quarantine. Nothing has been allocated
    /// yet.
    pub fn inherit(&self, broken: &Broken) {
        self.claim_page(broken.page, broken.ino, broken.borrower);
        let pm = self.store.space.pm();
        let reach = self.known_reach(self.control(broken.page));
        let taken = reach.into_iter().flat_map(|run| pm.take_free(run));
        let runs = taken.map(|run| (BlockAddr::pm(run.start), run.len)).collect();
        self.quarantine(broken.quarantined(runs));
    }

    /// The runs of a control page. The borrower may have written anything there: of runs that
    /// cannot be its own, as there are more blocks in them than PM has, the last are left out.
    fn known_reach(&self, control: Control<'_>) -> Vec<Run> {
        let (mut left, space) = (self.store.pm.len() / BLOCK_BYTES, &self.store.space);
        let is_there = |run: &Run| {
            let fits = space.has_in_pm(run) && run.len <= left;
            left -= if fits { run.len } else { 0 };
            fits
        };
        control.runs().filter(is_there).collect()
    }

    /// Moves what the file of a broken loan has there out of reach. `before` counts as used because
    /// the file had it when it was recovered first. The borrower may have gone on since: what its
    /// change has freed goes into quarantine with the reach, and what the file has now leaves it.
    /// `recover` reads the file from media, each time anew. The mount's epoch has not begun.
    ///
    /// # Errors
    /// PM errors.
    pub fn save(
        &self,
        broken: &Broken,
        before: Freed,
        recover: &dyn Fn() -> FsResult<Arc<Inode>>,
    ) -> FsResult<()> {
        let control = self.control(broken.page);
        // Nobody uses a file that is gone or cannot be read.
        let Ok(mut inode) = recover() else { return Ok(()) };
        let mut named = self.read_named(control);
        for _ in 0..LOOKS_MAX {
            let tail = inode.inner.read().log.tail();
            let Ok(again) = recover() else { return Ok(()) };
            inode = again;
            if inode.inner.read().log.tail() == tail {
                break;
            }
            named = self.read_named(control);
        }
        let mut inner = inode.exclusive()?;
        if inner.file().is_ok() {
            // This daemon may die, too: then the next one finds here what is moved now.
            control.set_reach(&named.reach(self.known_reach(control), &inner));
            let runs = self.move_live(control, &mut inner, inode.shard, named);
            self.quarantine(broken.quarantined(runs));
            self.keep_what_nobody_has(broken.page, before, &inner);
            // Entries that commit themselves carry the stamp of the epoch that ends now.
            let source = self.store.space.source(inode.shard, Purpose::Freeing);
            inner.log.settle(&self.store.pm, &source)?;
        }
        Ok(())
    }
}
