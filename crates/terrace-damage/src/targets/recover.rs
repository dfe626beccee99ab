//! A whole volume, damaged at will: checked, opened, read, written, closed, repaired, opened again.
//!
//! An input is a list of edits to one of a few volumes, so that a few bytes reach anything. An edit makes the checksums
//! of what it changes right again, if it says so.

use std::cell::RefCell;
use std::sync::LazyLock;

use terrace_engine::{FileKind, Ino, NewInode, RenameFlags, SetAttr, Volume, WriteOptions, XattrFlags};

use crate::image::Devices;
use crate::places::{Place, reseal};
use crate::specimen::{Contents, Left, Plan, Specimen};
use crate::tree::read_tree;

/// Volumes that edits start from.
pub(super) static SPECIMENS: LazyLock<Vec<Specimen>> = LazyLock::new(|| {
    let plan = |contents, left, pm_data_checksums| Plan { contents, left, disks: 1, pm_data_checksums };
    vec![
        Specimen::new(plan(Contents::Many, Left::Clean, false)),
        Specimen::new(plan(Contents::Many, Left::Idle, true)),
        Specimen::new(plan(Contents::Few, Left::HalfApplied, false)),
    ]
});

/// Edits that are applied of one input.
const EDITS_MAX: usize = 24;
/// Names of the root directory that are put to use.
const USED_MAX: usize = 12;

/// A change to one structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Stores bytes.
    Write {
        /// Which structure, modulo their number.
        place: u16,
        /// Byte in it, modulo its length.
        offset: u16,
        /// The bytes; those beyond its end are left out.
        bytes: Vec<u8>,
        /// Makes its checksum right.
        sealed: bool,
    },
    /// Copies another structure's bytes over it.
    Copy {
        /// Which structure, modulo their number.
        place: u16,
        /// Whose bytes, modulo their number.
        from: u16,
        /// Makes its checksum right.
        sealed: bool,
    },
}

impl Edit {
    /// Reads edits from bytes: any bytes are some.
    pub fn parse(mut data: &[u8]) -> Vec<Edit> {
        let mut edits = Vec::new();
        while edits.len() < EDITS_MAX
            && let Some((&[how, a, b, c, d], rest)) = data.split_first_chunk::<5>()
        {
            let (place, second, sealed) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]), how & 1 != 0);
            if how & 0x80 != 0 {
                edits.push(Edit::Copy { place, from: second, sealed });
                data = rest;
            } else {
                let (bytes, rest) = rest.split_at(rest.len().min(1 + usize::from(how >> 1)));
                edits.push(Edit::Write { place, offset: second, bytes: bytes.to_vec(), sealed });
                data = rest;
            }
        }
        edits
    }

    /// The bytes that [`Self::parse`] reads this edit from. A write has 1 to 64 bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (how, place, second, bytes) = match self {
            Edit::Write { place, offset, bytes, sealed } => {
                ((bytes.len() as u8 - 1) << 1 | u8::from(*sealed), place, offset, &bytes[..])
            }
            Edit::Copy { place, from, sealed } => (0x80 | u8::from(*sealed), place, from, &[][..]),
        };
        out.push(how);
        out.extend_from_slice(&place.to_le_bytes());
        out.extend_from_slice(&second.to_le_bytes());
        out.extend_from_slice(bytes);
    }
}

thread_local! {
    static DEVICES: RefCell<Vec<Devices>> = RefCell::new(SPECIMENS.iter().map(|s| Devices::new(&s.image)).collect());
}

/// The first byte chooses the volume; edits follow.
pub fn recover(data: &[u8]) {
    let Some((&first, rest)) = data.split_first() else {
        return;
    };
    let index = usize::from(first) % SPECIMENS.len();
    let specimen = &SPECIMENS[index];
    let mut image = specimen.image.clone();
    for edit in Edit::parse(rest) {
        apply(&edit, &mut image, &specimen.places);
    }
    DEVICES.with_borrow(|devices| {
        let devices = &devices[index];
        devices.load(&image);
        let _ = devices.check(false);
        assert!(devices.hold(&image), "a check without repair changed the volume");
        let opened = devices.open(90);
        if let Ok(volume) = &opened {
            read_tree(volume);
            use_it(volume);
            let _ = volume.close();
        } else {
            assert!(devices.hold(&image), "a volume was changed that was not opened");
            devices.load(&image);
        }
        drop(opened);
        let _ = devices.check(true);
        if let Ok(volume) = devices.open(0) {
            read_tree(&volume);
            use_it(&volume);
            volume.abandon();
        }
    });
}

fn apply(edit: &Edit, image: &mut crate::Image, places: &[Place]) {
    let index = |place: u16| usize::from(place) % places.len();
    let (target, sealed) = match edit {
        Edit::Write { place, offset, bytes, sealed } => {
            let place = index(*place);
            let Place { device, at, len, .. } = places[place];
            let offset = usize::from(*offset) % len;
            let n = bytes.len().min(len - offset);
            image.0[device][at + offset..][..n].copy_from_slice(&bytes[..n]);
            (place, *sealed)
        }
        Edit::Copy { place, from, sealed } => {
            let (place, from) = (index(*place), &places[index(*from)]);
            let n = places[place].len.min(from.len);
            let bytes = image.0[from.device][from.at..][..n].to_vec();
            image.0[places[place].device][places[place].at..][..n].copy_from_slice(&bytes);
            (place, *sealed)
        }
    };
    if sealed {
        reseal(image, places, &[target]);
    }
}

/// Changes a little of everything. Nothing needs to succeed.
fn use_it(volume: &Volume) {
    let new = |kind| NewInode { kind, mode: 0o755, umask: 0, uid: 0, gid: 0, rdev: 0 };
    let mut names = Vec::new();
    let _ = volume.readdir(Ino::ROOT, 0, &mut |entry| {
        names.push(entry.name.to_vec());
        names.len() < USED_MAX + 2
    });
    let _ = volume.statfs();
    let dir = volume.create(Ino::ROOT, b"fuzz-dir", &new(FileKind::Directory)).map_or(Ino::ROOT, |attr| attr.ino);
    if let Ok(file) = volume.create(dir, b"fuzz-file", &new(FileKind::Regular)) {
        write_to(volume, file.ino);
        let _ = volume.link(file.ino, Ino::ROOT, b"fuzz-link");
    }
    for name in names.iter().skip(2) {
        let Ok(attr) = volume.lookup(Ino::ROOT, name) else {
            let _ = volume.unlink(Ino::ROOT, name);
            continue;
        };
        match attr.kind {
            FileKind::Regular => write_to(volume, attr.ino),
            FileKind::Directory => {
                let _ = volume.create(attr.ino, b"fuzz-child", &new(FileKind::Regular));
                let _ = volume.rename(attr.ino, b"sub", dir, b"fuzz-sub", RenameFlags::default());
                let _ = volume.rename(Ino::ROOT, name, dir, b"fuzz-moved", RenameFlags::default());
                let _ = volume.rmdir(attr.ino, b"fuzz-child");
            }
            _ => {}
        }
        let _ = volume.setxattr(attr.ino, b"user.fuzz", &[7; 5000], XattrFlags::default(), None);
        let _ = volume.removexattr(attr.ino, b"user.long");
        let _ = volume.setattr(attr.ino, &SetAttr { mode: Some(0o600), ..Default::default() });
        volume.forget(attr.ino, 1);
        let _ = volume.unlink(Ino::ROOT, name);
    }
    let _ = volume.sync();
}

fn write_to(volume: &Volume, ino: Ino) {
    let options = WriteOptions::default();
    let _ = volume.write(ino, 3, b"patch", options);
    let _ = volume.write(ino, 4096, &[5; 9000], options);
    let _ = volume.write(ino, 0, b"append", WriteOptions { append: true, ..options });
    let _ = volume.seek_hole(ino, 0);
    let _ = volume.file_map(ino);
    let _ = volume.setattr(ino, &SetAttr { size: Some(5000), ..Default::default() });
    let _ = volume.fallocate(ino, terrace_engine::Fallocate::PunchHole, 0, 4096);
    let _ = volume.fsync(ino, false);
}

/// One edit of each structure of each volume that changes nothing.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (index, specimen) in SPECIMENS.iter().enumerate() {
        seeds.push(vec![index as u8]);
        let mut seen = std::collections::BTreeMap::new();
        for (place, p) in specimen.places.iter().enumerate() {
            let count = seen.entry(p.region).or_insert(0);
            *count += 1;
            if *count > 4 {
                continue;
            }
            let bytes = specimen.image.0[p.device][p.at..p.at + p.len.min(64)].to_vec();
            let mut seed = vec![index as u8];
            Edit::Write { place: place as u16, offset: 0, bytes, sealed: true }.encode(&mut seed);
            seeds.push(seed);
        }
    }
    seeds
}
