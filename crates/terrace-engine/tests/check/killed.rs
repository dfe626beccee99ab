//! A repair of what a killed daemon has left, part of it in a cache only; then the power fails.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use terrace_engine::{Ino, RenameFlags, SetAttr, Volume};
use terrace_layout::AttrEntry;
use terrace_media::{Pm, PmSim};

use crate::PLAIN;
use crate::rig::{Image, Rig, find, pattern, put, tree};

/// Makes a change in a thread that ends, with its daemon, when it is about to wait for PM for the
/// so many-th time. Its flushes and its stores past the cache are of no use to other threads.
/// False: it does not wait as often.
fn killed_in(volume: &Arc<Volume>, sim: &PmSim, change: fn(&Volume), wait: usize) -> bool {
    let waits = AtomicUsize::new(0);
    sim.set_on_fence(Box::new(move |_| {
        assert_ne!(waits.fetch_add(1, Ordering::Relaxed), wait, "killed");
    }));
    let was_killed = thread::scope(|scope| {
        let killed = scope.spawn(|| catch_unwind(AssertUnwindSafe(|| change(volume))));
        killed.join().unwrap().is_err()
    });
    sim.clear_on_fence();
    volume.abandon();
    std::mem::forget(volume.clone());
    was_killed
}

const CHANGES: [fn(&Volume); 6] = [
    |volume| put(volume, find(volume, "hard"), 5000, &pattern(300, 9)),
    |volume| put(volume, find(volume, "hard"), 10, &pattern(100, 9)),
    |volume| {
        let mode = SetAttr { mode: Some(0o600), ..Default::default() };
        volume.setattr(find(volume, "hard"), &mode).map(drop).unwrap();
    },
    |volume| volume.unlink(Ino::ROOT, b"small").unwrap(),
    |volume| {
        let (dir, flags) = (Ino::ROOT, RenameFlags::default());
        volume.rename(dir, b"small", dir, b"long", flags).unwrap();
    },
    |volume| volume.unlink(find(volume, "dir"), b"other").unwrap(),
];

/// False: the change does not wait as often.
fn repair_and_cut(change: fn(&Volume), wait: usize) -> bool {
    let rig = PLAIN.rig();
    let volume = rig.open(90);
    let ino = find(&volume, "hard");
    put(&volume, ino, 0, &pattern(5000, 8));
    volume.close().unwrap();
    drop(volume);
    rig.change_entry::<AttrEntry>(ino, rig.entry_at(ino, "attributes"), |e| e.nlink = 5);
    let (pm, sim) = Pm::simulated_from(rig.image().0[0].clone());
    let rig = Rig { pm, ..rig };
    let was_killed = killed_in(&rig.open(90), &sim, change, wait);
    let found = rig.check(true);
    assert!(found.problems.iter().all(|problem| problem.repaired), "{:#?}", found.problems);
    // The check has built on what it found.
    let expected = tree(&rig.image().rig().open(90));
    for pm in [sim.durable_image(), sim.crash_image_random(1), sim.crash_image_random(2)] {
        let disks = rig.image().0.into_iter().skip(1);
        let after = Image(std::iter::once(pm).chain(disks).collect()).rig();
        let volume = after.open(90);
        assert!(volume.status().read_only.is_none(), "{:?}", volume.status().read_only);
        assert_eq!(tree(&volume), expected, "changed by the power cut");
        volume.close().unwrap();
        after.must_be_sound();
    }
    was_killed
}

#[test]
fn a_repair_does_not_build_on_what_is_in_a_cache_only() {
    for (number, change) in CHANGES.into_iter().enumerate() {
        let waits = (0..).take_while(|&wait| repair_and_cut(change, wait)).count();
        assert!(waits > 0, "change {number}: {waits} waits");
    }
}
