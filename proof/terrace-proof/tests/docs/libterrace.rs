//! docs/LIBTERRACE.md.

use crate::page::text;
use crate::stage::{Step, play};
use anyhow::{Result, ensure};
use terrace_proof::proof;

/// Each example begins with an empty log.
const THEN: &str = "test \"$(stat --format %s /mnt/log)\" = 640000 && rm /mnt/log";

/// No other process has the file.
const PRINTS: &[&str] = &[" records per second", " calls went direct, 0 took the mount"];

const STEPS: &[Step] = &[
    Step::new("make install PREFIX=/opt/terrace").then(
        "cd /opt/terrace
        test -x bin/terrace && test -f bin/libterrace_preload.so && test -f lib/libterrace.a
        test -f include/terrace.h && test -f lib/libterrace.so.0
        test \"$(readlink lib/libterrace.so)\" = libterrace.so.0
        test \"$(pkg-config --modversion terrace)\" = \"$(terrace --version | cut -d ' ' -f 2)\"
        test \"$(pkg-config --variable=prefix terrace)\" = /opt/terrace
        test -s share/man/man3/libterrace.3",
    ),
    Step::new("terrace mount -o lend=owner /dev/shm/pm /mnt")
        .before("terrace format --pm /dev/shm/pm:16M --disk /data/disk:300M")
        .then("mountpoint /mnt"),
    Step::new(
        "cc -o /tmp/log crates/terrace-c/examples/log.c $(pkg-config --cflags --libs terrace)",
    )
    .then("ldd /tmp/log | grep /opt/terrace/lib/libterrace.so.0"),
    Step::new("/tmp/log /mnt/log 10000").prints(PRINTS).then(THEN),
    Step::new(
        "cc -static -o /tmp/log-static crates/terrace-c/examples/log.c $(pkg-config --static \
         --cflags --libs terrace)",
    )
    .then("not ldd /tmp/log-static"),
    Step::new("/tmp/log-static /mnt/log 10000").prints(PRINTS).then(THEN),
    Step::new("cargo run --release --locked --package terrace-direct --example log /mnt/log 10000")
        .prints(PRINTS)
        .then(THEN),
    Step::new("python3 crates/terrace-c/examples/log.py /mnt/log 10000")
        .prints(PRINTS)
        .then("rm /mnt/log && terrace umount /mnt && terrace check /dev/shm/pm"),
];

#[test]
fn every_command_of_the_page_runs_as_printed() {
    proof(|| -> Result<()> { play("docs/LIBTERRACE.md", STEPS, &[]) });
}

#[test]
fn the_page_names_all_functions_of_the_header() {
    proof(|| -> Result<()> {
        let page = text("docs/LIBTERRACE.md")?;
        let header = text("crates/terrace-c/include/terrace.h")?;
        let mut count = 0;
        for line in header.lines().filter(|line| line.ends_with(");")) {
            let Some((before, _)) = line.split_once('(') else { continue };
            let Some(at) = before.rfind("terrace_") else { continue };
            // What a version is needs no explanation.
            let name = &before[at..];
            ensure!(name == "terrace_version" || page.contains(&format!("`{name}`")), "{name}");
            count += 1;
        }
        ensure!(count > 5, "{count} functions");
        Ok(())
    });
}
