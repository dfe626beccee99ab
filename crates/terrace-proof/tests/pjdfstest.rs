//! The pjdfstest suite of POSIX semantics, through a mount shared by several users.

use anyhow::{Context, Result, ensure};
use std::os::unix::fs::PermissionsExt;
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
            let (name, reason) = line.split_once('#').with_context(|| format!("no reason: {line}"))?;
            ensure!(!reason.trim().is_empty(), "empty reason: {line}");
            Ok(name.trim().to_owned())
        })
        .collect()
}

/// Two users that every Linux system has, each with its own group of the same number.
fn configuration(expected_failures: &[String]) -> String {
    let nobodys_group = if group_exists("nogroup") { "nogroup" } else { "nobody" };
    format!(
        "[features]\nposix_fallocate = {{}}\nrename_ctime = {{}}\nutime_now = {{}}\nutimensat = {{}}\n\
         [settings]\nnaptime = 0.01\nallow_remount = true\nexpected_failures = {expected_failures:?}\n\
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

/// **P-26** Permissions, owners, link counts, times and errors are as POSIX has them, as far as
/// pjdfstest tests it; exceptions are listed with their reasons in
/// `crates/terrace-proof/pjdfstest-exclusions.txt`.
#[test]
fn posix_semantics() {
    proof(|| {
        let pjdfstest = tool("pjdfstest")?;
        ensure!(rustix::process::geteuid().is_root(), terrace_proof::skip("pjdfstest needs root"));
        let mut volume = VolumeSpec::new("pjdfstest").shared().mount()?;
        let dir = Scratch::new("pjdfstest-config")?;
        mount_without_helpers(&dir)?;
        let expected_failures = exclusions()?;
        let mut config = configuration(&expected_failures);
        if !volume.is_mount() {
            config = config.replace("allow_remount = true", "allow_remount = false");
        }
        std::fs::write(dir.join("config.toml"), config)?;
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new(pjdfstest)
            .env("PATH", format!("{}:{path}", dir.path().display()))
            .arg("-c")
            .arg(dir.join("config.toml"))
            .arg("-p")
            .arg(volume.root())
            .args(["-s", "/dev/shm"])
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let failures: Vec<&str> =
            text.lines().filter(|l| l.ends_with("FAILED") || l.ends_with("PASSED UNEXPECTEDLY")).collect();
        let summary = text.lines().find(|l| l.starts_with("Summary")).unwrap_or("no summary");
        println!("{summary}");
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{summary}\n{}\n{errors}\nall output:\n{text}", failures.join("\n"));
        for name in &expected_failures {
            ensure!(text.contains(name.as_str()), "the suite has no test {name}; remove the exclusion");
        }
        if volume.is_mount() {
            only_the_link_limit_may_be_skipped(&text)?;
        }
        volume.check()
    });
}

/// A suite that skips most of its tests proves nothing. One test needs a limit on hard links, which
/// pathconf(3) does not know for FUSE.
fn only_the_link_limit_may_be_skipped(output: &str) -> Result<()> {
    for line in output.lines().filter(|line| line.ends_with("skipped")) {
        ensure!(line.starts_with("link::link_count_max"), "unexpectedly skipped: {line}");
    }
    Ok(())
}
