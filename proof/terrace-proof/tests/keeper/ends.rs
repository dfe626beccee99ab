//! What ends a mount with a keeper, and what does not.

use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Signal, WaitOptions, kill_process, waitpid};
use terrace_proof::{TestVolume, VolumeSpec, proof, run};

const LIMIT: Duration = Duration::from_secs(60);

fn kept(name: &str) -> Result<TestVolume> {
    VolumeSpec::new(name).options("keeper").mount()
}

fn is_served(volume: &TestVolume) -> bool {
    rustix::fs::statvfs(volume.root()).is_ok()
}

#[test]
fn an_idle_mount_outlives_any_number_of_daemons() {
    proof(|| {
        let mut volume = kept("keeper-idle")?;
        let watch = volume.kill_after(LIMIT);
        fs::write(volume.join("a"), "whole")?;
        for kills in 1..=5 {
            volume.kill_daemon()?;
            // Nobody asks anything until the next one has nothing to answer.
            let deadline = Instant::now() + LIMIT;
            while volume.daemon_log().matches("is served again").count() < kills {
                ensure!(Instant::now() < deadline, "no successor\n{}", volume.daemon_log());
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        ensure!(is_served(&volume) && fs::read_to_string(volume.join("a"))? == "whole");
        drop(watch);
        volume.check()
    });
}

#[test]
fn daemons_that_answer_nobody_are_given_up() {
    proof(|| {
        let mut volume = kept("keeper-given-up")?;
        let watch = volume.kill_after(LIMIT);
        fs::write(volume.join("a"), "whole")?;
        let root = volume.root().to_owned();
        // No successor gets the devices, so none serves.
        let keeper = volume.process()?;
        kill_process(keeper, Signal::STOP)?;
        waitpid(Some(keeper), WaitOptions::UNTRACED)?;
        let mut last = volume.serving()?;
        volume.kill_daemon()?;
        let pm = File::open(volume.pm_path())?;
        while flock(&pm, FlockOperation::NonBlockingLockExclusive).is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let asks = std::thread::spawn(move || rustix::fs::statvfs(&root));
        kill_process(keeper, Signal::CONT)?;
        while !asks.is_finished() {
            if let Some(next) = volume.daemon_of_keeper().filter(|&next| next != last) {
                kill_process(next, Signal::KILL)?;
                last = next;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(pm);
        drop(watch);
        let answer = asks.join().expect("no panic");
        ensure!(!volume.ended()?, "the keeper ends with success");
        ensure!(answer.is_err() && !is_served(&volume), "a mount that was given up answers");
        let log = volume.daemon_log();
        ensure!(log.contains("3 daemons died one after the other"), "{log}");
        run(volume.terrace("umount")?.arg(volume.root()))?;
        volume.remount()?;
        ensure!(fs::read_to_string(volume.join("a"))? == "whole");
        volume.check()
    });
}

#[test]
fn the_daemon_goes_on_without_its_keeper() {
    proof(|| {
        let mut volume = kept("keeper-killed")?;
        let watch = volume.kill_after(LIMIT);
        fs::write(volume.join("a"), "whole")?;
        kill_process(volume.process()?, Signal::KILL)?;
        ensure!(!volume.ended()?, "a keeper that was killed");
        ensure!(fs::read_to_string(volume.join("a"))? == "whole" && is_served(&volume));
        drop(watch);
        run(volume.terrace("umount")?.arg(volume.root()))?;
        run(volume.terrace("check")?.arg(volume.pm_path()))?;
        Ok(())
    });
}

#[test]
fn a_signal_for_either_of_the_two_unmounts() {
    proof(|| {
        for to_keeper in [true, false] {
            let mut volume = kept("keeper-signal")?;
            let watch = volume.kill_after(LIMIT);
            fs::write(volume.join("a"), "whole")?;
            volume.kill_daemon()?;
            let process = if to_keeper { volume.process()? } else { volume.serving()? };
            // One that comes before the successor serves counts as well.
            kill_process(process, Signal::TERM)?;
            ensure!(volume.ended()?, "SIGTERM: no clean end\n{}", volume.daemon_log());
            drop(watch);
            let checked = run(volume.terrace("check")?.arg(volume.pm_path()))?;
            ensure!(!checked.contains("recover"), "{checked}");
        }
        Ok(())
    });
}

#[test]
fn thresholds_stay() {
    proof(|| {
        let volume = kept("keeper-thresholds")?;
        let watch = volume.kill_after(LIMIT);
        run(volume.terrace("set")?.arg(volume.root()).args(["group=4M", "migrate_at=77"]))?;
        for _ in 0..2 {
            volume.kill_daemon()?;
            let shown = run(volume.terrace("set")?.arg(volume.root()).arg("--json"))?;
            let values: serde_json::Value = serde_json::from_str(&shown)?;
            ensure!(values["group"] == 4 << 20 && values["migrate_at"] == 77, "{values}");
        }
        drop(watch);
        Ok(())
    });
}

#[test]
fn a_recording_and_a_scrub_end_with_a_clear_word() {
    proof(|| {
        let volume = kept("keeper-record")?;
        let watch = volume.kill_after(LIMIT);
        let trace = volume.pm_path().with_file_name("trace");
        let mut recording = Command::new(terrace_proof::terrace_binary()?)
            .arg("record")
            .arg(volume.root())
            .arg("--output")
            .arg(&trace)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let deadline = Instant::now() + LIMIT;
        while fs::metadata(&trace).map_or(0, |meta| meta.len()) == 0 {
            ensure!(Instant::now() < deadline, "no recording");
            std::thread::sleep(Duration::from_millis(10));
        }
        volume.kill_daemon()?;
        let status = terrace_proof::wait_or_kill(&mut recording, LIMIT)?;
        let mut said = String::new();
        recording.stderr.take().context("stderr")?.read_to_string(&mut said)?;
        ensure!(!status.success() && said.contains("daemon"), "{status}: {said}");
        drop(watch);
        Ok(())
    });
}

#[test]
fn what_a_keeper_cannot_do_is_refused_with_the_remedy() {
    proof(|| {
        let options = "keeper,clone_fd";
        let Err(error) = VolumeSpec::new("keeper-refused").options(options).mount() else {
            bail!("{options} is mounted");
        };
        ensure!(format!("{error:#}").contains("leave out clone_fd"), "{error:#}");
        Ok(())
    });
}

#[test]
fn a_file_that_is_open_without_a_name_gives_its_room_back() {
    proof(|| {
        let mut volume = VolumeSpec::new("keeper-room").options("keeper").mount()?;
        let watch = volume.kill_after(LIMIT);
        let free = || rustix::fs::statvfs(volume.root()).map(|fs| fs.f_bfree);
        let before = free()?;
        let path = volume.join("large");
        let mut file = File::options().read(true).write(true).create_new(true).open(&path)?;
        file.write_all(&vec![7; 16 << 20])?;
        fs::remove_file(&path)?;
        volume.kill_daemon()?;
        let mut read = Vec::new();
        file.rewind()?;
        file.read_to_end(&mut read)?;
        ensure!(read == vec![7; 16 << 20], "contents");
        ensure!(before - free()? >= 4 << 10, "the room of an open file is taken");
        drop(file);
        let deadline = Instant::now() + LIMIT;
        while before - free()? > 100 {
            ensure!(Instant::now() < deadline, "the room of a file that is gone is still taken");
            std::thread::sleep(Duration::from_millis(20));
        }
        drop(watch);
        volume.check()
    });
}
