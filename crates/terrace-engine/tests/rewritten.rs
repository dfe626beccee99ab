//! Logs that are written anew, by compaction or on their way to a disk: what a crash leaves of that
//! means nothing later.

mod rig;

use std::sync::Arc;

use rig::{FILE, Image, PM_BYTES, Rig, contents, find, make, pattern, put};
use terrace_engine::{Ino, OpenOptions, Volume, XattrFlags};
use terrace_policy::Param;

const BLOCK: u64 = 4096;

fn open(rig: &Rig, pm_full_percent: u8) -> Arc<Volume> {
    let options =
        OpenOptions { cache_bytes: 8 << 20, workers: false, pm_full_percent, ..Default::default() };
    let volume = Volume::open(rig.pm.clone(), rig.disks.clone(), options, &|_, _, _| {}).unwrap();
    volume.tune(Param::Migrate, 0).unwrap();
    volume
}

/// Blocks of a log's pages, in order.
fn pages(rig: &Rig, ino: Ino) -> Vec<u64> {
    let text = rig.dump(ino);
    let line =
        text.lines().find(|line| line.starts_with("log pages")).unwrap_or_else(|| panic!("{text}"));
    let numbers = line.split(|c: char| !c.is_ascii_digit()).filter(|number| !number.is_empty());
    numbers.skip(1).map(|number| number.parse().unwrap()).collect()
}

/// What a compaction found, and made.
struct Compacted {
    before: Image,
    after: Image,
    /// Pages of the log that it wrote.
    pages: Vec<u64>,
    file: Ino,
}

/// The same changes each time, until a log is compacted; the devices just before that are kept if
/// `at` says when it happens.
fn until_compaction(at: Option<u64>) -> (u64, Option<Compacted>) {
    let rig = Rig::new(PM_BYTES, false);
    let volume = open(&rig, 90);
    let file = make(&volume, Ino::ROOT, "file", &FILE);
    (0..150).for_each(|i| put(&volume, file, i * 8192, &pattern(4096, i as u8)));
    let mut last = pages(&rig, file);
    for i in 0..3000 {
        let before = (at == Some(i)).then(|| rig.image());
        put(&volume, file, (140 + i % 8) * 8192, &pattern(4096, i as u8));
        let now = pages(&rig, file);
        if now.len() > 1 && now.iter().all(|page| !last.contains(page)) {
            volume.abandon();
            return (
                i,
                before.map(|before| Compacted { before, after: rig.image(), pages: now, file }),
            );
        }
        last = now;
    }
    panic!("the log was never compacted");
}

/// A compaction has written its pages when the power goes, before the journal knows of them. The
/// log goes on, and takes one of these blocks for its next page, which has the number that it had
/// in the compaction.
#[test]
fn pages_of_a_compaction_cut_short_mean_nothing() {
    let (at, _) = until_compaction(None);
    let (_, compacted) = until_compaction(Some(at));
    let Compacted { mut before, after, pages: new, file } = compacted.unwrap();
    for &page in &new {
        let bytes = (page * BLOCK) as usize..((page + 1) * BLOCK) as usize;
        before.0[0][bytes.clone()].copy_from_slice(&after.0[0][bytes]);
    }
    let rig = before.rig();
    rig.must_be_sound();
    let volume = open(&rig, 90);
    // Until that page has its first entry, with what the compaction has left behind it.
    let mut writes = 0..200;
    while pages(&rig, file).last() != new.first() {
        let i = writes.next().expect("the block of the compaction's first page becomes a page");
        put(&volume, file, (i % 64) * 8192, &pattern(4096, 77));
    }
    let expected = contents(&volume, file);
    volume.close().unwrap();
    drop(volume);
    rig.must_be_sound();
    assert!(contents(&open(&rig, 90), file) == expected);
}

/// The end of a file that only dirty pages have reached is not committed by a log that is written
/// anew.
#[test]
fn a_log_written_anew_commits_no_more_than_there_is() {
    let rig = Rig::new(PM_BYTES, false);
    let volume = open(&rig, 90);
    let garbage = make(&volume, Ino::ROOT, "garbage", &FILE);
    put(&volume, garbage, 0, &vec![0xee; 1 << 20]);
    volume.unlink(Ino::ROOT, b"garbage").unwrap();
    let file = make(&volume, Ino::ROOT, "file", &FILE);
    (0..100).for_each(|i| put(&volume, file, i * 8192, &pattern(4096, i as u8)));
    put(&volume, file, 99 * 8192 + 4096, &pattern(100, 9));
    let committed = contents(&volume, file);
    volume.close().unwrap();
    drop(volume);
    // From now on data stays in the page cache.
    let volume = open(&rig, 0);
    let file = find(&volume, "file");
    put(&volume, file, committed.len() as u64 + 8192, &pattern(4096, 3));
    let mut last = pages(&rig, file);
    let compacts = |i: &u64| {
        volume
            .setxattr(file, b"user.a", &pattern(90, *i as u8), XattrFlags::default(), None)
            .unwrap();
        let now = pages(&rig, file);
        let anew = now.iter().all(|page| !last.contains(page));
        last = now;
        anew
    };
    (0..3000).find(compacts).expect("the log was never compacted");
    let found = contents(&open(&rig.image().rig(), 90), file);
    assert_eq!(found.len(), committed.len());
    assert!(found == committed);
}
