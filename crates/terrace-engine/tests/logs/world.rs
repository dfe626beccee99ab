//! Inodes of each kind, what they say, and a volume whose logs have left PM.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_engine::{Counter, FileKind, FormatOptions, Ino, Volume, XattrFlags, format};
use terrace_media::{Pm, memory_disk};
use terrace_policy::Param;

use crate::rig::{DIR, FILE, Rig, contents, make, number_after, pattern, put};

/// No data moves; every log that has pages does.
pub const LOGS_ONLY: &[(Param, u64)] = &[
    (Param::LogsAt, 0),
    (Param::ColdAge, 0),
    (Param::MigrateMin, 100),
    (Param::MigrateMax, 100),
    (Param::MigrateAt, 100),
];

pub const NAMES: usize = 150;

/// Inodes of each kind, with logs that have pages.
#[derive(Clone, Copy)]
pub struct Inodes {
    pub file: Ino,
    pub dir: Ino,
    pub link: Ino,
    /// What is live of its log fits into its record.
    pub short: Ino,
}

impl Inodes {
    /// Those whose logs go to a disk.
    pub fn on_disk(&self) -> [Ino; 3] {
        [self.file, self.dir, self.link]
    }
}

/// What the inodes say.
#[derive(Debug, PartialEq, Eq)]
pub struct Said {
    pub contents: Vec<Vec<u8>>,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    pub names: Vec<Vec<u8>>,
    pub target: Vec<u8>,
    pub modes: Vec<(u32, u64, u32)>,
}

fn scattered(volume: &Volume, ino: Ino, seed: u8) {
    for i in 0..120u64 {
        put(volume, ino, (i * 37 % 120) * 8192, &pattern(4096, seed.wrapping_add(i as u8)));
    }
}

pub fn build(volume: &Volume) -> Inodes {
    let file = make(volume, Ino::ROOT, "file", &FILE);
    scattered(volume, file, 3);
    for i in 0..40u8 {
        volume
            .setxattr(
                file,
                format!("user.{i}").as_bytes(),
                &pattern(90, i),
                XattrFlags::default(),
                None,
            )
            .unwrap();
    }
    volume.setxattr(file, b"user.long", &pattern(3000, 9), XattrFlags::default(), None).unwrap();
    let dir = make(volume, Ino::ROOT, "dir", &DIR);
    for i in 0..NAMES {
        make(volume, dir, &format!("{i}-{}", "n".repeat(i)), &FILE);
    }
    let target = pattern(3000, 77);
    let link = volume.symlink(Ino::ROOT, b"link", &target, 1, 2).unwrap().ino;
    volume.forget(link, 1);
    let short = make(volume, Ino::ROOT, "short", &FILE);
    for i in 0..200u8 {
        put(volume, short, 0, &pattern(5000, i));
    }
    volume.sync().unwrap();
    Inodes { file, dir, link, short }
}

pub fn said(volume: &Volume, inodes: &Inodes) -> Said {
    let Inodes { file, dir, link, short } = *inodes;
    let names = volume.listxattr(file).unwrap();
    let xattrs = names.split(|&b| b == 0).filter(|name| !name.is_empty());
    let mode = |ino| {
        let attr = volume.getattr(ino).unwrap();
        (attr.mode, if attr.kind == FileKind::Directory { 0 } else { attr.size }, attr.nlink)
    };
    Said {
        contents: vec![contents(volume, file), contents(volume, short)],
        xattrs: xattrs.map(|name| (name.to_vec(), volume.getxattr(file, name).unwrap())).collect(),
        names: list(volume, dir),
        target: volume.readlink(link).unwrap(),
        modes: [file, dir, link, short].map(mode).to_vec(),
    }
}

pub fn list(volume: &Volume, dir: Ino) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    volume
        .readdir(dir, 0, &mut |entry| {
            names.push(entry.name.to_vec());
            true
        })
        .unwrap();
    names
}

pub fn given(volume: &Volume) -> u64 {
    volume.stats().counters.get(Counter::MigratedLogs)
}

/// Pages of an inode's log in PM, and blocks of its archive, as `dump` has them.
pub fn parts(rig: &Rig, ino: Ino) -> (u64, u64) {
    let text = rig.image().rig().dump(ino);
    (
        number_after(&text, "log pages        ").unwrap(),
        number_after(&text, "log archive      ").unwrap_or(0),
    )
}

/// A volume on 4 MiB of PM and two disks of 2 MiB, each a tier, in two shards.
pub fn small() -> Rig {
    let pm = Pm::anonymous(4 << 20);
    let disks = vec![memory_disk(2 << 20), memory_disk(2 << 20)];
    format(
        &pm,
        &disks,
        &FormatOptions { shards: Some(2), tiers: vec![1, 2], ..Default::default() },
    )
    .unwrap();
    Rig { pm, disks }
}

/// A volume whose logs have left PM.
pub fn migrated() -> (Rig, Arc<Volume>, Inodes, Said) {
    let rig = Rig::tiered(16 << 20);
    let volume = rig.open_alone(LOGS_ONLY);
    let inodes = build(&volume);
    let before = said(&volume, &inodes);
    // The time of the last read is newer than the logs say.
    volume.sync().unwrap();
    let used = |volume: &Volume| volume.status().devices[0].used_bytes;
    let used_before = used(&volume);
    volume.migrate(1).unwrap_err();
    let given = given(&volume);
    assert!(given >= 4096 * 8, "{given} bytes");
    assert_eq!(used_before - used(&volume), given);
    for ino in inodes.on_disk() {
        let (pages, blocks) = parts(&rig, ino);
        assert!(pages == 0 && blocks > 0, "{ino:?}: {pages} pages, {blocks} blocks on a disk");
    }
    assert_eq!(parts(&rig, inodes.short), (0, 0));
    assert_eq!(said(&volume, &inodes), before);
    (rig, volume, inodes, before)
}
