//! docs/DIRECT.md.

use crate::stage::{Step, play};
use anyhow::Result;
use terrace_proof::proof;

const STEPS: &[Step] = &[
    Step::new("terrace mount -o lend=owner /dev/shm/pm /mnt")
        .before("terrace format --pm /dev/shm/pm:16M --disk /data/disk:300M")
        .then("mountpoint /mnt"),
    Step::new("terrace run -- sqlite3 /mnt/a.db 'CREATE TABLE t (a); INSERT INTO t VALUES (1)'")
        .then("test \"$(sqlite3 /mnt/a.db 'SELECT a FROM t')\" = 1"),
    Step::new(
        "terrace run --report -- sqlite3 /mnt/a.db 'CREATE TABLE s AS SELECT value FROM \
         generate_series(1, 100000)'",
    )
    .prints(&["calls and bytes", " direct, ", "/mnt/a.db"])
    .then(
        "test \"$(sqlite3 /mnt/a.db 'SELECT count(*) FROM s')\" = 100000 && terrace umount /mnt && \
         terrace check /dev/shm/pm",
    ),
];

#[test]
fn every_command_of_the_page_runs_as_printed() {
    proof(|| -> Result<()> { play("docs/DIRECT.md", STEPS, &[]) });
}
