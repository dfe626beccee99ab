//! A borrower that is stopped at any step of a change, as a signal would have it stop, and goes on
//! later.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, Once};
use std::thread::{self, JoinHandle};

use terrace_direct::{Borrowed, Refusal};
use terrace_engine::{Bug, Ino, SetAttr, Volume, WriteOptions, plant};
use terrace_media::on_step;

use crate::rig::{BLOCK_BYTES, ENDED, ME, NOTHING, Rig, contents, create};

/// Places at which a thread of the borrower stops, as a signal would have it stop.
pub struct Stop {
    /// Before these of its steps.
    before: Vec<usize>,
    taken: AtomicUsize,
    state: Mutex<Stopped>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    NotYet,
    Here,
    GoesOn,
    /// There was no such step, or not another one.
    Never,
}

impl Stop {
    fn before(steps: &[usize]) -> Arc<Self> {
        let (before, taken) = (steps.to_vec(), AtomicUsize::new(0));
        Arc::new(Self {
            before,
            taken,
            state: Mutex::new(Stopped::NotYet),
            changed: Condvar::new(),
        })
    }

    pub fn set(&self, state: Stopped) {
        *self.state.lock().unwrap() = state;
        self.changed.notify_all();
    }

    /// Lets it go on to the next place.
    pub fn goes_on(&self) -> Stopped {
        self.set(Stopped::GoesOn);
        self.wait_while(Stopped::GoesOn)
    }

    fn wait_while(&self, is: Stopped) -> Stopped {
        let state = self.state.lock().unwrap();
        *self.changed.wait_while(state, |state| *state == is).unwrap()
    }
}

/// Something that a thread does at each of its steps.
type AtEachStep = Rc<dyn Fn()>;

thread_local! {
    static AT_EACH_STEP: RefCell<Option<AtEachStep>> = const { RefCell::new(None) };
    /// Planted for the borrower's thread as well.
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// This thread is about to take a step.
pub fn take_step() {
    let act = AT_EACH_STEP.with(|act| act.borrow().clone());
    act.into_iter().for_each(|act| act());
}

/// From now on this thread does so at each step; `None`: nothing.
pub fn at_each_step(act: Option<AtEachStep>) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| on_step(take_step));
    AT_EACH_STEP.with(|of_thread| *of_thread.borrow_mut() = act);
}

fn stop_here(stop: &Stop) {
    if stop.before.contains(&stop.taken.fetch_add(1, Ordering::Relaxed)) {
        stop.set(Stopped::Here);
        stop.wait_while(Stopped::Here);
    }
}

/// A thread of the borrower.
pub type Borrower = JoinHandle<(Result<(), Refusal>, Borrowed)>;

/// Has a thread change the file, until it is about to take its step `step`. None: there is no such
/// step, and the change has been made.
pub fn stopped_at(
    step: usize,
    what: (&str, Change),
    file: Borrowed,
) -> Option<(Arc<Stop>, Borrower)> {
    stopped_before(&[step], what, file)
}

/// As [`stopped_at`], with several places to stop at, one after the other.
pub fn stopped_before(
    steps: &[usize],
    (name, change): (&str, Change),
    mut file: Borrowed,
) -> Option<(Arc<Stop>, Borrower)> {
    let stop = Stop::before(steps);
    let (of_thread, bug) = (stop.clone(), PLANTED.get());
    let borrower = thread::spawn(move || {
        plant(bug);
        let of_steps = of_thread.clone();
        at_each_step(Some(Rc::new(move || stop_here(&of_steps))));
        let result = change(&mut file);
        of_thread.set(Stopped::Never);
        (result, file)
    });
    if stop.wait_while(Stopped::NotYet) == Stopped::Never {
        assert_eq!(borrower.join().unwrap().0, Ok(()), "{name}");
        return None;
    }
    Some((stop, borrower))
}

/// A file of those contents, lent to this process.
pub fn lent_file(rig: &Rig, volume: &Volume) -> (Ino, Borrowed) {
    let ino = create(volume, b"a");
    volume.write(ino, 0, &before(), WriteOptions::default()).unwrap();
    (ino, rig.borrow(volume, ino))
}

pub type Change = fn(&mut Borrowed) -> Result<(), Refusal>;

/// Changes of each kind, of a file of 10,000 bytes.
pub const CHANGES: [(&str, Change); 9] = [
    ("patch", |file| file.write_at(Some(100), &[1; 50]).map(drop)),
    ("patch of the last block", |file| file.write_at(Some(9000), &[1; 50]).map(drop)),
    ("append", |file| file.write_at(None, &[2; 128]).map(drop)),
    ("append beyond the block", |file| file.write_at(None, &[3; 5000]).map(drop)),
    ("append with a gap", |file| file.write_at(Some(20_000), &[4; 300]).map(drop)),
    ("whole block", |file| file.write_at(Some(4096), &[5; 4096]).map(drop)),
    ("part of two blocks", |file| file.write_at(Some(4000), &[6; 1000]).map(drop)),
    ("cut", |file| file.truncate(5000)),
    ("grow", |file| file.truncate(12_000)),
];

pub fn before() -> Vec<u8> {
    (0..10_000u32).map(|i| (i % 251) as u8).collect()
}

/// The file after a change, on a volume of its own.
pub fn after(change: Change) -> Vec<u8> {
    let rig = Rig::new();
    let volume = rig.open();
    let (ino, mut file) = lent_file(&rig, &volume);
    change(&mut file).unwrap();
    contents(&volume, ino)
}

/// The owner of a file meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// It takes the file back, with the borrower stopped.
    Waits,
    /// It dies, and its successor takes the file back.
    Dies,
    /// It takes the file back, and then dies.
    DiesLater,
    /// It dies, and so does its successor, which has taken the file back.
    DiesTwice,
}

/// The owner's use of the file afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    ChangesInPlace,
    Rewrites,
    Cuts,
}

fn size(size: u64) -> SetAttr {
    SetAttr { size: Some(size), ..SetAttr::default() }
}

/// Fills most of PM with other files.
pub fn fill_pm(volume: &Volume) -> Vec<(Ino, usize)> {
    let mut others = Vec::new();
    // With less room than that, each write makes room first, which takes long.
    for (len, left) in [(65_536, 320 << 10), (4096, 256 << 10)] {
        let room = volume.stats().tiers[0].free_bytes.saturating_sub(left);
        for _ in 0..room / (len as u64 + 4096) {
            let ino = create(volume, format!("other {}", others.len()).as_bytes());
            volume.write(ino, 0, &vec![8; len], WriteOptions::default()).unwrap();
            others.push((ino, len));
        }
    }
    others
}

/// Stops the borrower at one step of a change. False: there is no such step.
fn stop_and_go_on(
    what: (&str, Change),
    step: usize,
    (owner, then): (Owner, Then),
    log_is_full: bool,
) -> bool {
    let rig = Rig::new();
    let mut volume = rig.open();
    let (ino, mut file) = lent_file(&rig, &volume);
    // A change that needs another page of the log takes more steps.
    (0..if log_is_full { 62 } else { 0 }).for_each(|_| {
        file.write_at(Some(0), &before()[..4096]).unwrap();
    });
    let Some((stop, borrower)) = stopped_at(step, what, file) else { return false };
    let context = format!("{}, step {step}, {owner:?}, {then:?}, {log_is_full}", what.0);
    if matches!(owner, Owner::Dies | Owner::DiesTwice) {
        volume = rig.crash(volume);
    }
    let now = contents(&volume, ino);
    let counts = now != before();
    assert!(!counts || now == after(what.1), "{context}: neither before nor after");
    if matches!(owner, Owner::DiesLater | Owner::DiesTwice) {
        volume = rig.crash(volume);
        assert!(contents(&volume, ino) == now, "{context}: changed by the daemon's death");
    }
    let loans = volume.loans();
    match step {
        0 => assert_eq!(loans, NOTHING, "{context}: before the borrower has taken the file"),
        // Of 64 blocks that were lent, the change has used a few.
        _ => assert!(loans.quarantined_bytes > 48 * BLOCK_BYTES, "{context}: {loans:?}"),
    }
    assert_eq!((loans.files, volume.lent()), (0, vec![]), "{context}: the loan has ended");
    // The file goes on, and others use what PM has.
    let write = |at, data: &[u8]| volume.write(ino, at, data, WriteOptions::default()).unwrap();
    match then {
        Then::ChangesInPlace => {
            [100, 9000].iter().for_each(|&at| assert_eq!(write(at, &[9; 50]), 50));
            write(volume.getattr(ino).unwrap().size, &[10; 128]);
        }
        Then::Rewrites => assert_eq!(write(0, &[9; 16_000]), 16_000),
        Then::Cuts => volume.setattr(ino, &size(0)).map(drop).unwrap(),
    }
    let others = fill_pm(&volume);
    let expected = contents(&volume, ino);
    stop.set(Stopped::GoesOn);
    let (result, late) = borrower.join().unwrap();
    let verdict = if counts { Ok(()) } else { Err(ENDED) };
    assert_eq!(result, verdict, "{context}");
    assert!(contents(&volume, ino) == expected, "{context}: changed by who was stopped");
    let is_whole = |&(other, len): &(Ino, usize)| contents(&volume, other) == vec![8; len];
    assert!(others.iter().all(is_whole), "{context}: other files changed");
    let (page, generation) = late.loan();
    volume.let_go(ME, page, generation);
    assert_eq!(volume.loans(), NOTHING, "{context}");
    let volume = rig.crash(volume);
    assert!(contents(&volume, ino) == expected, "{context}: changed by recovery");
    volume.close().unwrap();
    rig.assert_sound();
    true
}

#[test]
fn a_borrower_that_is_stopped_at_any_step_harms_nobody_when_it_goes_on() {
    for what in CHANGES {
        for (owner, then, log_is_full) in [
            (Owner::Waits, Then::ChangesInPlace, false),
            (Owner::Waits, Then::Rewrites, true),
            (Owner::Waits, Then::Cuts, false),
            (Owner::Dies, Then::ChangesInPlace, true),
            (Owner::Dies, Then::Rewrites, false),
            (Owner::DiesLater, Then::ChangesInPlace, false),
            (Owner::DiesLater, Then::Rewrites, true),
            (Owner::DiesTwice, Then::ChangesInPlace, true),
            (Owner::DiesTwice, Then::Rewrites, false),
        ] {
            let meanwhile = (owner, then);
            let steps =
                (0..).take_while(|&step| stop_and_go_on(what, step, meanwhile, log_is_full));
            let steps = steps.count();
            assert!(steps > 1, "{}: {steps} steps", what.0);
        }
    }
}

/// Whether the steps of a change, with a bug planted, show that something is wrong.
fn shows(bug: Bug, what: (&str, Change), then: Then) -> bool {
    is_found(bug, || {
        let meanwhile = (Owner::Waits, then);
        (0..).take_while(|&step| stop_and_go_on(what, step, meanwhile, false)).count();
    })
}

/// Whether what is done panics with a bug planted.
pub fn is_found(bug: Bug, by: impl FnOnce()) -> bool {
    plant(Some(bug));
    PLANTED.set(Some(bug));
    let result = catch_unwind(AssertUnwindSafe(by));
    plant(None);
    PLANTED.set(None);
    result.is_err()
}

#[test]
fn planted_bugs_are_found() {
    let [patch, _, append, append_beyond, _, block, ..] = CHANGES;
    for (bug, what, then) in [
        (Bug::LoanReachFree, block, Then::Rewrites),
        (Bug::LoanNamesNothing, patch, Then::ChangesInPlace),
        (Bug::LoanVerdictIgnored, append, Then::ChangesInPlace),
        (Bug::LoanStoresUnasked, block, Then::Rewrites),
        (Bug::LoanGenerationStays, append_beyond, Then::ChangesInPlace),
    ] {
        assert!(shows(bug, what, then), "{bug:?} is not found by {}", what.0);
    }
}
