//! What a check finds, what it repairs, and what it leaves alone.

mod checkpoints;
mod data;
mod killed;
#[path = "../rig/mod.rs"]
mod rig;
mod superblocks;

use std::sync::{Arc, LazyLock};

use rig::{Image, Rig, Tree, find, pattern, populated, put, tree};
use terrace_engine::{
    CheckOptions, CheckProblem, CheckReport, FileKind, FormatOptions, Ino, OpenOptions,
    RenameFlags, SetAttr, Volume, check, dump_superblock, format, read_pm_label,
};
use terrace_layout::{
    AttrEntry, BLOCK_BYTES, CheckpointHeader, DentryAddEntry, DeviceEntry, GroupSummary,
    INODE_BYTES, InodeRecord, JOURNAL_COMMITTED, JOURNAL_OFFSET, JournalRecord, JournalWord,
    MediaStruct, Owner, Superblock, TAIL_OFFSET, WriteEntry,
};
use terrace_media::{AlignedBuf, Pm, memory_disk, sim_disk_from};
use zerocopy::IntoBytes;

static PLAIN: LazyLock<Image> = LazyLock::new(|| populated(false).image());
static CHECKSUMS: LazyLock<Image> = LazyLock::new(|| populated(true).image());
static EXPECTED: LazyLock<Tree> = LazyLock::new(|| tree(&PLAIN.rig().open(90)));

/// What must be reported.
struct Expected<'a> {
    place: &'a str,
    what: &'a str,
    data_lost: bool,
}

fn report(rig: &Rig, repair: bool) -> CheckReport {
    let before = rig.image();
    let report = rig.check(repair);
    assert!(repair || rig.image() == before, "a check without repair changes nothing");
    report
}

fn the_problem<'a>(report: &'a CheckReport, expected: &Expected<'_>) -> &'a CheckProblem {
    let found = report
        .problems
        .iter()
        .find(|p| p.place.contains(expected.place) && p.what.contains(expected.what));
    let problem = found.unwrap_or_else(|| {
        panic!("no {:?} at {:?} in {:#?}", expected.what, expected.place, report.problems)
    });
    assert_eq!(problem.data_lost, expected.data_lost, "{problem:?}");
    problem
}

/// The damage is reported, and a repair leaves nothing of it and the whole tree.
fn repairable(rig: &Rig, place: &str, what: &str) {
    let expected = Expected { place, what, data_lost: false };
    let found = report(rig, false);
    assert!(!the_problem(&found, &expected).repaired);
    assert!(found.problems.iter().all(|p| !p.repaired));
    let repaired = rig.check(true);
    assert!(the_problem(&repaired, &expected).repaired);
    assert!(
        repaired.problems.iter().all(|p| p.repaired && !p.data_lost),
        "{:#?}",
        repaired.problems
    );
    assert_eq!(report(rig, false).problems.len(), 0, "{:#?}", rig.check(false).problems);
    let v = rig.open(90);
    assert_eq!(v.status().read_only, None);
    assert_eq!(tree(&v), *EXPECTED);
    put(&v, find(&v, "small"), 0, &pattern(30_000, 5));
    v.close().unwrap();
    assert_eq!(report(rig, false).problems.len(), 0);
}

/// The damage is reported as a loss, and a repair changes nothing at all.
fn lasting(rig: &Rig, place: &str, what: &str) -> CheckReport {
    let expected = Expected { place, what, data_lost: true };
    let found = report(rig, false);
    the_problem(&found, &expected);
    let before = rig.image();
    let repaired = rig.check(true);
    assert!(!the_problem(&repaired, &expected).repaired);
    assert!(rig.image() == before, "there is nothing that a repair could do");
    found
}

fn superblock(rig: &Rig) -> Superblock {
    let mut bytes = vec![0; 4096];
    rig.pm.read(0, &mut bytes);
    Superblock::decode(&bytes).unwrap().unwrap()
}

fn read_disk(rig: &Rig, device: usize, block: u64, blocks: u64) -> AlignedBuf {
    let mut buf = AlignedBuf::new((blocks * BLOCK_BYTES) as usize);
    if device == 0 {
        rig.pm.read(block * BLOCK_BYTES, &mut buf);
    } else {
        rig.disks[device - 1].read_at(block * BLOCK_BYTES, &mut buf).unwrap();
    }
    buf
}

fn write_disk(rig: &Rig, device: usize, block: u64, buf: &AlignedBuf) {
    if device == 0 {
        rig.pm.write(block * BLOCK_BYTES, buf);
    } else {
        rig.disks[device - 1].write_at(block * BLOCK_BYTES, buf).unwrap();
    }
}

#[test]
fn sound_volumes_have_no_problems() {
    for image in [&PLAIN, &CHECKSUMS] {
        let rig = image.rig();
        let before = rig.image();
        let found = report(&rig, false);
        assert_eq!(found.problems.len(), 0, "{:#?}", found.problems);
        assert_eq!(found.inodes, 11);
        assert_eq!(found.directories, 3);
        assert!(found.log_entries > 30, "{}", found.log_entries);
        assert_eq!(found.data_blocks.len(), 3);
        let disk_blocks: u64 = found.data_blocks[1..].iter().sum();
        assert_eq!(disk_blocks, 1 + 10 + 768);
        assert!(found.blocks_verified > disk_blocks);
        assert_eq!(rig.check(true).problems.len(), 0);
        assert!(rig.image() == before, "a repair of nothing changes nothing");
    }
}

#[test]
fn without_data_nothing_is_read_of_it() {
    let rig = PLAIN.rig();
    let options = CheckOptions { repair: false, data: false, ..CheckOptions::default() };
    let found = check(&rig.pm, &rig.disks, &options, &|_, _, _| {}).unwrap();
    assert_eq!(found.problems.len(), 0);
    // The long attribute value is.
    assert_eq!(found.blocks_verified, 3);
}

#[test]
fn a_wrong_link_count_is_set_right() {
    for wrong in [1, 5] {
        let rig = PLAIN.rig();
        let ino = rig.ino("hard");
        rig.change_entry::<AttrEntry>(ino, rig.entry_at(ino, "attributes"), |e| e.nlink = wrong);
        let what = format!("it has 2 names, but its link count is {wrong}");
        // Setting it right changes the change time, which nobody sees in the tree.
        repairable(&rig, &format!("inode {}", ino.0), &what);
    }
}

#[test]
fn a_link_count_is_set_right_in_a_log_that_has_to_grow() {
    let rig = PLAIN.rig();
    let v = rig.open(90);
    let ino = find(&v, "hard");
    // One entry says how many links; with these the slots in the record are full.
    for mode in [0o600, 0o640] {
        v.setattr(ino, &SetAttr { mode: Some(mode), ..Default::default() }).unwrap();
    }
    v.close().unwrap();
    drop(v);
    let expected = tree(&rig.image().rig().open(90));
    assert!(rig.dump(ino).contains("log pages        0 "));
    rig.change_entry::<AttrEntry>(ino, rig.entry_at(ino, "attributes"), |e| e.nlink = 4);
    let found = rig.check(true);
    assert!(found.problems.len() == 1 && found.problems[0].repaired, "{:#?}", found.problems);
    assert!(rig.dump(ino).contains("log pages        1 "));
    assert_eq!(report(&rig, false).problems.len(), 0);
    assert_eq!(tree(&rig.open(90)), expected);
}

/// Random bytes are damaged, anywhere in what is in use of PM: nothing panics, a check without
/// repair changes nothing, and a second repair finds nothing more to do.
#[test]
fn random_damage_is_survived() {
    let used: Vec<u64> = {
        let pm = &PLAIN.0[0];
        (0..pm.len() as u64)
            .filter(|&at| pm[at as usize / 64 * 64..][..64].iter().any(|&b| b != 0))
            .collect()
    };
    let mut random = fastrand::Rng::with_seed(7);
    for case in 0..100 {
        let rig = PLAIN.rig();
        for _ in 0..=random.u64(..3) {
            rig.flip(0, used[random.usize(..used.len())]);
        }
        let options = CheckOptions { repair: false, data: true, ..CheckOptions::default() };
        let before = rig.image();
        let first = check(&rig.pm, &rig.disks, &options, &|_, _, _| {});
        assert!(rig.image() == before, "case {case}");
        let options = CheckOptions { repair: true, data: true, ..CheckOptions::default() };
        let repaired = check(&rig.pm, &rig.disks, &options, &|_, _, _| {});
        assert_eq!(first.is_ok(), repaired.is_ok(), "case {case}");
        let after = rig.image();
        if repaired.is_ok() {
            let again = rig.check(true);
            assert!(
                again.problems.iter().all(|p| !p.repaired),
                "case {case}: {:#?}",
                again.problems
            );
            assert!(rig.image() == after, "case {case}");
        }
    }
}

/// Write entries that say anything, with right checksums.
#[test]
fn nonsense_in_write_entries_is_survived() {
    let mut random = fastrand::Rng::with_seed(11);
    for path in ["dir/big", "dir/one", "small"] {
        let ino = PLAIN.rig().ino(path);
        for _ in 0..30 {
            let rig = PLAIN.rig();
            rig.change_entry::<WriteEntry>(ino, rig.entry_at(ino, "write"), |e| {
                let value = random.u64(..) >> random.u32(..64);
                match random.u32(..7) {
                    0 => e.file_block = value,
                    1 => e.address = value,
                    2 => e.blocks = value as u32,
                    3 => e.crc_form = (value % 5) as u16,
                    4 => e.crc_address = value,
                    5 => e.crcs = [value as u32, random.u32(..)],
                    _ => e.size = value,
                }
            });
            report(&rig, false);
            rig.check(true);
        }
    }
}

/// A record that no name leads to, as a crash in the middle of a create leaves it.
fn plant_unnamed(rig: &Rig, mode: u32) -> u64 {
    let ino = Ino(101);
    let at = rig.record_at(ino);
    rig.pm.write(at, InodeRecord::new(at, ino.0, 1, mode, Owner::ROOT, 5).as_bytes());
    at
}

#[test]
fn an_inode_without_a_name_is_freed() {
    let rig = PLAIN.rig();
    plant_unnamed(&rig, libc::S_IFREG | 0o600);
    repairable(&rig, "inode 101", "no name leads to it");
}

#[test]
fn a_damaged_record_that_nothing_leads_to_is_freed() {
    let rig = PLAIN.rig();
    let at = plant_unnamed(&rig, libc::S_IFREG | 0o600);
    rig.flip(0, at + 20);
    repairable(&rig, "inode 101", "record is damaged, and no name leads to it");
}

#[test]
fn after_a_crash_an_unnamed_inode_is_no_damage_and_repair_frees_it() {
    let rig = PLAIN.rig();
    let at = plant_unnamed(&rig, libc::S_IFREG | 0o600);
    rig.pm.write(superblock(&rig).checkpoint_header * BLOCK_BYTES, &[0; 8]);
    assert_eq!(report(&rig, false).problems.len(), 0);
    assert_eq!(rig.check(true).problems.len(), 0);
    let mut state = [0u8];
    rig.pm.read(at, &mut state);
    assert_eq!(state[0], terrace_layout::INODE_FREE);
    assert_eq!(tree(&rig.open(90)), *EXPECTED);
}

/// Byte of the first chunk of shard 0's inode table: its first record is the root directory's.
fn chunk_at(rig: &Rig) -> u64 {
    rig.record_at(Ino::ROOT) - INODE_BYTES
}

#[test]
fn a_journal_that_is_not_empty_is_cleared_on_a_clean_volume() {
    let rig = PLAIN.rig();
    let at = superblock(&rig).shards_start * BLOCK_BYTES + JOURNAL_OFFSET;
    // The record that was replayed last is whole: it is old, and must not be replayed again.
    rig.pm.write(at, &JOURNAL_COMMITTED.to_le_bytes());
    repairable(&rig, "<memory>", "the journal of shard 0 is not empty");
    let rig = PLAIN.rig();
    rig.pm.write(at, JournalRecord::new(1, &[JournalWord { at: 1 << 40, value: 3 }]).as_bytes());
    repairable(&rig, "<memory>", "the journal of shard 0 is not empty");
    // A mount clears it, too: it is not replayed once that has crashed.
    let rig = PLAIN.rig();
    let tail = JournalWord { at: rig.record_at(Ino::ROOT) + TAIL_OFFSET, value: 0 };
    rig.pm.write(at, JournalRecord::new(1, &[tail]).as_bytes());
    rig.open(90).abandon();
    assert_eq!(rig.open(90).status().read_only, None);
}

#[test]
fn a_journal_that_leads_outside_is_damage() {
    let rig = PLAIN.rig();
    let at = superblock(&rig).shards_start * BLOCK_BYTES + JOURNAL_OFFSET;
    rig.pm.write(at, JournalRecord::new(1, &[JournalWord { at: 1 << 40, value: 3 }]).as_bytes());
    rig.pm.write(superblock(&rig).checkpoint_header * BLOCK_BYTES, &[0; 8]);
    lasting(&rig, "<memory>", "names byte 1099511627776");
}

#[test]
fn damage_to_logs_and_records_is_a_loss() {
    let rig = PLAIN.rig();
    let (small, long, dir) = (rig.ino("small"), rig.ino("long"), rig.ino("dir"));
    let cases = [
        (rig.entry_at(small, "write") + 16, small, "(/small)", "log entry"),
        (rig.entry_at(small, "patch") + 40, small, "(/small)", "log entry"),
        (rig.record_at(small) + 20, small, "(/small)", "record is damaged"),
        (rig.record_at(small) + 56, small, "(/small)", "log tail"),
        (rig.record_at(long) + 48, long, "(/long)", "block pointer"),
        // The header of the page that holds the last entry.
        (rig.entry_at(long, "write") / 4096 * 4096 + 9, long, "(/long)", "log page"),
        (rig.entry_at(dir, "add name") + 42, dir, "(/dir)", "log entry"),
        (rig.record_at(Ino::ROOT) + 20, Ino::ROOT, "(/)", "record is damaged"),
    ];
    for (at, ino, path, what) in cases {
        let rig = PLAIN.rig();
        rig.flip(0, at);
        lasting(&rig, &format!("<memory>: inode {} {path}", ino.0), what);
    }
}

#[test]
fn what_a_lost_directory_held_is_kept() {
    let rig = PLAIN.rig();
    rig.flip(0, rig.entry_at(rig.ino("dir"), "add name") + 42);
    let found = lasting(&rig, "<memory>", "inodes have no name");
    assert!(
        found.problems.iter().all(|p| !p.what.contains("link count")),
        "nobody knows the links now"
    );
}

#[test]
fn lost_tables_are_reported_and_the_rest_is_checked() {
    let rig = PLAIN.rig();
    rig.flip(0, (superblock(&rig).shards_start + 1) * BLOCK_BYTES + 12);
    let found = lasting(&rig, "<memory>", "every inode of shard 1 is out of reach");
    assert!(found.inodes > 0);
    let rig = PLAIN.rig();
    rig.flip(0, chunk_at(&rig) + 20);
    lasting(&rig, "<memory>", "every inode of shard 0 is out of reach");
}

#[test]
fn names_that_lead_nowhere_are_found() {
    let rig = PLAIN.rig();
    let sub = rig.ino("dir/sub");
    let entry = rig.entry_at(sub, "add name");
    for ino in [33, 9999, u64::MAX] {
        let rig = PLAIN.rig();
        rig.change_entry::<DentryAddEntry>(sub, entry, |e| e.ino = ino);
        let found = lasting(
            &rig,
            "(/dir/sub)",
            &format!("its name deep leads to inode {ino}, which does not"),
        );
        assert!(found.problems.iter().any(|p| p.what.contains("no name leads to it")));
    }
    let rig = PLAIN.rig();
    rig.change_entry::<DentryAddEntry>(sub, entry, |e| e.generation += 1);
    lasting(&rig, "(/dir/sub)", "of which only generation");
    let rig = PLAIN.rig();
    rig.change_entry::<DentryAddEntry>(sub, entry, |e| e.file_type = (libc::S_IFIFO >> 12) as u8);
    lasting(&rig, "(/dir/sub)", "as a fifo, which it is not");
}

#[test]
fn a_directory_has_one_name_and_a_path() {
    let rig = PLAIN.rig();
    let (dir, sub, small) = (rig.ino("dir"), rig.ino("dir/sub"), rig.ino("small"));
    // A file takes the place of `dir` in the root, and `dir` names itself where it named `sub`.
    let in_root = rig.entry_at(Ino::ROOT, "add name: dir ");
    rig.change_entry::<DentryAddEntry>(Ino::ROOT, in_root, |e| {
        e.ino = small.0;
        e.file_type = (FileKind::Regular.format_bits() >> 12) as u8;
    });
    rig.change_entry::<DentryAddEntry>(dir, rig.entry_at(dir, "add name: sub "), |e| e.ino = dir.0);
    let found =
        lasting(&rig, &format!("inode {}", dir.0), "no path from the root leads to this directory");
    let expected = Expected {
        place: &format!("inode {}", sub.0),
        what: "no name leads to this directory, which holds names",
        data_lost: true,
    };
    the_problem(&found, &expected);
    let rig = PLAIN.rig();
    let sub = rig.ino("dir/sub");
    let in_root = rig.entry_at(Ino::ROOT, "add name: small ");
    rig.change_entry::<DentryAddEntry>(Ino::ROOT, in_root, |e| {
        e.ino = sub.0;
        e.file_type = (FileKind::Directory.format_bits() >> 12) as u8;
    });
    lasting(&rig, &format!("inode {}", sub.0), "this directory has 2 names");
}

#[test]
fn a_name_is_given_once() {
    let rig = PLAIN.rig();
    let at = rig.entry_at(Ino::ROOT, "add name: hard ");
    let mut bytes = [0u8; 64];
    rig.pm.read(at, &mut bytes);
    assert_eq!(&bytes[40..44], b"hard");
    rig.pm.write(at + 40, b"long");
    rig.change_entry::<DentryAddEntry>(Ino::ROOT, at, |_| {});
    lasting(&rig, "inode 1 (/)", "gives a name twice: long");
    let rig = PLAIN.rig();
    rig.pm.write(at + 40, b"a/bc");
    rig.change_entry::<DentryAddEntry>(Ino::ROOT, at, |_| {});
    lasting(&rig, "inode 1 (/)", "gives a name that none can have: a/bc");
}

/// With a log unreadable nobody knows what it owned: links stay as they are, and so does the
/// checkpoint, which does.
#[test]
fn beside_damage_that_stays_only_superblocks_are_repaired() {
    let rig = PLAIN.rig();
    let hard = rig.ino("hard");
    rig.change_entry::<AttrEntry>(hard, rig.entry_at(hard, "attributes"), |e| e.nlink = 7);
    plant_unnamed(&rig, libc::S_IFREG | 0o600);
    rig.flip(0, rig.entry_at(rig.ino("small"), "write") + 16);
    let before = rig.image();
    rig.flip(1, 4096 + 77);
    rig.flip(0, 66);
    let found = rig.check(true);
    let repaired: Vec<_> = found.problems.iter().filter(|p| p.repaired).collect();
    assert_eq!(repaired.len(), 2, "{repaired:#?}");
    assert!(repaired.iter().all(|p| p.what.contains("superblock")));
    assert!(rig.image() == before);
}

/// At every fence of operations that change several logs, whatever a crash makes of it is no
/// damage.
#[test]
fn crash_states_are_no_damage() {
    let (pm, sim) = Pm::simulated(2 << 20);
    let disk = memory_disk(1 << 20);
    format(
        &pm,
        std::slice::from_ref(&disk),
        &FormatOptions { shards: Some(2), ..Default::default() },
    )
    .unwrap();
    let options = OpenOptions { cache_bytes: 1 << 20, ..Default::default() };
    let v = Volume::open(pm, vec![disk.clone()], options, &|_, _, _| {}).unwrap();
    let d = v.create(Ino::ROOT, b"d", &rig::DIR).unwrap().ino;
    let f = v.create(Ino::ROOT, b"f", &rig::FILE).unwrap().ino;
    put(&v, f, 0, &pattern(6000, 1));
    let states = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let seen = states.clone();
    sim.set_on_fence(Box::new(move |sim| {
        let mut states = seen.lock();
        states.push(sim.durable_image());
        states.extend((0..2).map(|seed| sim.crash_image_random(seed)));
    }));
    v.link(f, d, b"second").unwrap();
    v.rename(Ino::ROOT, b"f", d, b"moved", RenameFlags::default()).unwrap();
    v.unlink(d, b"second").unwrap();
    put(&v, f, 100, b"patched");
    v.create(d, b"new", &rig::FILE).unwrap();
    v.rename(d, b"new", d, b"moved", RenameFlags::default()).unwrap();
    v.close().unwrap();
    sim.clear_on_fence();
    let mut pending = 0;
    for (i, state) in std::mem::take(&mut *states.lock()).into_iter().enumerate() {
        let mut bytes = AlignedBuf::new(disk.len() as usize);
        disk.read_at(0, &mut bytes).unwrap();
        let rig = Image(vec![state, bytes.to_vec()]).rig();
        let found = report(&rig, false);
        assert_eq!(found.problems.len(), 0, "state {i}: {:#?}", found.problems);
        let mut text = Vec::new();
        dump_superblock(&rig.pm, &mut text).unwrap();
        let was_pending = String::from_utf8(text).unwrap().contains("committed,");
        pending += u32::from(was_pending);
        let expected = tree(&rig.image().rig().open(90));
        let repaired = rig.check(true);
        assert_eq!(repaired.problems.len(), 0, "state {i}: {:#?}", repaired.problems);
        if was_pending {
            let mut text = Vec::new();
            dump_superblock(&rig.pm, &mut text).unwrap();
            assert!(
                !String::from_utf8(text).unwrap().contains("committed,"),
                "a repair replays the journal"
            );
        }
        assert_eq!(report(&rig, false).problems.len(), 0);
        assert_eq!(tree(&rig.open(90)), expected, "state {i}");
    }
    assert!(pending > 3, "some states had a journal to replay");
}

#[test]
fn a_repair_refuses_what_it_does_not_know() {
    let rig = PLAIN.rig();
    for copy in 0..2 {
        let mut sb = superblock(&PLAIN.rig());
        sb.ro_compat = 1 << 40;
        sb.seal();
        rig.pm.write(copy * 4096, sb.as_bytes());
    }
    assert_eq!(report(&rig, false).problems.len(), 0);
    let error = check(
        &rig.pm,
        &rig.disks,
        &CheckOptions { repair: true, data: true, ..CheckOptions::default() },
        &|_, _, _| {},
    )
    .unwrap_err();
    assert_eq!(error.errno(), libc::EROFS);
}

#[test]
fn a_missing_disk_is_an_error() {
    let rig = PLAIN.rig();
    let options = CheckOptions { repair: false, data: true, ..CheckOptions::default() };
    let error = check(&rig.pm, &rig.disks[..1], &options, &|_, _, _| {}).unwrap_err();
    assert!(error.to_string().contains("disk 2 of the volume is missing"), "{error}");
}

#[test]
fn a_fresh_volume_is_sound() {
    let rig = Rig::new(2 << 20, false);
    assert!(read_pm_label(&rig.pm).unwrap().unwrap().clean);
    let found = report(&rig, false);
    assert_eq!((found.inodes, found.directories, found.problems.len()), (1, 1, 0));
}
