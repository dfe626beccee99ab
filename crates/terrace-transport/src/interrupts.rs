//! Requests that need not wait any longer, because their program got a signal.
//!
//! The kernel says so with INTERRUPT, a message with the request's number. It comes over
//! `/dev/fuse`, also where requests come over io_uring, and may be read before the request is. So
//! numbers are remembered, and a thread that waits looks for that of its request. Nothing is
//! registered, and a request that does not wait costs two stores.
//!
//! INTERRUPT comes for any signal, for a stop, and for what is no signal to the program: a
//! debugger, a frozen cgroup. The kernel does not repeat calls that end with EINTR, whatever
//! SA_RESTART says. So a look at `/proc` decides: a wait ends for a signal that kills the program,
//! or for one that it handles in order to stop what it does. It goes on for all others.
//!
//! Some INTERRUPTs never come: a second one for the same request, one while all threads wait, and
//! over io_uring one for a signal from before the request was delivered. So a thread that waits
//! looks at `/proc` now and then anyway. A signal counts that it sees there twice in a row, as a
//! thread of the program that is not stuck in the kernel takes its signals at once.
//!
//! Invariants:
//! * What is remembered is bounded. It is never wrong: numbers are not used twice.
//! * A request that comes again, since a daemon died, may have had its effect: only the death of
//!   its program ends its wait, which leaves nobody to tell.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::abi::InHeader;
use crate::ledger::RESENT;

/// More than there are requests under way.
const REMEMBERED: usize = 4096;

/// How often a thread that waits looks at the signals of its program, without an INTERRUPT.
const LOOK: Duration = Duration::from_millis(100);

/// Signals that programs handle in order to stop what they do. Of others, runtimes and libraries
/// make use as well.
const ASKING: u64 = set(&[libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGALRM, libc::SIGTERM]);
/// Signals that do nothing to a program that does not handle them, or stop or continue it.
const HARMLESS: u64 = set(&[
    libc::SIGCHLD,
    libc::SIGCONT,
    libc::SIGURG,
    libc::SIGWINCH,
    libc::SIGSTOP,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
]);

const fn set(signals: &[i32]) -> u64 {
    let (mut set, mut at) = (0, 0);
    while at < signals.len() {
        set |= 1 << (signals[at] - 1);
        at += 1;
    }
    set
}

/// The signals that end a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Those that kill the program.
    UntilDeath,
    /// And those that it handles in order to stop what it does.
    UntilAsked,
}

/// The INTERRUPTs of a connection.
#[derive(Debug, Default)]
pub(crate) struct Interrupts {
    numbers: Mutex<VecDeque<u64>>,
}

impl Interrupts {
    /// An INTERRUPT for the request with this number was read.
    pub fn note(&self, unique: u64) {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        if numbers.len() == REMEMBERED {
            numbers.pop_front();
        }
        numbers.push_back(unique);
    }

    fn has(&self, unique: u64) -> bool {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner).contains(&unique)
    }
}

thread_local! {
    /// The INTERRUPTs of the connection that this thread serves.
    static SERVED: RefCell<Option<Arc<Interrupts>>> = const { RefCell::new(None) };
    /// Number and program of the request that this thread serves, or served last.
    static REQUEST: Cell<(u64, u32)> = const { Cell::new((0, 0)) };
    /// The signals as this thread saw them when it waited last.
    static SEEN: Cell<Seen> = const { Cell::new(Seen { unique: 0, at: None, is_over: false }) };
}

#[derive(Clone, Copy)]
struct Seen {
    unique: u64,
    /// When; a wait begins without a look.
    at: Option<Instant>,
    is_over: bool,
}

/// The calling thread serves the connection with these INTERRUPTs.
pub(crate) fn serve(interrupts: &Arc<Interrupts>) {
    SERVED.set(Some(Arc::clone(interrupts)));
}

/// The calling thread serves this request from now on.
pub(crate) fn begin(header: &InHeader) {
    REQUEST.set((header.unique, header.pid));
}

/// Whether the request that the calling thread serves need not be waited for any longer. To be
/// asked again and again while it waits; it is false for threads that serve no connection.
pub fn is_wait_over(patience: Patience) -> bool {
    let (unique, pid) = REQUEST.get();
    // Over io_uring, the kernel does not know of a request that it comes again.
    let has = |served: &Arc<Interrupts>| served.has(unique) || served.has(unique & !RESENT);
    let is_interrupted = SERVED.with_borrow(|served| served.as_ref().map(has));
    let Some(is_interrupted) = is_interrupted else { return false };
    let now = Instant::now();
    let before = Some(SEEN.get()).filter(|seen| seen.unique == unique);
    if !is_interrupted {
        let at = before.map_or(Some(now), |seen| seen.at);
        if at.is_some_and(|at| now.duration_since(at) < LOOK) {
            let is_over = before.is_some_and(|seen| seen.is_over);
            SEEN.set(Seen { unique, at, is_over });
            return false;
        }
    }
    let patience = if unique & RESENT == 0 { patience } else { Patience::UntilDeath };
    let is_over = match Signals::of(pid) {
        Some(signals) => signals.end(patience),
        // The program cannot be seen from here.
        None => is_interrupted && patience == Patience::UntilAsked,
    };
    SEEN.set(Seen { unique, at: Some(now), is_over });
    is_over && (is_interrupted || before.is_some_and(|seen| seen.is_over))
}

/// Signals of a thread of a program, a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Signals {
    /// They have come, and are not blocked.
    pending: u64,
    handled: u64,
    ignored: u64,
}

impl Signals {
    /// `None`: they cannot be seen.
    fn of(pid: u32) -> Option<Self> {
        (pid != 0).then(|| std::fs::read(format!("/proc/{pid}/status")).ok()).flatten().and_then(
            |status| {
                // The name of the program may be anything.
                Self::parse(&String::from_utf8_lossy(&status))
            },
        )
    }

    fn parse(status: &str) -> Option<Self> {
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            u64::from_str_radix(line.trim(), 16).ok()
        };
        let come = field("SigPnd:")? | field("ShdPnd:")?;
        let mut pending = come & !field("SigBlk:")?;
        // A debugger may keep all other signals from a program.
        if status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?.trim() != "0" {
            pending &= set(&[libc::SIGKILL]);
        }
        Some(Self { pending, handled: field("SigCgt:")?, ignored: field("SigIgn:")? })
    }

    /// Whether they end a wait.
    fn end(self, patience: Patience) -> bool {
        let deadly = self.pending & !self.handled & !self.ignored & !HARMLESS;
        let asking = self.pending & self.handled & ASKING;
        deadly != 0 || (patience == Patience::UntilAsked && asking != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(unique: u64, pid: u32) {
        begin(&InHeader { unique, pid, ..InHeader::default() });
    }

    #[test]
    fn numbers_are_remembered_whenever_they_come_and_old_ones_make_way() {
        let interrupts = Arc::<Interrupts>::default();
        assert!(!is_wait_over(Patience::UntilAsked), "this thread serves nobody");
        serve(&interrupts);
        interrupts.note(8);
        // No program has the number 0: nobody can see its signals.
        request(6, 0);
        assert!(!is_wait_over(Patience::UntilAsked), "another request was interrupted");
        request(8, 0);
        assert!(is_wait_over(Patience::UntilAsked), "it came before the request did");
        assert!(!is_wait_over(Patience::UntilDeath), "nobody knows that the program dies");
        request(RESENT | 8, 0);
        interrupts.note(RESENT | 8);
        assert!(!is_wait_over(Patience::UntilAsked), "it may have had its effect");
        (0..REMEMBERED as u64).for_each(|number| interrupts.note(1000 + 2 * number));
        assert!(!interrupts.has(8) && interrupts.has(1000));
        assert_eq!(interrupts.numbers.lock().unwrap().len(), REMEMBERED);
    }

    #[test]
    fn an_interrupt_without_a_signal_ends_nothing() {
        let interrupts = Arc::<Interrupts>::default();
        serve(&interrupts);
        request(2, std::process::id());
        interrupts.note(2);
        assert!(!is_wait_over(Patience::UntilAsked), "this process has no signals");
    }

    #[test]
    fn signals_are_read_as_the_kernel_writes_them() {
        let status = "Name:\tSigPnd: x\nPid:\t7\nTracerPid:\t0\nSigPnd:\t0000000000000100\n\
                      ShdPnd:\t0000000000004002\nSigBlk:\t0000000000000002\n\
                      SigIgn:\t0000000000001000\nSigCgt:\t0000000000004000\n";
        let signals = Signals { pending: 0x4100, handled: 0x4000, ignored: 0x1000 };
        assert_eq!(Signals::parse(status), Some(signals));
        let traced = status.replace("TracerPid:\t0", "TracerPid:\t9");
        assert_eq!(Signals::parse(&traced), Some(Signals { pending: 0x100, ..signals }));
        assert_eq!(Signals::parse("Name:\tx\n"), None);
        assert_eq!(Signals::of(std::process::id()).map(|signals| signals.pending), Some(0));
    }

    #[test]
    fn deadly_signals_end_every_wait_and_handled_ones_only_those_that_ask() {
        let ends = |signal, is_handled: bool, is_ignored: bool| {
            let pending = set(&[signal]);
            let taken = |is: bool| if is { pending } else { 0 };
            let signals =
                Signals { pending, handled: taken(is_handled), ignored: taken(is_ignored) };
            (signals.end(Patience::UntilDeath), signals.end(Patience::UntilAsked))
        };
        for signal in [libc::SIGKILL, libc::SIGTERM, libc::SIGUSR1, libc::SIGSEGV] {
            assert_eq!(ends(signal, false, false), (true, true), "{signal}");
            assert_eq!(ends(signal, false, true), (false, false), "{signal}");
        }
        for signal in [libc::SIGINT, libc::SIGALRM, libc::SIGTERM] {
            assert_eq!(ends(signal, true, false), (false, true), "{signal}");
        }
        for signal in [libc::SIGCHLD, libc::SIGWINCH, libc::SIGUSR1, libc::SIGURG, libc::SIGPROF] {
            assert_eq!(ends(signal, true, false), (false, false), "{signal}");
        }
        for signal in [libc::SIGSTOP, libc::SIGTSTP, libc::SIGCHLD, libc::SIGCONT] {
            assert_eq!(ends(signal, false, false), (false, false), "{signal}");
        }
    }
}
