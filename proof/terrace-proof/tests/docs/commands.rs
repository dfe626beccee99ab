//! docs/COMMANDS.md.

use crate::stage::{CTRL_C, How, Step, play};
use anyhow::Result;
use terrace_proof::proof;

/// The volume of `/dev/shm/pm` again, where a command has mounted or changed another one.
const USUAL: &str = "mountpoint -q /mnt && terrace umount /mnt; terrace mount /dev/shm/pm /mnt";

/// The archive is longer than PM, and longer than what one step of a move takes; the database's
/// files are small.
const FILES: &str = "mkdir /mnt/db && echo manifest >/mnt/db/CURRENT &&
    head -c 1000 /dev/urandom >/mnt/db/000007.sst
    echo log >/mnt/db/wal
    head -c 83M /dev/urandom >/tmp/archive.tar && cp /tmp/archive.tar /mnt && terrace sync /mnt";

const STEPS: &[Step] = &[
    Step::new("terrace format --pm /dev/dax0.0 --disk /dev/nvme1n1")
        .prints(&["16 MiB of PM, 300 \
        MiB of disk"]),
    Step::new("terrace format --pm /dev/shm/pm:4G --disk /data/disk:100G")
        .prints(&["16 MiB of PM, 300 MiB of disk"]),
    Step::new("terrace format --pm /pmem/vol --disk /dev/nvme1n1 --disk /dev/sdb --tier 1,2")
        .before("truncate --size 0 /dev/nvme1n1 && truncate --size 300M /dev/nvme1n1")
        .prints(&["16 MiB of PM, 600 MiB of disk"])
        .then("terrace status --json /pmem/vol | tr -d ' \\n' | grep '\"tier\":2'"),
    Step::new("terrace mount /dev/shm/pm /mnt").then("mountpoint /mnt"),
    // The disk of the table has moved to another name.
    Step::new("terrace mount /dev/dax0.0 /mnt -o noatime,allow_other --disk /dev/nvme2n1")
        .before(
            "terrace umount /mnt
            truncate --size 0 /dev/dax0.0 /dev/nvme1n1 /dev/nvme2n1
            truncate --size 16M /dev/dax0.0 && truncate --size 300M /dev/nvme1n1
            terrace format --pm /dev/dax0.0 --disk /dev/nvme1n1 && mv /dev/nvme1n1 /dev/nvme2n1",
        )
        .then("terrace status /mnt | grep /dev/nvme2n1"),
    Step::new("terrace mount /dev/dax0.0 /mnt -o wear=disk1:200G/day")
        .before("terrace umount /mnt")
        .then("terrace status /mnt | grep '200 GiB/day'"),
    Step::new("terrace umount /mnt").then("not mountpoint /mnt"),
    Step::new("terrace status /mnt").before(USUAL).prints(&[
        "/dev/shm/pm",
        "/data/disk",
        "mounted",
        "ok",
    ]),
    Step::new("terrace stats /mnt").how(How::Keys(CTRL_C)).prints(&["pm", "disk1"]),
    Step::new("terrace top /mnt").how(How::Keys("q")).prints(&["pm", "disk1"]),
    Step::new("terrace where /mnt/db/*.sst")
        .before(FILES)
        .prints(&["/mnt/db/000007.sst: inode", "DEVICE"]),
    Step::new("terrace why /mnt/db/*.sst").prints(&[
        "/mnt/db/000007.sst: inode",
        "expected: ",
        "what would move it:",
    ]),
    Step::new("terrace sync /mnt").then(
        "terrace stats --once --json /mnt | tr -d ' ' | grep \
                                         '\"dirty_bytes\":0'",
    ),
    Step::new("terrace set /mnt").prints(&["cold_age", "migrate_rate", "group"]),
    Step::new("terrace set /mnt migrate_rate=200M").then(
        "terrace set /mnt | grep migrate_rate | \
        grep 200",
    ),
    Step::new("terrace evict /mnt/archive.tar").prints(&["/mnt/archive.tar"]).then(
        "not grep /dev/shm/pm <(terrace where /mnt/archive.tar) && cmp /mnt/archive.tar \
               /tmp/archive.tar",
    ),
    Step::new("terrace warm /mnt/db/CURRENT")
        .prints(&["/mnt/db/CURRENT"])
        .then("terrace where /mnt/db/CURRENT | grep /dev/shm/pm"),
    Step::new("terrace pin pm /mnt/db/wal")
        .then("test \"$(getfattr --only-values -n user.terrace.pin /mnt/db/wal)\" = pm"),
    Step::new("terrace unpin /mnt/db").then(
        "not getfattr --only-values -n user.terrace.pin \
                                             /mnt/db/wal",
    ),
    Step::new("terrace run -- sqlite3 /mnt/a.db .dump").prints(&["COMMIT;"]),
    Step::new("terrace device list /mnt").prints(&["/dev/shm/pm", "/data/disk", "in use"]),
    Step::new("terrace device add /mnt /dev/nvme2n1 --tier 2")
        .before("truncate --size 0 /dev/nvme2n1 && truncate --size 300M /dev/nvme2n1")
        .prints(&["/dev/nvme2n1"])
        .then("terrace device list /mnt | grep /dev/nvme2n1"),
    Step::new("terrace device remove /mnt /dev/sdb")
        .before(
            "truncate --size 0 /dev/sdb && truncate --size 300M /dev/sdb && terrace device \
                 add /mnt /dev/sdb",
        )
        .prints(&["/dev/sdb"])
        .then("not grep /dev/sdb <(terrace device list /mnt)"),
    Step::new("terrace device replace /mnt /dev/sdb /dev/nvme2n1")
        .before(
            "terrace device remove /mnt /dev/nvme2n1 && terrace device add /mnt /dev/sdb \
                 --tier 2",
        )
        .prints(&["/dev/nvme2n1"])
        .then(
            "terrace device list /mnt | grep /dev/nvme2n1 && not grep /dev/sdb <(terrace \
               device list /mnt)",
        ),
    Step::new("terrace scrub /mnt").then(
        "until grep -q finished <(terrace scrub status /mnt); \
                                          do sleep 0.1; done",
    ),
    Step::new("terrace scrub status /mnt").prints(&["finished", "no damage"]),
    // One that is slow enough to be met.
    Step::new("terrace scrub cancel /mnt")
        .before("terrace scrub start --rate 1M /mnt")
        .then("until grep -q cancel <(terrace scrub status /mnt); do sleep 0.1; done"),
    Step::new("terrace record /mnt -o day.trace")
        .how(How::Keys(CTRL_C))
        .prints(&["recording"])
        .meanwhile("head -c 5M /dev/urandom >/mnt/file")
        .then("test -s day.trace"),
    Step::new("terrace simulate day.trace --pm 2G,4G,8G --set cold_age=10,30").prints(&[
        "2 GiB",
        "8 GiB",
        "cold_age=30",
        "enough: 2 GiB of PM",
    ]),
    Step::new("terrace simulate day.trace --wear disk:off,200G/day,10G/day")
        .prints(&["wear_disk=off", "wear_disk=214748364800", "DISK/DAY"])
        .then("rm day.trace"),
    Step::new("terrace save /dev/shm/pm /var/lib/terrace/pm.saved")
        .before("terrace umount /mnt")
        .then("test -s /var/lib/terrace/pm.saved"),
    Step::new("terrace restore /var/lib/terrace/pm.saved /dev/shm/pm")
        .before("rm /dev/shm/pm")
        .then(
            "terrace mount /dev/shm/pm /mnt && cmp /mnt/archive.tar /tmp/archive.tar && \
               terrace umount /mnt",
        ),
    Step::new("terrace check /dev/shm/pm").prints(&["no damage"]),
    Step::new("terrace check --repair --give-up /dev/shm/pm").prints(&["no damage"]),
    Step::new("terrace dump superblock /dev/shm/pm").prints(&["volume", "valid", "/data/disk"]),
    Step::new("terrace dump inode 1 --log /dev/shm/pm").prints(&["archive.tar"]),
    Step::new("terrace upgrade /mnt")
        .before("terrace mount /dev/shm/pm /mnt")
        .prints(&["/mnt: is served by terrace "])
        .then("terrace status /mnt | grep 'daemon: terrace' && terrace umount /mnt"),
    Step::new("terrace doctor").prints(&["io_uring: ", "/dev/fuse: can be opened"]),
    // PM of the stage is memory.
    Step::new("terrace doctor /mnt")
        .before("terrace mount /dev/shm/pm /mnt")
        .exits(8)
        .prints(&["transport: messages come over", "unsafe   pm /dev/shm/pm: ", "terrace save"])
        .then("terrace umount /mnt"),
    // A file that lies in memory, as all devices of the stage do.
    Step::new("terrace doctor --disk /dev/nvme1n1")
        .before("truncate --size 300M /dev/nvme1n1")
        .exits(8)
        .prints(&["unsafe   disk /dev/nvme1n1: lies in memory (tmpfs)"]),
    Step::new("ln -s \"$(command -v terrace)\" /sbin/mount.terrace"),
    Step::new("ln -s \"$(command -v terrace)\" /sbin/umount.fuse.terrace"),
    Step::new("ln -s \"$(command -v terrace)\" /sbin/mount.fuse.terrace"),
    Step::new("mount -t terrace /dev/dax0.0 /mnt -o noatime")
        .before(
            "truncate --size 0 /dev/dax0.0 && truncate --size 16M /dev/dax0.0
            rm -f /dev/nvme1n1 && truncate --size 300M /dev/nvme1n1
            terrace format --pm /dev/dax0.0 --disk /dev/nvme1n1",
        )
        .then("touch /mnt/file && umount /mnt && not mountpoint /mnt && not pgrep -x terrace"),
    Step::new("/dev/dax0.0  /mnt  terrace  noatime,allow_other,nofail,disk=/dev/nvme1n1  0 0")
        .how(How::Fstab)
        .then("test -f /mnt/file && umount /mnt && terrace check /dev/dax0.0"),
];

#[test]
fn every_command_of_the_commands_page_runs_as_printed() {
    proof(|| -> Result<()> { play("docs/COMMANDS.md", STEPS, &[]) });
}
