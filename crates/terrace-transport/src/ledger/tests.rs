//! Tests of what a dead daemon leaves.

use super::*;

#[test]
fn records_left_by_a_dead_daemon_make_way_and_leave_nothing() {
    let ledger = Ledger::new().unwrap();
    ledger.begin(InitFlags::empty());
    for unique in 1..=RECORDS as u64 {
        let request = ledger.enter(unique * 2, 1).expect("a free record");
        ledger.note_effect(1, 9);
        request.set_outcome(5);
    }
    assert!(ledger.enter(9000, 1).is_none(), "all are in use");
    ledger.inherit();
    let known = ledger.enter(RESENT | 4, 1).expect("a record");
    assert_eq!(known.past(), Some(Past { effect: Some((1, 9)), outcome: Some(5) }));
    for unique in 5000..5000 + RECORDS as u64 - 1 {
        let request = ledger.enter(unique, 1).expect("one that is left");
        assert_eq!((request.past(), ledger.noted_effect()), (None, None));
    }
    assert!(ledger.enter(9000, 1).is_none(), "none is taken from this daemon");
}

#[test]
fn records_that_a_dead_daemon_was_taking_are_free() {
    let ledger = Ledger::new().unwrap();
    ledger.begin(InitFlags::empty());
    (0..RECORDS).for_each(|index| ledger.record(index).unique.store(TAKING, Ordering::Release));
    assert!(ledger.enter(2, 1).is_none());
    ledger.inherit();
    assert!(ledger.enter(2, 1).is_some());
}

#[test]
fn the_word_of_an_inode_goes_when_the_kernel_has_forgotten_it() {
    let ledger = Ledger::new().unwrap();
    ledger.look_up(77);
    ledger.look_up(77);
    assert_eq!(ledger.change_word(77, |word| Some(word + 5)), Some(0));
    assert_eq!(ledger.change_word(77, |_| None), None);
    ledger.forget(77, 1);
    assert_eq!((ledger.word(77), ledger.word(78)), (5, 0));
    ledger.forget(77, 1);
    assert_eq!(ledger.word(77), 0);
    assert_eq!((ledger.change_word(INODES_MAX, |_| Some(1)), ledger.word(INODES_MAX)), (None, 0));
}

#[test]
fn another_program_finds_what_was_noted() {
    let ledger = Ledger::new().unwrap();
    ledger.begin(InitFlags::HAS_RESEND);
    ledger.look_up(77);
    ledger.set_note("thresholds");
    let file = ledger.descriptor().try_clone_to_owned().unwrap();
    let same = Ledger::of(file).unwrap();
    assert_ne!(same.memory, ledger.memory, "its addresses are taken");
    assert_eq!((same.lookups(77), same.note()), (1, "thresholds".to_owned()));
    assert_eq!(same.flags(), InitFlags::HAS_RESEND);
}

#[test]
fn over_io_uring_its_memory_must_be_where_it_was() {
    let ledger = Ledger::new().unwrap();
    ledger.begin(InitFlags::OVER_IO_URING);
    let file = ledger.descriptor().try_clone_to_owned().unwrap();
    let refused = Ledger::of(file).unwrap_err();
    assert!(refused.to_string().contains("try again"), "{refused}");
}

#[test]
fn the_first_daemon_says_how_many_workers_queues_have() {
    let ledger = Ledger::new().unwrap();
    assert_eq!([ledger.keep_depth(8), ledger.keep_depth(64)], [8, 8]);
    ledger.sit_down(9).unwrap();
    assert!(!ledger.is_whole(5) && !ledger.is_whole(100));
    ledger.set_whole(5);
    assert!(ledger.is_whole(5));
}

#[test]
fn a_file_that_is_no_ledger_is_refused() {
    let file = memfd_create("other", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, 4096).unwrap();
    assert!(Ledger::of(file).is_err());
}

#[test]
fn threads_take_records_far_from_each_other_and_their_own_again() {
    let ledger = Ledger::new().unwrap();
    ledger.begin(InitFlags::empty());
    let index = |record| (0..RECORDS).position(|index| std::ptr::eq(ledger.record(index), record));
    let take = |seat: usize| {
        ledger.sit_down(seat).unwrap();
        let request = ledger.enter(2 + seat as u64, 1).expect("a free record");
        index(request.record).map(|index| (index, request)).expect("one of the ledger")
    };
    let mut firsts: Vec<usize> = (0..8).map(|seat| take(seat).0).collect();
    firsts.sort_unstable();
    assert!(firsts.windows(2).all(|pair| pair[1] - pair[0] > 2), "{firsts:?}");
    let (first, request) = take(20);
    request.is_answered();
    assert_eq!(take(20).0, first);
    assert_ne!(take(20).0, first, "it is in use");
}
