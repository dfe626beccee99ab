//! Volumes to damage: small, with something of everything, as a clean unmount or a crash left them.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use terrace_engine::{
    FileKind, FormatOptions, Ino, NewInode, OpenOptions, RenameFlags, SetAttr, Volume,
    WriteOptions, XattrFlags, format,
};
use terrace_layout::{BLOCK_BYTES, JOURNAL_OFFSET, MediaStruct, Superblock};
use terrace_media::{Disk, DiskSim, Pm, PmSim, sim_disk};
use terrace_policy::Param;

use crate::image::{Devices, Image};
use crate::places::{Place, Region, places_of};
use crate::tree::{Tree, read_tree};

const PM_BYTES_FEW: u64 = 1280 << 10;
const PM_BYTES_MANY: u64 = 2 << 20;
const DISK_BYTES: u64 = 1 << 20;

/// How a volume was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Unmounted.
    Clean,
    /// By a crash while nothing was going on.
    Idle,
    /// By a crash in a rename: its entries are written, nothing has committed.
    Staged,
    /// By a crash in a rename whose journal record has committed, and nothing of it was stored in
    /// place.
    Committed,
    /// By a crash in a rename of which one word was stored in place.
    HalfApplied,
}

/// What a volume holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// A handful of files: for damage to what belongs to none, which takes less time then.
    Few,
    /// The same, and inodes of each kind whose logs lie on a disk, with and without entries behind
    /// that.
    Archived,
    /// Something of everything.
    Many,
}

/// What to make.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// What it holds.
    pub contents: Contents,
    /// How it is left.
    pub left: Left,
    /// Disks.
    pub disks: usize,
    /// PM data carries checksums.
    pub pm_data_checksums: bool,
}

/// A volume to damage.
#[derive(Debug)]
pub struct Specimen {
    /// What it is.
    pub plan: Plan,
    /// Its bytes.
    pub image: Image,
    /// What the same devices held earlier: after an unmount, with the first of its files.
    pub former: Image,
    /// What a program sees of it.
    pub truth: Tree,
    /// The last entries of logs that lie beyond the tail, each with what a program would see if it
    /// were not there.
    pub without_last: Vec<(Place, Tree)>,
    /// Path names by inode.
    pub paths: BTreeMap<u64, Vec<String>>,
    /// What lies where.
    pub places: Vec<Place>,
}

impl Specimen {
    /// Makes one.
    pub fn new(plan: Plan) -> Specimen {
        let (image, former) = Bed::new(plan).images();
        let devices = Devices::new(&image);
        let volume = devices.open(90).expect("it is whole");
        assert_eq!(volume.status().read_only, None, "it is whole");
        let truth = read_tree(&volume);
        assert!(truth.values().all(Result::is_ok), "{truth:#?}");
        let mut paths = BTreeMap::from([(Ino::ROOT.0, vec![String::new()])]);
        add_paths(&volume, Ino::ROOT, "", &mut paths);
        volume.abandon();
        let places = places_of(&image);
        let mut without_last = Vec::new();
        for place in places.iter().filter(|p| p.region == Region::LastEntry) {
            without_last.push((place.clone(), tree_without(&image, &devices, &[place])));
        }
        Specimen { plan, image, former, truth, without_last, paths, places }
    }

    /// What a program would see if the last entries of a log were not there.
    pub fn tree_without(&self, last: &[&Place]) -> Tree {
        tree_without(&self.image, &Devices::new(&self.image), last)
    }

    /// Indices of the places that `wanted` picks.
    pub fn places(&self, wanted: impl Fn(&Place) -> bool) -> Vec<usize> {
        (0..self.places.len()).filter(|&i| wanted(&self.places[i])).collect()
    }
}

fn tree_without(whole: &Image, devices: &Devices, last: &[&Place]) -> Tree {
    let mut image = whole.clone();
    for place in last {
        image.0[place.device][place.at..place.at + place.len].fill(0);
    }
    devices.load(&image);
    // A name that an entry removed may lead nowhere then: the tree need not be whole.
    let volume = devices.open(90).expect("nothing else is missing");
    let tree = read_tree(&volume);
    volume.abandon();
    tree
}

fn add_paths(volume: &Volume, dir: Ino, path: &str, paths: &mut BTreeMap<u64, Vec<String>>) {
    let mut found = Vec::new();
    let take = &mut |entry: terrace_engine::DirEntry<'_>| {
        found.push((entry.ino, entry.kind, entry.name.to_vec()));
        true
    };
    volume.readdir(dir, 0, take).expect("it is whole");
    for (ino, kind, name) in found.into_iter().skip(2) {
        let path = format!("{path}/{}", name.escape_ascii());
        paths.entry(ino.0).or_default().push(path.clone());
        if kind == FileKind::Directory {
            // From here on it is known which its parent is.
            volume.lookup(dir, &name).expect("it is whole");
            add_paths(volume, ino, &path, paths);
        }
    }
}

/// Recognizable bytes, none of them zero.
pub fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len)
        .map(|i| (i as u8).wrapping_mul(13).wrapping_add(seed).wrapping_add((i >> 8) as u8) | 1)
        .collect()
}

/// Simulated devices on which a volume is made.
struct Bed {
    plan: Plan,
    pm: Arc<Pm>,
    pm_sim: Arc<PmSim>,
    disks: Vec<Arc<dyn Disk>>,
    disk_sims: Vec<Arc<DiskSim>>,
}

impl Bed {
    fn new(plan: Plan) -> Bed {
        let pm_bytes = if plan.contents == Contents::Many { PM_BYTES_MANY } else { PM_BYTES_FEW };
        let (pm, pm_sim) = Pm::simulated(pm_bytes);
        let (disks, disk_sims): (Vec<_>, Vec<_>) =
            (0..plan.disks).map(|_| sim_disk(DISK_BYTES)).unzip();
        let options = FormatOptions {
            shards: Some(2),
            pm_data_checksums: plan.pm_data_checksums,
            ..Default::default()
        };
        format(&pm, &disks, &options).expect("there is room");
        Bed { plan, pm, pm_sim, disks, disk_sims }
    }

    fn open(&self, pm_full_percent: u8) -> Arc<Volume> {
        // Logs move when they are told to.
        let workers = self.plan.contents != Contents::Archived;
        let options =
            OpenOptions { cache_bytes: 1 << 20, pm_full_percent, workers, ..Default::default() };
        Volume::open(self.pm.clone(), self.disks.clone(), options, &|_, _, _| {})
            .expect("it is whole")
    }

    /// As it is left, and as it was earlier.
    fn images(self) -> (Image, Image) {
        let few = self.plan.contents != Contents::Many;
        let v = self.open(0);
        if few {
            populate_few(&v, "on-disk")
        } else {
            populate_disks(&v)
        }
        v.close().expect("nothing fails");
        drop(v);
        let former = self.durable(self.pm_sim.durable_image());
        let v = self.open(90);
        if few {
            populate_few(&v, "in-pm")
        } else {
            populate_pm(&v)
        }
        if self.plan.contents == Contents::Archived {
            populate_archived(&v);
        }
        put(&v, make(&v, Ino::ROOT, "mover", &FILE), 0, b"moves");
        if self.plan.left == Left::Clean {
            v.close().expect("nothing fails");
            return (self.durable(self.pm_sim.durable_image()), former);
        }
        v.sync().expect("nothing fails");
        let pm = match self.plan.left {
            Left::Idle => self.pm_sim.durable_image(),
            _ => self.crash_in_rename(&v),
        };
        v.abandon();
        (self.durable(pm), former)
    }

    fn durable(&self, pm: Vec<u8>) -> Image {
        Image(
            std::iter::once(pm)
                .chain(self.disk_sims.iter().map(|sim| sim.durable_image()))
                .collect(),
        )
    }

    /// What PM holds at the fence of a rename that leaves it as planned.
    fn crash_in_rename(&self, v: &Volume) -> Vec<u8> {
        let images: Arc<Mutex<Vec<[Vec<u8>; 2]>>> = Arc::default();
        let seen = images.clone();
        self.pm_sim.set_on_fence(Box::new(move |sim| {
            // What is durable, and what if the first of the lines under way had got there too.
            let mut first = true;
            let one_line = sim
                .crash_image(&mut |_, stores| if std::mem::take(&mut first) { stores } else { 0 });
            seen.lock().push([sim.durable_image(), one_line]);
        }));
        let dir = v.lookup(Ino::ROOT, b"dir").expect("it is there").ino;
        v.rename(Ino::ROOT, b"mover", dir, b"moved", RenameFlags::default())
            .expect("nothing fails");
        self.pm_sim.clear_on_fence();
        let images = images.lock();
        let committed = |image: &Vec<u8>| pending_words(image) > 0;
        let at = images
            .iter()
            .position(|[durable, _]| committed(durable))
            .expect("a rename uses the journal");
        match self.plan.left {
            Left::Staged => images[at - 1][0].clone(),
            Left::Committed => images[at][0].clone(),
            _ => images[at][1].clone(),
        }
    }
}

/// Words of committed journal records.
fn pending_words(pm: &[u8]) -> usize {
    let sb = Superblock::from_bytes(pm);
    let record = |shard: u16| {
        let at = (sb.shards_start + u64::from(shard)) * BLOCK_BYTES + JOURNAL_OFFSET;
        terrace_layout::JournalRecord::from_bytes(&pm[at as usize..])
    };
    (0..sb.shards).filter_map(|shard| record(shard).committed().ok()?.map(<[_]>::len)).sum()
}

const FILE: NewInode =
    NewInode { kind: FileKind::Regular, mode: 0o644, umask: 0, uid: 1, gid: 2, rdev: 0 };
const DIR: NewInode =
    NewInode { kind: FileKind::Directory, mode: 0o755, umask: 0, uid: 1, gid: 2, rdev: 0 };

fn make(v: &Volume, dir: Ino, name: &str, new: &NewInode) -> Ino {
    v.create(dir, name.as_bytes(), new).expect("there is room").ino
}

fn put(v: &Volume, ino: Ino, at: u64, data: &[u8]) {
    assert_eq!(v.write(ino, at, data, WriteOptions::default()).expect("there is room"), data.len());
}

fn populate_few(v: &Volume, name: &str) {
    let dir = v
        .lookup(Ino::ROOT, b"dir")
        .map_or_else(|_| make(v, Ino::ROOT, "dir", &DIR), |attr| attr.ino);
    let file = make(v, dir, name, &FILE);
    put(v, file, 0, &pattern(5000, 3));
    v.fsync(file, false).expect("nothing fails");
}

/// Logs of files, directories and links that lie on a disk, with and without entries behind that.
fn populate_archived(v: &Volume) {
    for i in 0..2u8 {
        let dir = make(v, Ino::ROOT, &format!("names-{i}"), &DIR);
        (0..8).for_each(|name| v.forget(make(v, dir, &format!("a-name-of-many-{name}"), &FILE), 1));
        let file = make(v, dir, "scattered", &FILE);
        (0..8).for_each(|block| put(v, file, block * 8192, &pattern(700, block as u8)));
        v.setxattr(file, b"user.short", &pattern(200, i), XattrFlags::default(), None)
            .expect("nothing fails");
        v.setxattr(file, b"user.long", &pattern(9000, i), XattrFlags::default(), None)
            .expect("nothing fails");
        v.symlink(dir, b"link", &pattern(300, i), 0, 0).expect("nothing fails");
    }
    let everything = [Param::LogsAt, Param::ColdAge].map(|param| (param, 0));
    let no_data =
        [Param::MigrateMin, Param::MigrateAt, Param::MigrateMax].map(|param| (param, 100));
    for (param, value) in everything.into_iter().chain(no_data) {
        v.tune(param, value).expect("nothing fails");
    }
    for shard in 0..v.shards() {
        // It ends when there is nothing more to move.
        let _ = v.migrate_shard(shard);
    }
    let dir = v.lookup(Ino::ROOT, b"names-0").expect("it is there").ino;
    let file = v.lookup(dir, b"scattered").expect("it is there").ino;
    put(v, file, 5 * 8192, &pattern(4096, 50));
    v.unlink(dir, b"a-name-of-many-3").expect("nothing fails");
}

/// Files with checksums in the entry, in slots behind it, and in blocks of their own; cut, and
/// partly replaced.
fn populate_disks(v: &Volume) {
    let dir = make(v, Ino::ROOT, "disk", &DIR);
    for (name, len) in [("one", 4096), ("some", 40_000), ("big", 200_000)] {
        let ino = make(v, dir, name, &FILE);
        put(v, ino, 0, &pattern(len, 7));
        v.fsync(ino, false).expect("nothing fails");
    }
    let cut = make(v, dir, "cut", &FILE);
    put(v, cut, 0, &pattern(180_000, 9));
    v.fsync(cut, false).expect("nothing fails");
    put(v, cut, 50_000, &pattern(9000, 10));
    v.fsync(cut, false).expect("nothing fails");
    v.setattr(cut, &SetAttr { size: Some(160_001), ..Default::default() }).expect("nothing fails");
}

fn populate_pm(v: &Volume) {
    let dir = make(v, Ino::ROOT, "dir", &DIR);
    let sub = make(v, dir, "sub", &DIR);
    let small = make(v, Ino::ROOT, "small", &FILE);
    put(v, small, 0, &pattern(5000, 1));
    put(v, small, 10, b"patched");
    put(v, make(v, sub, "deep", &FILE), 0, &pattern(20_000, 2));
    let hard = make(v, Ino::ROOT, "hard", &FILE);
    v.link(hard, dir, b"other").expect("nothing fails");
    v.symlink(Ino::ROOT, b"link", b"dir/sub", 0, 0).expect("nothing fails");
    v.symlink(dir, b"long-link", &pattern(3000, 4), 0, 0).expect("nothing fails");
    v.setxattr(small, b"user.long", &pattern(9000, 3), XattrFlags::default(), None)
        .expect("nothing fails");
    v.setxattr(sub, b"user.short", b"value", XattrFlags::default(), None).expect("nothing fails");
    let long = make(v, Ino::ROOT, "long", &FILE);
    for i in 0..75 {
        put(v, long, i * 8192, &pattern(700, i as u8));
    }
    populate_changed(v, dir);
    populate_moved(v);
}

/// Files whose data went to a disk, and back.
fn populate_moved(v: &Volume) {
    let dir = make(v, Ino::ROOT, "moved", &DIR);
    for (name, len, tiers) in
        [("down", 30_000, &[1][..]), ("back", 9_000, &[1, 0]), ("long", 140_000, &[1])]
    {
        let ino = make(v, dir, name, &FILE);
        put(v, ino, 0, &pattern(len, 6));
        for &tier in tiers {
            assert_eq!(
                v.move_file(ino, tier).expect("nothing fails").left_bytes,
                0,
                "there is room"
            );
        }
        put(v, ino, 4096, &pattern(4096, 7));
    }
}

/// Files that changed often: logs with dead pages gone, compacted logs, names that are gone.
fn populate_changed(v: &Volume, dir: Ino) {
    let busy = make(v, dir, "busy", &FILE);
    for i in 0..200u64 {
        put(v, busy, i % 3 * 4096, &pattern(4096, i as u8));
    }
    let cut = make(v, dir, "cut", &FILE);
    put(v, cut, 0, &pattern(30_000, 5));
    v.setattr(cut, &SetAttr { size: Some(10_001), ..Default::default() }).expect("nothing fails");
    v.fallocate(cut, terrace_engine::Fallocate::PunchHole, 4096, 4096).expect("nothing fails");
    v.fallocate(cut, terrace_engine::Fallocate::AllocateKeepSize, 16_384, 8192)
        .expect("nothing fails");
    let names = make(v, Ino::ROOT, "names", &DIR);
    for i in 0..60 {
        let name = format!("a-name-that-takes-two-slots-of-the-page-number-{i}");
        v.forget(make(v, names, &name, &FILE), 1);
        if i % 3 != 0 {
            v.unlink(names, name.as_bytes()).expect("nothing fails");
        }
    }
}
