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

use super::PlantedDrops;
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

/// What a planted fault does to one operation of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// It fails with this errno and does nothing.
    Errno(i32),
    /// It fails with EIO. Of a write, sector `i` has reached the disk if bit `i mod 64` is set.
    Torn {
        /// The bits.
        mask: u64,
    },
    /// It ends early, as a device does that was truncated.
    Ended,
}

/// The recorder, and the fault injector, of a simulated disk.
pub struct DiskSim {
    len: u64,
    state: Mutex<State>,
    on_flush: Mutex<Option<FlushHook>>,
    on_io: Mutex<Option<IoHook>>,
}

type FlushHook = Arc<dyn Fn(&DiskSim) + Send + Sync>;
type IoHook = Arc<dyn Fn(IoOp) + Send + Sync>;

struct State {
    /// What reads see.
    current: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<PendingWrite>,
    flush_drops: PlantedDrops,
    faults: Faults,
    /// Operations seen so far.
    io_calls: u64,
    power_is_off: bool,
}

#[derive(Default)]
struct Faults {
    reads: Vec<Range<u64>>,
    writes: Vec<Range<u64>>,
    /// How many more writes succeed.
    writes_left: Option<u64>,
    flush: bool,
    /// Faults of single operations, by number.
    planted: Vec<(u64, DiskFault)>,
    /// The operation from which on all fail, and how.
    gone: Option<(u64, i32)>,
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

    /// Counts an operation; what is to go wrong with it.
    fn next_fault(&mut self, op: IoOp) -> Option<DiskFault> {
        self.io_calls += 1;
        if self.power_is_off && op != IoOp::Read {
            return Some(DiskFault::Errno(libc::EIO));
        }
        if let Some((_, errno)) = self.faults.gone.filter(|&(from, _)| self.io_calls >= from) {
            return Some(DiskFault::Errno(errno));
        }
        let index = self.faults.planted.iter().position(|&(call, _)| call == self.io_calls)?;
        Some(self.faults.planted.swap_remove(index).1)
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
            io_calls: 0,
            power_is_off: false,
        };
        let len = state.durable.len() as u64;
        DiskSim {
            len,
            state: Mutex::new(state),
            on_flush: Mutex::new(None),
            on_io: Mutex::new(None),
        }
    }

    /// The writes that are not durable, in the order in which they were made.
    pub fn pending_writes(&self) -> Vec<PendingWrite> {
        self.state.lock().pending.clone()
    }

    /// Lets `look` see what is durable, without a copy.
    pub fn look_at_durable<T>(&self, look: impl FnOnce(&[u8]) -> T) -> T {
        look(&self.state.lock().durable)
    }

    /// What is durable: everything written before the last flush.
    pub fn durable_image(&self) -> Vec<u8> {
        self.state.lock().durable.clone()
    }

    /// The image that a crash leaves when `choose` decides on each pending write, in order; it is
    /// told the write's index among them.
    pub fn crash_image(
        &self,
        choose: &mut dyn FnMut(usize, &PendingWrite) -> WriteFate,
    ) -> Vec<u8> {
        let state = self.state.lock();
        let mut image = state.durable.clone();
        for (index, write) in state.pending.iter().enumerate() {
            write.apply(choose(index, write), &mut image);
        }
        image
    }

    /// A crash image chosen at random, the same for the same seed.
    pub fn crash_image_random(&self, seed: u64) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(seed);
        self.crash_image(&mut |_, write| match random.usize(..4) {
            0 => WriteFate::Applied,
            1 => WriteFate::Lost,
            2 => WriteFate::TornPrefix { sectors: random.usize(..write.sectors() + 1) },
            _ => WriteFate::TornMask { mask: random.u64(..) },
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

    /// Operations (reads, writes, flushes and discards) seen so far.
    pub fn io_calls(&self) -> u64 {
        self.state.lock().io_calls
    }

    /// The `n`-th operation from now (1 is the next) goes wrong like this.
    pub fn plant_fault(&self, n: u64, fault: DiskFault) {
        assert!(n > 0, "operations are counted from 1");
        let mut state = self.state.lock();
        let call = state.io_calls + n;
        state.faults.planted.push((call, fault));
    }

    /// From the `n`-th operation from now (1 is the next) on all fail with this errno: the disk has
    /// vanished.
    pub fn vanish_after(&self, n: u64, errno: i32) {
        let mut state = self.state.lock();
        state.faults.gone = Some((state.io_calls + n, errno));
    }

    /// Calls `hook` before each operation, which it may hold up as long as it likes.
    pub fn set_on_io(&self, hook: Box<dyn Fn(IoOp) + Send + Sync>) {
        *self.on_io.lock() = Some(Arc::from(hook));
    }

    /// Calls `event` before the next operation of this kind, once, in place of any hook.
    pub fn before_next(&self, op: IoOp, event: impl FnOnce() + Send + 'static) {
        let event = Mutex::new(Some(event));
        self.set_on_io(Box::new(move |seen| {
            let event = event.lock().take_if(|_| seen == op);
            if let Some(event) = event {
                event();
            }
        }));
    }

    /// Removes the hook.
    pub fn clear_on_io(&self) {
        *self.on_io.lock() = None;
    }

    /// From now on nothing reaches the disk any more: everything but reads fails, for good. The
    /// disk then holds what [`DiskSim::crash_image`] says.
    pub fn cut_power(&self) {
        self.state.lock().power_is_off = true;
    }

    /// Takes back every `fail_…`, `plant_…` and `vanish_…`.
    pub fn clear_faults(&self) {
        self.state.lock().faults = Faults::default();
    }
}

impl fmt::Debug for DiskSim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pending = self.state.lock().pending.len();
        f.debug_struct("DiskSim")
            .field("len", &self.len)
            .field("pending_writes", &pending)
            .finish_non_exhaustive()
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
        MediaError::Io {
            path: self.path.clone(),
            op,
            offset: run.start,
            len_bytes,
            errno: Errno::IO,
        }
    }

    fn planted(&self, op: IoOp, run: &Range<u64>, fault: DiskFault) -> MediaError {
        match fault {
            DiskFault::Ended => {
                MediaError::Ended { path: self.path.clone(), op, offset: run.start }
            }
            DiskFault::Torn { .. } => self.failed(op, run),
            DiskFault::Errno(errno) => {
                let (path, len_bytes) = (self.path.clone(), run.end - run.start);
                MediaError::Io {
                    path,
                    op,
                    offset: run.start,
                    len_bytes,
                    errno: Errno::from_raw_os_error(errno),
                }
            }
        }
    }

    fn wait(&self, op: IoOp) {
        // Called unlocked, since it may take its time.
        let hook = self.sim.on_io.lock().clone();
        if let Some(hook) = hook {
            hook(op);
        }
    }

    fn change(&self, op: IoOp, offset: u64, data: Vec<u8>) -> Result<(), MediaError> {
        self.wait(op);
        let run = offset..offset + data.len() as u64;
        let mut state = self.sim.state.lock();
        if let Some(fault) = state.next_fault(op) {
            if let DiskFault::Torn { mask } = fault {
                let mut torn = state.current[run.start as usize..run.end as usize].to_vec();
                PendingWrite { offset: 0, data }.apply(WriteFate::TornMask { mask }, &mut torn);
                state.write(PendingWrite { offset, data: torn });
            }
            return Err(self.planted(op, &run, fault));
        }
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
        self.wait(IoOp::Read);
        let run = off..off + buf.len() as u64;
        let mut state = self.sim.state.lock();
        if let Some(fault) = state.next_fault(IoOp::Read) {
            return Err(self.planted(IoOp::Read, &run, fault));
        }
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
        self.wait(IoOp::Flush);
        self.counters.flushed();
        let mut state = self.sim.state.lock();
        if let Some(fault) = state.next_fault(IoOp::Flush) {
            return Err(self.planted(IoOp::Flush, &(0..self.sim.len), fault));
        }
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
