//! A borrower that was stopped in a change when its owner died. It goes on with it while the
//! owner's successor opens the volume, or when that has died, too.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use terrace_direct::Borrowed;
use terrace_engine::{Bug, Ino, Volume};

use crate::rig::{ENDED, ME, NOTHING, Rig, contents};
use crate::stops::{
    Borrower, CHANGES, Change, Stop, Stopped, after, at_each_step, before, is_found, lent_file,
    stopped_before,
};

/// A file that the borrower has changed so often already, into what it was before. Its log is so
/// much longer, and the tail on media is behind.
fn changed_file(rig: &Rig, volume: &Volume, changes: usize) -> (Ino, Borrowed) {
    let (ino, mut file) = lent_file(rig, volume);
    for _ in 0..changes {
        file.write_at(Some(300), &before()[300..350]).unwrap();
    }
    (ino, file)
}

/// The borrower's steps within a change.
fn steps_of(change: Change, changes: usize) -> usize {
    let rig = Rig::new();
    let volume = rig.open();
    let (_, mut file) = changed_file(&rig, &volume, changes);
    let steps = Rc::new(Cell::new(0));
    let of_thread = steps.clone();
    at_each_step(Some(Rc::new(move || of_thread.set(of_thread.get() + 1))));
    change(&mut file).unwrap();
    at_each_step(None);
    steps.get()
}

/// The borrower goes on to the end: it is told what the owner has made of its change, and stores
/// nothing to the file any more.
fn end_as_told(volume: &Volume, ino: Ino, (stop, borrower): (&Stop, Borrower), context: &str) {
    let now = contents(volume, ino);
    stop.set(Stopped::GoesOn);
    let (result, file) = borrower.join().unwrap();
    let verdict = if now == before() { Err(ENDED) } else { Ok(()) };
    assert_eq!(result, verdict, "{context}");
    assert!(contents(volume, ino) == now, "{context}: changed by who was stopped");
    let (page, generation) = file.loan();
    volume.let_go(ME, page, generation);
}

/// The borrower stops before its step `first`, and goes on until `second` when the successor is
/// about to take its step `late`. False: the successor takes fewer steps. `changes` were made
/// before.
fn go_on_late(
    what: (&str, Change),
    changes: usize,
    (first, second): (usize, usize),
    late: usize,
) -> bool {
    let (rig, sim) = Rig::simulated();
    let volume = rig.open();
    let (ino, file) = changed_file(&rig, &volume, changes);
    let (stop, borrower) =
        stopped_before(&[first, second], what, file).expect("the change takes more steps");
    let context = format!("{}, steps {first} and {second}, the successor's {late}", what.0);
    let (taken, of_thread) = (Rc::new(Cell::new(0)), stop.clone());
    let of_steps = taken.clone();
    at_each_step(Some(Rc::new(move || {
        if of_steps.replace(of_steps.get() + 1) == late {
            // It has none left if it finds that the tail has been moved.
            assert_ne!(of_thread.goes_on(), Stopped::NotYet);
        }
    })));
    let volume = rig.crash(volume);
    at_each_step(None);
    let has_gone_on = taken.get() > late;
    let now = contents(&volume, ino);
    assert!(now == before() || now == after(what.1), "{context}: neither before nor after");
    rig.cut_power(&sim, &|cut| {
        assert!(contents(cut, ino) == now, "{context}: changed by a power cut");
    });
    if !has_gone_on {
        stop.goes_on();
    }
    end_as_told(&volume, ino, (&stop, borrower), &context);
    assert_eq!(volume.loans(), NOTHING, "{context}");
    let volume = match late % 2 {
        // The checkpoint tells what is in use: that must be what files have.
        0 => {
            volume.close().unwrap();
            drop(volume);
            rig.assert_sound();
            rig.open()
        }
        _ => rig.crash(volume),
    };
    assert!(contents(&volume, ino) == now, "{context}: changed by recovery");
    volume.close().unwrap();
    rig.assert_sound();
    has_gone_on
}

#[test]
fn what_a_borrower_is_told_holds_when_it_goes_on_during_recovery() {
    let [patch, _, append, _, _, block, ..] = CHANGES;
    for what in [patch, append, block] {
        let last = steps_of(what.1, 0) - 1;
        let pairs =
            (1..last).flat_map(|first| (first + 1..=last).map(move |second| (first, second)));
        for stops in pairs {
            let steps = (0..).take_while(|&late| go_on_late(what, 0, stops, late)).count();
            assert!(steps > 5, "{}: {steps} steps of the successor", what.0);
        }
    }
}

/// Patches after which the next one needs another page of the log.
fn patches_of_a_page() -> usize {
    let few = steps_of(CHANGES[0].1, 0);
    (1..80).find(|&changes| steps_of(CHANGES[0].1, changes) > few).expect("a page is filled")
}

/// The borrower makes all of its change but for its last step while the successor takes one of its
/// first.
fn moves_the_tail_late() {
    let (patch, changes) = (CHANGES[0], patches_of_a_page());
    let last = steps_of(patch.1, changes) - 1;
    for first in 1..last {
        for late in 0..10 {
            assert!(go_on_late(patch, changes, (first, last), late), "too few steps");
        }
    }
}

#[test]
fn so_it_does_when_its_change_needs_a_page_of_the_log() {
    moves_the_tail_late();
}

#[test]
fn a_late_tail_that_is_overwritten_is_found() {
    assert!(is_found(Bug::LateTailOverwritten, moves_the_tail_late));
}

/// The successor dies as well, when it is about to take its step `last`, and another one comes.
/// False: the first successor takes fewer steps.
fn die_twice(what: (&str, Change), step: usize, last: usize) -> bool {
    let rig = Rig::new();
    let volume = rig.open();
    let (ino, file) = lent_file(&rig, &volume);
    let (stop, borrower) = stopped_before(&[step], what, file).expect("the change takes more");
    let context = format!("{}, step {step}, the successor's {last}", what.0);
    volume.abandon();
    drop(volume);
    let taken = Cell::new(0);
    at_each_step(Some(Rc::new(move || {
        assert_ne!(taken.replace(taken.get() + 1), last, "killed");
    })));
    let first = catch_unwind(AssertUnwindSafe(|| rig.open()));
    at_each_step(None);
    let was_killed = first.is_err();
    if let Ok(first) = first {
        first.abandon();
    }
    let volume = rig.open();
    end_as_told(&volume, ino, (&stop, borrower), &context);
    volume.close().unwrap();
    rig.assert_sound();
    was_killed
}

#[test]
fn what_a_borrower_is_told_holds_when_the_successor_dies_in_its_recovery() {
    let [patch, _, append, append_beyond, _, block, ..] = CHANGES;
    for what in [patch, append, append_beyond, block] {
        for step in 1..steps_of(what.1, 0) {
            let steps = (0..).take_while(|&last| die_twice(what, step, last)).count();
            assert!(steps > 5, "{}: {steps} steps of the successor", what.0);
        }
    }
}
