//! Scrubbing: every checksum of a volume in use is verified, in the background and at a limited
//! rate.
//!
//! Invariants:
//! * No lock is held while a disk or a file's data is read, nor while the scrub rests: nobody waits
//!   for it.
//! * Data is read first and judged afterwards: a mismatch counts only if the very log entry that
//!   led there is in force before and after the read. An entry is never reused, and its blocks are
//!   neither overwritten nor given to others while it is in force. Data that has changed meanwhile
//!   was written, with a checksum, after the scrub began; the scrub passes over it.
//! * PM metadata is read under the lock that orders its changes, a little at a time.
//! * Nothing is written but superblock copies and journals, each from a good original, and only if
//!   the volume may be written.
//! * Every inode is met: the scrub goes by the inode tables, which renames do not move anything in.

mod data;
mod metadata;
mod record;

use std::collections::HashSet;

use self::data::{CrcBlock, DataRun};
#[cfg(all(test, not(shuttle)))]
pub(crate) use self::record::READ_BLOCKS_MAX;
use self::record::Record;
use crate::base::options::OpenOptions;
use crate::base::types::{ScrubOptions, ScrubReport, ScrubState, ScrubStatus};
use crate::inode::device_table::DeviceTable;
use crate::inode::health::Health;
use crate::inode::store::Store;
use crate::inode::table::Inodes;
use terrace_store::error::{FsError, FsResult, fail};
use terrace_store::sync::thread::{Builder, JoinHandle};
use terrace_store::sync::{Arc, Mutex};

/// Lets other programs have the processor first.
const NICENESS: i32 = 10;

/// The scrub was asked to stop.
#[derive(Debug)]
struct Stopped;

/// What a volume knows of scrubs.
#[derive(Debug, Default)]
pub(crate) struct Scrubs {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The one that runs, or the last one.
    last: Option<Arc<Record>>,
    thread: Option<JoinHandle<()>>,
    /// The volume is being closed: no more scrubs.
    closed: bool,
}

/// What a scrub sees of the volume.
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub store: Arc<Store>,
    pub health: Arc<Health>,
    pub devices: Arc<DeviceTable>,
    pub inodes: Arc<Inodes>,
    pub options: Arc<OpenOptions>,
}

/// A scrub at work, on its own thread.
struct Scrubber<'a> {
    view: &'a View,
    record: &'a Record,
    /// Data to verify, in batches: sorted by place, so that disks are read in sequence.
    runs: Vec<DataRun>,
    crc_block: Option<CrcBlock>,
    /// Blocks of data to read at a time.
    piece_blocks: u64,
}

impl Scrubs {
    /// See [`Volume::start_scrub`](crate::Volume::start_scrub).
    pub fn start(&self, view: View, options: ScrubOptions) -> FsResult<()> {
        let mut state = self.state.lock();
        if state.closed {
            return fail(libc::ESHUTDOWN);
        }
        if state.last.as_ref().is_some_and(|record| record.is_running()) {
            return fail(libc::EBUSY);
        }
        if let Some(ended) = state.thread.take() {
            let _ = ended.join();
        }
        let record = Arc::new(Record::new(&view, options));
        let shared = record.clone();
        let thread =
            Builder::new().name("terrace-scrub".into()).spawn(move || scrub(&view, &shared));
        let no_thread = |e| {
            FsError::with_message(libc::EAGAIN, format!("cannot start a thread for the scrub: {e}"))
        };
        state.thread = Some(thread.map_err(no_thread)?);
        state.last = Some(record);
        Ok(())
    }

    /// See [`Volume::cancel_scrub`](crate::Volume::cancel_scrub).
    pub fn cancel(&self) -> FsResult<()> {
        match self.last().filter(|record| record.is_running()) {
            Some(record) => {
                record.request_stop(ScrubState::Cancelled);
                Ok(())
            }
            None => fail(libc::ESRCH),
        }
    }

    /// See [`Volume::wait_for_scrub`](crate::Volume::wait_for_scrub).
    pub fn wait(&self) {
        if let Some(record) = self.last() {
            record.wait();
        }
    }

    /// See [`Volume::scrub_report`](crate::Volume::scrub_report).
    pub fn report(&self) -> ScrubReport {
        self.last().map_or_else(ScrubReport::default, |record| record.report())
    }

    fn last(&self) -> Option<Arc<Record>> {
        self.state.lock().last.clone()
    }

    /// How far the last scrub is.
    pub fn status(&self) -> Option<ScrubStatus> {
        self.last().map(|record| record.status())
    }

    /// The volume is being closed: the scrub ends, and none begins any more.
    pub fn close(&self) {
        let (last, thread) = {
            let mut state = self.state.lock();
            state.closed = true;
            (state.last.clone(), state.thread.take())
        };
        if let Some(record) = last {
            record.request_stop(ScrubState::Unmounted);
        }
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

/// A scrub's whole life.
fn scrub(view: &View, record: &Record) {
    // Without it the scrub runs like everybody else.
    let _ = rustix::process::nice(NICENESS);
    tracing::info!("scrub: started");
    let mut scrubber = Scrubber::new(view, record);
    let _ = scrubber.everything();
    scrubber.name_damaged_files();
    record.end();
}

impl<'a> Scrubber<'a> {
    fn new(view: &'a View, record: &'a Record) -> Self {
        Self {
            view,
            record,
            runs: Vec::new(),
            crc_block: None,
            piece_blocks: record.piece_blocks(),
        }
    }

    /// Gives the damage in the record the paths of its inodes, and logs them.
    fn name_damaged_files(&self) {
        let wanted: HashSet<u64> = self.record.damaged_inodes().into_iter().collect();
        if wanted.is_empty() {
            return;
        }
        let paths = self.view.inodes.paths_of(&wanted, &|| self.record.is_unmounting());
        for (ino, path) in &paths {
            tracing::error!("scrub: inode {ino}, which is damaged, is {path}");
        }
        self.record.set_paths(|ino| paths.get(&ino).cloned());
    }

    fn everything(&mut self) -> Result<(), Stopped> {
        self.superblocks()?;
        self.journals()?;
        self.free_space()?;
        for shard in 0..self.view.store.shards() {
            self.inode_table(shard)?;
        }
        self.data()
    }
}
