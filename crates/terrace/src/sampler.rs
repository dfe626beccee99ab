//! What a mounted volume does, period by period, asked of its daemon.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use terrace_engine::{FileRanking, Stats};
use terrace_fuse::control;

use crate::mounts;

/// Asks one mount again and again.
#[derive(Debug)]
pub struct Sampler {
    mountpoint: PathBuf,
    latest: Stats,
}

impl Sampler {
    /// The first period begins now.
    ///
    /// # Errors
    /// No volume is mounted there, or its daemon does not answer.
    pub fn new(mountpoint: PathBuf) -> Result<Self> {
        let latest = ask(&mountpoint)?;
        Ok(Sampler { mountpoint, latest })
    }

    /// Everything since the volume was mounted, as of the last answer.
    pub fn total(&self) -> &Stats {
        &self.latest
    }

    /// The files that are used most and least now; none for those who may not see all names.
    pub fn files(&self) -> FileRanking {
        // A daemon that is gone is noticed with the next period.
        control::file_ranking(&self.mountpoint).unwrap_or_default()
    }

    /// Ends a period and begins the next; `None` if the volume is not mounted there any more.
    ///
    /// # Errors
    /// It is, but its daemon does not answer.
    pub fn next_interval(&mut self) -> Result<Option<Stats>> {
        let now = match ask(&self.mountpoint) {
            Ok(now) => now,
            Err(error) => {
                let is_mounted =
                    mounts::at(&self.mountpoint)?.is_some_and(|mount| mount.is_terrace());
                return if is_mounted { Err(error) } else { Ok(None) };
            }
        };
        Ok(Some(following(&now, &std::mem::replace(&mut self.latest, now.clone()))))
    }
}

/// What was done between two answers. If the volume was unmounted and mounted again meanwhile:
/// since then.
fn following(now: &Stats, before: &Stats) -> Stats {
    let same_mount = now.uuid == before.uuid && now.elapsed_ms >= before.elapsed_ms;
    if same_mount { now.since(before) } else { now.clone() }
}

fn ask(mountpoint: &Path) -> Result<Stats> {
    let answer = control::stats(mountpoint)?;
    serde_json::from_str(&answer)
        .with_context(|| format!("{}: answer of the daemon", mountpoint.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_that_is_younger_than_the_last_answer_is_another() {
        let at = |elapsed_ms, pm_fences| Stats { elapsed_ms, pm_fences, ..Stats::default() };
        assert_eq!(following(&at(5000, 12), &at(4000, 10)), at(1000, 2));
        assert_eq!(following(&at(700, 12), &at(4000, 10)), at(700, 12));
        let other = Stats { uuid: "other".to_owned(), ..at(5000, 12) };
        assert_eq!(following(&other, &at(4000, 10)), other);
    }
}
