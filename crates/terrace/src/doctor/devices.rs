//! Devices of a volume, or for one: what becomes of their contents when the power fails.
//!
//! A disk's write cache is safe as long as flushes reach it. The kernel sends a device flushes
//! where it takes its cache to be volatile (`queue/write_cache`), so each device down to the last
//! must agree with the one below it.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};
use terrace_fuse::mount_table::Mount;
use terrace_media::PmKind;

use super::{Finding, Machine};
use crate::devices::exposed;

/// File systems in memory.
const IN_MEMORY: [&str; 3] = ["tmpfs", "ramfs", "hugetlbfs"];
/// Options by which a file system passes no flushes: of ext4 and btrfs, and of overlayfs.
const WITHOUT_FLUSHES: [&str; 3] = ["nobarrier", "barrier=0", "volatile"];
/// Devices below devices that are looked at; the kernel allows no more of some kinds.
const DEPTH_MAX: usize = 8;

/// A volume's PM.
#[derive(Clone, Debug)]
pub struct PmDevice {
    /// Where it is.
    pub path: PathBuf,
    /// How it is stored to, in the words of [`PmKind`].
    pub kind: String,
}

/// What is to say about PM.
pub fn pm(device: &PmDevice) -> Vec<Finding> {
    let topic = format!("pm {}", device.path.display());
    let is = |kind: PmKind| device.kind == kind.to_string();
    let finding = if is(PmKind::Emulated) {
        let path = device.path.display();
        Finding::dangerous(
            &topic,
            "is memory of this machine: contents are lost at reboot and when the power fails",
            format!(
                "for a reboot `terrace save {path} FILE` before and `terrace restore FILE {path}` \
                 after; for data that matters a PM device (/dev/daxX.Y, or a file on a DAX file \
                 system)"
            ),
        )
    } else if is(PmKind::Msync) {
        Finding::slow(
            &topic,
            "is a file on an ordinary file system: each commit waits for a disk",
            "a PM device (/dev/daxX.Y, or a file on a DAX file system)",
        )
    } else {
        Finding::ok(&topic, "is persistent memory")
    };
    [finding].into_iter().chain(of_mode(&topic, &device.path)).collect()
}

/// What is to say about a disk.
pub fn disk(machine: &Machine, path: &Path) -> Vec<Finding> {
    let topic = format!("disk {}", path.display());
    let finding = match Place::of(&machine.path(path)) {
        Ok(place) => durability(machine, &topic, place, 0),
        Err(error) => Finding::missing(
            &topic,
            format!("cannot be looked at: {error}"),
            "its right path, or the rights of who mounts the volume",
        ),
    };
    [finding].into_iter().chain(of_mode(&topic, path)).collect()
}

fn of_mode(topic: &str, path: &Path) -> Option<Finding> {
    let (found, remedy) = exposed(path)?;
    Some(Finding::dangerous(topic, found, remedy))
}

/// Where data lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// On a block device with this number.
    Block(u32, u32),
    /// In a file of the file system with this number.
    File(u32, u32),
}

impl Place {
    fn of(path: &Path) -> std::io::Result<Place> {
        let meta = fs::metadata(path)?;
        let kind = meta.file_type();
        if kind.is_block_device() {
            Ok(Place::Block(major(meta.rdev()), minor(meta.rdev())))
        } else if kind.is_file() {
            Ok(Place::File(major(meta.dev()), minor(meta.dev())))
        } else {
            Err(std::io::Error::other("it is neither a block device nor a file"))
        }
    }
}

fn durability(machine: &Machine, topic: &str, place: Place, depth: usize) -> Finding {
    let (major, minor) = match place {
        Place::Block(major, minor) => return of_block(machine, topic, (major, minor), depth),
        Place::File(major, minor) => (major, minor),
    };
    let number = format!("{major}:{minor}");
    let mounts = machine.mounts();
    let Some(mount) = mounts.iter().rfind(|mount| mount.device == number) else {
        return Finding::ok(topic, "the file system below it is not known");
    };
    let fs_type = mount.fs_type.to_string_lossy();
    if IN_MEMORY.contains(&&*fs_type) {
        return Finding::dangerous(
            topic,
            format!("lies in memory ({fs_type}): contents are lost at reboot"),
            "a disk, or a file on one",
        );
    }
    if let Some(option) = flushless(mount) {
        let place = mount.mountpoint.display();
        return Finding::dangerous(
            topic,
            format!("the file system at {place} passes no flushes ({option})"),
            format!(
                "{place} mounted without {option}: of ext4 and btrfs `mount -o remount,barrier \
                 {place}`, and the same in /etc/fstab"
            ),
        );
    }
    match device_of(machine, mount) {
        Some(number) => of_block(machine, topic, number, depth),
        None => Finding::ok(topic, format!("on {fs_type}, which sees to flushes itself")),
    }
}

/// The option by which a file system passes no flushes.
fn flushless(mount: &Mount) -> Option<&str> {
    mount.type_options.split(',').find(|option| WITHOUT_FLUSHES.contains(option))
}

/// The block device below a file system. Some have numbers of their own, and are known by their
/// source.
fn device_of(machine: &Machine, mount: &Mount) -> Option<(u32, u32)> {
    let (major, minor) = mount.device.split_once(':')?;
    match (major.parse().ok()?, minor.parse().ok()?) {
        (0, _) => match Place::of(&machine.path(&mount.source)).ok()? {
            Place::Block(major, minor) => Some((major, minor)),
            Place::File(..) => None,
        },
        number => Some(number),
    }
}

/// A disk as the kernel shows it: a directory below `/sys/block`.
#[derive(Debug)]
struct Block {
    dir: PathBuf,
    name: String,
}

impl Block {
    /// The disk that a device is, or that a partition is a part of.
    fn of(machine: &Machine, (major, minor): (u32, u32)) -> Option<Block> {
        let link = machine.path(format!("sys/dev/block/{major}:{minor}"));
        let mut dir = fs::canonicalize(link).ok()?;
        if dir.join("partition").exists() {
            dir.pop();
        }
        Some(Block { name: dir.file_name()?.to_str()?.to_owned(), dir })
    }

    fn text(&self, file: &str) -> Option<String> {
        Some(fs::read_to_string(self.dir.join(file)).ok()?.trim().to_owned())
    }

    /// Whether the kernel sends it flushes.
    fn is_flushed(&self) -> Option<bool> {
        Some(self.text("queue/write_cache")? == "write back")
    }

    /// Whether a SCSI disk says itself that its cache is volatile.
    fn says_volatile(&self) -> bool {
        let disks = fs::read_dir(self.dir.join("device/scsi_disk")).into_iter().flatten().flatten();
        disks
            .filter_map(|disk| fs::read_to_string(disk.path().join("cache_type")).ok())
            .any(|kind| kind.trim().starts_with("write back"))
    }

    /// The disks that it is made of.
    fn below(&self) -> Vec<Block> {
        let below = fs::read_dir(self.dir.join("slaves")).into_iter().flatten().flatten();
        let block = |entry: fs::DirEntry| {
            let mut dir = fs::canonicalize(entry.path()).ok()?;
            if dir.join("partition").exists() {
                dir.pop();
            }
            Some(Block { name: dir.file_name()?.to_str()?.to_owned(), dir })
        };
        below.filter_map(block).collect()
    }

    /// The first disk on the way down whose volatile cache gets no flushes, with the one that keeps
    /// them back.
    fn unflushed(&self, depth: usize) -> Option<(String, String)> {
        let own = self.is_flushed() == Some(false);
        if own && self.says_volatile() {
            return Some((self.name.clone(), self.name.clone()));
        }
        self.below().into_iter().filter(|_| depth < DEPTH_MAX).find_map(|lower| {
            match own && lower.is_flushed() == Some(true) {
                true => Some((self.name.clone(), lower.name)),
                false => lower.unflushed(depth + 1),
            }
        })
    }
}

fn of_block(machine: &Machine, topic: &str, number: (u32, u32), depth: usize) -> Finding {
    let Some(block) = Block::of(machine, number) else {
        return Finding::ok(topic, "the kernel does not show its write cache");
    };
    if let Some((upper, lower)) = block.unflushed(0) {
        return keeps_flushes(topic, &upper, &lower);
    }
    if let Some(file) = block.text("loop/backing_file").filter(|_| depth < DEPTH_MAX) {
        let below = Place::of(&machine.path(&file));
        let below = below.map(|place| durability(machine, topic, place, depth + 1));
        if let Ok(below) = below.as_ref().map_err(drop)
            && below.remedy.is_some()
        {
            return Finding { found: format!("{file}: {}", below.found), ..below.clone() };
        }
    }
    let fua = block.text("queue/fua").as_deref() == Some("1");
    match block.is_flushed() {
        Some(true) if fua => Finding::ok(topic, "a volatile write cache that is flushed (FUA)"),
        Some(true) => Finding::ok(topic, "a volatile write cache that is flushed"),
        Some(false) => Finding::ok(topic, "no volatile write cache, as far as the kernel knows"),
        None => Finding::ok(topic, "the kernel does not show its write cache"),
    }
}

fn keeps_flushes(topic: &str, upper: &str, lower: &str) -> Finding {
    let found = match upper == lower {
        true => {
            format!("{lower} has a volatile write cache, and the kernel is told not to flush it")
        }
        false => format!("{upper} passes no flushes to {lower}, whose write cache is volatile"),
    };
    let remedy = match upper == lower {
        true => format!("`echo 'write back' > /sys/block/{lower}/queue/write_cache`"),
        false => format!(
            "a device that passes them, or none, above {lower}; or `hdparm -W 0 /dev/{lower}`, \
             which switches the cache off"
        ),
    };
    Finding::dangerous(topic, found, remedy)
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::super::machine::made_up::MadeUp;
    use super::*;

    /// A machine with a SCSI disk 8:0 and its partition 8:1.
    fn with_disk(write_cache: &str, cache_type: &str) -> MadeUp {
        let made_up = MadeUp::with(&[
            ("sys/devices/a/block/sda/queue/write_cache", write_cache),
            ("sys/devices/a/block/sda/queue/fua", "0\n"),
            ("sys/devices/a/block/sda/device/scsi_disk/0:0:0:0/cache_type", cache_type),
            ("sys/devices/a/block/sda/sda1/partition", "1\n"),
        ]);
        made_up.link("sys/dev/block/8:0", "../../devices/a/block/sda");
        made_up.link("sys/dev/block/8:1", "../../devices/a/block/sda/sda1");
        made_up
    }

    fn of(made_up: &MadeUp, place: Place) -> Finding {
        durability(&made_up.machine, "disk", place, 0)
    }

    #[test]
    fn a_volatile_cache_must_be_flushed() {
        let good = with_disk("write back\n", "write back\n");
        for place in [Place::Block(8, 0), Place::Block(8, 1)] {
            assert_eq!(of(&good, place).found, "a volatile write cache that is flushed");
        }
        good.set("sys/devices/a/block/sda/queue/fua", "1\n");
        assert!(of(&good, Place::Block(8, 0)).found.ends_with("(FUA)"));
        let none = with_disk("write through\n", "write through\n");
        assert!(of(&none, Place::Block(8, 1)).found.starts_with("no volatile write cache"));
        let told =
            of(&with_disk("write through\n", "write back, no read (daft)\n"), Place::Block(8, 1));
        assert_eq!(told.verdict, Verdict::Unsafe);
        assert!(told.remedy.unwrap().contains("/sys/block/sda/queue/write_cache"));
        let unknown = of(&MadeUp::with(&[]), Place::Block(8, 0));
        assert_eq!(unknown.found, "the kernel does not show its write cache");
    }

    #[test]
    fn a_device_above_must_pass_flushes() {
        let made_up = with_disk("write back\n", "write back\n");
        made_up.set("sys/devices/virtual/block/dm-0/queue/write_cache", "write through\n");
        made_up.link("sys/devices/virtual/block/dm-0/slaves/sda1", "../../../../a/block/sda/sda1");
        made_up.link("sys/dev/block/253:0", "../../devices/virtual/block/dm-0");
        let found = of(&made_up, Place::Block(253, 0));
        assert_eq!(found.verdict, Verdict::Unsafe);
        assert_eq!(found.found, "dm-0 passes no flushes to sda, whose write cache is volatile");
        made_up.set("sys/devices/virtual/block/dm-0/queue/write_cache", "write back\n");
        assert_eq!(of(&made_up, Place::Block(253, 0)).verdict, Verdict::Ok);
    }

    #[test]
    fn the_file_system_of_a_file_must_pass_flushes_and_lie_on_a_disk() {
        let made_up = with_disk("write back\n", "write back\n");
        let on = |line: &str| {
            made_up.set("proc/self/mountinfo", line);
            of(&made_up, Place::File(8, 1))
        };
        let good = on("30 1 8:1 / /data rw,noatime - ext4 /dev/sda1 rw\n");
        assert_eq!(good.found, "a volatile write cache that is flushed");
        let careless = on("30 1 8:1 / /data rw - ext4 /dev/sda1 rw,nobarrier\n");
        assert_eq!(careless.verdict, Verdict::Unsafe);
        assert!(careless.remedy.unwrap().contains("remount,barrier /data"));
        let overlay = on("30 1 8:1 / / rw - overlay overlay rw,upperdir=/u,volatile\n");
        assert_eq!(overlay.verdict, Verdict::Unsafe);
        let memory = on("30 1 8:1 / /tmp rw - tmpfs tmp rw,size=9k\n");
        assert_eq!(memory.verdict, Verdict::Unsafe);
        assert!(memory.found.contains("lies in memory (tmpfs)"), "{memory:?}");
        let network = on("30 1 0:50 / /net rw - nfs4 server:/x rw\n");
        assert!(network.found.contains("not known"), "another file system: {network:?}");
        let network = of(&made_up, Place::File(0, 50));
        assert_eq!(network, Finding::ok("disk", "on nfs4, which sees to flushes itself"));
    }

    #[test]
    fn a_loop_device_is_as_safe_as_its_file() {
        let made_up = with_disk("write back\n", "write back\n");
        made_up.set("sys/devices/virtual/block/loop0/queue/write_cache", "write back\n");
        made_up.set("sys/devices/virtual/block/loop0/loop/backing_file", "/images/disk\n");
        made_up.link("sys/dev/block/7:0", "../../devices/virtual/block/loop0");
        made_up.set("images/disk", "");
        let Ok(Place::File(major, minor)) = Place::of(&made_up.machine.path("images/disk")) else {
            panic!("a file is none");
        };
        let line = |kind| format!("30 1 {major}:{minor} / /images rw - {kind} source rw\n");
        made_up.set("proc/self/mountinfo", &line("tmpfs"));
        let memory = of(&made_up, Place::Block(7, 0));
        assert!(memory.verdict == Verdict::Unsafe, "{memory:?}");
        assert!(memory.found.starts_with("/images/disk: lies in memory"), "{memory:?}");
        made_up.set("proc/self/mountinfo", "");
        assert_eq!(of(&made_up, Place::Block(7, 0)).verdict, Verdict::Ok);
    }

    #[test]
    fn what_is_not_there_is_missing_and_what_is_open_is_unsafe() {
        let made_up = MadeUp::with(&[]);
        let missing = disk(&made_up.machine, Path::new("/no/such/disk"));
        assert_eq!(missing.len(), 1);
        assert_eq!(
            (missing[0].verdict, &*missing[0].topic),
            (Verdict::Missing, "disk /no/such/disk")
        );
        let directory = &disk(&Machine::here(), Path::new("/proc"))[0];
        assert_eq!(directory.verdict, Verdict::Missing);
        assert!(directory.found.contains("neither a block device nor a file"), "{directory:?}");
        let of_kind =
            |kind: PmKind| pm(&PmDevice { path: "/dev/null".into(), kind: kind.to_string() });
        let verdicts =
            [PmKind::Dax, PmKind::Msync, PmKind::Emulated].map(|kind| of_kind(kind)[0].verdict);
        assert_eq!(verdicts, [Verdict::Ok, Verdict::Slow, Verdict::Unsafe]);
        let open = &of_kind(PmKind::Dax)[1];
        assert!(open.verdict == Verdict::Unsafe && open.found.contains("0666"), "{open:?}");
    }
}
