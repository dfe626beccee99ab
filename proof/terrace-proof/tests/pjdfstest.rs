//! The pjdfstest suite of POSIX semantics, through a mount shared by several users.

use anyhow::{Context, Result, ensure};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use terrace_proof::{Scratch, VolumeSpec, proof, tool};

/// Tests that Terrace does not pass, one per line: `name  # reason`. The suite itself reports one
/// that passes in spite of being listed, so the list cannot go stale.
const EXCLUSIONS: &str = include_str!("../pjdfstest-exclusions.txt");

fn exclusions() -> Result<Vec<String>> {
    EXCLUSIONS
        .lines()
        .filter(|line| !line.trim_start().starts_with('#') && !line.trim().is_empty())
        .map(|line| {
            let (name, reason) =
                line.split_once('#').with_context(|| format!("no reason: {line}"))?;
            ensure!(!reason.trim().is_empty(), "empty reason: {line}");
            Ok(name.trim().to_owned())
        })
        .collect()
}

/// Two users that every Linux system has, each with its own group of the same number. A nap of two
/// ticks of the slowest clock that a kernel keeps its times with.
fn configuration(expected_failures: &[String], remounts: bool) -> String {
    let nobodys_group = if group_exists("nogroup") { "nogroup" } else { "nobody" };
    format!(
        "[features]\nposix_fallocate = {{}}\nrename_ctime = {{}}\nutime_now = {{}}\nutimensat = \
         {{}}\n\
         [settings]\nnaptime = 0.02\nallow_remount = {remounts}\n\
         expected_failures = {expected_failures:?}\n\
         [dummy_auth]\nentries = [[\"nobody\", \"{nobodys_group}\"], [\"daemon\", \"daemon\"]]\n"
    )
}

fn group_exists(name: &str) -> bool {
    let groups = std::fs::read_to_string("/etc/group").unwrap_or_default();
    groups.lines().any(|line| line.split(':').next() == Some(name))
}

/// The suite runs `mount -o remount,ro`. mount(8) would hand a FUSE mount to a helper program that
/// starts file systems and knows nothing of remounting; `-i` makes it ask the kernel directly.
fn mount_without_helpers(dir: &Scratch) -> Result<()> {
    let wrapper = dir.join("mount");
    std::fs::write(&wrapper, format!("#!/bin/sh\nexec {} -i \"$@\"\n", tool("mount")?.display()))?;
    std::fs::set_permissions(&wrapper, PermissionsExt::from_mode(0o755))?;
    Ok(())
}

/// One run of the suite: all tests or those that match, with or without those that remount.
struct Suite<'a> {
    root: &'a Path,
    dir: &'a Scratch,
    expected_failures: &'a [String],
}

impl Suite<'_> {
    /// Returns what the suite printed; all tests must have passed.
    fn run(&self, pattern: Option<&str>, remounts: bool) -> Result<String> {
        let config = self.dir.join("config.toml");
        std::fs::write(&config, configuration(self.expected_failures, remounts))?;
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new(tool("pjdfstest")?)
            .env("PATH", format!("{}:{path}", self.dir.path().display()))
            .arg("-c")
            .arg(config)
            .arg("-p")
            .arg(self.root)
            .args(["-s", "/dev/shm"])
            .args(pattern)
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let notable: Vec<&str> =
            text.lines().filter(|l| !l.ends_with(" ok") && !l.ends_with("skipped")).collect();
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}\n{errors}", notable.join("\n"));
        Ok(text)
    }
}

/// Fails if a test other than these was skipped: a suite that skips most of its tests proves
/// nothing.
fn skipped_only(text: &str, allowed: &[&str]) -> Result<()> {
    for line in text.lines().filter(|line| line.ends_with("skipped")) {
        ensure!(allowed.iter().any(|name| line.contains(name)), "unexpectedly skipped: {line}");
    }
    Ok(())
}

/// **P-26** Permissions, owners, link counts, times and errors are as POSIX has them, as far as
/// pjdfstest tests it; exceptions are listed with their reasons in
/// `proof/terrace-proof/pjdfstest-exclusions.txt`.
#[test]
fn posix_semantics() {
    proof(|| suite(VolumeSpec::new("pjdfstest")));
}

/// The name is short, because paths of sockets must be.
#[test]
fn posix_semantics_while_everything_migrates() {
    proof(|| suite(VolumeSpec::new("pjdmoving").migrating()));
}

fn suite(spec: VolumeSpec) -> Result<()> {
    tool("pjdfstest")?;
    ensure!(rustix::process::geteuid().is_root(), terrace_proof::skip("pjdfstest needs root"));
    let migrates = spec.migrates();
    let mut volume = spec.shared().mount()?;
    if volume.is_mount() && migrates {
        // One that goes sooner or later.
        for name in 0..100 {
            std::fs::write(volume.join(&format!("a-name-that-makes-a-log-longer-{name}")), b"")?;
        }
        volume.wait_for_moved_logs()?;
    }
    let dir = Scratch::new("pjdfstest-config")?;
    mount_without_helpers(&dir)?;
    let expected_failures = exclusions()?;
    let suite = Suite { root: volume.root(), dir: &dir, expected_failures: &expected_failures };
    let text = suite.run(None, false)?;
    for name in &expected_failures {
        ensure!(text.contains(name.as_str()), "the suite has no test {name}; remove the exclusion");
    }
    // pathconf(3) knows no limit on hard links for FUSE.
    skipped_only(&text, &["erofs", "link::link_count_max"])?;
    if volume.is_mount() {
        // In a process of their own: other tests leave files open, which keeps a mount writable.
        skipped_only(&suite.run(Some("erofs"), true)?, &[])?;
    }
    volume.check()
}
