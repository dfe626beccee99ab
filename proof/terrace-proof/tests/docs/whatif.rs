//! docs/WHATIF.md.

use crate::stage::{CTRL_C, How, Step, play};
use anyhow::Result;
use terrace_proof::proof;

const STEPS: &[Step] = &[
    Step::new("terrace record /mnt -o day.trace --seconds 86400")
        .before(
            "terrace format --pm /dev/dax0.0 --disk /dev/nvme1n1 && terrace mount /dev/dax0.0 /mnt",
        )
        .how(How::Keys(CTRL_C))
        .prints(&["recording"])
        .meanwhile("head -c 5M /dev/urandom >/mnt/file")
        .then("test -s day.trace"),
    Step::new("terrace simulate day.trace --pm 2G,4G,8G,16G --disk sata-ssd").prints(&[
        "2 GiB",
        "16 GiB",
        "enough: 2 GiB of PM",
    ]),
    Step::new("terrace simulate day.trace --pm 4G --set cold_age=10,30,120 --set group=4M")
        .prints(&["cold_age=10", "cold_age=120"]),
    Step::new("terrace simulate day.trace --pm 4G --wear disk:off,100G/day,10G/day")
        .prints(&["wear_disk=off", "wear_disk=10737418240"]),
    Step::new("terrace simulate day.trace --costs busy.trace")
        .before("cp day.trace busy.trace")
        .prints(&["as predicted for the volume that was recorded"])
        .then("rm day.trace busy.trace"),
];

#[test]
fn every_command_of_whatif_runs_as_printed() {
    proof(|| -> Result<()> { play("docs/WHATIF.md", STEPS, &[]) });
}
