//! Power that fails after the owner has taken in the change of a borrower that was stopped in its
//! middle, and whose own flushes and fences are still to come.

use terrace_engine::Bug;

use crate::rig::{ME, Rig, contents};
use crate::stops::{
    CHANGES, Change, Stopped, after, before, is_found, lent_file, stopped_at, take_step,
};

/// False: there is no such step.
fn cut_power(what: (&str, Change), step: usize, owner_dies: bool) -> bool {
    let (rig, sim) = Rig::simulated();
    // Before a fence most is undecided.
    sim.set_on_fence(Box::new(|_| take_step()));
    let mut volume = rig.open();
    let (ino, file) = lent_file(&rig, &volume);
    let Some((stop, borrower)) = stopped_at(step, what, file) else { return false };
    let context = format!("{}, step {step}, the owner dies: {owner_dies}", what.0);
    if owner_dies {
        volume = rig.crash(volume);
    }
    let now = contents(&volume, ino);
    assert!(now == before() || now == after(what.1), "{context}: neither before nor after");
    rig.cut_power(&sim, &|after| {
        assert!(contents(after, ino) == now, "{context}: changed by the power cut");
    });
    stop.set(Stopped::GoesOn);
    let (page, generation) = borrower.join().unwrap().1.loan();
    volume.let_go(ME, page, generation);
    volume.close().unwrap();
    true
}

fn at_all_steps(what: (&str, Change), owner_dies: bool) {
    let steps = (0..).take_while(|&step| cut_power(what, step, owner_dies)).count();
    assert!(steps > 1, "{}: {steps} steps", what.0);
}

#[test]
fn nothing_that_was_taken_from_a_stopped_borrower_is_lost_with_the_power() {
    for what in CHANGES {
        at_all_steps(what, false);
    }
}

#[test]
fn nor_does_a_successor_of_the_owner_lose_it() {
    for what in CHANGES {
        at_all_steps(what, true);
    }
}

#[test]
fn an_entry_that_is_taken_in_without_a_flush_of_its_data_is_found() {
    let [.., block, _, _, _] = CHANGES;
    assert!(is_found(Bug::ChainEndNotFlushed, || at_all_steps(block, false)));
}
