//! Files and directories that are pinned to a tier: where their data goes, and that no migration
//! takes it from there. Volumes without threads: every step is asked for.

mod rig;

use std::sync::Arc;

use rig::{DIR, FILE, Rig, contents, find, make, pattern, put, runs};
use terrace_engine::{
    Counter, Fallocate, FileKind, FormatOptions, Ino, NewInode, PIN_XATTR, RemovalState,
    RenameFlags, SetAttr, Volume, WriteOptions, XattrFlags, format,
};
use terrace_media::{Pm, memory_disk, sim_disk};
use terrace_policy::Param;

const BLOCK: usize = 4096;
const MIB: u64 = 1 << 20;

/// All that is in PM is too much, and cold.
const EAGER: [(Param, u64); 4] =
    [(Param::ColdAge, 0), (Param::MigrateMin, 1), (Param::MigrateAt, 1), (Param::MigrateMax, 1)];

fn pin(volume: &Volume, ino: Ino, value: &str) {
    volume
        .setxattr(ino, PIN_XATTR.as_bytes(), value.as_bytes(), XattrFlags::default(), None)
        .unwrap();
}

fn unpin(volume: &Volume, ino: Ino) {
    volume.removexattr(ino, PIN_XATTR.as_bytes()).unwrap();
}

fn pin_of(volume: &Volume, ino: Ino) -> Option<String> {
    volume.getxattr(ino, PIN_XATTR.as_bytes()).ok().map(|value| String::from_utf8(value).unwrap())
}

fn file(volume: &Volume, name: &str) -> Ino {
    make(volume, Ino::ROOT, name, &FILE)
}

fn close_and_check(volume: Arc<Volume>, rig: &Rig) {
    volume.close().unwrap();
    drop(volume);
    rig.must_be_sound();
}

#[test]
fn writes_go_where_the_file_is_pinned() {
    let rig = Rig::tiered(16 * MIB);
    let volume = rig.open_alone(&[(Param::SyncBlocks, 1), (Param::LargeWrites, 0)]);
    let data = pattern(8 * BLOCK, 1);
    let counted = |counter| volume.stats().counters.get(counter);
    // Large rewrites of an asynchronous file, which would go to the page cache.
    let hot = file(&volume, "hot");
    (0..2).for_each(|_| put(&volume, hot, 0, &data));
    assert_eq!(runs(&volume, hot), "8 cache", "as nobody has pinned it");
    pin(&volume, hot, "pm");
    volume.fsync(hot, false).unwrap();
    assert_eq!(runs(&volume, hot), "8 disk1", "what waits goes to a disk");
    (0..3).for_each(|_| put(&volume, hot, 0, &data));
    assert_eq!(runs(&volume, hot), "8 pm");
    assert_eq!(counted(Counter::PlacedPinned), 3 * 8 * BLOCK as u64);
    // Small and new, which would go to PM.
    let cold = file(&volume, "cold");
    pin(&volume, cold, "2");
    put(&volume, cold, 0, &data[..100]);
    assert_eq!(runs(&volume, cold), "1 cache");
    volume.fsync(cold, false).unwrap();
    assert_eq!(runs(&volume, cold), "1 disk2");
    // Durable when it returns, there too.
    volume
        .write(cold, BLOCK as u64, &data, WriteOptions { durable: true, ..Default::default() })
        .unwrap();
    assert_eq!(runs(&volume, cold), "9 disk2");
    // Reserved blocks.
    volume.fallocate(cold, Fallocate::Allocate, 0, 12 * BLOCK as u64).unwrap();
    assert_eq!(runs(&volume, cold), "12 disk2");
    volume.fallocate(cold, Fallocate::ZeroRange, 0, 4 * BLOCK as u64).unwrap();
    assert_eq!(runs(&volume, cold), "12 disk2");
    volume.fallocate(hot, Fallocate::Allocate, 0, 12 * BLOCK as u64).unwrap();
    assert_eq!(runs(&volume, hot), "12 pm");
    assert_eq!(volume.file_map(cold).unwrap().pin.as_deref(), Some("disk2"));
    unpin(&volume, cold);
    put(&volume, cold, 0, &data[..100]);
    assert_eq!(runs(&volume, cold), "1 pm, 11 disk2", "as before the pin");
    assert_eq!(volume.file_map(cold).unwrap().pin, None);
    close_and_check(volume, &rig);
}

#[test]
fn what_is_made_in_a_pinned_directory_is_pinned() {
    let rig = Rig::tiered(16 * MIB);
    let volume = rig.open_alone(&[]);
    let dir = make(&volume, Ino::ROOT, "dir", &DIR);
    let early = make(&volume, dir, "early", &FILE);
    pin(&volume, dir, "2");
    let sub = make(&volume, dir, "sub", &DIR);
    let late = make(&volume, sub, "late", &FILE);
    assert_eq!((pin_of(&volume, early), pin_of(&volume, sub)), (None, Some("2".into())));
    assert_eq!(pin_of(&volume, late).as_deref(), Some("2"));
    // Inodes that cannot have such attributes have none.
    let fifo = make(&volume, dir, "fifo", &NewInode { kind: FileKind::Fifo, ..FILE });
    let link = volume.symlink(dir, b"link", b"sub/late", 0, 0).unwrap().ino;
    assert_eq!((pin_of(&volume, fifo), pin_of(&volume, link)), (None, None));
    // An ACL is inherited beside it.
    let acl = [
        &2u32.to_le_bytes()[..],
        &[1, 0, 7, 0],
        &[255; 4],
        &[4, 0, 5, 0],
        &[255; 4],
        &[32, 0, 5, 0],
        &[255; 4],
    ];
    volume
        .setxattr(sub, b"system.posix_acl_default", &acl.concat(), XattrFlags::default(), None)
        .unwrap();
    let both = make(&volume, sub, "both", &DIR);
    assert_eq!(pin_of(&volume, both).as_deref(), Some("2"));
    assert!(volume.getxattr(both, b"system.posix_acl_default").is_ok());
    // A name elsewhere changes no pin, nor does the directory's.
    volume.rename(sub, b"late", Ino::ROOT, b"moved", RenameFlags::default()).unwrap();
    volume.rename(Ino::ROOT, b"dir", Ino::ROOT, b"renamed", RenameFlags::default()).unwrap();
    unpin(&volume, sub);
    assert_eq!(pin_of(&volume, late).as_deref(), Some("2"));
    assert_eq!(pin_of(&volume, make(&volume, sub, "free", &FILE)), None);
    // It is committed with the name: nothing follows that a dying daemon could leave out.
    make(&volume, dir, "last", &FILE);
    volume.abandon();
    drop(volume);
    let volume = rig.open_alone(&[]);
    for (path, expected) in
        [("renamed/last", Some("2")), ("moved", Some("2")), ("renamed/early", None)]
    {
        let ino = find(&volume, path);
        assert_eq!(pin_of(&volume, ino).as_deref(), expected, "{path}");
        put(&volume, ino, 0, &pattern(BLOCK, 1));
        volume.fsync(ino, false).unwrap();
        assert_eq!(
            runs(&volume, ino),
            if expected.is_some() { "1 disk2" } else { "1 pm" },
            "{path}"
        );
    }
    close_and_check(volume, &rig);
}

#[test]
fn what_means_no_tier_is_refused_with_those_that_there_are() {
    let rig = Rig::tiered(16 * MIB);
    let volume = rig.open_alone(&[]);
    let ino = file(&volume, "file");
    let set = |ino: Ino, value: &str| {
        volume
            .setxattr(ino, PIN_XATTR.as_bytes(), value.as_bytes(), XattrFlags::default(), None)
            .unwrap_err()
    };
    for value in ["3", "0", "fast", "", "pm\n", &"9".repeat(5000)] {
        let error = set(ino, value);
        assert_eq!(error.errno(), libc::EINVAL, "{value}");
        assert!(error.to_string().ends_with("is none of this volume's tiers: pm, 1, 2"), "{error}");
    }
    assert_eq!(pin_of(&volume, ino), None);
    let link = volume.symlink(Ino::ROOT, b"link", b"file", 0, 0).unwrap().ino;
    let error = set(link, "pm");
    assert_eq!(error.errno(), libc::EPERM);
    assert_eq!(
        error.to_string(),
        "user.terrace.pin: only files and directories can be pinned, not Symlink"
    );
    // Against the pin nobody moves it by hand.
    pin(&volume, ino, "1");
    put(&volume, ino, 0, &pattern(BLOCK, 1));
    assert_eq!(volume.move_file(ino, 1).unwrap().left_bytes, 0);
    for tier in [0, 2] {
        let error = volume.move_file(ino, tier).unwrap_err();
        assert_eq!(error.errno(), libc::EPERM);
        assert_eq!(error.to_string(), "it is pinned to disk1: `terrace unpin` lifts that");
    }
    unpin(&volume, ino);
    volume.move_file(ino, 2).unwrap();
    assert_eq!(runs(&volume, ino), "1 disk2");
    close_and_check(volume, &rig);
}

/// More pinned files than a round tries, all colder than the others.
#[test]
fn write_migration_leaves_pinned_data_where_it_is_and_finds_the_rest() {
    let rig = Rig::tiered(16 * MIB);
    let volume = rig.open_alone(&EAGER);
    // Each file comes to PM, though nobody waits for any.
    volume.tune(Param::Siblings, 0).unwrap();
    let pinned: Vec<Ino> = (0..40).map(|i| file(&volume, &format!("pinned{i}"))).collect();
    for &ino in &pinned {
        put(&volume, ino, 0, &pattern(8 * BLOCK, 1));
        pin(&volume, ino, "pm");
    }
    let free = file(&volume, "free");
    put(&volume, free, 0, &pattern(64 * BLOCK, 2));
    let error = volume.migrate(1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "40 files are pinned to pm, and no other has data to give away there"
    );
    assert_eq!(runs(&volume, free), "64 disk1");
    assert!(pinned.iter().all(|&ino| runs(&volume, ino) == "8 pm"));
    let status = volume.status().migration.unwrap();
    assert_eq!((status.pinned_files, status.pinned_elsewhere), (40, 0));
    // Without its pin, one is like the others; and one that is gone is counted no more.
    unpin(&volume, pinned[7]);
    volume.unlink(Ino::ROOT, b"pinned8").unwrap();
    let error = volume.migrate(1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "38 files are pinned to pm, and no other has data to give away there"
    );
    assert_eq!(
        (runs(&volume, pinned[7]), runs(&volume, pinned[9])),
        ("8 disk1".into(), "8 pm".into())
    );
    assert_eq!(volume.stats().counters.get(Counter::MigratedWrite), 72 * BLOCK as u64);
    close_and_check(volume, &rig);
}

#[test]
fn demotion_and_read_migration_leave_pinned_data_where_it_is() {
    let rig = Rig::tiered(16 * MIB);
    let volume = rig.open_alone(&[(Param::TierFull, 20), (Param::ColdAge, 0)]);
    let (pinned, free) = (file(&volume, "pinned"), file(&volume, "free"));
    for ino in [pinned, free] {
        put(&volume, ino, 0, &pattern(2 << 20, 1));
        volume.move_file(ino, 1).unwrap();
    }
    pin(&volume, pinned, "1");
    volume.migrate(1).unwrap();
    assert_eq!(
        (runs(&volume, pinned), runs(&volume, free)),
        ("512 disk1".into(), "512 disk2".into())
    );
    // Read often, from PM alone.
    let seconds = volume.params().get(Param::FlowSeconds) as u32 + 1;
    let (hot, other) = (file(&volume, "hot"), file(&volume, "other"));
    pin(&volume, hot, "pm");
    let mut buf = vec![0; 16 * BLOCK];
    for ino in [hot, other] {
        put(&volume, ino, 0, &pattern(16 * BLOCK, 1));
    }
    for _ in 0..seconds {
        for ino in [hot, other] {
            (0..9).for_each(|_| assert_eq!(volume.read(ino, 0, &mut buf).unwrap(), buf.len()));
        }
        let _ = volume.migrate(1);
    }
    assert_eq!((runs(&volume, hot), runs(&volume, other)), ("16 pm".into(), "16 disk1".into()));
    close_and_check(volume, &rig);
}

/// Data of pinned files that lies elsewhere comes home, from above and below, as far as there is
/// room.
#[test]
fn migration_moves_misplaced_data_to_its_tier() {
    let rig = Rig::tiered(4 * MIB);
    let volume = rig.open_alone(&[]);
    let data = pattern(512 * BLOCK, 3);
    let (up, down, middle) = (file(&volume, "up"), file(&volume, "down"), file(&volume, "middle"));
    for (ino, at) in [(up, 2), (down, 0), (middle, 2)] {
        put(&volume, ino, 0, &data);
        volume.move_file(ino, at).unwrap();
    }
    for (ino, to) in [(up, "pm"), (down, "2"), (middle, "1")] {
        pin(&volume, ino, to);
    }
    assert_eq!(volume.status().migration.unwrap().pinned_elsewhere, 3);
    assert_eq!(volume.status().migration.unwrap().state, "pins: data waits for its tier");
    volume.migrate(1).unwrap();
    let found = [up, down, middle].map(|ino| runs(&volume, ino));
    assert_eq!(found, ["512 pm", "512 disk2", "512 disk1"]);
    assert_eq!(volume.stats().counters.get(Counter::MigratedPinned), 3 * 512 * BLOCK as u64);
    assert_eq!(volume.status().migration.unwrap().pinned_elsewhere, 0);
    // The first disk has no room for all of this; what does not fit waits below, and is not copied
    // there again.
    let more = file(&volume, "more");
    pin(&volume, more, "1");
    put(&volume, more, 0, &data);
    put(&volume, more, data.len() as u64, &data[..256 * BLOCK]);
    volume.fsync(more, false).unwrap();
    let before = runs(&volume, more);
    assert!(before.contains("disk2"), "{before}");
    let (_, moved) = (volume.migrate(1), volume.stats().counters.get(Counter::MigratedPinned));
    let error = volume.migrate(1).unwrap_err();
    assert_eq!(error.to_string(), "pinned data waits for room on its tier, or is in use");
    assert_eq!(volume.stats().counters.get(Counter::MigratedPinned), moved);
    assert_eq!(volume.status().migration.unwrap().pinned_elsewhere, 1);
    // With room, it comes.
    volume.unlink(Ino::ROOT, b"middle").unwrap();
    volume.sync().unwrap();
    volume.migrate(1).unwrap();
    assert_eq!(runs(&volume, more), "768 disk1");
    // So it is after a mount, once the file is used.
    volume
        .setattr(more, &SetAttr { size: Some(512 * BLOCK as u64), ..Default::default() })
        .unwrap();
    unpin(&volume, more);
    volume.move_file(more, 2).unwrap();
    volume.tune(Param::Migrate, 0).unwrap();
    pin(&volume, more, "1");
    volume.close().unwrap();
    drop(volume);
    let volume = rig.open_alone(&[]);
    let ino = find(&volume, "more");
    assert_eq!(runs(&volume, ino), "512 disk2");
    volume.migrate(1).unwrap();
    assert_eq!(runs(&volume, ino), "512 disk1");
    assert!(contents(&volume, ino) == data);
    close_and_check(volume, &rig);
}

/// Full places: PM-pinned data waits in the page cache and on a disk, disk-pinned data goes to PM
/// rather than nowhere.
#[test]
fn a_full_tier_is_no_place() {
    let rig = Rig::tiered(4 * MIB);
    let volume = rig.open_alone(&[]);
    let ballast = file(&volume, "ballast");
    pin(&volume, ballast, "pm");
    let piece = pattern(16 * BLOCK, 1);
    let mut at = 0;
    while !runs(&volume, ballast).contains("cache") {
        put(&volume, ballast, at, &piece);
        at += piece.len() as u64;
    }
    assert!(volume.stats().counters.get(Counter::PlacedPmFull) > 0);
    volume.sync().unwrap();
    let before = runs(&volume, ballast);
    assert!(before.ends_with("disk1"), "{before}");
    // There is room in PM again, and what did not fit comes.
    let other = file(&volume, "other");
    volume.setattr(ballast, &SetAttr { size: Some(at), ..Default::default() }).unwrap();
    volume.fallocate(ballast, Fallocate::PunchHole, 0, 4 * MIB).unwrap();
    volume.migrate(1).unwrap();
    assert!(runs(&volume, ballast).ends_with(" pm"), "{}", runs(&volume, ballast));
    // The second disk is full: the first, then PM.
    pin(&volume, other, "2");
    let mut at = 0;
    let mut fill = |len: usize| {
        while volume
            .write(other, at, &piece[..len], WriteOptions { durable: true, ..Default::default() })
            .is_ok()
            && !runs(&volume, other).contains("pm")
        {
            at += len as u64;
        }
    };
    fill(16 * BLOCK);
    fill(BLOCK);
    let found = runs(&volume, other);
    assert!(
        found.starts_with(|c: char| c.is_ascii_digit())
            && found.contains("disk2")
            && found.contains("pm"),
        "{found}"
    );
    assert_eq!(volume.status().migration.unwrap().pinned_elsewhere, 1);
    close_and_check(volume, &rig);
}

/// A disk that fails is no reason to keep acknowledged data in memory while another has room.
#[test]
fn a_tier_that_fails_is_no_place() {
    let (disk, sim) = sim_disk(64 * MIB);
    let rig = Rig { pm: Pm::anonymous(8 * MIB), disks: vec![memory_disk(16 * MIB), disk] };
    let tiers = vec![1, 2];
    format(&rig.pm, &rig.disks, &FormatOptions { shards: Some(1), tiers, ..Default::default() })
        .unwrap();
    let volume = rig.open_alone(&[]);
    let (ino, data) = (file(&volume, "file"), pattern(8 * BLOCK, 1));
    pin(&volume, ino, "2");
    put(&volume, ino, 0, &data);
    sim.fail_writes_after(0);
    volume.fsync(ino, false).unwrap();
    assert_eq!(runs(&volume, ino), "8 disk1");
    sim.clear_faults();
    put(&volume, ino, 0, &data);
    volume.fsync(ino, false).unwrap();
    assert_eq!((runs(&volume, ino), contents(&volume, ino)), ("8 disk2".into(), data));
    close_and_check(volume, &rig);
}

/// Reserving blocks is a write as far as room is concerned: there is some while any tier has some.
#[test]
fn blocks_are_reserved_in_pm_when_the_disks_are_full() {
    let rig = Rig::tiered(16 * MIB);
    let volume = rig.open_alone(&[]);
    let ino = file(&volume, "file");
    pin(&volume, ino, "2");
    let mut steps = 0;
    while !runs(&volume, ino).contains("pm") {
        volume.fallocate(ino, Fallocate::Allocate, steps * MIB, MIB).unwrap();
        steps += 1;
    }
    assert!(steps > 70, "both disks are used first: {}", runs(&volume, ino));
    close_and_check(volume, &rig);
}

/// A pin to a tier that has left the volume means nothing, and keeps no migration thread awake.
#[test]
fn a_tier_that_leaves_takes_its_pins_along() {
    let rig = Rig::tiered(16 * MIB);
    let volume = rig.open_alone(&[]);
    let ino = file(&volume, "file");
    pin(&volume, ino, "2");
    put(&volume, ino, 0, &pattern(8 * BLOCK, 1));
    volume.fsync(ino, false).unwrap();
    assert_eq!(runs(&volume, ino), "8 disk2");
    let removal = volume.remove_disk(2, None).unwrap();
    assert_eq!(removal.state, RemovalState::Finished, "{removal:?}");
    assert_eq!(runs(&volume, ino), "8 disk1");
    volume.migrate(1).unwrap();
    assert_eq!(volume.pin_of(ino).unwrap(), None);
    let migration = volume.status().migration.unwrap();
    assert_eq!((migration.pinned_files, migration.pinned_elsewhere), (0, 0));
    volume.close().unwrap();
}
