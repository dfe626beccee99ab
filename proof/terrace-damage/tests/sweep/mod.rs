//! Damages specimens case by case, on all cores, and counts what comes of it.

mod random;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use random::Random;
use terrace_damage::places::{Place, Region};
use terrace_damage::specimen::Specimen;
use terrace_damage::{Bench, Change, Outcome};
use terrace_layout::NEXT_OFFSET;

/// Cases that a thread takes at a time: they share a specimen.
const BATCH: usize = 64;
const BLOCK: usize = terrace_layout::BLOCK_BYTES as usize;
/// Defects that are shown.
const SHOWN: usize = 12;

/// Damage to one place.
pub struct Case {
    pub specimen: &'static Specimen,
    pub place: usize,
    pub what: String,
    pub changes: Vec<Change>,
}

fn flip(specimen: &'static Specimen, place: usize, offset: usize, mask: u8) -> Case {
    let p = &specimen.places[place];
    let bytes = vec![specimen.image.0[p.device][p.at + offset] ^ mask];
    let changes = vec![Change { device: p.device, at: p.at + offset, bytes }];
    Case { specimen, place, what: format!("byte {offset} ^ {mask:#04x}"), changes }
}

/// Every byte of a place damaged: with `ways` 2 inverted, and once more with one bit flipped; with
/// 1 one of these.
pub fn each_byte(
    specimen: &'static Specimen,
    place: usize,
    ways: usize,
    random: &mut Random,
) -> Vec<Case> {
    let len = specimen.places[place].len;
    let mut damaged = |offset| {
        let masks = [0xff, 1 << random.below(8)];
        let first = if ways == 1 { random.below(2) } else { 0 };
        masks[first..first + ways]
            .iter()
            .map(|&mask| flip(specimen, place, offset, mask))
            .collect::<Vec<_>>()
    };
    (0..len).flat_map(&mut damaged).collect()
}

/// `count` bytes of a place, chosen at random, each damaged in one way.
pub fn some_bytes(
    specimen: &'static Specimen,
    place: usize,
    count: usize,
    random: &mut Random,
) -> Vec<Case> {
    let len = specimen.places[place].len;
    let mut damaged = |_| {
        let mask = [0xff, 1 << random.below(8)][random.below(2)];
        flip(specimen, place, random.below(len), mask)
    };
    (0..count).map(&mut damaged).collect()
}

/// Both copies of every device's superblock damaged, each in a byte of its own, behind the magic
/// number.
pub fn both_superblocks(
    specimen: &'static Specimen,
    count: usize,
    random: &mut Random,
) -> Vec<Case> {
    let copies = specimen.places(|p| p.region == Region::Superblock);
    let mut cases = Vec::new();
    for pair in copies.chunks(2) {
        for _ in 0..count {
            let mut damaged = |copy: usize| {
                let offset = 8 + random.below(specimen.places[copy].len - 8);
                flip(specimen, copy, offset, 1 << random.below(8)).changes
            };
            let changes = [damaged(pair[0]), damaged(pair[1])].concat();
            cases.push(Case { specimen, place: pair[0], what: "both copies".into(), changes });
        }
    }
    cases
}

/// The block in which a place begins, with its device.
fn block_of(specimen: &Specimen, place: usize) -> (usize, usize) {
    let p = &specimen.places[place];
    (p.device, p.at / BLOCK * BLOCK)
}

fn block(specimen: &Specimen, (device, at): (usize, usize)) -> Vec<u8> {
    specimen.image.0[device][at..at + BLOCK].to_vec()
}

/// Every block that holds something: zeroed; with the contents of another; exchanged with another
/// of the same device.
pub fn whole_blocks(specimen: &'static Specimen, random: &mut Random) -> Vec<Case> {
    let mut seen = BTreeSet::new();
    let firsts: Vec<usize> = (0..specimen.places.len())
        .filter(|&place| seen.insert(block_of(specimen, place)))
        .collect();
    let mut cases = Vec::new();
    for &place in &firsts {
        let here = block_of(specimen, place);
        let at = |(device, at): (usize, usize), bytes| Change { device, at, bytes };
        let mut add = |what: String, changes| cases.push(Case { specimen, place, what, changes });
        add("zeroed".into(), vec![at(here, vec![0; BLOCK])]);
        let there = block_of(specimen, firsts[random.below(firsts.len())]);
        if there != here {
            add(format!("with what {there:?} holds"), vec![at(here, block(specimen, there))]);
            let exchanged =
                vec![at(here, block(specimen, there)), at(there, block(specimen, here))];
            add(format!("exchanged with {there:?}"), exchanged);
        }
    }
    cases
}

/// Every log page as it was before its last entries were written: these are zeros, and it leads to
/// no other page. One without entries before the tail has no such past.
pub fn stale_pages(specimen: &'static Specimen, random: &mut Random) -> Vec<Case> {
    let places = &specimen.places;
    let older = |place: usize| {
        let page = &places[place];
        let end = page.at + BLOCK;
        let is_entry = |p: &Place| {
            p.region == Region::LogEntry && p.device == 0 && (page.at..end).contains(&p.at)
        };
        let entries = specimen.places(is_entry);
        if entries.is_empty() {
            return None;
        }
        let cut = places[entries[random.below(entries.len())]].at;
        let zeros = |at: usize, len| Change { device: 0, at, bytes: vec![0; len] };
        let changes = vec![zeros(cut, end - cut), zeros(page.at + NEXT_OFFSET as usize, 8)];
        Some(Case { specimen, place, what: format!("as before the entry at byte {cut}"), changes })
    };
    specimen.places(|p| p.region == Region::LogPageHeader).into_iter().filter_map(older).collect()
}

/// What a run of bytes may hold instead of what belongs there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instead {
    Zeros,
    Ones,
    /// What stands elsewhere on the device.
    Another,
    /// What stood there earlier.
    Former,
}

/// Runs of each length that is a power of two, 8 bytes to 1 MiB, of each kind, in so many regions
/// of the specimen, one after the other; of each region some place.
pub fn runs(specimen: &'static Specimen, regions_each: usize, random: &mut Random) -> Vec<Case> {
    use Instead::{Another, Former, Ones, Zeros};
    let regions: Vec<Region> =
        specimen.places.iter().map(|p| p.region).collect::<BTreeSet<_>>().into_iter().collect();
    let (mut next, mut cases) = (random.below(regions.len()), Vec::new());
    for len in (3..=20).map(|log2| 1 << log2) {
        for instead in [Zeros, Ones, Another, Former] {
            for _ in 0..regions_each.min(regions.len()) {
                next = (next + 1) % regions.len();
                let of_region = specimen.places(|p| p.region == regions[next]);
                let place = of_region[random.below(of_region.len())];
                cases.extend(run_at(specimen, place, len, instead, random));
            }
        }
    }
    cases
}

/// A run that begins at a multiple of its length and holds a byte of a place; `None` if it would
/// change nothing.
fn run_at(
    specimen: &'static Specimen,
    place: usize,
    len: usize,
    instead: Instead,
    random: &mut Random,
) -> Option<Case> {
    let p = &specimen.places[place];
    let (device, bytes) = (p.device, &specimen.image.0[p.device]);
    let at = (p.at + random.below(p.len)) / len * len;
    let len = len.min(bytes.len() - at);
    let other = random.below(bytes.len() / len) * len;
    let new = match instead {
        Instead::Zeros => vec![0; len],
        Instead::Ones => vec![0xff; len],
        Instead::Another => bytes[other..other + len].to_vec(),
        Instead::Former => specimen.former.0[device][at..at + len].to_vec(),
    };
    let what = format!("{instead:?} in {len} bytes from {at} on");
    (new != bytes[at..at + len]).then(|| Case {
        specimen,
        place,
        what,
        changes: vec![Change { device, at, bytes: new }],
    })
}

pub type Table = BTreeMap<Region, BTreeMap<Outcome, usize>>;

/// Runs all cases, prints a table of the outcomes, and fails if one is a defect. `check`: with
/// check and repair, too.
pub fn run(title: &str, cases: Vec<Case>, check: bool) -> Table {
    let (next, table, defects) =
        (AtomicUsize::new(0), Mutex::new(Table::new()), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let started = std::time::Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut bench: Option<(&Specimen, Bench<'_>)> = None;
                while let start = next.fetch_add(BATCH, Ordering::Relaxed)
                    && start < cases.len()
                {
                    for case in &cases[start..(start + BATCH).min(cases.len())] {
                        if bench.as_ref().is_none_or(|(of, _)| !std::ptr::eq(*of, case.specimen)) {
                            bench = Some((case.specimen, Bench::new(case.specimen)));
                        }
                        let (_, bench) = bench.as_mut().expect("just made");
                        match judge(bench, case, check) {
                            Ok(outcome) => {
                                let region = case.specimen.places[case.place].region;
                                *table
                                    .lock()
                                    .unwrap()
                                    .entry(region)
                                    .or_default()
                                    .entry(outcome)
                                    .or_default() += 1;
                            }
                            Err(defect) => defects.lock().unwrap().push(defect),
                        }
                    }
                }
            });
        }
    });
    let defects = defects.into_inner().unwrap();
    let table = table.into_inner().unwrap();
    print_table(title, &table);
    println!(
        "{} cases in {:.1} s, {} defects",
        cases.len(),
        started.elapsed().as_secs_f64(),
        defects.len()
    );
    let mut kinds = BTreeSet::new();
    // Those that differ only in numbers are alike.
    let kind = |d: &str| -> String {
        d.rsplit_once("): ")
            .map_or(d, |(_, d)| d)
            .chars()
            .filter(|c| !c.is_ascii_hexdigit())
            .take(60)
            .collect()
    };
    let shown: Vec<_> = defects.iter().filter(|d| kinds.insert(kind(d))).take(SHOWN).collect();
    assert!(
        defects.is_empty(),
        "{} of {} cases, for example {shown:#?}",
        defects.len(),
        cases.len()
    );
    table
}

fn judge(bench: &mut Bench<'_>, case: &Case, check: bool) -> Result<Outcome, String> {
    let place = &case.specimen.places[case.place];
    bench.damage(case.changes.clone());
    let judged = bench.judge().and_then(|outcome| {
        if check {
            bench.judge_check()?;
        }
        Ok(outcome)
    });
    judged.map_err(|defect| {
        format!(
            "{:?}: {} of device {} at byte {} (of inode {:?}), {}: {defect}",
            case.specimen.plan, place.region, place.device, place.at, place.owner, case.what
        )
    })
}

fn print_table(title: &str, table: &Table) {
    use Outcome::{Fails, Harmless, Older, ReadOnly, Refused, Repaired, RolledBack, Unnoticed};
    println!(
        "{title:<24} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "harmless", "repaired", "read-only", "refused", "EIO", "last lost", "older", "unnoticed"
    );
    for (region, counts) in table {
        print!("  {region:<22}");
        for outcome in [Harmless, Repaired, ReadOnly, Refused, Fails, RolledBack, Older, Unnoticed]
        {
            print!(" {:>9}", counts.get(&outcome).copied().unwrap_or(0));
        }
        println!();
    }
}
