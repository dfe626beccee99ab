//! Loans of a daemon that has died. Its successor ends them before it reads a log: from then on
//! borrowers change nothing more, but for those that are stopped in the middle of a change.

use std::path::PathBuf;
use std::time::Instant;

use terrace_layout::{BlockAddr, Superblock};
use terrace_media::Pm;
use terrace_store::alloc::Run;
use terrace_store::delegation::Segment;
use terrace_store::error::{FsError, FsResult};
use terrace_store::superblock::uuid_text;
use terrace_store::sync::{Arc, thread};

use super::broken::Quarantined;
use super::{LOOK_EVERY, Loans, PATIENCE, process};
use crate::base::options::OpenOptions;
use crate::base::types::Ino;
use crate::inode::table::Inodes;

/// Control pages of a volume: so many files are lent at a time.
const PAGES: usize = 1023;

fn segment_path(options: &OpenOptions, sb: &Superblock) -> Option<PathBuf> {
    let dir = options.cache_dir.as_ref()?;
    Some(dir.join(format!("{}.loans", uuid_text(sb))))
}

/// The control pages: those that a daemon has left, or, if files may be lent, new ones.
///
/// # Errors
/// They cannot be opened; or processes have PM mapped, and their control pages are gone.
pub(crate) fn open_segment(
    pm: &Pm,
    options: &OpenOptions,
    sb: &Superblock,
) -> FsResult<Option<Arc<Segment>>> {
    let Some(path) = segment_path(options, sb).filter(|_| !options.read_only) else {
        return Ok(None);
    };
    let failed = |error: std::io::Error| {
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        FsError::with_message(errno, format!("loans: {}: {error}", path.display()))
    };
    let left = Segment::left_at(&path).map_err(failed)?;
    if left.is_none() {
        pm.must_not_be_shared()?;
    }
    let segment = match left {
        None if options.lends => Some(Segment::at(&path, PAGES).map_err(failed)?),
        left => left,
    };
    Ok(segment.map(Arc::new))
}

/// Removes the control pages of a volume that is closed, unless a process has PM mapped still: the
/// next mount is to know that it has nothing lent.
pub(crate) fn forget_segment(pm: &Pm, options: &OpenOptions, sb: &Superblock) {
    if let Some(path) = segment_path(options, sb)
        && options.loans.is_some()
        && pm.must_not_be_shared().is_ok()
    {
        // One that is left is found to be empty.
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
    let begun = Instant::now();
    let mut broken = Vec::new();
    for page in 0..segment.pages() {
        let control = segment.control(page);
        if control.ino() == 0 {
            continue;
        }
        let (word, borrower) = (control.last_word(), control.borrower());
        while let Err(holder) = word.end() {
            let is_late = begun.elapsed() > PATIENCE || process::is_gone(borrower);
            if is_late && word.break_off(holder) {
                break;
            }
            thread::sleep(LOOK_EVERY);
        }
        // Of a process that has ended no store is to come, and its log has been recovered.
        match word.is_broken() && !process::is_gone(borrower) {
            true => {
                let (ino, generation) = (Ino(control.ino()), word.generation());
                broken.push(Broken { page, generation, ino, borrower });
            }
            false => control.clear(),
        }
    }
    broken
}

impl Loans {
    /// Puts the reach of broken loans into quarantine, and moves what is live out of it. Nothing
    /// has been allocated yet, and the mount's epoch has not begun.
    ///
    /// # Errors
    /// PM errors.
    pub fn resume(
        self: &Arc<Self>,
        inodes: &Inodes,
        broken: Vec<Broken>,
    ) -> FsResult<()> {
        for Broken { page, generation, ino, borrower } in &broken {
            let (control, pm) = (self.control(*page), self.store.space.pm());
            self.claim_page(*page, *ino, *borrower);
            let known = |run: &Run| self.store.space.contains(BlockAddr::pm(run.start), run.len);
            let taken = control.runs().filter(known).flat_map(|run| pm.take_free(run));
            let runs = taken.map(|run| (BlockAddr::pm(run.start), run.len)).collect();
            let (page, generation, borrower) = (*page, *generation, *borrower);
            self.quarantine(Quarantined { borrower, page, generation, runs });
        }
        for Broken { page, generation, ino, borrower } in broken {
            // One that has been removed has nothing to move.
            let Ok(inode) = inodes.get_unsettled(ino) else { continue };
            let mut inner = inode.exclusive()?;
            if inner.file().is_err() || !inner.log.has_pages() {
                continue;
            }
            let runs = self.move_live(self.control(page), &mut inner, inode.shard);
            self.quarantine(Quarantined { borrower, page, generation, runs });
        }
        Ok(())
    }
}
