//! Tests that cannot run on this machine say so; they neither fail nor pass silently.

use anyhow::Result;
use std::cell::RefCell;
use std::fmt;
use std::io::Write;

/// The reason why a test cannot run here. Returned through `anyhow`, recognised by [`proof`].
#[derive(Debug)]
pub struct Skipped(String);

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Skipped {}

/// An error that marks the running test as skipped for `reason`.
pub fn skip(reason: impl Into<String>) -> anyhow::Error {
    Skipped(reason.into()).into()
}

thread_local! {
    /// What a failing test prints besides its error: the logs of daemons already gone by then.
    static NOTES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Keeps `text` in case this thread's test fails.
pub(crate) fn note(text: String) {
    // Fails only while the thread ends, when there is nobody left to read it.
    // Only the last volumes' can matter; a test that shortens a failing list mounts very many.
    let _ = NOTES.try_with(|notes| {
        let mut notes = notes.borrow_mut();
        notes.push(text);
        if notes.len() > 2 {
            notes.remove(0);
        }
    });
}

/// Runs the body of one test. A [`Skipped`] error prints its reason past the test runner's capture;
/// with `TERRACE_PROOF_REQUIRE` set it fails like any other error.
///
/// # Panics
/// If the body returns an error other than [`Skipped`].
pub fn proof(body: impl FnOnce() -> Result<()>) {
    let Err(error) = body() else { return };
    match error.downcast::<Skipped>() {
        Ok(reason) if std::env::var_os("TERRACE_PROOF_REQUIRE").is_none() => {
            let thread = std::thread::current();
            let name = thread.name().unwrap_or("test");
            // Not eprintln!: the runner would swallow it. A closed stderr loses only the notice.
            let _ = writeln!(std::io::stderr(), "SKIPPED {name}: {reason}");
        }
        Ok(reason) => panic!("cannot run here, and TERRACE_PROOF_REQUIRE is set: {reason}"),
        Err(error) => panic!("{error:#}\n{}", NOTES.take().join("\n")),
    }
}
