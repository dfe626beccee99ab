//! Disks that come and go under a real mount, while programs use it and while its daemon dies.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use terrace_proof::{MIB, Rng, Scratch, TestVolume, VolumeSpec, proof, run, skip};

/// A loop device over a file of its own.
struct Loop(String);

impl Loop {
    fn new(file: &Path, mib: u64) -> Result<Loop> {
        if !rustix::process::geteuid().is_root() {
            return Err(skip("only root can make a loop device"));
        }
        fs::File::create(file)?.set_len(mib * MIB)?;
        let path = run(Command::new("losetup").args(["--find", "--show"]).arg(file))?;
        Ok(Loop(path.trim().to_owned()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = run(Command::new("losetup").arg("--detach").arg(&self.0));
    }
}

fn device(volume: &TestVolume, action: &str, arguments: &[&str]) -> Result<String> {
    run(volume.terrace("device")?.arg(action).arg(volume.root()).args(arguments))
}

fn devices(volume: &TestVolume) -> Result<Vec<Value>> {
    let listed: Value = serde_json::from_str(&device(volume, "list", &["--json"])?)?;
    Ok(listed.as_array().context("no list")?.clone())
}

fn paths(volume: &TestVolume) -> Result<Vec<String>> {
    Ok(devices(volume)?
        .iter()
        .map(|row| row["path"].as_str().unwrap_or_default().to_owned())
        .collect())
}

fn status(volume: &TestVolume) -> Result<Value> {
    Ok(serde_json::from_str(&run(volume.terrace("status")?.arg("--json").arg(volume.root()))?)?)
}

fn removal(volume: &TestVolume) -> Result<Value> {
    Ok(status(volume)?["removal"].take())
}

/// The names of the devices with a budget.
fn with_budgets(volume: &TestVolume) -> Result<Vec<String>> {
    let status = status(volume)?;
    let known = status["wear"]["devices"].as_array().context("no wear")?;
    let bounded = known.iter().filter(|device| !device["budget"].is_null());
    Ok(bounded.filter_map(|device| device["name"].as_str().map(str::to_owned)).collect())
}

/// Files with contents of their own, all of which go to a disk.
fn fill(volume: &TestVolume, files: u64, len: usize) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut known = BTreeMap::new();
    for i in 0..files {
        let (path, data) = (volume.join(&format!("file{i}")), Rng::new(i).bytes(len));
        fs::write(&path, &data)?;
        run(volume.terrace("evict")?.arg(&path))?;
        known.insert(path, data);
    }
    Ok(known)
}

fn must_hold(known: &BTreeMap<PathBuf, Vec<u8>>) -> Result<()> {
    for (path, data) in known {
        ensure!(fs::read(path)? == *data, "{}: other contents", path.display());
    }
    Ok(())
}

/// Writes, renames and removes files of its own until told to stop; what is there then.
fn work(root: &Path, who: u64, stop: &AtomicBool) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let (mut known, mut rng) = (BTreeMap::new(), Rng::new(1000 + who));
    for round in 0.. {
        if stop.load(Ordering::Relaxed) && round > 50 {
            break;
        }
        let path = root.join(format!("work{who}-{}", round % 7));
        let data = rng.bytes(1 + (round * 7919) % 700_000);
        fs::write(&path, &data)?;
        let renamed = path.with_extension("renamed");
        fs::rename(&path, &renamed)?;
        known.insert(renamed.clone(), data);
        if round % 5 == 4 {
            fs::remove_file(&renamed)?;
            known.remove(&renamed);
        }
    }
    Ok(known)
}

/// Disks are added, replaced and removed while programs work; afterwards, and after a remount and a
/// power cut, every byte is there, and the disks that left can come back.
#[test]
fn disks_change_places_under_load() {
    proof(|| {
        let mut volume = VolumeSpec::new("devices").pm_mib(24).disk_mib(160).mount()?;
        let scratch = Scratch::new("devices-more")?;
        let known = fill(&volume, 4, 9_000_000)?;
        let first = volume.devices()[1].display().to_string();
        let second = Loop::new(&scratch.join("second"), 160)?;
        let third = scratch.join("third").display().to_string();
        let stop = AtomicBool::new(false);
        let worked = thread::scope(|scope| -> Result<Vec<_>> {
            let workers: Vec<_> = (0..2)
                .map(|who| {
                    scope.spawn({
                        let (root, stop) = (volume.root(), &stop);
                        move || work(root, who, stop)
                    })
                })
                .collect();
            let changed = (|| {
                device(&volume, "add", &[&second.0, "--tier", "2"])?;
                device(&volume, "replace", &[&first, &format!("{third}:160M")])?;
                ensure!(
                    paths(&volume)?[1..] == [second.0.clone(), third.clone()],
                    "{:?}",
                    paths(&volume)?
                );
                device(&volume, "remove", &[&third])?;
                ensure!(paths(&volume)?[1..] == [second.0.clone()], "{:?}", paths(&volume)?);
                Ok(())
            })();
            stop.store(true, Ordering::Relaxed);
            let worked: Result<Vec<_>> =
                workers.into_iter().map(|worker| worker.join().expect("no panic")).collect();
            changed.and(worked)
        })?;
        must_hold(&known)?;
        worked.iter().try_for_each(must_hold)?;
        volume.check()?;
        must_hold(&known)?;
        worked.iter().try_for_each(must_hold)?;
        // Nobody has them any more.
        device(&volume, "add", &["--force", &first, &third])?;
        ensure!(devices(&volume)?.len() == 4, "{:?}", devices(&volume)?);
        volume.power_cut()?;
        volume.remount()?;
        ensure!(devices(&volume)?.len() == 4, "{:?}", devices(&volume)?);
        must_hold(&known)?;
        volume.check()
    });
}

/// The daemon dies while a disk is being emptied: it is part of the volume, with less on it, and
/// can be removed later. So it is when the command is interrupted.
#[test]
fn a_removal_that_is_cut_short_is_none() {
    proof(|| {
        // So slow that the disk cannot be empty before it is looked at.
        let mut volume = VolumeSpec::new("cut-short")
            .pm_mib(16)
            .disk_mib(512)
            .options("model=disk1=hdd")
            .mount()?;
        let scratch = Scratch::new("cut-short-more")?;
        let second = scratch.join("second").display().to_string();
        device(&volume, "add", &[&format!("{second}:512M"), "--tier", "2"])?;
        let known = fill(&volume, 40, 3_000_000)?;
        let first = volume.devices()[1].display().to_string();
        let begin = || -> Result<_> {
            let mut command = volume.terrace("device")?;
            let child = command
                .arg("remove")
                .arg(volume.root())
                .arg(&first)
                .stderr(Stdio::piped())
                .spawn()?;
            loop {
                let now = removal(&volume)?;
                let (left, total) = (now["left_bytes"].as_u64(), now["total_bytes"].as_u64());
                match now["state"].as_str() {
                    Some("running") if left < total => return Ok(child),
                    None | Some("running" | "cancelled") => thread::sleep(Duration::from_millis(5)),
                    _ => bail!("it is over already: {now}"),
                }
            }
        };
        let interrupted = begin()?;
        ensure!(devices(&volume)?[1]["state"] == "draining", "{:?}", devices(&volume)?);
        // SAFETY: kill(2) has no preconditions; the process is a child of this test that has not
        // been waited for.
        ensure!(unsafe { libc::kill(interrupted.id() as i32, libc::SIGINT) } == 0, "kill");
        let ended = interrupted.wait_with_output()?;
        let told = String::from_utf8_lossy(&ended.stderr);
        ensure!(
            ended.status.code() == Some(1) && told.contains("was cancelled, the disk is in use"),
            "{told}"
        );
        ensure!(devices(&volume)?[1]["state"] == "in use", "{:?}", devices(&volume)?);

        let command = begin()?;
        volume.kill()?;
        let ended = command.wait_with_output()?;
        ensure!(ended.status.code() == Some(1), "the command saw the daemon die: {ended:?}");
        volume.remount()?;
        ensure!(paths(&volume)?[1..] == [first.clone(), second.clone()], "{:?}", paths(&volume)?);
        must_hold(&known)?;
        volume.check()?;
        device(&volume, "remove", &[&first])?;
        ensure!(paths(&volume)?[1..] == [second], "{:?}", paths(&volume)?);
        must_hold(&known)?;
        volume.check()?;
        must_hold(&known)
    });
}

/// A disk with a budget leaves. The mount goes on without that budget, whether its daemon is killed
/// or upgraded, and so it does when another disk has the place of the first one.
#[test]
fn a_budget_leaves_with_its_disk() {
    proof(|| {
        let spec = VolumeSpec::new("devices-wear").pm_mib(16).disk_mib(64);
        let mut volume = spec.options("keeper,wear=pm:2G/day,wear=disk1:1G/day").mount()?;
        ensure!(with_budgets(&volume)? == ["pm", "disk1"], "{}", status(&volume)?["wear"]);
        let scratch = Scratch::new("devices-wear-more")?;
        let disk = |name: &str| format!("{}:64M", scratch.join(name).display());
        let known = fill(&volume, 4, 1_000_000)?;
        let first = volume.devices()[1].display().to_string();
        // By a kill and by an upgrade, with these words in the log of the daemon that goes on.
        let outlives = |words: &str| -> Result<()> {
            for upgrades in [false, true] {
                let before = (volume.serving()?, volume.daemon_log().matches(words).count());
                match upgrades {
                    false => volume.kill_daemon()?,
                    true => drop(run(volume.terrace("upgrade")?.arg(volume.root()))?),
                }
                must_hold(&known)?;
                let bounded = with_budgets(&volume)?;
                ensure!(bounded == ["pm"], "{bounded:?} have budgets, upgraded: {upgrades}");
                let after = (volume.serving()?, volume.daemon_log().matches(words).count());
                ensure!(after.0 != before.0, "the same daemon");
                ensure!(after.1 == before.1 + 1, "{words}:\n{}", volume.daemon_log());
            }
            Ok(())
        };
        // Another daemon goes on with the budgets of the one before it.
        volume.kill_daemon()?;
        must_hold(&known)?;
        ensure!(with_budgets(&volume)? == ["pm", "disk1"], "{}", status(&volume)?["wear"]);
        device(&volume, "add", &[&disk("second")])?;
        device(&volume, "remove", &[&first])?;
        outlives("wear=disk1: the volume has no such device")?;
        device(&volume, "add", &[&disk("third")])?;
        let rows = devices(&volume)?;
        ensure!(rows[1]["path"] == scratch.join("third").display().to_string(), "{rows:?}");
        outlives("disk1: had no budget before this daemon")?;
        volume.check()
    });
}
