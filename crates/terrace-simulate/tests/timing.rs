//! Traces that say how long operations took, by a clock that is made up: what is learnt from them,
//! what is predicted, and in which order threads go on.

use terrace_policy::{Param, Params};
use terrace_simulate::{Calibration, Check, Config, Cost, Costs, Fit, Replay, Work};
use terrace_trace::{Facts, Operation, Record};

const BLOCK: u64 = 4096;
/// Of writes of the modelled disk: the write itself, and its flush.
const SATA_LATENCY_NS: u64 = 2 * 80_000;
const CREATE_NS: u64 = 3_000;
const FSYNC_NS: u64 = 500;
const WRITE_PM: Cost = Cost { each_ns: 1_200, byte_ps: 250 };
const READ_PM: Cost = Cost { each_ns: 700, byte_ps: 125 };

fn config(pm_blocks: u64) -> Config {
    let facts = Facts { pm_full_percent: 90, writeback_seconds: 5, ..Facts::default() };
    let mut params = Params::default();
    // Nothing moves by itself, and nothing is bulk.
    params.set(Param::Migrate, 0).unwrap();
    params.set(Param::AwaitBytes, 0).unwrap();
    let recorded = Config::new(&facts, "sata-ssd".parse().unwrap());
    Config { pm_bytes: pm_blocks * BLOCK, cache_bytes: 64 << 20, params, ..recorded }
}

fn record(caller: u64, time_us: u64, operation: Operation, ino: u64, len: u64) -> Record {
    Record { time_us, took_ns: 0, caller, operation, durable: false, ino, offset: 0, len }
}

/// Files that are made, written, synchronized and read, each in its own length, in PM.
fn recorded() -> Vec<Record> {
    let mut time_us = 0;
    let mut records = Vec::new();
    for ino in 2..202 {
        let len = BLOCK * (1 + ino % 7);
        for (operation, len, took_ns) in [
            (Operation::Create, 0, CREATE_NS),
            (Operation::Write, len, WRITE_PM.ns(len)),
            (Operation::Fsync, 0, FSYNC_NS),
            (Operation::Read, len, READ_PM.ns(len)),
        ] {
            time_us += 100;
            records.push(Record { took_ns, ..record(1, time_us, operation, ino, len) });
        }
    }
    records
}

fn learnt(records: &[Record]) -> [Option<Cost>; Work::ALL.len()] {
    let mut calibration = Calibration::new(config(100_000));
    records.iter().for_each(|record| calibration.push(record));
    calibration.finish()
}

fn fit(config: Config, records: &[Record]) -> Fit {
    let mut check = Check::new(config);
    records.iter().for_each(|record| check.push(record));
    check.finish()
}

/// The times of all operations in the order in which they are simulated: caller, microsecond in
/// the trace, nanoseconds.
fn replayed(config: Config, records: &[Record]) -> Vec<(u64, u64, u64)> {
    let (mut replay, mut all) = (Replay::new(config), Vec::new());
    let mut note = |done: terrace_simulate::Done<'_>| {
        all.push((done.record.caller, done.record.time_us, done.took_ns));
    };
    records.iter().for_each(|record| replay.push(record, &mut note));
    replay.finish(&mut note);
    assert_eq!(replay.outcome().io_ns, all.iter().map(|done| done.2).sum::<u64>());
    all
}

#[test]
fn what_the_engine_costs_is_learnt_and_what_never_happened_is_not_made_up() {
    let records = recorded();
    let learnt = learnt(&records);
    let is = |work: Work, cost: Cost| {
        let found = learnt[work as usize].unwrap();
        assert!(found.each_ns.abs_diff(cost.each_ns) <= 1, "{work:?} {found:?}");
        assert!(found.byte_ps.abs_diff(cost.byte_ps) <= 1, "{work:?} {found:?}");
    };
    is(Work::Create, Cost { each_ns: CREATE_NS, byte_ps: 0 });
    is(Work::Fsync, Cost { each_ns: FSYNC_NS, byte_ps: 0 });
    is(Work::WritePm, WRITE_PM);
    is(Work::ReadPm, READ_PM);
    for work in [Work::ReadDisk, Work::Flush, Work::WriteCache, Work::Truncate] {
        assert_eq!(learnt[work as usize], None, "{work:?}");
    }
    // The other half of the trace is as its half was.
    let costs = Costs::learnt(&[learnt]);
    let Fit { measured_ns, predicted_ns } = fit(Config { costs, ..config(100_000) }, &records);
    assert!(measured_ns.abs_diff(predicted_ns) <= records.len() as u64 * 3);
    // And a fit tells if it is not: here everything took twice as long.
    let slower: Vec<Record> =
        records.iter().map(|r| Record { took_ns: 2 * r.took_ns, ..*r }).collect();
    let ratio = fit(Config { costs, ..config(100_000) }, &slower).ratio().unwrap();
    assert!((ratio - 0.5).abs() < 0.01, "{ratio}");
    assert_eq!(Fit::default().ratio(), None);
}

#[test]
fn what_interrupts_the_engine_teaches_nothing() {
    let mut records = recorded();
    records.iter_mut().step_by(7).for_each(|record| record.took_ns += 5_000_000);
    let learnt = learnt(&records);
    let create = learnt[Work::Create as usize].unwrap();
    assert!(create.each_ns.abs_diff(CREATE_NS) <= 1, "{create:?}");
}

#[test]
fn costs_of_other_traces_come_second_and_likeness_last() {
    let cost = |each_ns| Cost { each_ns, byte_ps: 0 };
    let mut own = [None; Work::ALL.len()];
    let mut other = own;
    (own[Work::WritePm as usize], other[Work::WritePm as usize]) = (Some(cost(1)), Some(cost(2)));
    other[Work::Flush as usize] = Some(cost(3));
    let costs = Costs::learnt(&[own, other]);
    let of = |work| costs.ns(work, BLOCK);
    assert_eq!([of(Work::WritePm), of(Work::Flush), of(Work::WriteCache)], [1, 3, 1]);
    assert_eq!([of(Work::Create), of(Work::ReadDisk)], [0, 0]);
}

#[test]
fn a_smaller_pm_is_predicted_with_what_was_learnt_and_the_disk_s_model() {
    let records = recorded();
    let costs = Costs::learnt(&[learnt(&records)]);
    // Without PM every write goes to the page cache, which is like PM, and every fsync to the disk.
    let without = Config { costs, ..config(0) };
    for (record, (_, _, took_ns)) in records.iter().zip(replayed(without, &records)) {
        let expected_ns = match record.operation {
            Operation::Fsync => {
                let bytes = BLOCK * (1 + record.ino % 7);
                let transfer_ns = bytes * 1000 / 260;
                FSYNC_NS + SATA_LATENCY_NS + transfer_ns + costs.ns(Work::Flush, bytes)
            }
            _ => record.took_ns,
        };
        assert!(took_ns.abs_diff(expected_ns) <= 4, "{record:?}: {took_ns}, not {expected_ns}");
    }
}

/// Two threads, each with its file: one synchronizes it while the other reads.
fn two_threads() -> Vec<Record> {
    use Operation::{Create, Fsync, Read, Write};
    let mut records = vec![
        record(1, 10, Create, 2, 0),
        record(2, 20, Create, 3, 0),
        record(1, 30, Write, 2, BLOCK),
        record(2, 40, Write, 3, BLOCK),
        record(1, 50, Fsync, 2, 0),
        record(1, 55, Read, 2, BLOCK),
    ];
    records.extend((6..12).map(|at| record(2, at * 10, Read, 3, BLOCK)));
    records.iter_mut().for_each(|record| record.took_ns = 1000);
    records
}

#[test]
fn a_thread_that_waits_for_the_disk_keeps_only_itself() {
    let done = replayed(config(0), &two_threads());
    let order: Vec<u64> = done.iter().map(|&(caller, ..)| caller).collect();
    // The read of thread 1, five microseconds behind its fsync, comes after all of thread 2's.
    assert_eq!(order, [1, 2, 1, 2, 1, 2, 2, 2, 2, 2, 2, 1]);
    // On one file, operations keep their order whoever asks: nobody reads before the fsync ends.
    let mut shared = two_threads();
    shared.iter_mut().for_each(|record| record.ino = 2);
    let order: Vec<u64> = replayed(config(0), &shared).iter().map(|done| done.1).collect();
    assert!(order.is_sorted(), "{order:?}");
}

#[test]
fn whoever_paused_goes_on_after_those_that_were_waited_for() {
    use Operation::{Create, Fsync, Read, Write};
    // Thread 2 begins when thread 1 has ended, as programs do that are started one by one.
    let mut records = vec![
        record(1, 10, Create, 2, 0),
        record(1, 30, Write, 2, BLOCK),
        record(1, 50, Fsync, 2, 0),
        record(2, 60, Create, 3, 0),
        record(2, 70, Write, 3, BLOCK),
        record(2, 80, Fsync, 3, 0),
        record(2, 100, Read, 3, BLOCK),
    ];
    records.iter_mut().for_each(|record| record.took_ns = 1000);
    let done = replayed(config(0), &records);
    let fsyncs: Vec<u64> = [2, 5].iter().map(|&at| done[at].2).collect();
    assert_eq!(fsyncs[0], fsyncs[1], "the second one does not meet the first at the disk");
    // Had thread 2 gone on beside the first, its fsync would wait for the other one's transfer.
    let mut beside: Vec<Record> =
        records.iter().map(|r| Record { time_us: r.time_us % 60, ..*r }).collect();
    beside.iter_mut().filter(|r| r.caller == 2).for_each(|r| r.time_us += 25);
    beside.sort_by_key(|record| record.time_us);
    let fsyncs: Vec<u64> = replayed(config(0), &beside)
        .iter()
        .map(|done| done.2)
        .filter(|&took_ns| took_ns > SATA_LATENCY_NS)
        .collect();
    assert_eq!(fsyncs.len(), 2);
    assert!(fsyncs[0].abs_diff(fsyncs[1]) > 1000, "{fsyncs:?}");
}

#[test]
fn a_long_trace_is_done_whole_and_in_the_order_of_each_thread() {
    let records: Vec<Record> = (0..20_000)
        .map(|at| {
            let caller = 1 + at % 3;
            let operation = if at % 50 == 0 { Operation::Fsync } else { Operation::Write };
            let len = if operation == Operation::Write { BLOCK } else { 0 };
            Record { took_ns: 900, ..record(caller, at * 5, operation, 10 + caller, len) }
        })
        .collect();
    let done = replayed(config(0), &records);
    assert_eq!(done.len(), records.len());
    for caller in 1..=3 {
        let times: Vec<u64> = done.iter().filter(|d| d.0 == caller).map(|d| d.1).collect();
        assert!(times.is_sorted() && times.len() > 6000, "{caller}");
    }
}
