//! What a test needs that kills a daemon at every step: the steps, and bugs to prove that their
//! like would be found.
//!
//! A step is a change of the ledger, a message that was delivered or taken, an answer that is about
//! to be written or told to the kernel. The ledger's words are of the types of this module, so none
//! of its changes is missed.
//!
//! Invariant: without the feature `planted`, a step is nothing, no bug is planted, and the words
//! are the standard library's.

/// The kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A message stands in the buffer of its thread.
    Taken,
    /// The ledger is about to change.
    Change,
    /// An answer is about to be written, or to be noted in the entry of a ring.
    Answer,
    /// What was noted in the entry of a ring is about to be told to the kernel.
    Commit,
    /// Where a test plays the kernel: a message stands in the entry of a ring.
    Delivered,
}

/// A bug. The comments say what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// What a request is about to do is noted after it was done.
    EffectNotedLate,
    /// A successor does not look at what was noted of a request.
    NotesIgnored,
    /// Lookups for answers that were never given stay counted.
    LookupsNotTakenBack,
    /// What came of a WRITE is noted before it is carried out.
    OutcomeNotedEarly,
    /// An inode of a FORGET is marked as forgotten after it was forgotten.
    ForgetMarkedLate,
    /// An answer is committed that was not noted in the entry.
    AnswerNotNoted,
    /// A message counts as taken out of the entry before all of it was.
    TakenNotedEarly,
    /// A successor takes an entry with a message that was not taken for an empty one.
    DeliveryIgnored,
    /// A successor takes an entry with an answer for an empty one.
    AnswerIgnored,
    /// A file is lent although the kernel has pages of it.
    PagesNotDropped,
}

#[cfg(feature = "planted")]
mod hook {
    use std::sync::OnceLock;

    use super::{Bug, Step};

    static HOOK: OnceLock<fn(Step)> = OnceLock::new();
    static BUG: std::sync::Mutex<Option<Bug>> = std::sync::Mutex::new(None);

    /// Has every step of this process call `hook` from now on.
    ///
    /// # Panics
    /// If it calls one already.
    pub fn on_step(hook: fn(Step)) {
        HOOK.set(hook).expect("one hook");
    }

    /// A step.
    pub fn step(step: Step) {
        if let Some(hook) = HOOK.get() {
            hook(step);
        }
    }

    /// Plants a bug in this process and its forks; `None`: none any more.
    ///
    /// # Panics
    /// If a thread has panicked in here.
    pub fn plant(bug: Option<Bug>) {
        *BUG.lock().expect("no thread panics here") = bug;
    }

    /// Whether this bug is planted.
    ///
    /// # Panics
    /// As [`plant`].
    pub fn planted(bug: Bug) -> bool {
        *BUG.lock().expect("no thread panics here") == Some(bug)
    }
}

#[cfg(feature = "planted")]
pub use hook::{on_step, plant, planted, step};

/// A step: nothing.
#[cfg(not(feature = "planted"))]
pub(crate) const fn step(_: Step) {}

/// Whether this bug is planted: never.
#[cfg(not(feature = "planted"))]
pub const fn planted(_: Bug) -> bool {
    false
}

#[cfg(not(feature = "planted"))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64};

#[cfg(feature = "planted")]
pub(crate) use words::{AtomicU32, AtomicU64};

/// Atomic words each of whose changes is a step.
#[cfg(feature = "planted")]
mod words {
    use std::sync::atomic::{self, Ordering};

    use super::{Step, step};

    macro_rules! word {
        ($name:ident $value:ty { $($change:ident($($arg:ident: $type:ty),*) -> $out:ty;)* }) => {
            #[derive(Debug)]
            #[repr(transparent)]
            pub(crate) struct $name(atomic::$name);

            impl $name {
                pub fn load(&self, order: Ordering) -> $value {
                    self.0.load(order)
                }

                $(pub fn $change(&self, $($arg: $type),*) -> $out {
                    step(Step::Change);
                    self.0.$change($($arg),*)
                })*
            }
        };
    }

    word!(AtomicU32 u32 {
        store(value: u32, order: Ordering) -> ();
        swap(value: u32, order: Ordering) -> u32;
        fetch_add(value: u32, order: Ordering) -> u32;
        fetch_max(value: u32, order: Ordering) -> u32;
        compare_exchange(old: u32, new: u32, done: Ordering, failed: Ordering)
            -> Result<u32, u32>;
    });

    word!(AtomicU64 u64 {
        store(value: u64, order: Ordering) -> ();
        fetch_add(value: u64, order: Ordering) -> u64;
        fetch_or(value: u64, order: Ordering) -> u64;
        fetch_and(value: u64, order: Ordering) -> u64;
        compare_exchange(old: u64, new: u64, done: Ordering, failed: Ordering)
            -> Result<u64, u64>;
        fetch_update(set: Ordering, fetch: Ordering, new: impl FnMut(u64) -> Option<u64>)
            -> Result<u64, u64>;
    });
}
