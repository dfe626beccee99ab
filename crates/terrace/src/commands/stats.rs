//! `terrace stats`

use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use anyhow::{Result, bail};
use serde::Serialize;
use terrace_engine::{FileRanking, Stats};

use crate::cli::measure::StatsArgs;
use crate::sampler::Sampler;
use crate::{daemon, mounts, output, report};

/// Prints what a volume does, until a signal comes, the reader of the output is gone, or the volume
/// is unmounted.
pub fn run(args: &StatsArgs, quiet: bool) -> Result<()> {
    let mountpoint = mounts::of_volume(&args.target)?.mountpoint;
    let mut sampler = Sampler::new(mountpoint)?;
    if args.once {
        let total = sampler.total();
        let text =
            if args.json { json(total, &sampler.files())? } else { report::stats_total(total) };
        return output::print(&text);
    }
    let signals = daemon::terminations()?;
    let mut is_first = true;
    loop {
        match signals.recv_timeout(Duration::from_secs(args.interval)) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(_) => return Ok(()),
            Err(RecvTimeoutError::Disconnected) => {
                bail!("the thread that waits for signals has ended")
            }
        }
        let Some(interval) = sampler.next_interval()? else {
            output::remark(quiet, &format!("{}: unmounted", args.target.display()));
            return Ok(());
        };
        let text = if args.json {
            json(&interval, &sampler.files())?
        } else {
            report::stats_live(&interval, is_first)
        };
        if !output::offer(&text)? {
            return Ok(());
        }
        is_first = false;
    }
}

/// One object in one line.
fn json(stats: &Stats, files: &FileRanking) -> Result<String> {
    #[derive(Serialize)]
    struct Line<'a> {
        #[serde(flatten)]
        stats: &'a Stats,
        files: &'a FileRanking,
    }
    Ok(serde_json::to_string(&Line { stats, files })? + "\n")
}
