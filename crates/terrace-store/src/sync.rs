//! The one place where store and engine get their locks, atomics and threads from: the real ones,
//! or, in a build with `--cfg shuttle`, those of a model checker that decides which thread goes on
//! at each use of them (`schedules`).
//!
//! Under shuttle a switch of threads happens only inside these types. So whatever else may block
//! (the mutexes of `terrace-media`) must be released before any of these is used, and order of
//! iteration must not be random: maps that are iterated to lock or write something are this
//! module's `HashMap`.

#[cfg(not(shuttle))]
mod real {
    pub use std::collections::HashMap;
    pub use std::sync::{Arc, Weak, atomic};
    pub use std::thread;
    pub use std::thread_local;
    use std::time::{Duration, Instant};

    pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

    /// Atomics in memory that is mapped, not made by Rust: as many bytes as their numbers.
    pub mod mapped {
        pub use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64};
    }

    /// Where the model checker may let another thread go on, beside every use of a lock or an
    /// atomic.
    #[inline(always)]
    pub fn switch() {}

    /// Starts a thread of a scope, if the system has one to spare.
    pub fn spawn_scoped<'scope, T: Send + 'scope>(
        scope: &'scope thread::Scope<'scope, '_>,
        body: impl FnOnce() -> T + Send + 'scope,
    ) -> Option<thread::ScopedJoinHandle<'scope, T>> {
        thread::Builder::new().spawn_scoped(scope, body).ok()
    }

    /// When somebody who waits gives up.
    #[derive(Clone, Copy, Debug)]
    pub struct Deadline(Instant);

    impl Deadline {
        /// So much later than now.
        pub fn after(patience: Duration) -> Self {
            Self(Instant::now() + patience)
        }

        /// Whether it is over.
        pub fn has_passed(&self) -> bool {
            Instant::now() >= self.0
        }
    }

    /// A limit, which the model checker needs smaller in order to reach it.
    pub const fn limit(real: usize, _model: usize) -> usize {
        real
    }
}
#[cfg(not(shuttle))]
pub use real::*;

#[cfg(shuttle)]
#[allow(missing_docs, missing_debug_implementations, reason = "they mirror the real ones")]
mod model;
#[cfg(shuttle)]
pub use model::*;

/// A use of the real ones elsewhere would hide from the model checker what happens there.
#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    const REAL: [&str; 4] = ["std::sync", "std::thread", "core::sync", "parking_lot"];

    fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, out);
            } else if path.extension().is_some_and(|e| e == "rs") {
                out.push(path);
            }
        }
    }

    #[test]
    fn nothing_else_uses_the_real_ones() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut files = Vec::new();
        for name in ["terrace-store", "terrace-engine"] {
            let (src, before) = (crates.join(name).join("src"), files.len());
            sources(&src, &mut files);
            assert!(files.len() > before + 15, "too few files under {}", src.display());
        }
        for path in files {
            let in_crate = path.strip_prefix(&crates).unwrap();
            let name: PathBuf = in_crate.iter().skip(2).collect();
            // Unit tests run on real threads, and models keep their books unseen.
            if name.starts_with("sync")
                || name.starts_with("schedules")
                || *name == *"sync.rs"
                || name.ends_with("tests.rs")
                || name.iter().any(|part| part == "tests")
            {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let tests = text
                .find("#[cfg(test)]\nmod ")
                .or_else(|| text.find("#[cfg(all(test, not(shuttle)))]\nmod "));
            let code = &text[..tests.unwrap_or(text.len())];
            for (number, line) in code.lines().enumerate() {
                let real = REAL.iter().find(|real| line.contains(*real));
                assert!(
                    real.is_none(),
                    "{}:{}: {line}: use terrace_store::sync",
                    in_crate.display(),
                    number + 1
                );
            }
        }
    }
}
