//! Recovery says that it has undone changes if a crash has cut some off, and only then.

mod rig;

use terrace_engine::{Ino, SetAttr, Volume};
use terrace_layout::{BLOCK, BLOCK_BYTES, MediaStruct, SLOT_BYTES, Stamp, Superblock};

use rig::{FILE, Rig, make, pattern, put, runs};

fn chmod(volume: &Volume, ino: Ino, mode: u32) {
    volume.setattr(ino, &SetAttr { mode: Some(mode), ..Default::default() }).unwrap();
}

fn remove(volume: &Volume, name: &str, ino: Ino) {
    volume.unlink(Ino::ROOT, name.as_bytes()).unwrap();
    volume.forget(ino, 1);
}

/// A mount's words for changes that are undone.
fn said(volume: &Volume) -> Vec<String> {
    volume.status().notes.into_iter().filter(|note| note.contains("undid")).collect()
}

/// The words of the next mount for them, after this one's death.
fn said_after_death(rig: &Rig, volume: &Volume) -> Vec<String> {
    volume.abandon();
    said(&rig.open(90))
}

/// Bytes that look like entries of the present mount in every slot.
fn lookalikes(rig: &Rig, blocks: usize) -> Vec<u8> {
    let epoch_of = |copy: u64| {
        let mut block = vec![0; BLOCK];
        rig.pm.read(copy * BLOCK_BYTES, &mut block);
        Superblock::from_bytes(&block).mount_epoch
    };
    let stamp = Stamp::of_epoch(epoch_of(0).max(epoch_of(1)));
    let heads = (2..=u16::MAX).step_by(2).map(|flags| {
        let [low, high] = flags.to_le_bytes();
        [2, 1, low, high]
    });
    let head = heads.into_iter().find(|head| Stamp::of_entry(head) == Some(stamp));
    head.unwrap().repeat(blocks * BLOCK / 4)
}

/// Files of every length of log, in records and pages that other files of this mount had.
fn reuse(volume: &Volume) {
    for i in 0..400 {
        let ino = make(volume, Ino::ROOT, &format!("new{i}"), &FILE);
        (0..i % 30 * 3).for_each(|n| chmod(volume, ino, 0o600 + n % 8));
    }
}

#[test]
fn leftovers_of_an_earlier_use_are_nothing_that_was_undone() {
    let rig = Rig::new(4 << 20, false);
    let volume = rig.open(90);
    let old: Vec<_> = (0..30).map(|i| format!("old{i}")).collect();
    let inodes: Vec<_> = old.iter().map(|name| make(&volume, Ino::ROOT, name, &FILE)).collect();
    for &ino in &inodes {
        (0..150).for_each(|n| chmod(&volume, ino, 0o600 + n % 8));
    }
    old.iter().zip(&inodes).for_each(|(name, &ino)| remove(&volume, name, ino));
    volume.sync().unwrap();
    reuse(&volume);
    assert_eq!(said_after_death(&rig, &volume), [""; 0]);
}

#[test]
fn nor_is_data_that_looks_like_entries() {
    let rig = Rig::new(4 << 20, false);
    let volume = rig.open(90);
    let ino = make(&volume, Ino::ROOT, "old", &FILE);
    let data = lookalikes(&rig, 8);
    (0..100).for_each(|i| put(&volume, ino, i * data.len() as u64, &data));
    assert_eq!(runs(&volume, ino), "800 pm");
    remove(&volume, "old", ino);
    volume.sync().unwrap();
    reuse(&volume);
    // A log written anew ends amid a page.
    let ino = make(&volume, Ino::ROOT, "compact", &FILE);
    (0..2000).for_each(|n| chmod(&volume, ino, 0o600 + n % 8));
    assert_eq!(said_after_death(&rig, &volume), [""; 0]);
}

#[test]
fn a_change_that_has_not_arrived_is_undone_and_said_once() {
    for page in [false, true] {
        let rig = Rig::new(4 << 20, false);
        let volume = rig.open(90);
        let ino = make(&volume, Ino::ROOT, "a", &FILE);
        put(&volume, ino, 0, &pattern(5000, 1));
        (0..if page { 20 } else { 1 }).for_each(|_| chmod(&volume, ino, 0o640));
        // The payload of the last one has what looks like stamps, too.
        let patch = vec![6; if page { 3 * SLOT_BYTES as usize } else { 10 }];
        put(&volume, ino, 100, &patch);
        volume.abandon();
        let last = rig.entry_at(ino, "patch");
        rig.flip(0, last + 40);
        let volume = rig.open(90);
        let notes = said(&volume);
        let torn = format!(
            "recovery undid the last change of 1 inode, of which not all had arrived: the first \
             is inode {}, with its log entry at byte {last}",
            ino.0
        );
        assert!(matches!(&notes[..], [note] if note.ends_with(&torn)), "{notes:?}");
        // Its leftovers are no torn entry of a later mount, either.
        let mut left = vec![0; 32 + patch.len()];
        rig.pm.read(last, &mut left);
        assert!(left.chunks(SLOT_BYTES as usize).all(|slot| Stamp::of_entry(slot).is_none()));
        chmod(&volume, ino, 0o640);
        assert_eq!(said_after_death(&rig, &volume), [""; 0]);
    }
}
