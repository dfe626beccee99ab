//! README.md.

use crate::page::text;
use crate::stage::{CTRL_C, How, Step, play};
use anyhow::{Context, Result, ensure};
use terrace_proof::proof;

/// Commands that something else runs.
const ELSEWHERE: &[(&str, &str)] =
    &[("make run", "scripts/test.sh runs it"), ("make test", "it runs this test")];

/// The archive is longer than PM, and longer than what one step of a move takes; the database's
/// files are small.
const FILES: &str = "mkdir /mnt/db && echo manifest >/mnt/db/CURRENT &&
    head -c 1000 /dev/urandom >/mnt/db/000007.sst
    echo log >/mnt/db/wal
    mkdir /tmp/tree && head -c 83M /dev/urandom >/tmp/tree/file &&
    tar cf /mnt/archive.tar -C /tmp tree/file && terrace sync /mnt";

const STEPS: &[Step] = &[
    Step::new("cargo install --locked --path crates/terrace")
        .prints(&["Installed package `terrace"])
        .then("terrace --version"),
    Step::new("terrace format --pm /dev/shm/pm:4G --disk /data/disk:100G")
        .prints(&["16 MiB of PM, 300 MiB of disk"])
        .then("test -f /dev/shm/pm && test -f /data/disk"),
    Step::new("terrace mount /dev/shm/pm /mnt").then("mountpoint /mnt"),
    Step::new("terrace status /mnt").before(FILES).prints(&[
        "/dev/shm/pm",
        "/data/disk",
        "mounted",
        "ok",
    ]),
    Step::new("terrace stats /mnt").how(How::Keys(CTRL_C)).prints(&["pm", "disk1", "cache"]),
    Step::new("terrace where /mnt/db/*").prints(&[
        "/mnt/db/CURRENT",
        "/mnt/db/000007.sst",
        "/mnt/db/wal",
    ]),
    Step::new("terrace evict /mnt/archive.tar").prints(&["/mnt/archive.tar"]).then(
        "terrace where /mnt/archive.tar | grep /data/disk
            not grep /dev/shm/pm <(terrace where /mnt/archive.tar)
            tar xOf /mnt/archive.tar tree/file | cmp - /tmp/tree/file",
    ),
    Step::new("terrace pin pm /mnt/db/wal")
        .prints(&["/mnt/db/wal"])
        .then("test \"$(getfattr --only-values -n user.terrace.pin /mnt/db/wal)\" = pm"),
    Step::new("terrace scrub /mnt").then(
        "until grep -q finished <(terrace scrub status /mnt); \
                                          do sleep 0.1; done",
    ),
    Step::new("terrace device add /mnt /data/disk2:100G").then(
        "terrace device list /mnt | grep \
        /data/disk2",
    ),
    Step::new("terrace upgrade /mnt").prints(&["/mnt: is served by terrace "]),
    Step::new("terrace umount /mnt").then("not mountpoint /mnt"),
    Step::new("terrace check /dev/shm/pm").prints(&["no damage"]),
    Step::new("terrace doctor").prints(&["kernel: Linux ", "io_uring: "]),
    Step::new("/dev/dax0.0  /mnt  terrace  noatime,allow_other,nofail  0 0")
        .before(
            "ln -s /opt/terrace/bin/terrace /sbin/mount.terrace
            terrace format --pm /dev/dax0.0 --disk /dev/nvme1n1",
        )
        .how(How::Fstab)
        .then(
            "grep -q '^/dev/dax0.0 /mnt' /proc/mounts && touch /mnt/file && su nobody -s \
               /bin/sh -c 'cat /mnt/file'",
        ),
];

#[test]
fn every_command_of_the_readme_runs_as_printed() {
    proof(|| -> Result<()> { play("README.md", STEPS, ELSEWHERE) });
}

#[test]
fn the_numbers_of_the_readme_are_those_of_a_row_of_performance() {
    proof(|| -> Result<()> {
        let (readme, measured) = (text("README.md")?, text("docs/PERFORMANCE.md")?);
        let (_, section) = readme.split_once("### Numbers\n").context("no numbers")?;
        let (section, _) = section.split_once("\n#").context("no end of the numbers")?;
        let rows: Vec<_> = section.lines().filter(|line| line.starts_with('|')).skip(2).collect();
        ensure!(rows.len() >= 5, "only {} numbers", rows.len());
        for row in rows {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            let &[_, ours, baseline, ratio] = &cells[..] else { continue };
            let (baseline, _) = baseline.split_once(':').context("no baseline")?;
            let known = measured.lines().any(|line| {
                line.contains(&format!("| {baseline} | {ours} |"))
                    && line.contains(&format!("| {ratio} |"))
            });
            ensure!(known, "no row of PERFORMANCE.md has {row}");
        }
        Ok(())
    });
}
