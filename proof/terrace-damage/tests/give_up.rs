//! Files that are lost are given up: all others are there afterwards, and the volume is whole. See
//! `docs/DAMAGE.md`.

#[path = "sweep/random.rs"]
mod random;

use std::collections::{BTreeMap, BTreeSet};
use std::mem::offset_of;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use random::Random;
use terrace_damage::places::{Place, Region};
use terrace_damage::seal::seal;
use terrace_damage::specimen::{Contents, Left, Plan, Specimen, pattern};
use terrace_damage::{Devices, Image, Tree, read_tree};
use terrace_engine::{
    CheckOptions, CheckReport, FileKind, FsResult, Ino, NewInode, WriteOptions, check,
};
use terrace_layout::{
    ChunkHeader, DentryAddEntry, EntryType, INCOMPAT_GAPS, INODE_BYTES, INODE_USED, InodeRecord,
    MediaStruct, Superblock,
};
use terrace_media::{Disk, DiskFault, Pm, sim_disk_from};

const FILE: NewInode =
    NewInode { kind: FileKind::Regular, mode: 0o644, umask: 0, uid: 1, gid: 2, rdev: 0 };
/// Fields of an entry that adds a name.
const INO: Range<usize> = offset_of!(DentryAddEntry, ino)..offset_of!(DentryAddEntry, ino) + 8;
const GENERATION: Range<usize> =
    offset_of!(DentryAddEntry, generation)..offset_of!(DentryAddEntry, generation) + 4;
const FILE_TYPE: Range<usize> =
    offset_of!(DentryAddEntry, file_type)..offset_of!(DentryAddEntry, file_type) + 1;
/// What belongs to an inode, and whose damage puts it out of reach.
const REGIONS: [Region; 6] = [
    Region::InodeRecord,
    Region::LogPageHeader,
    Region::LogEntry,
    Region::ArchiveEntry,
    Region::ArchivedEntry,
    Region::ChainEntry,
];

fn specimen(contents: Contents, left: Left, disks: usize, pm_data_checksums: bool) -> Specimen {
    Specimen::new(Plan { contents, left, disks, pm_data_checksums })
}

fn check_with(pm: &Arc<Pm>, disks: &[Arc<dyn Disk>], repair: bool) -> FsResult<CheckReport> {
    check(pm, disks, &CheckOptions { repair, give_up: repair, data: true }, &|_, _, _| {})
}

fn give_up(devices: &Devices) -> CheckReport {
    check_with(&devices.pm, &devices.disks, true).unwrap()
}

fn must_be_sound(devices: &Devices, context: &str) {
    let report = check_with(&devices.pm, &devices.disks, false).unwrap();
    assert!(report.problems.is_empty(), "{context}: {:#?}", report.problems);
}

/// The attributes that stay the same whatever names are removed: not the link count, nor when a
/// directory has changed.
fn comparable(tree: &Tree) -> BTreeMap<String, String> {
    let about = |value: &str| {
        let words: Vec<&str> = value.split(' ').collect();
        let is_directory = words[0] == "Directory";
        let kept = words.iter().enumerate().filter(|&(i, _)| {
            let after = i.checked_sub(1).map_or("", |i| words[i]);
            !(after == "links" || is_directory && after == "mtime")
        });
        kept.map(|(_, &word)| word).collect::<Vec<_>>().join(" ")
    };
    let entry = |(key, result): (&String, &Result<String, terrace_damage::Failure>)| {
        let value = result.as_ref().unwrap_or_else(|failure| panic!("{key}: {failure:?}"));
        (key.clone(), if key.contains('#') { value.clone() } else { about(value) })
    };
    tree.iter().filter(|(key, _)| !key.ends_with("#names")).map(entry).collect()
}

/// The inode that a path leads to.
fn inode(specimen: &Specimen, path: &str) -> u64 {
    *specimen.paths.iter().find(|(_, paths)| paths.iter().any(|p| p == path)).unwrap().0
}

/// What follows `path` in a key of what is there or below it.
fn below<'a>(key: &'a str, path: &str) -> Option<&'a str> {
    key.strip_prefix(path).filter(|rest| rest.is_empty() || rest.starts_with(['/', '#']))
}

/// What must be there when `lost` has been given up.
fn expected(specimen: &Specimen, lost: Option<u64>) -> BTreeMap<String, String> {
    let paths = lost.map_or(&[][..], |ino| &specimen.paths[&ino]);
    let mut tree = BTreeMap::new();
    for (key, value) in comparable(&specimen.truth) {
        let Some((path, rest)) = paths.iter().find_map(|path| Some((path, below(&key, path)?)))
        else {
            tree.insert(key, value);
            continue;
        };
        let Some(name) = rest.strip_prefix('/') else {
            continue;
        };
        let end = name.find(['/', '#']).unwrap_or(name.len());
        let child = inode(specimen, &format!("{path}/{}", &name[..end]));
        // Another name that it has is all that it needs.
        if specimen.paths[&child]
            .iter()
            .all(|name| name.rsplit_once('/').is_some_and(|(dir, _)| dir == path))
        {
            tree.insert(format!("/lost+found/inode-{child}{}", &name[end..]), value);
        }
    }
    tree
}

/// What is there; without the directory for what was saved, whose attributes are looked at here.
fn found(devices: &Devices, context: &str) -> BTreeMap<String, String> {
    let volume = devices.open(90).unwrap();
    assert_eq!(volume.status().read_only, None, "{context}");
    let mut tree = comparable(&read_tree(&volume));
    volume.abandon();
    if let Some(about) = tree.remove("/lost+found") {
        assert!(about.starts_with("Directory mode 700 owner 0:0"), "{context}: {about}");
    }
    tree
}

fn must_be(found: &BTreeMap<String, String>, expected: &BTreeMap<String, String>, context: &str) {
    let differs = |a: &BTreeMap<String, String>, b: &BTreeMap<String, String>| -> Vec<String> {
        a.iter()
            .filter(|(key, value)| b.get(*key) != Some(value))
            .map(|(key, value)| format!("{key}: {value}"))
            .collect()
    };
    let (more, less) = (differs(found, expected), differs(expected, found));
    assert!(
        more.is_empty() && less.is_empty(),
        "{context}: found {more:#.300?}, not {less:#.300?}"
    );
}

/// The volume is used, unmounted, and whole.
fn must_be_of_use(devices: &Devices, context: &str) {
    let volume = devices.open(90).unwrap();
    let ino = volume.create(Ino::ROOT, b"new", &FILE).unwrap().ino;
    assert_eq!(
        volume.write(ino, 0, &pattern(20_000, 1), WriteOptions::default()).unwrap(),
        20_000,
        "{context}"
    );
    volume.close().unwrap();
    drop(volume);
    must_be_sound(devices, context);
}

/// Damages one place of each kind of each inode.
fn sweep(specimen: &Specimen, seed: u64) {
    let mut random = Random::new(seed);
    let devices = Devices::new(&specimen.image);
    assert!(give_up(&devices).problems.is_empty());
    let before = devices.image();
    let untouched = specimen.plan.left == Left::Clean;
    assert!(!untouched || before == specimen.image, "where nothing is lost, nothing changes");
    let mut by_kind: BTreeMap<(u64, Region), Vec<usize>> = BTreeMap::new();
    for i in specimen.places(|p| REGIONS.contains(&p.region)) {
        by_kind
            .entry((specimen.places[i].owner.unwrap(), specimen.places[i].region))
            .or_default()
            .push(i);
    }
    let mut lost = BTreeSet::new();
    for ((owner, region), places) in by_kind {
        let place = &specimen.places[places[random.below(places.len())]];
        let offset = random.below(place.len);
        let context =
            format!("{:?}: {region} of inode {owner} at {} + {offset}", specimen.plan, place.at);
        let mut image = specimen.image.clone();
        image.0[place.device][place.at + offset] ^= 0x24;
        devices.load(&image);
        let report = give_up(&devices);
        let named = |p: &terrace_engine::CheckProblem| p.place.contains(&format!("inode {owner}"));
        assert!(report.problems.iter().all(|p| p.repaired), "{context}: {:#?}", report.problems);
        let is_lost = report.problems.iter().any(|p| p.data_lost);
        if is_lost {
            lost.insert((owner, region));
            assert!(
                report
                    .problems
                    .iter()
                    .any(|p| named(p) || p.what.contains(&format!("inode {owner},"))),
                "{context}"
            );
        }
        must_be_sound(&devices, &context);
        let after = devices.image();
        assert!(
            give_up(&devices).problems.is_empty() && devices.image() == after,
            "{context}: given up twice"
        );
        must_be(
            &found(&devices, &context),
            &expected(specimen, is_lost.then_some(owner)),
            &context,
        );
        must_be_of_use(&devices, &context);
    }
    // A few bytes mean nothing.
    println!("{:?}: {} of the places led to a loss", specimen.plan, lost.len());
    let inodes: BTreeSet<u64> = lost.iter().map(|&(owner, _)| owner).collect();
    assert!(
        inodes.len() + 3 > specimen.paths.len(),
        "{} of {} inodes",
        inodes.len(),
        specimen.paths.len()
    );
}

#[test]
fn each_inode_of_a_clean_volume() {
    sweep(&specimen(Contents::Many, Left::Clean, 2, false), 1);
    sweep(&specimen(Contents::Archived, Left::Clean, 1, false), 2);
}

#[test]
fn each_inode_of_a_crashed_volume() {
    sweep(&specimen(Contents::Many, Left::HalfApplied, 1, true), 3);
    sweep(&specimen(Contents::Archived, Left::Idle, 2, true), 4);
}

/// Power is cut at each fence, with what happens to have arrived: a mount in between loses nothing,
/// and the same command has the same end.
#[test]
fn it_may_be_cut_short_anywhere() {
    for (plan, path) in [
        ((Contents::Many, Left::Clean), "/hard"),
        ((Contents::Many, Left::Idle), "/names"),
        ((Contents::Many, Left::HalfApplied), "/dir"),
        ((Contents::Archived, Left::Idle), "/names-0"),
        ((Contents::Archived, Left::Clean), ""),
    ] {
        let specimen = specimen(plan.0, plan.1, 1, false);
        let lost = inode(&specimen, path);
        let record =
            specimen.places(|p| p.region == Region::InodeRecord && p.owner == Some(lost))[0];
        let mut image = specimen.image.clone();
        image.0[0][specimen.places[record].at + 20] ^= 0x24;
        must_have_one_end(&image, &expected(&specimen, Some(lost)), &format!("{plan:?} {path}"));
    }
}

/// Cuts the power while what is lost in `image` is given up, and gives it up then.
fn must_have_one_end(image: &Image, end: &BTreeMap<String, String>, context: &str) {
    let states = states_in_between(image);
    assert!(states.len() > 10, "{context}: {}", states.len());
    let devices = Devices::new(image);
    for (n, pm) in states.into_iter().enumerate() {
        let context = format!("{context}: state {n}");
        devices.load(&Image(std::iter::once(pm).chain(image.0[1..].iter().cloned()).collect()));
        // A mount in between: of what is not whole it is read-only.
        let volume = devices.open(90).unwrap();
        match volume.status().read_only {
            Some(_) => volume.abandon(),
            None => volume.close().unwrap(),
        }
        drop(volume);
        give_up(&devices);
        must_be_sound(&devices, &context);
        must_be(&found(&devices, &context), end, &context);
    }
}

/// Where nothing is lost but the name of a directory, a mount in between does not free it either;
/// nor does it matter whether a file's right name is met before a wrong one.
#[test]
fn a_directory_without_a_name_is_saved_though_it_is_cut_short() {
    let specimen = specimen(Contents::Many, Left::Clean, 1, false);
    for (file, is_wrong) in [("/hard", false), ("/long", true)] {
        let mut image = specimen.image.clone();
        let (names, file_at) = (root_entry(&specimen, "/names"), root_entry(&specimen, file));
        let target = image.0[0][file_at.at..].to_vec();
        change_entry(&mut image, names, |bytes| {
            [INO, GENERATION, FILE_TYPE]
                .into_iter()
                .for_each(|r| bytes[r.clone()].copy_from_slice(&target[r]));
        });
        if is_wrong {
            change_entry(&mut image, file_at, |bytes| bytes[GENERATION.start] += 1);
        }
        let saved = format!("/lost+found/inode-{}", inode(&specimen, "/names"));
        let mut end = BTreeMap::new();
        for (key, value) in comparable(&specimen.truth) {
            if let Some(rest) = below(&key, "/names") {
                end.insert(saved.clone() + rest, value);
                continue;
            }
            if let Some(rest) = below(&key, file) {
                end.insert(format!("/names{rest}"), value.clone());
            }
            if !is_wrong || below(&key, file).is_none() {
                end.insert(key, value);
            }
        }
        must_have_one_end(&image, &end, file);
    }
}

/// Where records have been forgotten, nobody has a handle that leads to a new directory by
/// accident.
#[test]
fn a_new_directory_begins_with_any_generation_where_records_have_been_forgotten() {
    let specimen = specimen(Contents::Many, Left::Clean, 1, false);
    let lost = inode(&specimen, "/names");
    let record = specimen.places(|p| p.region == Region::InodeRecord && p.owner == Some(lost))[0];
    let mut image = specimen.image.clone();
    image.0[0][specimen.places[record].at + 20] ^= 0x24;
    for chunk in specimen.places(|p| p.region == Region::ChunkHeader) {
        let records = &mut image.0[0][specimen.places[chunk].at..];
        let count = ChunkHeader::from_bytes(records).records as usize;
        let of_chunk = records.chunks_mut(INODE_BYTES as usize).take(count).skip(1);
        of_chunk
            .filter(|bytes| InodeRecord::from_bytes(bytes).state != INODE_USED)
            .for_each(|bytes| bytes.fill(0));
    }
    let generation = |image: &Image| {
        let devices = Devices::new(image);
        give_up(&devices);
        must_be_sound(&devices, "its names have the generation, too");
        let volume = devices.open(90).unwrap();
        let generation = volume.lookup(Ino::ROOT, b"lost+found").unwrap().generation;
        volume.abandon();
        generation
    };
    assert_eq!(generation(&image), 1, "a record that remembers nothing");
    for copy in specimen.places(|p| p.region == Region::Superblock) {
        let features = offset_of!(Superblock, incompat);
        change_entry(&mut image, &specimen.places[copy], |bytes| {
            bytes[features] |= INCOMPAT_GAPS as u8
        });
    }
    let drawn: BTreeSet<u32> = (0..3).map(|_| generation(&image)).collect();
    assert!(drawn.len() == 3 && !drawn.contains(&1), "{drawn:?}");
}

/// The entry of the root directory's log that names `path`.
fn root_entry<'a>(specimen: &'a Specimen, path: &str) -> &'a Place {
    let ino = inode(specimen, path);
    let names_it = |p: &Place| {
        let bytes = &specimen.image.0[p.device][p.at..p.at + p.len];
        let is_add = p.region == Region::LogEntry
            && p.owner == Some(Ino::ROOT.0)
            && bytes[0] == EntryType::DentryAdd as u8;
        is_add && DentryAddEntry::from_bytes(bytes).ino == ino
    };
    &specimen.places[specimen.places(names_it)[0]]
}

/// Changes an entry, or another structure, and seals it.
fn change_entry(image: &mut Image, place: &Place, change: impl FnOnce(&mut [u8])) {
    let bytes = &mut image.0[place.device][place.at..place.at + place.len];
    change(bytes);
    place.seals.iter().for_each(|&how| seal(how, bytes));
}

/// What a power cut may leave in PM while a volume's losses are given up.
fn states_in_between(image: &Image) -> Vec<Vec<u8>> {
    let devices = Devices::new(image);
    let (pm, sim) = Pm::simulated_from(image.0[0].clone());
    let states: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let seen = states.clone();
    sim.set_on_fence(Box::new(move |sim| {
        let mut seen = seen.lock().unwrap();
        let n = seen.len() as u64;
        for state in [sim.durable_image(), sim.crash_image_random(n), sim.crash_image_random(n + 1)]
        {
            if seen.last() != Some(&state) {
                seen.push(state);
            }
        }
    }));
    assert!(check_with(&pm, &devices.disks, true).unwrap().problems.iter().all(|p| p.repaired));
    sim.clear_on_fence();
    let mut states = states.lock().unwrap().clone();
    states.push(sim.durable_image());
    states
}

/// A disk that goes away takes logs with it. Nobody gives them up for that.
#[test]
fn a_disk_that_goes_away_costs_no_file() {
    let specimen = specimen(Contents::Archived, Left::Clean, 1, false);
    let lost = inode(&specimen, "/dir/in-pm");
    let record = specimen.places(|p| p.region == Region::InodeRecord && p.owner == Some(lost))[0];
    let mut image = specimen.image.clone();
    image.0[0][specimen.places[record].at + 20] ^= 0x24;
    let (mut refused, mut given_up) = (0, 0);
    for calls in 0..40 {
        let devices = Devices::new(&image);
        let (disk, sim) = sim_disk_from(image.0[1].clone());
        sim.vanish_after(calls, libc::ENODEV);
        match check_with(&devices.pm, &[disk], true) {
            Err(error) => {
                assert!(devices.hold(&image), "{calls}: it was changed, though refused: {error}");
                refused += 1;
            }
            Ok(report) => {
                let is_it = |p: &&terrace_engine::CheckProblem| p.what.contains("given up");
                let lost: Vec<_> = report.problems.iter().filter(is_it).collect();
                assert!(
                    lost.len() == 1 && lost[0].place.contains("/dir/in-pm"),
                    "{calls}: {lost:#?}"
                );
                given_up += 1;
            }
        }
    }
    assert!(refused > 5 && given_up > 5, "{refused} {given_up}");
}

/// A disk that is away for a while only does not cost a file either, even if it answers again when
/// it is asked.
#[test]
fn a_disk_that_comes_back_costs_no_file() {
    let specimen = specimen(Contents::Archived, Left::Clean, 1, false);
    let lost = inode(&specimen, "/dir/in-pm");
    let record = specimen.places(|p| p.region == Region::InodeRecord && p.owner == Some(lost))[0];
    let mut image = specimen.image.clone();
    image.0[0][specimen.places[record].at + 20] ^= 0x24;
    let end = expected(&specimen, Some(lost));
    let mut unsteady = 0;
    for first in 1..30 {
        for calls in [1, 4] {
            let context = format!("{calls} calls from {first} on");
            let mut devices = Devices::new(&image);
            let (disk, sim) = sim_disk_from(image.0[1].clone());
            (first..first + calls).for_each(|n| sim.plant_fault(n, DiskFault::Errno(libc::ENODEV)));
            devices.disks = vec![disk];
            let result = check_with(&devices.pm, &devices.disks, true);
            sim.clear_faults();
            if let Err(error) = result {
                assert!(devices.hold(&image), "{context}: it was changed, though refused: {error}");
                unsteady += usize::from(
                    error.to_string().contains("but not each time: nothing was given up"),
                );
            }
            give_up(&devices);
            must_be_sound(&devices, &context);
            must_be(&found(&devices, &context), &end, &context);
        }
    }
    assert!(unsteady > 3, "{unsteady}");
}

/// Part of a disk that cannot be read, while the rest of it can, is damage as any other.
#[test]
fn a_log_on_a_bad_sector_is_given_up() {
    let specimen = specimen(Contents::Archived, Left::Idle, 1, false);
    let place = &specimen.places[specimen.places(|p| p.region == Region::ArchivedEntry)[0]];
    let (at, owner) = (place.at as u64, place.owner.unwrap());
    let devices = Devices::new(&specimen.image);
    let (disk, sim) = sim_disk_from(specimen.image.0[1].clone());
    sim.fail_reads(at..at + 1);
    let report = check_with(&devices.pm, std::slice::from_ref(&disk), true).unwrap();
    let lost: Vec<_> = report.problems.iter().filter(|p| p.what.ends_with("given up")).collect();
    assert!(lost.len() == 1 && lost[0].place.contains(&format!("inode {owner} (/")), "{lost:#?}");
    // Data that was given up does not come back with the sector.
    sim.clear_faults();
    must_be(&found(&devices, "bad sector"), &expected(&specimen, Some(owner)), "bad sector");
    must_be_sound(&devices, "bad sector");
}

/// Where nobody knows what is lost, nothing is given up.
#[test]
fn a_damaged_table_is_not_given_up() {
    let specimen = specimen(Contents::Few, Left::Idle, 1, false);
    for region in [Region::ChunkHeader, Region::ShardHead] {
        let place = specimen.places(|p| p.region == region)[0];
        let mut image = specimen.image.clone();
        image.0[0][specimen.places[place].at] ^= 0x24;
        let devices = Devices::new(&image);
        let report = give_up(&devices);
        assert!(
            report
                .problems
                .iter()
                .any(|p| p.what.starts_with("nothing was given up") && !p.repaired)
        );
        assert!(devices.hold(&image), "{region}");
    }
}
