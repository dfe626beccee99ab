//! What docs/SEMANTICS.md promises to programs, promise by promise. The doc comment of each test
//! quotes its promise word for word; [`every_promise_is_proved_once`] compares.

mod attributes;
mod data;
mod durability;
mod limits;
mod names;
mod quotes;

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::path::Path;
use std::process::Command;
use terrace_proof::{run, skip, tool};

/// The result must be this errno.
fn must_fail<T, E: Into<std::io::Error>>(result: Result<T, E>, errno: i32) -> Result<()> {
    let expected = std::io::Error::from_raw_os_error(errno);
    match result.map_err(Into::into) {
        Ok(_) => bail!("succeeded instead of failing with {expected}"),
        Err(error) => {
            ensure!(
                error.raw_os_error() == Some(errno),
                "failed with {error} instead of {expected}"
            );
            Ok(())
        }
    }
}

/// open(2) with any flags; a file that is created has mode 0644.
fn open(path: &Path, flags: OFlags) -> std::io::Result<File> {
    let fd = rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o644))?;
    Ok(File::from(fd))
}

/// A shell script run as another user, without any privilege.
fn as_nobody(script: &str) -> Result<String> {
    needs_root()?;
    run(Command::new(tool("setpriv")?)
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"])
        .args(["sh", "-c", script]))
}

fn needs_root() -> Result<()> {
    ensure!(rustix::process::geteuid().is_root(), skip("needs root, to become another user"));
    Ok(())
}

/// Waits until `condition` holds. For what the kernel does after the call that causes it; the limit
/// is far beyond anything that is still right.
fn wait_until(what: &str, mut condition: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !condition()? {
        ensure!(std::time::Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    Ok(())
}

/// Runs `threads` at once; all start together.
fn rivals<T: Send>(threads: usize, work: impl Fn(usize) -> T + Sync) -> Result<Vec<T>> {
    let start = std::sync::Barrier::new(threads);
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|number| {
                let (start, work) = (&start, &work);
                scope.spawn(move || {
                    start.wait();
                    work(number)
                })
            })
            .collect();
        handles.into_iter().map(|h| h.join().ok().context("a rival panicked")).collect()
    })
}
