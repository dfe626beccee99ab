//! A mount that nobody uses costs no CPU: none of the daemon's threads wakes up.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use terrace_proof::{VolumeSpec, proof, skip};

/// Each second in which no thread wakes would do. Several, so that what is done once in a while
/// shows.
const STILL_FOR: Duration = Duration::from_secs(3);

/// The volume's pulse rests after a few seconds without traffic, writeback after five; on a busy
/// machine all of it may take longer.
const REST_LIMIT: Duration = Duration::from_secs(60);

/// How often each thread of a process has been switched to, with its name.
fn switches(process: u32) -> Result<BTreeMap<String, u64>> {
    std::fs::read_dir(format!("/proc/{process}/task"))?
        .map(|task| {
            let task = task?.path();
            let status = std::fs::read_to_string(task.join("status"))?;
            let value = |name: &str| -> Result<u64> {
                let line = status.lines().find_map(|line| line.strip_prefix(name));
                Ok(line.with_context(|| format!("{status}: no {name}"))?.trim().parse()?)
            };
            let times = value("voluntary_ctxt_switches:")? + value("nonvoluntary_ctxt_switches:")?;
            Ok((format!("{} {}", name(&task)?, task.display()), times))
        })
        .collect()
}

fn name(task: &Path) -> Result<String> {
    Ok(std::fs::read_to_string(task.join("comm"))?.trim().to_owned())
}

#[test]
fn an_idle_mount_wakes_nobody() {
    proof(|| {
        let volume = VolumeSpec::new("idle").mount()?;
        let daemon = volume.daemon_id().ok_or_else(|| skip("needs a mount, not a directory"))?;
        // It has been used before, by several at a time.
        std::thread::scope(|scope| {
            let users: Vec<_> = (0..8)
                .map(|user| {
                    let path = volume.join(&format!("of-{user}"));
                    scope.spawn(move || std::fs::write(path, vec![user; 1 << 20]))
                })
                .collect();
            users.into_iter().try_for_each(|user| user.join().expect("no user panics"))
        })?;
        let deadline = Instant::now() + REST_LIMIT;
        loop {
            let before = switches(daemon)?;
            std::thread::sleep(STILL_FOR);
            let after = switches(daemon)?;
            if before == after {
                return Ok(());
            }
            if Instant::now() > deadline {
                let woken: Vec<_> =
                    after.iter().filter(|(k, v)| before.get(*k) != Some(v)).collect();
                bail!("these threads do not come to rest: {woken:?}");
            }
        }
    });
}
