//! Steps at which a daemon may die, for a test that kills it at each of them: before every change
//! of memory that outlives it, and of disks. Flushes and fences are none: they change nothing that
//! a successor finds.
//!
//! Without the feature `simulators`, a step is nothing.

#[cfg(feature = "simulators")]
mod hook {
    use std::sync::OnceLock;

    static HOOK: OnceLock<fn()> = OnceLock::new();

    /// Has every step of this process call `hook` from now on.
    ///
    /// # Panics
    /// If it calls one already.
    pub fn on_step(hook: fn()) {
        HOOK.set(hook).expect("one hook");
    }

    /// A step.
    #[inline]
    pub fn step() {
        if let Some(hook) = HOOK.get() {
            hook();
        }
    }
}

#[cfg(feature = "simulators")]
pub use hook::{on_step, step};

/// A step: nothing.
#[cfg(not(feature = "simulators"))]
#[inline]
pub const fn step() {}
