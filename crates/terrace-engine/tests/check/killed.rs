//! A repair of what a killed daemon has left, part of it in a cache only; then the power fails.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use terrace_engine::{Ino, SetAttr, Volume};
use terrace_layout::AttrEntry;
use terrace_media::{Pm, PmSim};

use crate::PLAIN;
use crate::rig::{Image, Rig, contents, find, pattern, put};

/// Changes a file in a thread that ends, with its daemon, when it is about to wait for PM. Its
/// flushes and its stores past the cache are of no use to other threads.
fn killed_in(volume: &Arc<Volume>, sim: &PmSim, change: fn(&Volume, Ino), ino: Ino) {
    sim.set_on_fence(Box::new(|_| panic!("killed")));
    thread::scope(|scope| {
        let killed = scope.spawn(|| catch_unwind(AssertUnwindSafe(|| change(volume, ino))));
        assert!(killed.join().unwrap().is_err(), "the change waits for PM");
    });
    sim.clear_on_fence();
    volume.abandon();
    std::mem::forget(volume.clone());
}

fn append(volume: &Volume, ino: Ino) {
    put(volume, ino, 5000, &pattern(300, 9));
}

fn patch(volume: &Volume, ino: Ino) {
    put(volume, ino, 10, &pattern(100, 9));
}

fn chmod(volume: &Volume, ino: Ino) {
    volume.setattr(ino, &SetAttr { mode: Some(0o600), ..Default::default() }).unwrap();
}

#[test]
fn a_repair_does_not_build_on_what_is_in_a_cache_only() {
    for change in [append, patch, chmod] {
        let rig = PLAIN.rig();
        let volume = rig.open(90);
        let ino = find(&volume, "hard");
        put(&volume, ino, 0, &pattern(5000, 8));
        volume.close().unwrap();
        drop(volume);
        rig.change_entry::<AttrEntry>(ino, rig.entry_at(ino, "attributes"), |e| e.nlink = 5);
        let (pm, sim) = Pm::simulated_from(rig.image().0[0].clone());
        let rig = Rig { pm, ..rig };
        killed_in(&rig.open(90), &sim, change, ino);
        let found = rig.check(true);
        assert!(found.problems.len() == 1 && found.problems[0].repaired, "{:#?}", found.problems);
        // The check has found the change whole, so it counts.
        let expected = contents(&rig.image().rig().open(90), ino);
        let left = [sim.durable_image(), sim.crash_image_random(1), sim.crash_image_random(2)];
        for pm in left {
            let disks = rig.image().0.into_iter().skip(1);
            let after = Image(std::iter::once(pm).chain(disks).collect()).rig();
            let volume = after.open(90);
            assert!(volume.status().read_only.is_none(), "{:?}", volume.status().read_only);
            assert!(contents(&volume, ino) == expected, "changed by the power cut");
            assert_eq!(volume.getattr(ino).unwrap().nlink, 2);
            volume.close().unwrap();
            after.must_be_sound();
        }
    }
}
