//! Damage of every kind to every structure, and what comes of it: see `docs/DAMAGE.md`.

mod sweep;

use std::sync::LazyLock;

use sweep::{
    Random, both_superblocks, each_byte, run, runs, some_bytes, stale_pages, whole_blocks,
};
use terrace_damage::Outcome;
use terrace_damage::places::Region;
use terrace_damage::specimen::{Contents, Left, Plan, Specimen};

type Lazy = LazyLock<Specimen>;

const fn plan(contents: Contents, left: Left, disks: usize, pm_data_checksums: bool) -> Plan {
    Plan { contents, left, disks, pm_data_checksums }
}

static FEW_CLEAN: Lazy =
    LazyLock::new(|| Specimen::new(plan(Contents::Few, Left::Clean, 1, false)));
static FEW_CLEAN_2: Lazy =
    LazyLock::new(|| Specimen::new(plan(Contents::Few, Left::Clean, 2, true)));
static FEW_IDLE: Lazy = LazyLock::new(|| Specimen::new(plan(Contents::Few, Left::Idle, 1, false)));
static FEW_STAGED: Lazy =
    LazyLock::new(|| Specimen::new(plan(Contents::Few, Left::Staged, 1, false)));
static FEW_COMMITTED: Lazy =
    LazyLock::new(|| Specimen::new(plan(Contents::Few, Left::Committed, 1, false)));
static FEW_HALF: Lazy =
    LazyLock::new(|| Specimen::new(plan(Contents::Few, Left::HalfApplied, 2, true)));
static MANY_CLEAN: Lazy =
    LazyLock::new(|| Specimen::new(plan(Contents::Many, Left::Clean, 2, false)));
static MANY_CLEAN_CHECKSUMS: Lazy =
    LazyLock::new(|| Specimen::new(plan(Contents::Many, Left::Clean, 1, true)));
static MANY_IDLE: Lazy =
    LazyLock::new(|| Specimen::new(plan(Contents::Many, Left::Idle, 1, false)));
static MANY_HALF: Lazy =
    LazyLock::new(|| Specimen::new(plan(Contents::Many, Left::HalfApplied, 2, true)));
static ARCHIVED_CLEAN: Lazy =
    LazyLock::new(|| Specimen::new(plan(Contents::Archived, Left::Clean, 1, false)));
static ARCHIVED_IDLE: Lazy =
    LazyLock::new(|| Specimen::new(plan(Contents::Archived, Left::Idle, 2, true)));

/// Every byte of the superblocks of PM and of one disk.
#[test]
fn every_byte_of_the_superblocks() {
    let mut random = Random::new(1);
    let specimen = &*FEW_CLEAN;
    let places = specimen.places(|p| p.region == Region::Superblock);
    let mut cases: Vec<_> =
        places.into_iter().flat_map(|p| each_byte(specimen, p, 1, &mut random)).collect();
    // A volume that needs recovery believes its superblocks before it believes anything else.
    for specimen in [&*FEW_IDLE, &*FEW_COMMITTED, &*FEW_HALF] {
        for place in specimen.places(|p| p.region == Region::Superblock) {
            cases.extend(some_bytes(specimen, place, 250, &mut random));
        }
    }
    let outcomes = run("superblocks", cases, false).remove(&Region::Superblock).unwrap();
    assert!(
        outcomes.into_keys().eq([Outcome::Repaired]),
        "the other copy counts, and the damaged one is written anew"
    );
}

/// Nobody guesses what a device was.
#[test]
fn both_copies_of_a_superblock() {
    let mut random = Random::new(6);
    let specimens = [&*FEW_CLEAN_2, &*FEW_IDLE, &*FEW_COMMITTED, &*FEW_HALF];
    let cases = specimens.into_iter().flat_map(|s| both_superblocks(s, 100, &mut random)).collect();
    let outcomes =
        run("both copies of superblocks", cases, true).remove(&Region::Superblock).unwrap();
    assert!(outcomes.into_keys().eq([Outcome::Refused]), "one is enough, none is not");
}

/// Every byte of whatever else belongs to no file.
#[test]
fn every_byte_of_journals_and_headers() {
    let mut random = Random::new(2);
    let mut cases = Vec::new();
    let wanted = [
        Region::Journal,
        Region::WearRecord,
        Region::ShardHead,
        Region::ChunkHeader,
        Region::CheckpointHeader,
    ];
    for specimen in [&*FEW_CLEAN_2, &*FEW_IDLE, &*FEW_STAGED, &*FEW_COMMITTED, &*FEW_HALF] {
        for place in specimen.places(|p| wanted.contains(&p.region)) {
            cases.extend(each_byte(specimen, place, 2, &mut random));
        }
    }
    run("journals and headers", cases, false);
}

/// Every byte of log entries on disks, and of what leads to them.
#[test]
fn every_byte_of_archives() {
    let mut random = Random::new(7);
    let mut cases = Vec::new();
    let wanted = [Region::ArchiveEntry, Region::ArchivedEntry];
    for place in ARCHIVED_CLEAN.places(|p| wanted.contains(&p.region)) {
        cases.extend(each_byte(&ARCHIVED_CLEAN, place, 1, &mut random));
    }
    for place in ARCHIVED_IDLE.places(|p| wanted.contains(&p.region)) {
        cases.extend(some_bytes(&ARCHIVED_IDLE, place, 10, &mut random));
    }
    for (region, outcomes) in run("archives", cases, false) {
        assert!(
            outcomes.into_keys().eq([Outcome::Fails]),
            "{region}: an entry that is damaged is never taken for whole"
        );
    }
}

#[test]
fn some_bytes_of_everything() {
    let mut random = Random::new(3);
    let mut cases = Vec::new();
    for specimen in
        [&*MANY_CLEAN, &*MANY_CLEAN_CHECKSUMS, &*MANY_IDLE, &*MANY_HALF, &*ARCHIVED_IDLE]
    {
        for place in 0..specimen.places.len() {
            cases.extend(some_bytes(specimen, place, 2, &mut random));
        }
    }
    run("some bytes of everything", cases, false);
}

/// Blocks lost, written to another place, or left as they were.
#[test]
fn whole_blocks_of_everything() {
    let mut random = Random::new(4);
    let mut cases = Vec::new();
    for specimen in [&*MANY_CLEAN, &*MANY_CLEAN_CHECKSUMS, &*MANY_IDLE, &*FEW_HALF, &*ARCHIVED_IDLE]
    {
        cases.extend(whole_blocks(specimen, &mut random));
        cases.extend(stale_pages(specimen, &mut random));
    }
    run("whole blocks", cases, false);
}

#[test]
fn a_check_of_anything_ends_and_makes_nothing_worse() {
    let mut random = Random::new(5);
    let mut cases = Vec::new();
    for specimen in [&*MANY_CLEAN_CHECKSUMS, &*FEW_CLEAN_2, &*FEW_COMMITTED, &*ARCHIVED_CLEAN] {
        for place in 0..specimen.places.len() {
            // Of regions with many places a few will do.
            if random.below(4) == 0 || specimen.places[place].owner.is_none() {
                cases.extend(some_bytes(specimen, place, 1, &mut random));
            }
        }
        cases.extend(
            whole_blocks(specimen, &mut random).into_iter().filter(|_| random.below(4) == 0),
        );
    }
    run("with check and repair", cases, true);
}

/// Runs of zeros, of ones, of what stands elsewhere, and of what stood there earlier, of every
/// length: the answer is right, or an error.
#[test]
fn runs_of_every_length() {
    let mut random = Random::new(8);
    let all = std::env::var_os("TERRACE_LONG").is_some();
    let specimens: [&'static Specimen; 8] = [
        &MANY_CLEAN,
        &MANY_CLEAN_CHECKSUMS,
        &MANY_IDLE,
        &MANY_HALF,
        &FEW_COMMITTED,
        &FEW_STAGED,
        &ARCHIVED_CLEAN,
        &ARCHIVED_IDLE,
    ];
    let (rounds, regions) = if all { (4, usize::MAX) } else { (1, 4) };
    let of = |specimen| {
        (0..rounds).flat_map(|_| runs(specimen, regions, &mut random)).collect::<Vec<_>>()
    };
    let cases = specimens.into_iter().flat_map(of).collect();
    run("runs", cases, false);
}
