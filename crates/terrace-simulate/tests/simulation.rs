//! Small traces whose outcome can be computed by hand, and larger ones of which it is known what
//! must come of more PM.
//!
//! 4 KiB take 373 ns to write to PM (100 ns, 15 GB/s), 402 ns to read from PM (300 ns, 40 GB/s),
//! and 263 ns either way in DRAM (100 ns, 25 GB/s).

use terrace_policy::{Param, Params};
use terrace_simulate::{Config, Hindsight, Outcome, Simulation};
use terrace_trace::{Facts, Operation, Record};

const BLOCK: u64 = 4096;
const PM_WRITE_NS: u64 = 373;
const PM_READ_NS: u64 = 402;
const DRAM_NS: u64 = 263;
const SECOND_US: u64 = 1_000_000;

fn config(pm_blocks: u64, disk: &str, settings: &[(Param, u64)]) -> Config {
    let mut params = Params::default();
    // Bulk has a test of its own.
    params.set(Param::AwaitBytes, 0).unwrap();
    settings.iter().for_each(|&(param, value)| params.set(param, value).unwrap());
    let facts = Facts {
        pm_full_percent: 90,
        writeback_seconds: 5,
        cache_bytes: 64 << 20,
        ..Facts::default()
    };
    Config { pm_bytes: pm_blocks * BLOCK, params, ..Config::new(&facts, disk.parse().unwrap()) }
}

/// A simulation, told what happens in blocks.
struct Run(Simulation, u64);

impl Run {
    fn new(config: Config) -> Run {
        Run(Simulation::new(config), 0)
    }

    fn at(&mut self, time_us: u64) -> &mut Run {
        self.1 = time_us;
        self
    }

    fn step(
        &mut self,
        operation: Operation,
        ino: u64,
        offset: u64,
        len: u64,
        durable: bool,
    ) -> &mut Run {
        self.0.step(&Record {
            time_us: self.1,
            took_ns: 0,
            caller: 0,
            operation,
            durable,
            ino,
            offset,
            len,
        });
        self
    }

    fn create(&mut self, ino: u64) -> &mut Run {
        self.step(Operation::Create, ino, 0, 0, false)
    }

    fn write(&mut self, ino: u64, block: u64, blocks: u64) -> &mut Run {
        self.step(Operation::Write, ino, block * BLOCK, blocks * BLOCK, false)
    }

    /// Writes little by little: PM takes that as long as it has any room.
    fn fill(&mut self, ino: u64, block: u64, blocks: u64) -> &mut Run {
        for at in (0..blocks).step_by(16) {
            self.write(ino, block + at, (blocks - at).min(16));
        }
        self
    }

    fn read(&mut self, ino: u64, block: u64, blocks: u64) -> &mut Run {
        self.step(Operation::Read, ino, block * BLOCK, blocks * BLOCK, false)
    }

    fn fsync(&mut self, ino: u64) -> &mut Run {
        self.step(Operation::Fsync, ino, 0, 0, false)
    }

    fn outcome(&self) -> Outcome {
        self.0.outcome()
    }
}

#[test]
fn small_synchronous_writes_are_pms() {
    let mut run = Run::new(config(10_000, "hdd", &[]));
    run.create(1);
    for block in 0..10 {
        run.write(1, block, 1).fsync(1);
    }
    run.read(1, 3, 1);
    let io_ns = 10 * PM_WRITE_NS + PM_READ_NS;
    let expected = Outcome {
        operations: 22,
        written_pm_bytes: 10 * BLOCK,
        read_pm_bytes: BLOCK,
        io_ns,
        all_pm_ns: io_ns,
        predicted_right: 10,
        pm_used_bytes: 10 * BLOCK,
        hindsight: Hindsight { pm_right_bytes: 10 * BLOCK, ..Hindsight::default() },
        ..Outcome::default()
    };
    assert_eq!(run.outcome(), expected);
    assert_eq!(run.outcome().slowdown(), 1.0);
}

#[test]
fn when_pm_is_full_writes_go_to_the_page_cache_and_programs_wait_only_at_fsync() {
    // 32 blocks are kept free, more than a tenth.
    let mut run = Run::new(config(256, "sata-ssd", &[(Param::Migrate, 0)]));
    for ino in 1..=300 {
        run.create(ino).write(ino, 0, 1);
    }
    let outcome = run.outcome();
    assert_eq!(
        (outcome.written_pm_bytes, outcome.written_pm_full_bytes),
        (224 * BLOCK, 76 * BLOCK)
    );
    assert_eq!((outcome.io_ns, outcome.disk_wait_ns), (224 * PM_WRITE_NS + 76 * DRAM_NS, 0));
    run.fsync(1).fsync(300);
    // 80 us for the write and for the flush, 260 MB/s.
    assert_eq!(run.outcome().disk_wait_ns, 160_000 + 15_753);
    assert_eq!(run.outcome().written_back_bytes, BLOCK);
    // A removed file makes room.
    run.step(Operation::Remove, 2, 0, 0, false).create(999).write(999, 0, 1);
    assert_eq!(run.outcome().written_pm_bytes, 225 * BLOCK);
}

#[test]
fn bulk_goes_to_the_page_cache_while_data_is_leaving_pm_and_so_do_its_siblings() {
    let crowded = [
        (Param::AwaitBytes, 64 << 10),
        (Param::MigrateMin, 1),
        (Param::MigrateAt, 1),
        (Param::MigrateMax, 1),
        (Param::MigrateRate, 1),
    ];
    for (siblings, expected) in [(1, [3 * 16 + 1, 4 * 4]), (0, [4 * 16 + 1, 4 * 4])] {
        let mut settings = crowded.to_vec();
        settings.push((Param::Siblings, siblings));
        let mut run = Run::new(config(10_000, "sata-ssd", &settings));
        // 1 % is in use: what is awaited goes to PM, as the first 64 KiB of each file do. What
        // follows its first bulk joins it.
        run.create(9);
        for block in 0..101 {
            run.write(9, block, 1).fsync(9);
        }
        for ino in 1..=4 {
            run.create(ino).step(Operation::Kinds, ino, 7, 8, false);
            for block in (0..32).step_by(4) {
                run.write(ino, block, 4);
            }
        }
        run.write(9, 0, 1);
        let outcome = run.outcome();
        let blocks = [outcome.written_pm_bytes - 101 * BLOCK, outcome.written_bulk_bytes];
        assert_eq!(blocks.map(|bytes| bytes / BLOCK), expected, "siblings={siblings}");
    }
}

#[test]
fn hindsight_counts_what_only_passed_through_pm() {
    for (await_bytes, expected) in [(0, [128, 0]), (256 << 10, [64, 64])] {
        let settings = [
            (Param::AwaitBytes, await_bytes),
            (Param::MigrateMin, 1),
            (Param::MigrateAt, 1),
            (Param::MigrateMax, 1),
            (Param::MigrateRate, 1),
        ];
        let mut run = Run::new(config(1000, "sata-ssd", &settings));
        // 2 % is in use when the long file comes.
        let log = |run: &mut Run, blocks: u64| {
            for block in 0..blocks {
                run.write(9, block % 20, 1).fsync(9);
            }
        };
        run.create(9).create(1);
        log(&mut run, 20);
        run.fill(1, 0, 128);
        assert_eq!(run.outcome().hindsight.undecided_bytes, 128 * BLOCK);
        log(&mut run, 1000);
        let hindsight = run.outcome().hindsight;
        let long = [hindsight.pm_wrong_bytes, hindsight.past_right_bytes];
        assert_eq!(long.map(|bytes| bytes / BLOCK), expected, "await_bytes={await_bytes}");
        assert_eq!((hindsight.pm_right_bytes, hindsight.past_wrong_bytes), (1020 * BLOCK, 0));
    }
}

#[test]
fn the_sixth_write_of_an_asynchronous_file_is_large_and_goes_to_disk() {
    let mut run = Run::new(config(10_000, "sata-ssd", &[(Param::SyncBlocks, 16)]));
    run.create(1);
    let mut placed = Vec::new();
    for _ in 0..7 {
        run.write(1, 0, 8);
        let outcome = run.outcome();
        let counts = [
            outcome.written_pm_bytes,
            outcome.written_large_async_bytes,
            outcome.written_joins_dirty_bytes,
        ];
        placed.push(counts.map(|bytes| bytes / (8 * BLOCK)));
    }
    assert_eq!(placed[4..], [[5, 0, 0], [5, 1, 0], [5, 1, 1]]);
    assert_eq!(run.outcome().pm_used_bytes, 0, "the old version is gone");
    run.fsync(1);
    assert_eq!(run.outcome().disk_wait_ns, 160_000 + 126_030, "32 KiB at 260 MB/s");
    // It stays so, by what the disk has now. A durable write is synchronous whatever was predicted.
    run.write(1, 0, 8).fsync(1);
    assert_eq!(run.outcome().written_large_async_bytes, 16 * BLOCK);
    run.step(Operation::Write, 1, 0, 8 * BLOCK, true);
    assert_eq!(run.outcome().written_pm_bytes, 48 * BLOCK);
    // The first was judged wrong together with the second, the next five right; the one between two
    // fsyncs was too short.
    assert_eq!((run.outcome().predicted_right, run.outcome().predicted_wrong), (5, 3));
}

#[test]
fn what_is_older_than_its_file_leaves_pm_and_stays_cached_while_there_is_room() {
    for keep_cached in [50, 0] {
        let settings =
            [(Param::MigrateStep, 0), (Param::MigrateAt, 50), (Param::KeepCached, keep_cached)];
        let mut run = Run::new(config(1000, "sata-ssd", &settings));
        run.create(1).create(2).fill(1, 0, 150).at(SECOND_US).fill(1, 150, 150);
        run.at(2 * SECOND_US).fill(2, 0, 300).at(3 * SECOND_US).fsync(2);
        assert_eq!(run.outcome().migrated_write_bytes, 150 * BLOCK, "from 60 % to 45 %");
        for block in 0..300 {
            run.read(1, block, 1);
        }
        let outcome = run.outcome();
        assert_eq!(outcome.read_pm_bytes, 150 * BLOCK);
        assert_eq!(outcome.read_cache_bytes + outcome.read_disk_bytes, 150 * BLOCK);
        // Read-ahead for a sequential reader: 32 blocks, then as many again.
        assert_eq!(outcome.read_disk_bytes, if keep_cached > 0 { 0 } else { 5 * BLOCK });
        assert_eq!(outcome.disk_wait_ns > 0, keep_cached == 0);
    }
}

#[test]
fn files_written_in_one_go_leave_pm_too_the_coldest_first_and_those_of_long_ago_as_a_whole() {
    let settings = [(Param::MigrateStep, 0), (Param::MigrateAt, 50)];
    let mut run = Run::new(config(1000, "sata-ssd", &settings));
    run.create(1)
        .create(2)
        .fill(2, 0, 300)
        .at(SECOND_US)
        .fill(1, 0, 300)
        .at(2 * SECOND_US)
        .fsync(1);
    assert_eq!(run.outcome().migrated_write_bytes, 300 * BLOCK);
    run.read(1, 0, 300);
    assert_eq!(run.outcome().read_pm_bytes, 300 * BLOCK, "the younger one stayed");
    let mut run = Run::new(config(1000, "sata-ssd", &settings));
    run.create(1).create(2).fill(1, 0, 150).at(SECOND_US).fill(1, 150, 150);
    run.at(40 * SECOND_US).fill(2, 0, 300).at(41 * SECOND_US).fsync(2);
    assert_eq!(run.outcome().migrated_write_bytes, 300 * BLOCK, "both halves are cold");
}

#[test]
fn a_log_that_grows_on_and_on_leaves_pm_as_it_grows() {
    let mut run = Run::new(config(1000, "nvme-ssd", &[]));
    run.create(1);
    for block in 0..5000 {
        run.at(block * 200).write(1, block, 1).fsync(1);
    }
    assert_eq!(run.outcome().written_pm_bytes, 5000 * BLOCK, "{:?}", run.outcome());
}

#[test]
fn long_writes_leave_the_last_room_to_short_ones() {
    let mut run = Run::new(config(1000, "sata-ssd", &[(Param::Migrate, 0)]));
    // 900 blocks are for data.
    run.create(1).create(2).create(3).fill(1, 0, 300).write(2, 0, 200).write(3, 0, 16);
    let outcome = run.outcome();
    assert_eq!(
        (outcome.written_pm_bytes, outcome.written_pm_full_bytes),
        (316 * BLOCK, 200 * BLOCK)
    );
}

#[test]
fn what_is_read_most_moves_from_pm_to_dram() {
    let mut run = Run::new(config(1000, "sata-ssd", &[]));
    run.create(1).write(1, 0, 128).at(SECOND_US / 2).read(1, 0, 64);
    for tenth in 10..45 {
        run.at(tenth * SECOND_US / 10).read(1, 64, 64);
    }
    let outcome = run.outcome();
    assert_eq!(outcome.migrated_read_bytes, 128 * BLOCK, "the file as a whole");
    // From 4.1 s on it comes from the page cache. The copy is made at 4 s, and takes about two
    // milliseconds.
    assert_eq!(outcome.read_cache_bytes, 4 * 64 * BLOCK);
    assert_eq!((outcome.read_disk_bytes, outcome.disk_wait_ns), (0, 0));
}

#[test]
fn what_is_read_from_disk_while_pm_idles_moves_to_pm() {
    let settings = [(Param::SyncBlocks, 1), (Param::LargeWrites, 0)];
    let mut run = Run::new(config(1000, "sata-ssd", &settings));
    run.create(1).write(1, 0, 32).write(1, 0, 32).fsync(1);
    assert_eq!(
        (run.outcome().written_large_async_bytes, run.outcome().pm_used_bytes),
        (32 * BLOCK, 0)
    );
    for tenth in 1..50 {
        run.at(tenth * SECOND_US / 10).read(1, 0, 32);
    }
    let outcome = run.outcome();
    assert_eq!(outcome.migrated_reverse_bytes, 32 * BLOCK);
    assert_eq!(outcome.pm_used_bytes, 32 * BLOCK);
    // The tick at 4 s chooses, since in its second, and in the three before, DRAM only was read.
    // The move takes 0.34 ms; the fsync has delayed all reads by more.
    assert_eq!(outcome.read_pm_bytes, 10 * 32 * BLOCK);
}

#[test]
fn without_migration_nothing_moves() {
    let settings = [
        (Param::Migrate, 0),
        (Param::MigrateAt, 50),
        (Param::MigrateMin, 1),
        (Param::MigrateMax, 1),
    ];
    let mut run = Run::new(config(1000, "sata-ssd", &settings));
    run.create(1).fill(1, 0, 800).at(100 * SECOND_US).read(1, 0, 800).fsync(1);
    let outcome = run.outcome();
    assert_eq!((outcome.migrated_write_bytes, outcome.read_pm_bytes), (0, 800 * BLOCK));
}

#[test]
fn migration_keeps_to_its_rate() {
    let settings = [
        (Param::MigrateAt, 1),
        (Param::MigrateMin, 1),
        (Param::MigrateMax, 1),
        (Param::MigrateRate, 64 * BLOCK),
        (Param::Group, 64 << 10),
    ];
    let mut run = Run::new(config(1000, "sata-ssd", &settings));
    run.create(1).fill(1, 0, 800).at(5 * SECOND_US).fsync(1);
    // 64 blocks per second, in groups of 16; a tenth of a second may be made up for.
    let moved = run.outcome().migrated_write_bytes / BLOCK;
    assert!((304..=336).contains(&moved), "{moved}");
}

#[test]
fn a_budget_bounds_what_moves_and_fills_with_time() {
    const PER_DAY: u64 = 256 * BLOCK;
    let settings = [
        (Param::ColdAge, 0),
        (Param::MigrateAt, 1),
        (Param::MigrateMin, 1),
        (Param::MigrateMax, 1),
    ];
    let run = |wear: u64| {
        let config = Config { wear: [0, wear], ..config(2000, "sata-ssd", &settings) };
        let mut run = Run::new(config);
        run.create(1).create(2).fill(1, 0, 800).at(2 * SECOND_US).write(2, 0, 1);
        run.at(10 * SECOND_US).write(2, 1, 1);
        let soon = run.outcome();
        // The bucket is full again after a day, and begins when it is.
        run.at(86_411 * SECOND_US).write(2, 2, 1);
        (soon, run.outcome())
    };
    let (soon, later) = run(PER_DAY);
    let day = PER_DAY * 3 / 4..=PER_DAY;
    assert!(day.contains(&soon.migrated_write_bytes), "{soon:?}");
    assert!(soon.held_up_seconds > 5, "{soon:?}");
    let second = later.migrated_write_bytes - soon.migrated_write_bytes;
    assert!(day.contains(&second) && later.migrated_write_bytes <= 2 * PER_DAY, "{later:?}");
    assert!(later.held_up_seconds > 80_000, "{later:?}");
    assert_eq!(later.disk_device_bytes(), later.written_back_bytes + later.migrated_write_bytes);
    let (soon, _) = run(0);
    assert_eq!((soon.migrated_write_bytes > 700 * BLOCK, soon.held_up_seconds), (true, 0));
}

#[test]
fn a_writer_that_outruns_the_disk_stalls() {
    let mut config = config(0, "sata-ssd", &[]);
    config.cache_bytes = 1 << 20;
    let mut run = Run::new(config);
    run.create(1).write(1, 0, 1024);
    let outcome = run.outcome();
    assert!(outcome.stalls > 0 && outcome.stalled_ns > 0, "{outcome:?}");
    assert_eq!(outcome.disk_wait_ns, outcome.stalled_ns);
    // Most of the 4 MiB went through the disk, at 260 MB/s: 16 ms.
    assert!((8_000_000..20_000_000).contains(&outcome.stalled_ns), "{outcome:?}");
    run.fsync(1);
    assert_eq!(run.outcome().written_back_bytes, 1024 * BLOCK);
}

#[test]
fn dirty_pages_are_written_back_when_they_are_old_and_nobody_waits() {
    let mut run = Run::new(config(0, "sata-ssd", &[]));
    run.create(1).write(1, 0, 4).at(4 * SECOND_US).read(1, 0, 1);
    assert_eq!(run.outcome().written_back_bytes, 0);
    run.at(6 * SECOND_US).read(1, 0, 4);
    let outcome = run.outcome();
    assert_eq!((outcome.written_back_bytes, outcome.disk_wait_ns), (4 * BLOCK, 0));
    assert_eq!(outcome.read_cache_bytes, 5 * BLOCK, "dirty or clean, they are cached");
}

#[test]
fn what_was_there_before_is_found_where_it_would_be() {
    let mut large = Run::new(config(1000, "sata-ssd", &[]));
    large.read(1, 0, 10).read(1, 0, 10);
    assert_eq!(large.outcome().read_pm_bytes, 20 * BLOCK);
    let mut none = Run::new(config(0, "sata-ssd", &[]));
    none.read(1, 0, 10).read(1, 0, 10);
    assert_eq!(
        (none.outcome().read_disk_bytes, none.outcome().read_cache_bytes),
        (10 * BLOCK, 10 * BLOCK)
    );
    // 32 blocks of read-ahead would be fetched, but nothing is known of the file beyond the tenth:
    // 40960 bytes at 500 MB/s.
    assert_eq!(none.outcome().disk_wait_ns, 80_000 + 81_920);
    // A file made while recording has holes, not a past.
    let mut new = Run::new(config(1000, "sata-ssd", &[]));
    new.create(1).step(Operation::Allocate, 1, 0, 10 * BLOCK, false).read(1, 0, 10);
    assert_eq!((new.outcome().read_bytes(), new.outcome().io_ns), (0, 0));
}

#[test]
fn a_small_overwrite_of_a_disk_block_waits_for_the_rest_of_it() {
    let mut config = config(0, "hdd", &[]);
    config.cache_bytes = 1 << 20;
    let mut run = Run::new(config);
    run.create(1).write(1, 0, 200).fsync(1);
    // Push it out of the page cache.
    run.create(2).write(2, 0, 200).fsync(2).create(3).write(3, 0, 200).fsync(3);
    let before = run.outcome().disk_wait_ns;
    run.step(Operation::Write, 1, 100, 10, false);
    assert_eq!(
        run.outcome().disk_wait_ns - before,
        10_000_000 + 40_960,
        "one block of a hard disk"
    );
    run.step(Operation::Write, 1, 300, 10, false);
    assert_eq!(run.outcome().disk_wait_ns - before, 10_040_960, "now it is in the page cache");
}

#[test]
fn long_reads_go_past_the_page_cache() {
    let mut run = Run::new(config(0, "sata-ssd", &[]));
    run.read(1, 0, 64).read(1, 0, 64);
    assert_eq!(run.outcome().read_disk_bytes, 128 * BLOCK);
    run.read(1, 0, 63).read(1, 0, 63);
    assert_eq!(
        (run.outcome().read_disk_bytes, run.outcome().read_cache_bytes),
        (191 * BLOCK, 63 * BLOCK)
    );
}

#[test]
fn what_is_cut_off_or_punched_out_is_gone() {
    let mut run = Run::new(config(1000, "sata-ssd", &[]));
    run.create(1).write(1, 0, 100);
    run.step(Operation::Deallocate, 1, 100, 10 * BLOCK, false);
    assert_eq!(run.outcome().pm_used_bytes, 91 * BLOCK, "whole blocks only");
    run.step(Operation::Truncate, 1, 20 * BLOCK + 1, 0, false);
    assert_eq!(run.outcome().pm_used_bytes, 12 * BLOCK);
    run.read(1, 0, 20);
    assert_eq!(run.outcome().read_pm_bytes, 11 * BLOCK);
    // Its number may be given to another file, and the removal be lost.
    run.create(1);
    assert_eq!(run.outcome().pm_used_bytes, 0);
}

/// A skewed mixture of reads and writes with fsyncs on 40 files of 4 MiB, half of them there
/// before.
fn mixture(seed: u64, operations: u64) -> Vec<Record> {
    let mut state = seed;
    let mut random = move |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut records: Vec<Record> = (1..=20)
        .map(|ino| Record {
            took_ns: 0,
            caller: 0,
            time_us: 0,
            operation: Operation::Create,
            durable: false,
            ino,
            offset: 0,
            len: 0,
        })
        .collect();
    for number in 0..operations {
        let hot = random(10) < 8;
        let ino = if hot { 1 + random(6) } else { 1 + random(40) };
        let (operation, len) = match random(10) {
            0..5 => (Operation::Read, BLOCK * (1 + random(4))),
            5..8 => (Operation::Write, 512 * (1 + random(32))),
            8 => (Operation::Write, BLOCK * 64),
            _ => (Operation::Fsync, 0),
        };
        let offset = if operation == Operation::Fsync { 0 } else { BLOCK * random(960) };
        records.push(Record {
            time_us: number * 500,
            took_ns: 0,
            caller: 0,
            operation,
            durable: false,
            ino,
            offset,
            len,
        });
    }
    records
}

fn outcome_of(config: Config, records: &[Record]) -> Outcome {
    let mut simulation = Simulation::new(config);
    for record in records {
        simulation.step(record);
    }
    simulation.outcome()
}

#[test]
fn more_pm_is_never_much_worse_and_enough_is_as_good_as_all() {
    for seed in 1..=2 {
        let records = mixture(seed, 20_000);
        for disk in ["nvme-ssd", "hdd"] {
            let outcomes: Vec<Outcome> = [0, 2_000, 8_000, 32_000, 128_000]
                .map(|pm_blocks| outcome_of(config(pm_blocks, disk, &[]), &records))
                .to_vec();
            // One that is far too small for all that is written to it may be worse than none.
            for pair in outcomes[1..].windows(2) {
                assert!(pair[1].io_ns <= pair[0].io_ns / 100 * 105, "{seed} {disk} {pair:#?}");
                assert!(
                    pair[1].written_pm_bytes >= pair[0].written_pm_bytes,
                    "{seed} {disk} {pair:#?}"
                );
            }
            assert!(
                outcomes[0].slowdown() > 20.0 && outcomes[4].slowdown() < 1.1,
                "{seed} {disk} {outcomes:#?}"
            );
            assert!(outcomes.iter().all(|o| o.written_bytes() == outcomes[0].written_bytes()));
        }
    }
}

#[test]
fn a_slower_disk_takes_longer_and_a_larger_cache_less() {
    let records = mixture(9, 10_000);
    let of = |disk, cache_bytes| {
        outcome_of(Config { cache_bytes, ..config(4_000, disk, &[]) }, &records)
    };
    let times = ["optane-ssd", "nvme-ssd", "hdd"].map(|disk| of(disk, 16 << 20).io_ns);
    assert!(times.is_sorted(), "{times:?}");
    let [small, large] = [4 << 20, 256 << 20].map(|cache_bytes| of("nvme-ssd", cache_bytes));
    assert!(large.read_disk_bytes < small.read_disk_bytes, "{small:?} {large:?}");
}
