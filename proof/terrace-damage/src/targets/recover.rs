//! A whole volume, damaged at will: checked, opened, read, written, closed, repaired, opened again.
//!
//! An input is a list of edits to one of a few volumes, so that a few bytes reach anything. An edit
//! of a structure makes its checksums right again, if it says so; others store to any block, free
//! or not, or change the length of a device.

use std::cell::RefCell;
use std::sync::LazyLock;

use terrace_engine::{
    FileKind, Ino, NewInode, RenameFlags, SetAttr, Volume, WriteOptions, XattrFlags,
};

use crate::image::{BLOCK, Devices, Image};
use crate::places::{Place, reseal};
use crate::specimen::{Contents, Left, Plan, Specimen};
use crate::tree::read_tree;

/// Volumes that edits start from.
pub(super) static SPECIMENS: LazyLock<Vec<Specimen>> = LazyLock::new(|| {
    let plan =
        |contents, left, pm_data_checksums| Plan { contents, left, disks: 1, pm_data_checksums };
    vec![
        Specimen::new(plan(Contents::Many, Left::Clean, false)),
        Specimen::new(plan(Contents::Many, Left::Idle, true)),
        Specimen::new(plan(Contents::Few, Left::HalfApplied, false)),
        Specimen::new(plan(Contents::Archived, Left::Idle, false)),
    ]
});

/// The first byte of an encoded edit from which on it is [`Edit::Raw`], and from which on
/// [`Edit::Resize`].
const RAW: u8 = 0xc0;
const RESIZE: u8 = 0xf0;

/// Edits that are applied of one input.
const EDITS_MAX: usize = 24;
/// Names of the root directory that are put to use.
const USED_MAX: usize = 12;

/// Bytes that [`Edit::Raw`] stores at most.
const RAW_BYTES_MAX: usize = 8;

/// A change to one structure, to any block, or to the length of a device.
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
    /// Stores bytes in a block, whatever it is for, or for nothing.
    Raw {
        /// Which block, counted through all devices, modulo their number.
        block: u16,
        /// Byte in it, modulo its length.
        offset: u16,
        /// The bytes, at most eight; those beyond its end are left out.
        bytes: Vec<u8>,
    },
    /// Cuts a device short, or lengthens it by zeros.
    Resize {
        /// Which device, modulo their number.
        device: u16,
        /// Its new length in blocks, modulo twice the old one; PM keeps one at least.
        blocks: u16,
    },
}

impl Edit {
    /// Reads edits from bytes: any bytes are some.
    pub fn parse(mut data: &[u8]) -> Vec<Edit> {
        let mut edits = Vec::new();
        while edits.len() < EDITS_MAX
            && let Some((&[how, a, b, c, d], rest)) = data.split_first_chunk::<5>()
        {
            let (first, second, sealed) =
                (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]), how & 1 != 0);
            let len = match how {
                0..0x80 => 1 + usize::from(how >> 1),
                RAW..RESIZE => 1 + usize::from(how - RAW) % RAW_BYTES_MAX,
                _ => 0,
            };
            let (bytes, rest) = rest.split_at(rest.len().min(len));
            let bytes = bytes.to_vec();
            edits.push(match how {
                0..0x80 => Edit::Write { place: first, offset: second, bytes, sealed },
                0x80..RAW => Edit::Copy { place: first, from: second, sealed },
                RAW..RESIZE => Edit::Raw { block: first, offset: second, bytes },
                RESIZE.. => Edit::Resize { device: first, blocks: second },
            });
            data = rest;
        }
        edits
    }

    /// The bytes that [`Self::parse`] reads this edit from. A write has 1 to 64 bytes, a raw one 1
    /// to 8.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (how, first, second, bytes) = match self {
            Edit::Write { place, offset, bytes, sealed } => {
                ((bytes.len() as u8 - 1) << 1 | u8::from(*sealed), place, offset, &bytes[..])
            }
            Edit::Copy { place, from, sealed } => (0x80 | u8::from(*sealed), place, from, &[][..]),
            Edit::Raw { block, offset, bytes } => {
                (RAW + bytes.len() as u8 - 1, block, offset, &bytes[..])
            }
            Edit::Resize { device, blocks } => (RESIZE, device, blocks, &[][..]),
        };
        out.push(how);
        out.extend_from_slice(&first.to_le_bytes());
        out.extend_from_slice(&second.to_le_bytes());
        out.extend_from_slice(bytes);
    }
}

thread_local! {
    static DEVICES: RefCell<Vec<Devices>> =
        RefCell::new(SPECIMENS.iter().map(|s| Devices::new(&s.image)).collect());
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
    let same_lens = image.0.iter().map(Vec::len).eq(specimen.image.0.iter().map(Vec::len));
    if same_lens {
        DEVICES.with_borrow(|devices| use_image(&devices[index], &image));
    } else {
        use_image(&Devices::new(&image), &image);
    }
}

fn use_image(devices: &Devices, image: &Image) {
    devices.load(image);
    let _ = devices.check(false);
    assert!(devices.hold(image), "a check without repair changed the volume");
    let opened = devices.open(90);
    if let Ok(volume) = &opened {
        read_tree(volume);
        use_it(volume);
        let _ = volume.close();
    } else {
        assert!(devices.hold(image), "a volume was changed that was not opened");
    }
    drop(opened);
    let _ = devices.check(true);
    if let Ok(volume) = devices.open(0) {
        read_tree(&volume);
        use_it(&volume);
        volume.abandon();
    }
}

fn apply(edit: &Edit, image: &mut Image, places: &[Place]) {
    let index = |place: u16| usize::from(place) % places.len();
    match edit {
        Edit::Write { place, offset, bytes, sealed } => {
            let place = index(*place);
            let Place { device, at, len, .. } = places[place];
            let offset = usize::from(*offset) % len;
            store(image, device, at + offset, &bytes[..bytes.len().min(len - offset)]);
            seal(image, places, place, *sealed);
        }
        Edit::Copy { place, from, sealed } => {
            let (place, from) = (index(*place), &places[index(*from)]);
            let Place { device, at, len, .. } = places[place];
            let whole = image.0[from.device].get(from.at..from.at + len.min(from.len));
            let bytes = whole.unwrap_or_default().to_vec();
            store(image, device, at, &bytes);
            seal(image, places, place, *sealed);
        }
        Edit::Raw { block, offset, bytes } => {
            let (device, at) = block_at(image, usize::from(*block));
            let offset = usize::from(*offset) % BLOCK;
            store(image, device, at + offset, &bytes[..bytes.len().min(BLOCK - offset)]);
        }
        Edit::Resize { device, blocks } => {
            let device = usize::from(*device) % image.0.len();
            let bytes = &mut image.0[device];
            let least = usize::from(device == 0);
            let blocks = (usize::from(*blocks) % (2 * bytes.len() / BLOCK).max(1)).max(least);
            bytes.resize(blocks * BLOCK, 0);
        }
    }
}

/// Stores bytes where there is room for them: a device may have been cut short.
fn store(image: &mut Image, device: usize, at: usize, bytes: &[u8]) {
    if let Some(target) = image.0[device].get_mut(at..at + bytes.len()) {
        target.copy_from_slice(bytes);
    }
}

/// Device and first byte of a block, counted through all devices.
fn block_at(image: &Image, block: usize) -> (usize, usize) {
    let blocks = image.0.iter().map(|bytes| bytes.len() / BLOCK);
    let mut rest = block % blocks.clone().sum::<usize>();
    for (device, blocks) in blocks.enumerate() {
        if rest < blocks {
            return (device, rest * BLOCK);
        }
        rest -= blocks;
    }
    unreachable!("less than all of them")
}

/// Makes the checksums of a place right, as long as all devices reach as far as structures do.
fn seal(image: &mut Image, places: &[Place], place: usize, sealed: bool) {
    let there = |p: &Place| image.0[p.device].len() >= (p.at + p.len).next_multiple_of(BLOCK);
    if sealed && places.iter().all(there) {
        reseal(image, places, &[place]);
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
    let dir = volume
        .create(Ino::ROOT, b"fuzz-dir", &new(FileKind::Directory))
        .map_or(Ino::ROOT, |attr| attr.ino);
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
    let _ = volume.move_file(ino, 1);
    let _ = volume.seek_hole(ino, 0);
    let _ = volume.file_map(ino);
    let _ = volume.setattr(ino, &SetAttr { size: Some(5000), ..Default::default() });
    let _ = volume.fallocate(ino, terrace_engine::Fallocate::PunchHole, 0, 4096);
    let _ = volume.fsync(ino, false);
    let _ = volume.move_file(ino, 0);
}

/// One edit of each structure of each volume that changes nothing, one of a raw block, and one of a
/// length.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (index, specimen) in SPECIMENS.iter().enumerate() {
        seeds.push(vec![index as u8]);
        for edit in [
            Edit::Raw { block: 200, offset: 64, bytes: vec![1; 8] },
            Edit::Resize { device: 1, blocks: 200 },
        ] {
            let mut seed = vec![index as u8];
            edit.encode(&mut seed);
            seeds.push(seed);
        }
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
