//! The CPUs of the machine, and those that threads may use.

use std::io;

use rustix::process::Pid;
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// What a session may use: what its first thread may, which keeps to no CPU. So whoever changes
/// what the process may use (by taskset, a cpuset, or by taking a CPU away) changes it for the
/// other threads, too.
#[derive(Debug)]
pub(crate) struct Cpus {
    first_thread: Pid,
    possible: u16,
}

impl Cpus {
    /// Those that this thread may use, as long as it lives.
    pub(crate) fn of_this_thread() -> io::Result<Self> {
        #[cfg(feature = "planted")]
        if let Some(possible) = crate::stand_in::queues() {
            return Ok(Self { first_thread: gettid(), possible });
        }
        Ok(Self { first_thread: gettid(), possible: possible_cpus()? })
    }

    /// How many CPUs the machine may ever have.
    pub(crate) fn possible(&self) -> u16 {
        self.possible
    }

    /// Whether a CPU is online, and this process may use it.
    fn may_use(&self, cpu: u16) -> bool {
        usize::from(cpu) < CpuSet::MAX_CPU
            && sched_getaffinity(Some(self.first_thread))
                .is_ok_and(|allowed| allowed.is_set(cpu.into()))
    }

    /// Whether this thread runs on another CPU.
    #[inline]
    pub(crate) fn is_elsewhere(&self, cpu: u16) -> bool {
        sched_getcpu() != usize::from(cpu)
    }

    /// Has this thread run on any CPU that the session may use; says whether it may.
    pub(crate) fn keep_to_none(&self) -> bool {
        let allowed = sched_getaffinity(Some(self.first_thread));
        // If that has changed meanwhile, the thread stays where it is.
        allowed.and_then(|allowed| sched_setaffinity(None, &allowed)).is_ok()
    }

    /// Keeps this thread on a CPU, if it may run there; says whether it does.
    pub(crate) fn keep_to(&self, cpu: u16) -> bool {
        if !self.may_use(cpu) {
            return false;
        }
        let mut only = CpuSet::new();
        only.set(cpu.into());
        // If that has changed meanwhile, the thread stays where it may be.
        sched_setaffinity(None, &only).is_ok()
    }
}

/// How many CPUs the machine may ever have: their numbers are lower.
///
/// # Errors
/// The kernel does not say so.
pub fn possible_cpus() -> io::Result<u16> {
    let list = read_list("possible")?;
    count_cpus(&list).ok_or_else(|| no_list(&list))
}

/// Whether a CPU runs programs.
pub(crate) fn is_online(cpu: u16) -> io::Result<bool> {
    let list = read_list("online")?;
    let online = ranges(&list).ok_or_else(|| no_list(&list))?;
    Ok(online.iter().any(|&(first, last)| (first..=last).contains(&cpu)))
}

/// How many CPUs run programs.
pub fn online_cpus() -> io::Result<usize> {
    let list = read_list("online")?;
    count_cpus(&list).map(usize::from).ok_or_else(|| no_list(&list))
}

/// Whether processes of this one's may run on each CPU that runs programs: no cpuset forbids it.
///
/// # Errors
/// The system gives no thread; the kernel does not name its CPUs.
pub fn may_use_all_cpus() -> io::Result<bool> {
    let all = || {
        let mut all = CpuSet::new();
        (0..CpuSet::MAX_CPU).for_each(|cpu| all.set(cpu));
        // This thread may permit itself CPUs that taskset forbids.
        sched_setaffinity(None, &all).and_then(|()| sched_getaffinity(None))
    };
    let may_use = std::thread::Builder::new().spawn(all)?.join().expect("no panic")?;
    Ok(may_use.count() as usize >= online_cpus()?)
}

/// A list of the kernel's: `possible` or `online`.
fn read_list(name: &str) -> io::Result<String> {
    Ok(std::fs::read_to_string(format!("/sys/devices/system/cpu/{name}"))?.trim().to_owned())
}

fn no_list(list: &str) -> io::Error {
    io::Error::other(format!("no list of CPUs: {list:?}"))
}

/// How many CPUs a list such as `0-3,8` has.
pub fn count_cpus(list: &str) -> Option<u16> {
    let count =
        ranges(list)?.iter().map(|&(first, last)| usize::from(last - first) + 1).sum::<usize>();
    u16::try_from(count).ok()
}

/// The ranges of a list such as `0-3,8`.
fn ranges(list: &str) -> Option<Vec<(u16, u16)>> {
    let range = |range: &str| -> Option<(u16, u16)> {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse().ok()?, last.parse().ok()?);
        (first <= last).then_some((first, last))
    };
    list.split(',').map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_ranges() {
        assert_eq!(ranges("0"), Some(vec![(0, 0)]));
        assert_eq!(ranges("0-1,4,6-7"), Some(vec![(0, 1), (4, 4), (6, 7)]));
        assert_eq!(["", "3-1", "a", "0-65536"].map(ranges), [const { None }; 4]);
        assert_eq!(["0", "0-3", "0-1,4,6-7"].map(count_cpus), [Some(1), Some(4), Some(5)]);
        assert_eq!(["3-1", "0-65535"].map(count_cpus), [None; 2]);
    }
}
