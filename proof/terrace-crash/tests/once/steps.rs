//! Counting the steps of a daemon, and killing it at one of them. What is counted lies in memory
//! that the test and its daemons share.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use anyhow::{Context, Result};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use terrace_transport::planted::{self, Step};

/// Nobody dies.
pub const NEVER: u64 = u64::MAX;

const IDLE: u32 = 0;
const WAITING: u32 = 1;
const COUNTING: u32 = 2;
/// The daemon is about to die, or has died.
const DYING: u32 = 3;

/// Where counting begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// With the next message that is delivered over io_uring, or that the daemon takes.
    NextMessage,
    /// Here.
    Here,
}

/// The counter.
#[derive(Debug)]
#[repr(C)]
pub struct Steps {
    mode: AtomicU32,
    /// The kind of the step that killed.
    killed_by: AtomicU32,
    /// Over io_uring: whether an answer is being noted.
    is_noting: AtomicU32,
    /// Whether that was so when a step killed.
    killed_noting: AtomicU32,
    /// Messages taken since it was armed.
    taken: AtomicU64,
    /// With this one counting ends.
    last: AtomicU64,
    count: AtomicU64,
    die_at: AtomicU64,
}

static STEPS: OnceLock<&'static Steps> = OnceLock::new();

/// The counter of this process and its forks, from now on.
///
/// # Errors
/// The system gives no memory.
pub fn share() -> Result<&'static Steps> {
    let (rights, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
    // SAFETY: a new mapping, at no particular address.
    let memory = unsafe { mmap_anonymous(std::ptr::null_mut(), 4096, rights, flags)? };
    // SAFETY: all atomic and never unmapped; zeros are a value.
    let steps: &'static Steps = unsafe { &*memory.cast() };
    STEPS.set(steps).ok().context("it is shared once")?;
    planted::on_step(step);
    terrace_media::on_step(|| step(Step::Change));
    Ok(steps)
}

fn step(kind: Step) {
    let Some(steps) = STEPS.get() else { return };
    match kind {
        Step::Answer => steps.is_noting.store(1, Ordering::SeqCst),
        Step::Commit => steps.is_noting.store(0, Ordering::SeqCst),
        Step::Delivered => drop(steps.turn(WAITING, COUNTING)),
        _ => {}
    }
    if kind == Step::Taken {
        let taken = steps.taken.fetch_add(1, Ordering::SeqCst) + 1;
        if !steps.turn(WAITING, COUNTING) && taken >= steps.last.load(Ordering::SeqCst) {
            steps.turn(COUNTING, IDLE);
        }
    }
    if steps.mode.load(Ordering::SeqCst) == COUNTING
        && steps.count.fetch_add(1, Ordering::SeqCst) == steps.die_at.load(Ordering::SeqCst)
        && steps.turn(COUNTING, DYING)
    {
        steps.killed_noting.store(steps.is_noting.load(Ordering::SeqCst), Ordering::SeqCst);
        steps.killed_by.store(kind as u32 + 1, Ordering::SeqCst);
        // SAFETY: a signal to this process, which nothing survives.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        loop {
            std::hint::spin_loop();
        }
    }
}

impl Steps {
    /// Changes the mode, if it is `from`.
    fn turn(&self, from: u32, to: u32) -> bool {
        self.mode.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// The daemon dies at this step, counted from `from` until it takes message `last`, from now.
    pub fn arm(&self, die_at: u64, from: From, last: u64) {
        self.mode.store(IDLE, Ordering::SeqCst);
        self.taken.store(0, Ordering::SeqCst);
        self.count.store(0, Ordering::SeqCst);
        self.killed_by.store(0, Ordering::SeqCst);
        self.is_noting.store(0, Ordering::SeqCst);
        self.last.store(last, Ordering::SeqCst);
        self.die_at.store(die_at, Ordering::SeqCst);
        let mode = if from == From::Here { COUNTING } else { WAITING };
        self.mode.store(mode, Ordering::SeqCst);
    }

    /// Steps do not count any more. False: the daemon has come to the one at which it dies.
    pub fn disarm(&self) -> bool {
        let other = |mode| (mode != DYING).then_some(IDLE);
        self.mode.fetch_update(Ordering::SeqCst, Ordering::SeqCst, other).is_ok()
    }

    /// There is no daemon, and steps of the next one do not count.
    pub fn reset(&self) {
        self.mode.store(IDLE, Ordering::SeqCst);
    }

    /// Steps counted.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// Whether a daemon was killed at a step, and whether that was right before an answer: over
    /// io_uring, before it was noted.
    pub fn killed(&self, over_io_uring: bool) -> Option<bool> {
        let by = self.killed_by.load(Ordering::SeqCst);
        let noting = over_io_uring && self.killed_noting.load(Ordering::SeqCst) != 0;
        (by != 0).then_some(noting || by == Step::Answer as u32 + 1)
    }
}
