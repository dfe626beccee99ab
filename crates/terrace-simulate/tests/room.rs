//! What takes room in PM besides file data, and who waits for what is on its way to the disk.

use terrace_policy::{Param, Params};
use terrace_simulate::{Config, Outcome, Simulation};
use terrace_trace::{Facts, Operation, Record};

const BLOCK: u64 = 4096;
const SECOND_US: u64 = 1_000_000;

/// PM gives data away beyond half of it, however young that is.
fn config(pm_blocks: u64, disk: &str) -> Config {
    let facts = Facts {
        pm_full_percent: 90,
        writeback_seconds: 5,
        cache_bytes: 64 << 20,
        ..Facts::default()
    };
    let mut params = Params::default();
    for (param, value) in [
        (Param::AwaitBytes, 0),
        (Param::ColdAge, 0),
        (Param::MigrateAt, 50),
        (Param::MigrateMin, 50),
        (Param::MigrateMax, 50),
    ] {
        params.set(param, value).unwrap();
    }
    Config { pm_bytes: pm_blocks * BLOCK, params, ..Config::new(&facts, disk.parse().unwrap()) }
}

struct Run(Simulation);

impl Run {
    fn new(config: Config) -> Self {
        Self(Simulation::new(config))
    }

    fn step(&mut self, time_us: u64, operation: Operation, ino: u64, at: u64, blocks: u64) -> u64 {
        let (offset, len) = (at * BLOCK, blocks * BLOCK);
        let (took_ns, caller, durable) = (0, 0, false);
        self.0.step(&Record { time_us, took_ns, caller, operation, durable, ino, offset, len })
    }

    fn write_new(&mut self, time_us: u64, ino: u64, blocks: u64) {
        self.step(time_us, Operation::Create, ino, 0, 0);
        // Little by little: PM takes that as long as it has any room.
        for at in (0..blocks).step_by(16) {
            self.step(time_us, Operation::Write, ino, at, 16.min(blocks - at));
        }
    }

    /// After all moves that are under way.
    fn ends(mut self, time_us: u64) -> Outcome {
        self.step(time_us, Operation::Create, 99, 0, 0);
        self.0.outcome()
    }
}

#[test]
fn an_fsync_waits_for_what_is_on_its_way_already() {
    let mut run = Run::new(config(0, "hdd"));
    run.write_new(0, 1, 1000);
    // Another file's operation begins the writeback; 41 ms of transfer, 20 ms of latency.
    run.step(5 * SECOND_US, Operation::Create, 2, 0, 0);
    let took_ns = run.step(5 * SECOND_US + 1000, Operation::Fsync, 1, 0, 0);
    assert!((59_000_000..61_000_000).contains(&took_ns), "{took_ns}");
    assert!(run.step(5 * SECOND_US + 2000, Operation::Fsync, 1, 0, 0) < 1000, "once");
}

#[test]
fn a_removed_file_takes_room_until_it_is_reclaimed() {
    let moved = |pause_us: u64| {
        let mut run = Run::new(config(1000, "nvme-ssd"));
        run.write_new(0, 1, 300);
        run.write_new(10 * SECOND_US + 100, 2, 150);
        run.step(10 * SECOND_US + 200, Operation::Remove, 2, 0, 0);
        // 450 blocks of 1000 but for those that were removed.
        run.write_new(10 * SECOND_US + 300 + pause_us, 3, 150);
        run.ends(14 * SECOND_US).migrated_write_bytes
    };
    assert!(moved(0) > 0);
    assert_eq!(moved(2 * SECOND_US), 0, "it is gone after a second");
    // A write that finds no room has them reclaimed at once.
    let mut full = Run::new(config(1000, "nvme-ssd"));
    full.write_new(0, 1, 850);
    full.step(0, Operation::Remove, 1, 0, 0);
    full.write_new(0, 2, 400);
    assert_eq!(full.0.outcome().written_pm_full_bytes, 0);
}

#[test]
fn logs_take_room_in_pm_and_are_compacted() {
    let moved = |blocks_each: u64, times: u64| {
        let mut run = Run::new(config(1000, "nvme-ssd"));
        run.step(0, Operation::Create, 1, 0, 0);
        for _ in 0..times {
            for at in (0..480).step_by(blocks_each as usize) {
                run.step(0, Operation::Write, 1, at, blocks_each);
            }
        }
        run.ends(2 * SECOND_US).migrated_write_bytes
    };
    assert_eq!(moved(480, 1), 0, "one entry, in the record");
    assert!(moved(1, 3) > 0, "1440 entries in 23 blocks");
    assert_eq!(moved(480, 10_000), 0, "all but one are dead, and gone");
}

#[test]
fn small_files_leave_pm_together() {
    let moved = |files: u64, blocks: u64| {
        let mut run = Run::new(config(1000, "hdd"));
        (1..=files).for_each(|ino| run.write_new(0, ino, blocks));
        // A transfer of its own for each would take 20 ms of latency, one after another.
        run.ends(SECOND_US / 2).migrated_write_bytes
    };
    let together = moved(200, 4);
    assert!(together >= 200 * BLOCK, "{together}");
}
