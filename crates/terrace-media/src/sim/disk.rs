//! The disk crash model: which writes a power cut may lose, reorder or tear.
//!
//! Each write since the last flush may be applied, lost, or torn at sectors of 512 bytes,
//! independently of the others. Applying a subset in order covers every reordering too: where two
//! writes overlap, "the earlier one last" is "the later one lost there". A discarded range holds
//! junk afterwards, because a real disk promises nothing.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::io::Errno;

use super::{PlantedDrops, Random};
use crate::disk::{Counters, Disk, DiskStats, check_run};
use crate::error::{IoOp, MediaError};

/// The unit at which a disk write tears (bytes).
pub const SECTOR_BYTES: usize = 512;

/// What a discarded byte reads as.
const JUNK: u8 = 0xdd;

/// A write (or a discard) that is not durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingWrite {
    /// Where it begins (bytes).
    pub offset: u64,
    /// What it leaves there.
    pub data: Vec<u8>,
}

/// What a crash does to a pending write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFate {
    /// All of it is on the disk.
    Applied,
    /// Nothing of it is.
    Lost,
    /// Only its first so many sectors are.
    TornPrefix {
        /// The number of sectors.
        sectors: usize,
    },
    /// Sector `i` is there if bit `i mod 64` is set.
    TornMask {
        /// The bits.
        mask: u64,
    },
}

impl PendingWrite {
    /// The number of sectors it covers.
    pub fn sectors(&self) -> usize {
        self.data.len().div_ceil(SECTOR_BYTES)
    }

    fn apply(&self, fate: WriteFate, image: &mut [u8]) {
        let target = &mut image[self.offset as usize..][..self.data.len()];
        let sectors = self.data.chunks(SECTOR_BYTES).zip(target.chunks_mut(SECTOR_BYTES));
        for (index, (new, old)) in sectors.enumerate() {
            let applied = match fate {
                WriteFate::Applied => true,
                WriteFate::Lost => false,
                WriteFate::TornPrefix { sectors } => index < sectors,
                WriteFate::TornMask { mask } => mask >> (index % 64) & 1 == 1,
            };
            if applied {
                old.copy_from_slice(new);
            }
        }
    }
}

/// The recorder, and the fault injector, of a simulated disk.
pub struct DiskSim {
    len: u64,
    state: Mutex<State>,
    on_flush: Mutex<Option<FlushHook>>,
}

type FlushHook = Arc<dyn Fn(&DiskSim) + Send + Sync>;

struct State {
    /// What reads see.
    current: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<PendingWrite>,
    flush_drops: PlantedDrops,
    faults: Faults,
}

#[derive(Default)]
struct Faults {
    reads: Vec<Range<u64>>,
    writes: Vec<Range<u64>>,
    /// How many more writes succeed.
    writes_left: Option<u64>,
    flush: bool,
}

impl Faults {
    fn write_fails(&mut self, run: &Range<u64>) -> bool {
        let worn_out = match &mut self.writes_left {
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        };
        worn_out || hit(&self.writes, run)
    }
}

fn hit(bad: &[Range<u64>], run: &Range<u64>) -> bool {
    bad.iter().any(|bad| bad.start < run.end && run.start < bad.end)
}

impl State {
    fn write(&mut self, write: PendingWrite) {
        write.apply(WriteFate::Applied, &mut self.current);
        self.pending.push(write);
    }
}

impl DiskSim {
    pub(crate) fn new(image: Vec<u8>) -> Self {
        let state = State {
            current: image.clone(),
            durable: image,
            pending: Vec::new(),
            flush_drops: PlantedDrops::default(),
            faults: Faults::default(),
        };
        DiskSim { len: state.durable.len() as u64, state: Mutex::new(state), on_flush: Mutex::new(None) }
    }

    /// The writes that are not durable, in the order in which they were made.
    pub fn pending_writes(&self) -> Vec<PendingWrite> {
        self.state.lock().pending.clone()
    }

    /// What is durable: everything written before the last flush.
    pub fn durable_image(&self) -> Vec<u8> {
        self.state.lock().durable.clone()
    }

    /// The image that a crash leaves when `choose` decides on each pending write, in order; it is
    /// told the write's index among them.
    pub fn crash_image(&self, choose: &mut dyn FnMut(usize, &PendingWrite) -> WriteFate) -> Vec<u8> {
        let state = self.state.lock();
        let mut image = state.durable.clone();
        for (index, write) in state.pending.iter().enumerate() {
            write.apply(choose(index, write), &mut image);
        }
        image
    }

    /// A crash image chosen at random, the same for the same seed.
    pub fn crash_image_random(&self, seed: u64) -> Vec<u8> {
        let mut random = Random(seed);
        self.crash_image(&mut |_, write| match random.below(4) {
            0 => WriteFate::Applied,
            1 => WriteFate::Lost,
            2 => WriteFate::TornPrefix { sectors: random.below(write.sectors() + 1) },
            _ => WriteFate::TornMask { mask: random.next() },
        })
    }

    /// Calls `hook` just before each flush takes effect. It may ask for images, but must not access
    /// the disk.
    pub fn set_on_flush(&self, hook: Box<dyn Fn(&DiskSim) + Send + Sync>) {
        *self.on_flush.lock() = Some(Arc::from(hook));
    }

    /// Removes the hook.
    pub fn clear_on_flush(&self) {
        *self.on_flush.lock() = None;
    }

    /// Flushes seen so far.
    pub fn flush_calls(&self) -> u64 {
        self.state.lock().flush_drops.calls
    }

    /// Plants a bug: the `n`-th flush from now (1 is the next) does nothing and says it did.
    pub fn drop_flush_number(&self, n: u64) {
        self.state.lock().flush_drops.plant(n);
    }

    /// From now on reads that touch this range of bytes fail with EIO.
    pub fn fail_reads(&self, range: Range<u64>) {
        self.state.lock().faults.reads.push(range);
    }

    /// From now on writes (and discards) that touch this range of bytes fail with EIO and change
    /// nothing.
    pub fn fail_writes(&self, range: Range<u64>) {
        self.state.lock().faults.writes.push(range);
    }

    /// Another `n` writes succeed, the ones after that fail with EIO.
    pub fn fail_writes_after(&self, n: u64) {
        self.state.lock().faults.writes_left = Some(n);
    }

    /// Whether flushes fail with EIO from now on. A failed flush makes nothing durable.
    pub fn fail_flush(&self, fails: bool) {
        self.state.lock().faults.flush = fails;
    }

    /// Takes back every `fail_…`.
    pub fn clear_faults(&self) {
        self.state.lock().faults = Faults::default();
    }
}

impl fmt::Debug for DiskSim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pending = self.state.lock().pending.len();
        f.debug_struct("DiskSim").field("len", &self.len).field("pending_writes", &pending).finish_non_exhaustive()
    }
}

/// The disk that a [`DiskSim`] records.
#[derive(Debug)]
pub(crate) struct SimDisk {
    path: PathBuf,
    sim: Arc<DiskSim>,
    counters: Counters,
}

impl SimDisk {
    pub(crate) fn new(sim: Arc<DiskSim>) -> Self {
        SimDisk { path: PathBuf::from("<simulated disk>"), sim, counters: Counters::default() }
    }

    fn failed(&self, op: IoOp, run: &Range<u64>) -> MediaError {
        let len_bytes = run.end - run.start;
        MediaError::Io { path: self.path.clone(), op, offset: run.start, len_bytes, source: Errno::IO }
    }

    fn change(&self, op: IoOp, offset: u64, data: Vec<u8>) -> Result<(), MediaError> {
        let run = offset..offset + data.len() as u64;
        let mut state = self.sim.state.lock();
        if state.faults.write_fails(&run) {
            return Err(self.failed(op, &run));
        }
        state.write(PendingWrite { offset, data });
        Ok(())
    }
}

impl Disk for SimDisk {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.sim.len
    }

    fn read_at(&self, off: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        check_run(self, IoOp::Read, off, buf.len() as u64)?;
        let run = off..off + buf.len() as u64;
        let state = self.sim.state.lock();
        if hit(&state.faults.reads, &run) {
            return Err(self.failed(IoOp::Read, &run));
        }
        buf.copy_from_slice(&state.current[off as usize..][..buf.len()]);
        self.counters.read(buf.len() as u64);
        Ok(())
    }

    fn write_at(&self, off: u64, buf: &[u8]) -> Result<(), MediaError> {
        check_run(self, IoOp::Write, off, buf.len() as u64)?;
        self.change(IoOp::Write, off, buf.to_vec())?;
        self.counters.written(buf.len() as u64);
        Ok(())
    }

    fn flush(&self) -> Result<(), MediaError> {
        let hook = self.sim.on_flush.lock().clone();
        if let Some(hook) = hook {
            hook(&self.sim);
        }
        self.counters.flushed();
        let mut state = self.sim.state.lock();
        let dropped = state.flush_drops.ignores_this_call();
        if state.faults.flush {
            return Err(self.failed(IoOp::Flush, &(0..self.sim.len)));
        }
        if !dropped {
            let State { durable, pending, .. } = &mut *state;
            for write in pending.drain(..) {
                write.apply(WriteFate::Applied, durable);
            }
        }
        Ok(())
    }

    fn discard(&self, off: u64, len: u64) -> Result<(), MediaError> {
        check_run(self, IoOp::Discard, off, len)?;
        let junk = vec![JUNK; usize::try_from(len).unwrap_or(usize::MAX)];
        self.change(IoOp::Discard, off, junk)?;
        self.counters.discarded();
        Ok(())
    }

    fn stats(&self) -> DiskStats {
        self.counters.total()
    }
}
