//! `terrace upgrade`: what another program may be like that is to take a mount over, and what may
//! die meanwhile.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use terrace_proof::{Rng, TestVolume, VolumeSpec, proof, run, skip, terrace_binary, when_idle};

use super::{disturb_under_load, environment};

const LIMIT: Duration = Duration::from_secs(60);

fn kept(name: &str) -> Result<TestVolume> {
    VolumeSpec::new(name).options("keeper").mount()
}

/// `terrace upgrade`, to this program if one is named.
fn upgrade(volume: &TestVolume, program: Option<&Path>) -> Result<Command> {
    let mut command = volume.terrace("upgrade")?;
    if let Some(program) = program {
        command.arg("--program").arg(program);
    }
    command.arg(volume.root());
    Ok(command)
}

/// A copy of the program beside the volume's devices.
fn copy(volume: &TestVolume, name: &str) -> Result<PathBuf> {
    let path = volume.pm_path().with_file_name(name);
    fs::copy(terrace_binary()?, &path)?;
    Ok(path)
}

/// The daemon that serves, as `terrace status` tells.
fn daemon(volume: &TestVolume) -> Result<serde_json::Value> {
    let status = run(volume.terrace("status")?.arg("--json").arg(volume.root()))?;
    Ok(serde_json::from_str::<serde_json::Value>(&status)?["daemon"].take())
}

/// The program that a process runs.
fn program_of(process: Pid) -> Result<PathBuf> {
    Ok(fs::read_link(format!("/proc/{}/exe", process.as_raw_pid()))?)
}

/// How many descriptors a process has.
fn open_files(process: Pid) -> Result<usize> {
    Ok(fs::read_dir(format!("/proc/{}/fd", process.as_raw_pid()))?.count())
}

/// That an upgrade is refused, with these words, while the daemon goes on.
fn is_refused(volume: &TestVolume, command: &mut Command, words: &str) -> Result<()> {
    let before = volume.serving()?;
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(1), "{command:?}: {}: {said}", output.status);
    ensure!(said.contains(words), "{command:?}: {said}");
    ensure!(volume.serving()? == before, "{command:?}: another daemon serves");
    ensure!(fs::read_to_string(volume.join("a"))? == "whole", "{command:?}: it does not serve");
    Ok(())
}

/// **P-49** `terrace upgrade` replaces the daemon of a mount by another program, and programs
/// notice that as P-48 says. If the new program does not know a format or an option of the mount,
/// or fails before it has answered anything, the daemon or a successor of the same program goes on.
///
/// The tests below have what programs may be like, and what may die.
#[test]
fn programs_see_a_pause_at_each_upgrade() {
    proof(|| {
        let times = environment("TERRACE_KEEPER_UPGRADES", 8)?;
        let spec = VolumeSpec::new("upgrade-load").pm_mib(96);
        disturb_under_load(spec, times, &mut |volume, _| run(&mut upgrade(volume, None)?).map(drop))
    });
}

/// Programs go on, whichever process dies in an upgrade, at any moment. The keeper dies last, as
/// nobody starts another one.
#[test]
fn programs_see_a_pause_whatever_dies_during_an_upgrade() {
    proof(|| {
        let times = environment("TERRACE_KEEPER_UPGRADES", 8)?;
        let spec = VolumeSpec::new("upgrade-kills").pm_mib(96);
        let mut left = times;
        disturb_under_load(spec, times, &mut |volume, rng| {
            left -= 1;
            let mut command = start(&mut upgrade(volume, None)?)?;
            std::thread::sleep(Duration::from_micros(rng.below(90_000)));
            let victim = match left {
                0 => Some(volume.process()?),
                _ => volume.children_of_keeper()?.into_iter().max_by_key(|_| rng.next_u64()),
            };
            if let Some(victim) = victim {
                // It may have ended.
                let _ = kill_process(victim, Signal::KILL);
            }
            terrace_proof::wait_or_kill(&mut command, LIMIT).map(drop)
        })
    });
}

fn start(command: &mut Command) -> Result<Child> {
    Ok(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?)
}

#[test]
fn a_mount_goes_from_program_to_program() {
    proof(|| {
        let mut volume = kept("upgrade-programs")?;
        let watch = volume.kill_after(LIMIT);
        fs::write(volume.join("a"), "whole")?;
        run(volume.terrace("set")?.arg(volume.root()).arg("migrate_at=77"))?;
        let keeper = volume.process()?;
        let open = open_files(keeper)?;
        for name in ["one", "two", "three"] {
            let program = copy(&volume, name)?;
            let before = daemon(&volume)?;
            let said = Command::new(&program).arg("upgrade").arg(volume.root()).output()?;
            let said = String::from_utf8_lossy(&said.stderr).into_owned();
            ensure!(said.contains("is served by terrace ") && !said.contains("note"), "{said}");
            let after = daemon(&volume)?;
            ensure!(before["process"] != after["process"], "{before}: {after}");
            ensure!(after["program"] == program.to_str().context("a name")?, "{after}");
            ensure!(program_of(keeper)? == program && program_of(volume.serving()?)? == program);
            // A package manager removes the old one, and a successor needs no file.
            fs::remove_file(&program)?;
            volume.kill_daemon()?;
            ensure!(daemon(&volume)?["replaced"] == true, "{}", daemon(&volume)?);
        }
        ensure!(open_files(keeper)? == open && open_files(volume.serving()?)? <= 100, "a leak");
        let shown = run(volume.terrace("status")?.arg(volume.root()))?;
        ensure!(shown.contains("see `terrace upgrade`"), "{shown}");
        let shown = run(volume.terrace("set")?.arg(volume.root()).arg("--json"))?;
        let values: serde_json::Value = serde_json::from_str(&shown)?;
        ensure!(values["migrate_at"] == 77, "thresholds stay: {values}");
        ensure!(fs::read_to_string(volume.join("a"))? == "whole");
        kill_process(keeper, Signal::TERM)?;
        ensure!(volume.ended()?, "SIGTERM: no clean end\n{}", volume.daemon_log());
        drop(watch);
        let checked = run(volume.terrace("check")?.arg(volume.pm_path()))?;
        ensure!(!checked.contains("recover"), "{checked}");
        Ok(())
    });
}

#[test]
fn open_files_and_locks_stay() {
    proof(|| {
        let mut volume = kept("upgrade-open")?;
        let watch = volume.kill_after(LIMIT);
        let path = volume.join("removed");
        let mut file = File::options().read(true).write(true).create_new(true).open(&path)?;
        file.write_all(&vec![7; 4 << 20])?;
        fs::remove_file(&path)?;
        let locked = File::create_new(volume.join("locked"))?;
        flock(&locked, FlockOperation::LockExclusive)?;
        for _ in 0..3 {
            run(&mut upgrade(&volume, None)?)?;
            let mut read = Vec::new();
            file.rewind()?;
            file.read_to_end(&mut read)?;
            ensure!(read == vec![7; 4 << 20], "contents");
            let other = File::open(volume.join("locked"))?;
            let taken = flock(&other, FlockOperation::NonBlockingLockShared);
            ensure!(taken == Err(Errno::WOULDBLOCK), "{taken:?}");
        }
        drop(file);
        drop(watch);
        drop(locked);
        volume.check()
    });
}

/// A copy of the program in which a text, of the same length, stands for another.
fn changed(volume: &TestVolume, name: &str, from: &str, to: &str) -> Result<PathBuf> {
    ensure!(from.len() == to.len());
    let path = copy(volume, name)?;
    let mut bytes = fs::read(&path)?;
    let places: Vec<usize> = bytes
        .windows(from.len())
        .enumerate()
        .filter_map(|(at, window)| (window == from.as_bytes()).then_some(at))
        .collect();
    ensure!(!places.is_empty(), "{from} is not in the program");
    for at in places {
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    fs::write(&path, bytes)?;
    Ok(path)
}

#[test]
fn programs_that_cannot_take_over_are_refused_and_the_daemon_goes_on() {
    proof(|| {
        let mut volume = kept("upgrade-refused")?;
        let watch = volume.kill_after(2 * LIMIT);
        fs::write(volume.join("a"), "whole")?;
        let file = |name: &str, mode: u32, contents: &[u8]| -> Result<PathBuf> {
            let path = volume.pm_path().with_file_name(name);
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(mode).open(&path)?.write_all(contents)?;
            Ok(path)
        };
        let binary = fs::read(terrace_binary()?)?;
        let mut foreign = binary.clone();
        // e_machine: of a processor that there has never been.
        foreign[18..20].copy_from_slice(&[0xfe, 0xfe]);
        let cases = [
            (file("text", 0o755, b"no program")?, "it is no program for this machine"),
            (file("script", 0o755, b"#!/bin/sh\nexit 0\n")?, "it is a script"),
            (file("plain", 0o644, &binary)?, "it may not be executed"),
            (file("foreign", 0o755, &foreign)?, "it is no program for this machine"),
            (file("torn", 0o755, &binary[..8192])?, "before it said whether it can"),
            (PathBuf::from("/bin/true"), "ended with status 0 before it said whether it can"),
            (PathBuf::from("/no/such"), "/no/such"),
            (PathBuf::from("/dev/null"), "is no program"),
            (volume.root().to_owned(), "lies on the volume itself"),
            // As if it were of a version that does not have this.
            (
                changed(&volume, "option", "writeback=SECONDS", "writebacx=SECONDS")?,
                "does not know all of its options: unknown mount option \"writeback\"",
            ),
        ];
        for (program, words) in cases {
            is_refused(&volume, &mut upgrade(&volume, Some(&program))?, words)?;
        }
        is_refused(&volume, volume.terrace("upgrade")?.arg("/"), "not Terrace")?;
        // It has not hurt.
        run(&mut upgrade(&volume, None)?)?;
        drop(watch);
        volume.check()
    });
}

#[test]
fn a_program_that_fails_after_its_turn_has_come_gives_way_to_the_one_before() {
    proof(|| {
        let mut volume = kept("upgrade-fails")?;
        let watch = volume.kill_after(LIMIT);
        fs::write(volume.join("a"), "whole")?;
        let program = copy(&volume, "killed")?;
        let keeper = volume.process()?;
        let own = program_of(keeper)?;
        let mut failed = 0;
        let mut rng = Rng::new(environment("TERRACE_KEEPER_SEED", 1)?);
        for _ in 0..40 {
            let before = volume.serving()?;
            let mut command = start(&mut upgrade(&volume, Some(&program))?)?;
            let deadline = Instant::now() + LIMIT;
            // The next one, as soon as it is there, at some moment before it has answered.
            let next = loop {
                ensure!(Instant::now() < deadline, "no other daemon");
                match volume.children_of_keeper()?.into_iter().find(|&child| child != before) {
                    Some(next) => break next,
                    None => std::thread::sleep(Duration::from_micros(200)),
                }
            };
            std::thread::sleep(Duration::from_micros(rng.below(40_000)));
            let _ = kill_process(next, Signal::KILL);
            let status = terrace_proof::wait_or_kill(&mut command, LIMIT)?;
            ensure!(fs::read_to_string(volume.join("a"))? == "whole");
            let serving = program_of(volume.serving()?)?;
            match status.code() {
                Some(1) => ensure!(serving == own, "{serving:?} serves, after {status}"),
                Some(0) => ensure!(serving == program, "{serving:?} serves, after {status}"),
                _ => bail!("{status}"),
            }
            failed += u32::from(!status.success());
            if serving == program {
                break;
            }
        }
        ensure!(failed > 0, "no program was killed before it had answered");
        drop(watch);
        volume.check()
    });
}

#[test]
fn the_next_daemon_goes_on_without_a_keeper_that_is_killed_meanwhile() {
    proof(|| {
        let mut rng = Rng::new(environment("TERRACE_KEEPER_SEED", 1)?);
        for round in 0..6 {
            let mut volume = kept("upgrade-orphan")?;
            let watch = volume.kill_after(LIMIT);
            fs::write(volume.join("a"), "whole")?;
            let mut command = start(&mut upgrade(&volume, None)?)?;
            std::thread::sleep(Duration::from_micros(rng.below(60_000)));
            kill_process(volume.process()?, Signal::KILL)?;
            ensure!(!volume.ended()?, "a keeper that was killed");
            terrace_proof::wait_or_kill(&mut command, LIMIT)?;
            let read = fs::read_to_string(volume.join("a"));
            ensure!(read.is_ok_and(|text| text == "whole"), "round {round}: nobody serves");
            let output = upgrade(&volume, None)?.output()?;
            let said = String::from_utf8_lossy(&output.stderr);
            ensure!(said.contains("its keeper has ended"), "{said}");
            drop(watch);
            when_idle(|| run(volume.terrace("umount")?.arg(volume.root())).map(drop))?;
            run(volume.terrace("check")?.arg(volume.pm_path()))?;
        }
        Ok(())
    });
}

#[test]
fn mounts_without_a_keeper_are_refused_with_the_remedy() {
    proof(|| {
        for options in ["nokeeper", "clone_fd"] {
            let volume = VolumeSpec::new("upgrade-alone").options(options).mount()?;
            fs::write(volume.join("a"), "whole")?;
            let watch = volume.kill_after(LIMIT);
            is_refused(&volume, &mut upgrade(&volume, None)?, "has no keeper")?;
            drop(watch);
        }
        Ok(())
    });
}

#[test]
fn other_users_may_not_upgrade() {
    proof(|| {
        if !geteuid().is_root() {
            return Err(skip("only root can be another user"));
        }
        let volume = VolumeSpec::new("upgrade-users").options("keeper").shared().mount()?;
        let watch = volume.kill_after(LIMIT);
        fs::write(volume.join("a"), "whole")?;
        fs::set_permissions(volume.root(), PermissionsExt::from_mode(0o755))?;
        // One that others may run and reach.
        let dir = tempfile::tempdir_in("/tmp")?;
        fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755))?;
        let program = dir.path().join("terrace");
        fs::copy(terrace_binary()?, &program)?;
        let mut command = Command::new(&program);
        command.arg("upgrade").arg(volume.root()).uid(65_534).gid(65_534);
        ensure!(fs::metadata(&program)?.uid() == 0);
        is_refused(&volume, &mut command, "only root and the user who mounted")?;
        // Root of a container has root's number, and not root's capabilities.
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set=-all", "--inh-caps=-all"]).arg(&program);
        is_refused(&volume, command.arg("upgrade").arg(volume.root()), "may replace it, and no")?;
        let mut command = Command::new("unshare");
        command.arg("--mount").arg(&program).arg("upgrade").arg(volume.root());
        is_refused(&volume, &mut command, "may replace it, and no")?;
        drop(watch);
        Ok(())
    });
}

#[test]
fn a_program_that_says_nothing_keeps_nobody_waiting_and_ends_with_the_keeper() {
    proof(|| {
        let volume = kept("upgrade-silent")?;
        let watch = volume.kill_after(LIMIT);
        fs::write(volume.join("a"), "whole")?;
        let (keeper, serving) = (volume.process()?, volume.serving()?);
        let silent = PathBuf::from("/usr/bin/yes").canonicalize()?;
        let mut asks = start(&mut upgrade(&volume, Some(&silent))?)?;
        let begun = Instant::now();
        let runs = |process: &Pid| program_of(*process).is_ok_and(|program| program == silent);
        let asked = loop {
            if let Some(asked) = volume.children_of_keeper()?.into_iter().find(runs) {
                break asked;
            }
            ensure!(begun.elapsed() < LIMIT, "the program was not run");
            std::thread::sleep(Duration::from_millis(1));
        };
        // More than there are threads, each of which answers at once.
        for _ in 0..9 {
            let mut another = upgrade(&volume, None)?;
            is_refused(&volume, &mut another, "another upgrade is under way")?;
        }
        ensure!(runs(&asked), "it ended while others were refused");
        kill_process(keeper, Signal::KILL)?;
        terrace_proof::wait_or_kill(&mut asks, LIMIT)?;
        let begun = Instant::now();
        while runs(&asked) {
            ensure!(begun.elapsed() < LIMIT, "it outlives the keeper");
            std::thread::sleep(Duration::from_millis(1));
        }
        ensure!(fs::read_to_string(volume.join("a"))? == "whole" && program_of(serving).is_ok());
        drop(watch);
        run(volume.terrace("umount")?.arg(volume.root()))?;
        run(volume.terrace("check")?.arg(volume.pm_path())).map(drop)
    });
}
