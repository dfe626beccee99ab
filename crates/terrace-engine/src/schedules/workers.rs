//! Workers are woken when there is something to do, and end when they are told to; journals of
//! several threads; what comes after an unmount.

use terrace_store::planted::Bug;
use terrace_store::sync::thread;

use super::{BLOCK, DIR, FILE, Rig, Tier, contents, finds, holds, make, put, together};
use crate::{Ino, Volume};

/// How often a thread looks whether a worker has done its work.
const LOOKS: usize = 20_000;

/// Waits until it is so, as long as anybody could.
fn until(what: &str, so: impl Fn() -> bool) {
    assert!(
        (0..LOOKS).any(|_| {
            let done = so();
            if !done {
                thread::yield_now();
            }
            done
        }),
        "the worker sleeps: {what}"
    );
}

fn is_idle(volume: &Volume) -> bool {
    let shards = &volume.parts.dirty.shards;
    shards.iter().enumerate().all(|(number, shard)| {
        shard.dirty.lock().is_empty() && !volume.parts.inodes.has_orphans(number)
    })
}

/// The workers do all that is left to them, though nobody asks again.
fn waking() {
    let rig = Rig::new();
    let volume = rig.open(Tier::Disk(16));
    let kept = make(&volume, Ino::ROOT, "kept", &FILE);
    let gone = make(&volume, Ino::ROOT, "gone", &FILE);
    together! {
        { put(&volume, kept, 0, &[1; BLOCK]) }
        { volume.unlink(Ino::ROOT, b"gone").unwrap(); volume.forget(gone, 1) }
    };
    until("after the first work", || is_idle(&volume));
    // It may be about to sleep now.
    put(&volume, kept, 0, &[2; BLOCK]);
    until("after more of it", || is_idle(&volume));
    assert_eq!(volume.parts.cache.dirty_pages(), 0);
    rig.close(volume);
}

/// Workers end at once, whatever they are at; all that was acknowledged is on the devices.
fn unmounting() {
    let rig = Rig::new();
    let tier = Tier::Disk(16);
    let volume = rig.open(tier);
    let kept = make(&volume, Ino::ROOT, "kept", &FILE);
    put(&volume, kept, 0, &[1; BLOCK]);
    let gone = make(&volume, Ino::ROOT, "gone", &FILE);
    put(&volume, gone, 0, &[2; BLOCK]);
    volume.unlink(Ino::ROOT, b"gone").unwrap();
    // Both wait for the end of the workers, whoever comes first.
    together! {
        { volume.forget(gone, 1) }
        { put(&volume, kept, 0, &[3; BLOCK]) }
    };
    rig.close(volume);
    let volume = rig.open(tier);
    let kept = volume.lookup(Ino::ROOT, b"kept").unwrap().ino;
    assert!(contents(&volume, kept) == [3; BLOCK]);
    rig.close(volume);
}

/// Commits of several words at once, from several threads through one journal.
fn journals() {
    let rig = Rig::new();
    let volume = rig.open(Tier::Pm);
    let (a, b) = (make(&volume, Ino::ROOT, "a", &DIR), make(&volume, Ino::ROOT, "b", &DIR));
    for (dir, name) in [(a, "one"), (b, "two"), (a, "three")] {
        volume.forget(make(&volume, dir, name, &FILE), 1);
    }
    let move_file = |from: Ino, to: Ino, name: &[u8]| {
        volume.rename(from, name, to, name, Default::default()).unwrap()
    };
    let link_file = |dir: Ino, name: &[u8], new: &[u8]| {
        let file = volume.lookup(dir, name).unwrap().ino;
        volume.link(file, Ino::ROOT, new).unwrap();
        volume.forget(file, 2);
        volume.unlink(Ino::ROOT, new).unwrap();
    };
    together! {
        { move_file(a, b, b"one"); move_file(b, a, b"one") }
        { move_file(b, a, b"two") }
        { link_file(a, b"three", b"four"); link_file(a, b"three", b"five") }
    };
    for name in [b"one".as_slice(), b"two", b"three"] {
        assert_eq!(volume.lookup(a, name).unwrap().nlink, 1);
    }
    rig.close(volume);
}

/// Somebody still writes everything back when the unmount comes, as a daemon does that was told to
/// end.
fn late_sync() {
    let rig = Rig::new();
    let tier = Tier::Disk(16);
    let volume = rig.open(tier);
    let file = make(&volume, Ino::ROOT, "file", &FILE);
    put(&volume, file, 0, &[1; 2 * BLOCK]);
    let gone = make(&volume, Ino::ROOT, "gone", &FILE);
    volume.unlink(Ino::ROOT, b"gone").unwrap();
    volume.forget(gone, 1);
    together! {
        { volume.sync().unwrap() }
        { volume.close().unwrap() }
    };
    drop(volume);
    rig.must_be_sound();
    let volume = rig.open(tier);
    let file = volume.lookup(Ino::ROOT, b"file").unwrap().ino;
    assert!(contents(&volume, file) == [1; 2 * BLOCK]);
    rig.close(volume);
}

/// After the unmount nothing changes any more, whoever still tries.
fn late() {
    let rig = Rig::new();
    let volume = rig.open(Tier::Pm);
    let file = make(&volume, Ino::ROOT, "file", &FILE);
    put(&volume, file, 0, &[1; 100]);
    volume.close().unwrap();
    together! {
        { assert!(volume.write(file, 0, &[2; 100], Default::default()).is_err()) }
        { assert!(volume.create(Ino::ROOT, b"late", &FILE).is_err()) }
        { assert!(volume.unlink(Ino::ROOT, b"file").is_err()) }
        { volume.forget(file, 1); volume.close().unwrap(); let _ = volume.sync(); }
    };
    drop(volume);
    rig.must_be_sound();
}

#[test]
fn no_wake_up_is_lost() {
    holds(800, waking);
}

#[test]
fn a_lost_wake_up_is_found() {
    finds(Bug::WakeWithoutFlag, 800, waking);
}

#[test]
fn workers_end_when_they_are_told_to() {
    holds(500, unmounting);
}

#[test]
fn journals_keep_their_commits_apart() {
    holds(500, journals);
}

#[test]
fn a_sync_may_meet_the_unmount() {
    holds(400, late_sync);
}

#[test]
fn nothing_changes_after_the_unmount() {
    holds(200, late);
}
