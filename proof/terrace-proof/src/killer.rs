//! Kills daemons under any test (`TERRACE_PROOF_KILLS`): what passes without must pass with it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal};

use crate::Rng;
use crate::process::{child_of, end};
use crate::skip::note;

/// Kills the daemon of one keeper again and again until it is dropped.
#[derive(Debug)]
pub(crate) struct Killer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl Killer {
    /// One for this mount, if the environment asks for it.
    pub fn asked_for(keeper: Pid, mountpoint: &Path) -> Result<Option<Killer>> {
        const VARIABLE: &str = "TERRACE_PROOF_KILLS";
        let Ok(text) = std::env::var(VARIABLE) else {
            return Ok(None);
        };
        let every_ms: u64 =
            text.parse().with_context(|| format!("{VARIABLE}={text} is not a number"))?;
        let stop = Arc::new(AtomicBool::new(false));
        let (told, mountpoint) = (Arc::clone(&stop), mountpoint.to_owned());
        let kill = move || kill_until(&told, keeper, &mountpoint, every_ms);
        Ok(Some(Killer { stop, thread: Some(std::thread::spawn(kill)) }))
    }
}

/// Returns how many kills there were.
fn kill_until(stop: &AtomicBool, keeper: Pid, mountpoint: &PathBuf, every_ms: u64) -> u64 {
    let mut rng = Rng::new(u64::from(keeper.as_raw_pid().cast_unsigned()));
    let mut kills = 0;
    loop {
        std::thread::sleep(Duration::from_millis(rng.below(2 * every_ms)));
        // Only a daemon that serves answers: one that has answered nothing yet is left alone, as
        // three such deaths end the mount.
        if stop.load(Ordering::Relaxed) || rustix::fs::statvfs(mountpoint).is_err() {
            return kills;
        }
        let daemon = child_of(keeper.as_raw_pid().cast_unsigned());
        if daemon.is_some_and(|daemon| end(daemon, Signal::KILL).is_ok()) {
            kills += 1;
        }
    }
}

impl Drop for Killer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(kills)) => note(format!("{kills} daemons were killed")),
            Some(Err(_)) | None => note("the thread that kills daemons panicked".to_owned()),
        }
    }
}
