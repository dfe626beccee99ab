//! The CPU that a worker runs on: its queue's, unless the worker has a long read to answer.
//!
//! Most messages are answered fastest on the CPU that asked, as nobody is woken elsewhere. But a
//! long answer is copied twice, by the worker into the kernel's pages or the client's, and by the
//! client out of these. On one CPU the copies take turns, and other CPUs idle. So the worker lets
//! the scheduler choose the CPU for two kinds of READs, which have others beside them:
//!
//! * Buffered ones of more than [`AHEAD_BYTES`]: they are parts of a read-ahead.
//! * Direct ones of at least [`DIRECT_BYTES_MIN`], if other READs are being answered.
//!
//! A client that waits for each of its direct reads keeps the worker on its CPU: to wake a worker
//! on another one takes as long as to copy 100 KiB.
//!
//! By dd and fio on a machine with 2 CPUs, Linux 6.18, 2026-11-25, medians of ten runs or more,
//! both programs in turns: sequential reads of files on disk 1.4 GB/s with all workers on the CPU
//! that asked, 1.85 if they may leave it; of files in PM 1.9 and 2.7; 64 KiB random reads, 32 at a
//! time, 35,000 and 42,000 per second.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::abi::{ReadFlags, ReadIn};
use crate::cpus::Cpus;

/// Kernels ask for no more at a time by default; a mount of root's reads ahead further.
const AHEAD_BYTES: u32 = 128 << 10;
/// Shorter answers take less time than to wake a worker on another CPU.
const DIRECT_BYTES_MIN: u32 = 64 << 10;

/// The READs that workers of all queues answer.
#[derive(Debug, Default)]
pub(crate) struct Reads(AtomicUsize);

impl Reads {
    /// A READ is under way until what is returned is dropped. Says whether other CPUs are to help.
    pub(crate) fn begin(&self, read: &ReadIn) -> (bool, ReadUnderWay<'_>) {
        let others = self.0.fetch_add(1, Ordering::Relaxed);
        (is_helped(read, others), ReadUnderWay(self))
    }
}

/// A READ, until it is dropped.
#[must_use = "it counts until it is dropped"]
pub(crate) struct ReadUnderWay<'a>(&'a Reads);

impl Drop for ReadUnderWay<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn is_helped(read: &ReadIn, others: usize) -> bool {
    // The kernel names an owner for direct reads only.
    match read.read_flags & ReadFlags::LOCKOWNER.bits() != 0 {
        false => read.size > AHEAD_BYTES,
        true => read.size >= DIRECT_BYTES_MIN && others > 0,
    }
}

/// The CPU of one worker.
pub(crate) struct Place<'a> {
    cpus: &'a Cpus,
    cpu: u16,
    /// Whether the scheduler chooses the CPU: it was let go, or may not use its own just now.
    is_free: bool,
}

impl<'a> Place<'a> {
    /// On the CPU of its queue.
    pub(crate) fn on(cpus: &'a Cpus, cpu: u16) -> Self {
        Self { cpus, cpu, is_free: !cpus.keep_to(cpu) }
    }

    /// Has the worker run on any CPU that the daemon may use.
    pub(crate) fn leave(&mut self) {
        if !self.is_free {
            self.is_free = self.cpus.keep_to_none();
        }
    }

    /// Has the worker return to its CPU, if it had to leave it or was let go.
    #[inline]
    pub(crate) fn return_to(&mut self) {
        if self.is_free || self.cpus.is_elsewhere(self.cpu) {
            self.is_free = !self.cpus.keep_to(self.cpu);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_reads_that_others_are_beside_are_helped() {
        let read = |size, read_flags| ReadIn { size, read_flags, ..ReadIn::default() };
        let direct = ReadFlags::LOCKOWNER.bits();
        for (size, flags, others, helped) in [
            (4 << 10, 0, 9, false),
            (128 << 10, 0, 9, false),
            (512 << 10, 0, 0, true),
            (512 << 10, direct, 0, false),
            (512 << 10, direct, 1, true),
            (64 << 10, direct, 1, true),
            (63 << 10, direct, 9, false),
        ] {
            assert_eq!(is_helped(&read(size, flags), others), helped, "{size} {flags} {others}");
        }
    }

    #[test]
    fn reads_count_until_they_end() {
        let reads = Reads::default();
        let direct = ReadIn {
            size: DIRECT_BYTES_MIN,
            read_flags: ReadFlags::LOCKOWNER.bits(),
            ..ReadIn::default()
        };
        let (alone, first) = reads.begin(&direct);
        let (beside, second) = reads.begin(&direct);
        assert_eq!((alone, beside), (false, true));
        drop((first, second));
        assert!(!reads.begin(&direct).0);
    }

    #[test]
    fn a_worker_returns_to_its_cpu() {
        use rustix::thread::{sched_getaffinity, sched_getcpu};
        let cpus = Cpus::of_this_thread().unwrap();
        let all = sched_getaffinity(None).unwrap().count();
        let allowed = || sched_getaffinity(None).unwrap().count();
        let worker = || {
            let cpu = u16::try_from(sched_getcpu()).unwrap();
            let mut place = Place::on(&cpus, cpu);
            assert_eq!(allowed(), 1);
            place.leave();
            assert_eq!(allowed(), all);
            place.return_to();
            assert_eq!((allowed(), sched_getcpu()), (1, usize::from(cpu)));
        };
        std::thread::scope(|scope| scope.spawn(worker).join().unwrap());
    }
}
