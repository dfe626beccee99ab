//! Files that are lent: the owner looks at one, takes it back and uses it while its borrower is
//! anywhere in a call, and whoever waits may lose patience at any moment. Nothing that a call has
//! answered is lost or done twice, and no block has two owners.

use std::cell::RefCell;
use std::sync::Once;

use shuttle::rand::Rng;
use terrace_direct::{Borrowed, Refusal};
use terrace_media::on_step;
use terrace_policy::Param;
use terrace_store::delegation::Segment;
use terrace_store::planted::Bug;
use terrace_store::sync::atomic::{AtomicUsize, Ordering};
use terrace_store::sync::{self, Arc, thread};

use super::{
    BLOCK, FILE, Rig, contents, errno, finds, holds, make, put, switch, together, truncate, uniform,
};
use crate::{Ino, OpenOptions, Volume, WriteOptions};

/// A process that lives as long as the test.
const ME: u64 = 1;
/// Bytes at the start of the file, of which one half is the borrower's and the other the owner's.
const HEAD: usize = 128;

sync::thread_local! {
    /// Of a borrower's thread: how many others are still at work.
    static OTHERS: RefCell<Option<Arc<AtomicUsize>>> = RefCell::new(None);
}

/// Before a store to PM a borrower may be stopped, as by a signal, until all others are done.
fn stop_here() {
    let Some(others) = OTHERS.with(|others| others.borrow().clone()) else { return };
    switch();
    if shuttle::rand::thread_rng().gen_range(0..8) == 0 {
        while others.load(Ordering::SeqCst) > 0 {
            thread::yield_now();
        }
    }
}

/// A volume with a file that this process may borrow.
struct Lending {
    rig: Rig,
    segment: Arc<Segment>,
    volume: Arc<Volume>,
    file: Ino,
    /// Threads beside the borrower's.
    others: Arc<AtomicUsize>,
}

impl Lending {
    fn new(data: &[u8], others: usize) -> Self {
        let rig = Rig::with_pm(4 << 20);
        let segment = Arc::new(Segment::new(4).unwrap());
        let options = OpenOptions {
            cache_bytes: 16 * BLOCK as u64,
            pm_full_percent: 100,
            loans: Some(segment.clone()),
            workers: false,
            ..Default::default()
        };
        let volume =
            Volume::open(rig.pm.clone(), rig.disks.clone(), options, &|_, _, _| {}).unwrap();
        // Nobody makes room in PM.
        volume.tune(Param::Migrate, 0).unwrap();
        let file = make(&volume, Ino::ROOT, "file", &FILE);
        put(&volume, file, 0, data);
        let others = Arc::new(AtomicUsize::new(others));
        Self { rig, segment, volume, file, others }
    }

    /// The file, unless it is not lent just now, or the loan has ended before it was read.
    fn borrow(&self) -> Option<Borrowed> {
        let lent = self.volume.lend(self.file, ME, 16).unwrap().ok()?;
        let (pm, segment) = (self.rig.pm.clone(), self.segment.clone());
        Borrowed::new(pm, segment, lent.page, lent.generation, ME as u32).ok()
    }

    /// A thread beside the borrower's ends.
    fn ends(&self) {
        self.others.fetch_sub(1, Ordering::SeqCst);
    }

    /// Unmounts; nothing is lost, left over, or in quarantine.
    fn close(self) {
        let Self { rig, volume, file, .. } = self;
        volume.take_back(file).unwrap();
        assert_eq!(volume.loans().quarantined_bytes, 0, "all that was broken has been let go");
        rig.close(volume);
    }
}

/// A program that uses the file directly where it can, and else through the mount.
struct Program<'a> {
    lending: &'a Lending,
    borrowed: Option<Borrowed>,
}

impl<'a> Program<'a> {
    fn new(lending: &'a Lending, borrowed: Option<Borrowed>) -> Self {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| on_step(stop_here));
        Self { lending, borrowed }
    }

    fn let_go(&mut self) {
        if let Some(borrowed) = self.borrowed.take() {
            let (page, generation) = borrowed.loan();
            self.lending.volume.let_go(ME, page, generation);
        }
    }

    /// Writes there, or (`None`) at the end.
    fn write(&mut self, offset: Option<u64>, data: &[u8]) {
        if self.borrowed.is_none() {
            self.borrowed = self.lending.borrow();
        }
        OTHERS.with(|others| *others.borrow_mut() = Some(self.lending.others.clone()));
        let written = self.borrowed.as_mut().map(|file| file.write_at(offset, data));
        // The daemon does the rest, and is not stopped.
        OTHERS.with(|others| *others.borrow_mut() = None);
        match written {
            Some(Ok(_)) => return,
            Some(Err(Refusal::Errno(errno))) => panic!("errno {errno}"),
            Some(Err(Refusal::Mount(_))) | None => self.let_go(),
        }
        let options = WriteOptions { append: offset.is_none(), ..WriteOptions::default() };
        let (volume, file) = (&self.lending.volume, self.lending.file);
        assert_eq!(volume.write(file, offset.unwrap_or(0), data, options).unwrap(), data.len());
    }
}

/// The bytes of record `number`: some stay in a block, others reach beyond it.
fn record(number: u8) -> Vec<u8> {
    vec![number; [5000, 96][usize::from(number) % 2]]
}

fn append(volume: &Volume, file: Ino, number: u8) {
    let options = WriteOptions { append: true, ..WriteOptions::default() };
    let data = record(number);
    assert_eq!(volume.write(file, 0, &data, options).unwrap(), data.len());
}

/// Splits the file behind its head into records, each of them whole; returns their numbers.
fn records(bytes: &[u8]) -> Vec<u8> {
    let (mut rest, mut numbers) = (&bytes[HEAD..], Vec::new());
    while let Some(&number) = rest.first() {
        let len = record(number).len();
        assert!(rest.len() >= len && uniform(&rest[..len]) == number, "a torn record");
        (rest, numbers) = (&rest[len..], [numbers, vec![number]].concat());
    }
    numbers
}

/// A borrower and the owner append records, each at the end of the file, and change bytes of its
/// head in place; meanwhile another file is written.
fn turns() {
    let lending = Lending::new(&[1; HEAD], 2);
    let (volume, file) = (&lending.volume, lending.file);
    let other = make(volume, Ino::ROOT, "other", &FILE);
    together! {
        {
            let mut program = Program::new(&lending, None);
            for number in [10, 11] {
                program.write(None, &record(number));
                program.write(Some(0), &[number; HEAD / 2]);
            }
            program.let_go();
        }
        {
            append(volume, file, 20);
            put(volume, file, HEAD as u64 / 2, &[20; HEAD / 2]);
            assert!(volume.getattr(file).unwrap().size as usize >= HEAD + record(20).len());
            append(volume, file, 21);
            lending.ends();
        }
        {
            put(volume, other, 0, &[30; 3 * BLOCK]);
            let bytes = contents(volume, file);
            let theirs: Vec<u8> = records(&bytes).into_iter().filter(|n| *n < 20).collect();
            assert!([10, 11].starts_with(&theirs), "not in the order of the calls: {theirs:?}");
            lending.ends();
        }
    };
    let bytes = contents(volume, file);
    let mut numbers = records(&bytes);
    numbers.sort_unstable();
    assert_eq!(numbers, [10, 11, 20, 21], "each record is there once");
    assert_eq!((uniform(&bytes[..HEAD / 2]), uniform(&bytes[HEAD / 2..HEAD])), (11, 20));
    assert_eq!(uniform(&contents(volume, other)), 30);
    lending.close();
}

/// A file of two blocks that is lent, and another one that leaves PM little room.
fn nearly_full() -> (Lending, Borrowed) {
    let lending = Lending::new(&[1; 2 * BLOCK], 1);
    let borrowed = lending.borrow().expect("nobody else has it");
    let volume = &lending.volume;
    let filler = make(volume, Ino::ROOT, "filler", &FILE);
    put(volume, filler, 0, &vec![7; free(volume) - 64 * BLOCK]);
    (lending, borrowed)
}

fn free(volume: &Volume) -> usize {
    volume.stats().tiers[0].free_bytes as usize
}

/// Writes a file anew a few times, with all of PM that is free, or nearly so. The next search for a
/// block begins where the last has ended, so any of them may be its own at the end. Then its bytes
/// are `byte`.
fn take_all(volume: &Volume, file: Ino, byte: u8) {
    let rounds = shuttle::rand::thread_rng().gen_range(1..6);
    for round in (0..rounds).rev() {
        truncate(volume, file, 0);
        for at in (0..free(volume) as u64).step_by(BLOCK) {
            let data = [byte + round; BLOCK];
            match errno(volume.write(file, at, &data, WriteOptions::default())) {
                Ok(len) => assert_eq!(len, BLOCK),
                Err(libc::ENOSPC) => break,
                Err(errno) => panic!("errno {errno}"),
            }
        }
    }
}

/// A borrower overwrites blocks, and is stopped; the owner uses the file, and others what it frees.
fn overwrites() {
    let (lending, borrowed) = nearly_full();
    let (volume, file) = (&lending.volume, lending.file);
    let other = make(volume, Ino::ROOT, "other", &FILE);
    together! {
        {
            let mut program = Program::new(&lending, Some(borrowed));
            program.write(Some(100), &[3; 50]);
            program.write(Some(0), &[2; BLOCK]);
            program.write(Some(100), &[3; 50]);
            program.let_go();
        }
        {
            put(volume, file, 0, &[4; 2 * BLOCK]);
            take_all(volume, other, 6);
            lending.ends();
        }
    };
    let bytes = contents(volume, file);
    let (block, patch) = (uniform(&bytes[150..BLOCK]), uniform(&bytes[100..150]));
    assert!([(2, 3), (4, 3), (4, 4)].contains(&(block, patch)), "{block} {patch}");
    assert_eq!((uniform(&bytes[..100]), uniform(&bytes[BLOCK..])), (block, 4));
    assert_eq!(uniform(&contents(volume, other)), 6);
    lending.close();
}

/// A borrower reads while the owner takes the file back, changes it, and gives its old blocks to
/// another file.
fn reads() {
    let (lending, borrowed) = nearly_full();
    let (volume, file) = (&lending.volume, lending.file);
    let other = make(volume, Ino::ROOT, "other", &FILE);
    together! {
        {
            let mut bytes = [0; 2 * BLOCK];
            let read = borrowed.read_at(0, 2 * BLOCK, &mut |at, piece| {
                // The program takes its time.
                (0..3).for_each(|_| switch());
                piece.copy_to(&mut bytes[at..at + piece.len()]);
                Ok(())
            });
            if read.is_ok() {
                assert_eq!(uniform(&bytes), 1, "not what the file had at any time");
            }
        }
        {
            put(volume, file, 0, &[2; 2 * BLOCK]);
            take_all(volume, other, 3);
        }
    };
    let (page, generation) = borrowed.loan();
    volume.let_go(ME, page, generation);
    assert_eq!((uniform(&contents(volume, file)), uniform(&contents(volume, other))), (2, 3));
    lending.close();
}

#[test]
fn a_borrower_and_the_owner_take_turns() {
    holds(600, turns);
}

#[test]
fn what_a_stopped_borrower_may_store_to_is_nobodys() {
    holds(600, overwrites);
}

#[test]
fn a_read_is_of_the_file_or_refused() {
    holds(400, reads);
}

#[test]
fn a_change_that_is_done_twice_is_found() {
    finds(Bug::LoanVerdictIgnored, 2000, turns);
}

#[test]
fn a_store_without_the_word_is_found() {
    finds(Bug::LoanStoresUnasked, 1000, turns);
}

#[test]
fn a_loan_that_is_let_go_too_early_is_found() {
    finds(Bug::LoanLetGoUnlocked, 1000, turns);
}

#[test]
fn a_block_that_is_freed_too_early_is_found() {
    finds(Bug::LoanReachFree, 2000, overwrites);
}

#[test]
fn a_store_in_place_that_is_not_named_is_found() {
    finds(Bug::LoanNamesNothing, 2000, overwrites);
}

#[test]
fn a_read_without_a_second_look_is_found() {
    finds(Bug::LoanReadUnchecked, 1000, reads);
}
