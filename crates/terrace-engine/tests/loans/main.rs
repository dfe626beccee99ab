//! Files that are lent: a borrower in this process, on the same PM and control pages, beside the
//! volume that lends them.
#![cfg(not(shuttle))]

mod rig;
mod wild;

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, Once};
use std::thread;

use terrace_direct::{Borrowed, Reason, Refusal};
use terrace_engine::{
    Bug, Counter, Fallocate, Ino, LoanStats, SetAttr, Volume, WriteOptions, plant,
};
use terrace_media::on_step;
use terrace_store::delegation::NotLent;

use self::rig::{BLOCK_BYTES, ME, NOTHING, Rig, contents, create, read};

const ENDED: Refusal = Refusal::Mount(Reason::Ended);

#[test]
fn whatever_a_borrower_commits_the_owner_sees_and_both_survive() {
    let rig = Rig::new();
    let volume = rig.open();
    let ino = create(&volume, b"a");
    volume.write(ino, 0, b"before", WriteOptions::default()).unwrap();
    let mut file = rig.borrow(&volume, ino);
    assert!(volume.is_lent(ino) && file.lasts());
    assert_eq!(read(&file, 2, 100).unwrap(), b"fore");
    assert_eq!(file.write_at(None, b" and after").unwrap(), 6);
    assert_eq!(file.write_at(Some(1), b"E").unwrap(), 1);
    assert_eq!(file.write_at(Some(20_000), &[7; 9000]).unwrap(), 20_000);
    // Looking does not end the loan.
    assert_eq!(volume.getattr(ino).unwrap().size, 29_000);
    assert!(file.lasts());
    file.truncate(25_000).unwrap();
    assert_eq!(file.size().unwrap(), 25_000);
    let mut expected = b"bEfore and after".to_vec();
    expected.resize(20_000, 0);
    expected.resize(25_000, 7);
    assert_eq!(read(&file, 0, 1 << 20).unwrap(), expected);
    // Reading the data does.
    assert!(contents(&volume, ino) == expected);
    assert_eq!((file.write_at(Some(0), b"x"), file.size()), (Err(ENDED), Err(ENDED)));
    assert_eq!((read(&file, 0, 1), volume.loans()), (Err(ENDED), NOTHING));
    let volume = rig.crash(volume);
    assert!(contents(&volume, ino) == expected);
    volume.close().unwrap();
    rig.assert_sound();
}

#[test]
fn a_borrower_is_counted_while_it_has_the_file() {
    use Counter::{
        DirectReadBytes, DirectReads, DirectWrites, DirectWrittenBytes, Fsyncs, Loans, LoansBroken,
        PmReads, PmWrites, ReadPm, WrittenPm,
    };
    let rig = Rig::new();
    let volume = rig.open();
    let ino = create(&volume, b"a");
    let mut file = rig.borrow(&volume, ino);
    file.write_at(None, &[1; 100]).unwrap();
    file.write_at(Some(50), &[2; 20]).unwrap();
    file.sync().unwrap();
    read(&file, 0, 60).unwrap();
    let stats = volume.stats();
    assert_eq!(stats.loans, LoanStats { files: 1, processes: 1, quarantined_bytes: 0 });
    assert_eq!(volume.lent(), [(ino, ME)]);
    let counted = [Loans, LoansBroken, DirectWrites, PmWrites, DirectReads, PmReads, Fsyncs];
    assert_eq!(counted.map(|counter| stats.counters.get(counter)), [1, 0, 2, 2, 1, 1, 1]);
    let bytes = [DirectReadBytes, ReadPm].map(|counter| stats.counters.get(counter));
    assert_eq!(bytes, [60; 2]);
    // A first write takes a block, as a message's does.
    assert_eq!(stats.counters.get(DirectWrittenBytes), stats.counters.get(WrittenPm));
    assert!(file.lasts());
    file.write_at(None, &[3; 30]).unwrap();
    volume.take_back(ino).unwrap();
    assert_eq!(volume.stats().counters.get(DirectWrites), 3, "nothing is counted twice");
    assert_eq!(volume.stats().loans, NOTHING);
    volume.close().unwrap();
}

#[test]
fn a_daemon_that_dies_leaves_a_loan_that_its_successor_ends() {
    let rig = Rig::new();
    let volume = rig.open();
    let ino = create(&volume, b"a");
    let mut file = rig.borrow(&volume, ino);
    let mut expected = Vec::new();
    for i in 0..200u32 {
        let record = vec![i as u8; 100 + i as usize];
        file.write_at(None, &record).unwrap();
        expected.extend(record);
    }
    let volume = rig.crash(volume);
    assert_eq!(file.write_at(None, b"late"), Err(ENDED));
    assert!(contents(&volume, ino) == expected);
    volume.close().unwrap();
    rig.assert_sound();
}

#[test]
fn files_that_cannot_be_lent_say_why() {
    let rig = Rig::new();
    let volume = rig.open();
    let lend = |ino| volume.lend(ino, ME, 8).unwrap().map(drop);
    assert_eq!(lend(Ino::ROOT), Err(NotLent::NotAFile));
    let ino = create(&volume, b"set-id");
    volume.setattr(ino, &SetAttr { mode: Some(0o4755), ..SetAttr::default() }).unwrap();
    assert_eq!(lend(ino), Err(NotLent::Privileged));
    let [a, b, c, d, e] = [b"a", b"b", b"c", b"d", b"e"].map(|name| create(&volume, name));
    assert_eq!([a, b, c, d].map(lend), [Ok(()); 4]);
    assert_eq!(lend(e), Err(NotLent::NoRoom));
    assert_eq!(volume.lend(a, 2, 8).unwrap(), Err(NotLent::Elsewhere));
    volume.take_back_from(ME);
    assert_eq!((lend(e), volume.loans().files), (Ok(()), 1));
    volume.close().unwrap();
    rig.assert_sound();
}

#[test]
fn a_loan_is_renewed_with_its_log_as_it_was_or_tidied_up() {
    let rig = Rig::new();
    let volume = rig.open();
    let ino = create(&volume, b"a");
    let mut file = rig.borrow(&volume, ino);
    // The last block is never written again, and holds the log's first page.
    let (mut expected, mut kept, mut renewals) = (vec![0; 65_536 + 4096], 0, 0);
    file.write_at(Some(0), &expected).unwrap();
    for i in 0..20_000usize {
        let (at, byte) = (i * 4096 % 65_536, i as u8);
        let written = file.write_at(Some(at as u64), &[byte; 4096]);
        if written == Err(Refusal::Mount(Reason::Renew)) {
            let renewed = volume.renew_loan(ino, ME, 64).unwrap().unwrap();
            renewals += 1;
            match renewed.log_is_same {
                true => file.renewed(renewed.lent.page, renewed.lent.generation),
                false => file = rig.borrowed(renewed.lent),
            }
            kept += usize::from(renewed.log_is_same);
            file.write_at(Some(at as u64), &[byte; 4096]).unwrap();
        }
        file.sync().unwrap();
        expected[at..at + 4096].fill(byte);
    }
    assert!(renewals > 3 && kept < renewals, "{renewals} renewals, {kept} with the same log");
    assert!(read(&file, 0, 1 << 20).unwrap() == expected);
    let before = volume.stats();
    assert!(contents(&volume, ino) == expected);
    let pm = |stats: &terrace_engine::Stats| stats.tiers[0].free_bytes;
    assert!(pm(&volume.stats()) > pm(&before), "the pool is free again");
    volume.close().unwrap();
    rig.assert_sound();
}

#[test]
fn set_asides_are_written_in_place() {
    let rig = Rig::new();
    let volume = rig.open();
    let ino = create(&volume, b"a");
    volume.fallocate(ino, Fallocate::AllocateKeepSize, 0, 64 << 10).unwrap();
    let mut file = rig.borrow(&volume, ino);
    let mut expected = Vec::new();
    for i in 0..40u8 {
        file.write_at(None, &[i; 1500]).unwrap();
        expected.extend([i; 1500]);
    }
    assert!(contents(&volume, ino) == expected);
    volume.close().unwrap();
    rig.assert_sound();
}

/// A place at which a thread of the borrower stops, as a signal would have it stop.
struct Stop {
    steps: AtomicUsize,
    state: Mutex<Stopped>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopped {
    NotYet,
    Here,
    GoesOn,
    /// There was no such step.
    Never,
}

impl Stop {
    fn at(step: usize) -> Arc<Self> {
        let state = Mutex::new(Stopped::NotYet);
        Arc::new(Self { steps: AtomicUsize::new(step), state, changed: Condvar::new() })
    }

    fn set(&self, state: Stopped) {
        *self.state.lock().unwrap() = state;
        self.changed.notify_all();
    }

    fn wait_while(&self, is: Stopped) -> Stopped {
        let state = self.state.lock().unwrap();
        *self.changed.wait_while(state, |state| *state == is).unwrap()
    }
}

thread_local! {
    static STOP: RefCell<Option<Arc<Stop>>> = const { RefCell::new(None) };
}

thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

fn stop_here() {
    let stop = STOP.with(|stop| stop.borrow().clone());
    let Some(stop) = stop else { return };
    if stop.steps.fetch_sub(1, Ordering::Relaxed) == 0 {
        stop.set(Stopped::Here);
        stop.wait_while(Stopped::Here);
    }
}

type Change = fn(&mut Borrowed) -> Result<(), Refusal>;

/// Changes of each kind, of a file of 10,000 bytes.
const CHANGES: [(&str, Change); 9] = [
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

fn before() -> Vec<u8> {
    (0..10_000u32).map(|i| (i % 251) as u8).collect()
}

/// The file after a change, on a volume of its own.
fn after(change: Change) -> Vec<u8> {
    let rig = Rig::new();
    let volume = rig.open();
    let ino = create(&volume, b"a");
    volume.write(ino, 0, &before(), WriteOptions::default()).unwrap();
    change(&mut rig.borrow(&volume, ino)).unwrap();
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
fn fill_pm(volume: &Volume) -> Vec<(Ino, usize)> {
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
    let ino = create(&volume, b"a");
    volume.write(ino, 0, &before(), WriteOptions::default()).unwrap();
    let mut file = rig.borrow(&volume, ino);
    // A change that needs another page of the log takes more steps.
    (0..if log_is_full { 62 } else { 0 }).for_each(|_| {
        file.write_at(Some(0), &before()[..4096]).unwrap();
    });
    let stop = Stop::at(step);
    let of_thread = stop.clone();
    let bug = PLANTED.get();
    let borrower = thread::spawn(move || {
        plant(bug);
        STOP.with(|stop| *stop.borrow_mut() = Some(of_thread.clone()));
        let result = (what.1)(&mut file);
        of_thread.set(Stopped::Never);
        (result, file)
    });
    if stop.wait_while(Stopped::NotYet) == Stopped::Never {
        assert_eq!(borrower.join().unwrap().0, Ok(()), "{}", what.0);
        return false;
    }
    let context = format!("{}, step {step}, {owner:?}, {then:?}, {log_is_full}", what.0);
    if owner == Owner::Dies {
        volume = rig.crash(volume);
    }
    let now = contents(&volume, ino);
    let counts = now != before();
    assert!(!counts || now == after(what.1), "{context}: neither before nor after");
    if owner == Owner::DiesLater {
        volume = rig.crash(volume);
        assert!(contents(&volume, ino) == now, "{context}: changed by the daemon's death");
    }
    // Of 64 blocks that were lent, the change has used a few.
    let loans = volume.loans();
    assert!(loans.quarantined_bytes > 48 * BLOCK_BYTES, "{context}: {loans:?}");
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
    has_steps();
    for what in CHANGES {
        for (owner, then, log_is_full) in [
            (Owner::Waits, Then::ChangesInPlace, false),
            (Owner::Waits, Then::Rewrites, true),
            (Owner::Waits, Then::Cuts, false),
            (Owner::Dies, Then::ChangesInPlace, true),
            (Owner::Dies, Then::Rewrites, false),
            (Owner::DiesLater, Then::ChangesInPlace, false),
            (Owner::DiesLater, Then::Rewrites, true),
        ] {
            let meanwhile = (owner, then);
            let steps =
                (0..).take_while(|&step| stop_and_go_on(what, step, meanwhile, log_is_full));
            let steps = steps.count();
            assert!(steps > 1, "{}: {steps} steps", what.0);
        }
    }
}

fn has_steps() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| on_step(stop_here));
}

/// Whether the steps of a change, with a bug planted, show that something is wrong.
fn shows(bug: Bug, what: (&str, Change), then: Then) -> bool {
    plant(Some(bug));
    PLANTED.set(Some(bug));
    let all_steps =
        || (0..).take_while(|&step| stop_and_go_on(what, step, (Owner::Waits, then), false));
    let result = catch_unwind(AssertUnwindSafe(|| all_steps().count()));
    plant(None);
    PLANTED.set(None);
    result.is_err()
}

#[test]
fn planted_bugs_are_found() {
    has_steps();
    let [patch, _, append, append_beyond, _, block, ..] = CHANGES;
    for (bug, what, then) in [
        (Bug::LoanReachFree, block, Then::Rewrites),
        (Bug::LoanNamesNothing, patch, Then::ChangesInPlace),
        (Bug::LoanVerdictIgnored, append, Then::ChangesInPlace),
        (Bug::LoanGenerationStays, append_beyond, Then::ChangesInPlace),
    ] {
        assert!(shows(bug, what, then), "{bug:?} is not found by {}", what.0);
    }
}
