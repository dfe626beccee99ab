//! docs/METRICS.md.

use crate::stage::{Step, play};
use anyhow::Result;
use terrace_proof::proof;

const STEPS: &[Step] = &[
    Step::new("terrace mount /dev/dax0.0 /mnt -o metrics=/run/terrace-mnt.sock")
        .before("terrace format --pm /dev/dax0.0 --disk /dev/nvme1n1")
        .then(
            "test -S /run/terrace-mnt.sock && terrace umount /mnt && not test -e \
               /run/terrace-mnt.sock",
        ),
    Step::new("terrace mount /dev/dax0.0 /mnt -o metrics=9464").then(
        "curl -sS http://127.0.0.1:9464/metrics | grep '^terrace_volume_info' && terrace \
               umount /mnt",
    ),
    Step::new("terrace mount /dev/dax0.0 /mnt -o metrics=192.0.2.7:9464").then(
        "curl -sS http://192.0.2.7:9464/metrics | grep '^terrace_volume_info' && terrace \
               umount /mnt",
    ),
    Step::new("curl --unix-socket /run/terrace-mnt.sock http://localhost/metrics")
        .before("terrace mount /dev/dax0.0 /mnt -o metrics=/run/terrace-mnt.sock")
        .prints(&["terrace_volume_info", "terrace_tier_capacity_bytes"]),
];

#[test]
fn every_command_of_the_metrics_page_runs_as_printed() {
    proof(|| -> Result<()> { play("docs/METRICS.md", STEPS, &[]) });
}
