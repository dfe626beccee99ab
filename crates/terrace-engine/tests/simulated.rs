//! The simulator of `terrace simulate` and the engine put each write in the same place, for the
//! same reason.

mod common;
mod rig;

use proptest::prelude::*;
use rig::{FILE, Rig};
use terrace_engine::{
    Counter, FormatOptions, Ino, OpenOptions, SetAttr, Volume, WriteOptions, format,
};
use terrace_media::{Pm, memory_disk};
use terrace_policy::Param;
use terrace_simulate::{Config, Outcome, Simulation};
use terrace_trace::{Ending, Facts, Reader, Record, Writer};

const BLOCK: u64 = 4096;
const FILES: usize = 3;
const FILE_BLOCKS: u64 = 128;
/// More than these fill PM beyond the threshold of [`CROWDED`].
const FILLING_BLOCKS: u64 = 512;
const ROOMY: [(Param, u64); 3] =
    [(Param::SyncBlocks, 48), (Param::LargeWrites, 1), (Param::Migrate, 0)];
/// Data is to leave PM, but never gets to it.
const CROWDED: [(Param, u64); 7] = [
    (Param::SyncBlocks, 48),
    (Param::LargeWrites, 1),
    (Param::AwaitBytes, 96 << 10),
    (Param::MigrateMin, 1),
    (Param::MigrateAt, 1),
    (Param::MigrateMax, 1),
    (Param::MigrateRate, 1),
];

/// Bytes placed so far: to PM, and to the page cache by reason; predictions right and wrong.
type Placed = [u64; 7];

#[derive(Clone, Copy, Debug)]
enum Step {
    Write { at: u64, blocks: u64, durable: bool },
    Fsync,
    Truncate { blocks: u64 },
    Read { at: u64, blocks: u64 },
}

/// Whole blocks: the engine changes parts of a block in place, which the simulator does not model.
/// No file is emptied: what is written instead would be written back at once in the background,
/// which the engine does not do here.
fn step() -> impl Strategy<Value = (usize, Step)> {
    let len = prop::sample::select(vec![1u64, 2, 4, 5, 8, 16, 24, 32]);
    let range =
        (len, 0..8u64).prop_map(|(blocks, at)| (at * blocks % (FILE_BLOCKS - blocks + 1), blocks));
    let step = prop_oneof![
        8 => (range.clone(), prop::bool::weighted(0.05))
            .prop_map(|((at, blocks), durable)| Step::Write { at, blocks, durable }),
        1 => Just(Step::Fsync),
        1 => (1..FILE_BLOCKS).prop_map(|blocks| Step::Truncate { blocks }),
        1 => range.prop_map(|(at, blocks)| Step::Read { at, blocks }),
    ];
    (0..FILES, step)
}

fn do_step(volume: &Volume, ino: Ino, step: Step) {
    match step {
        Step::Write { at, blocks, durable } => {
            let data = vec![7; (blocks * BLOCK) as usize];
            let options = WriteOptions { durable, ..Default::default() };
            assert_eq!(volume.write(ino, at * BLOCK, &data, options).unwrap(), data.len());
        }
        Step::Fsync => volume.fsync(ino, false).unwrap(),
        Step::Truncate { blocks } => {
            volume
                .setattr(ino, &SetAttr { size: Some(blocks * BLOCK), ..Default::default() })
                .unwrap();
        }
        Step::Read { at, blocks } => {
            volume.read(ino, at * BLOCK, &mut vec![0; (blocks * BLOCK) as usize]).unwrap();
        }
    }
}

fn by_engine(volume: &Volume) -> Placed {
    let counters = volume.stats().counters;
    let reasons = [
        Counter::WrittenPm,
        Counter::PlacedLargeAsync,
        Counter::PlacedBulk,
        Counter::PlacedPmFull,
        Counter::PlacedJoinsDirty,
    ];
    let [pm, large, bulk, full, joins] = reasons.map(|counter| counters.get(counter));
    [
        pm,
        large,
        bulk,
        full,
        joins,
        counters.get(Counter::PredictedRight),
        counters.get(Counter::PredictedWrong),
    ]
}

fn by_simulation(outcome: &Outcome) -> Placed {
    [
        outcome.written_pm_bytes,
        outcome.written_large_async_bytes,
        outcome.written_bulk_bytes,
        outcome.written_pm_full_bytes,
        outcome.written_joins_dirty_bytes,
        outcome.predicted_right,
        outcome.predicted_wrong,
    ]
}

/// What was recorded, through a trace.
fn recorded(volume: &Volume, token: u64) -> Vec<Record> {
    let mut writer = Writer::new(Vec::new(), &Facts::default()).unwrap();
    loop {
        let part = volume.take_recorded(token, true, 16 << 10).unwrap();
        if part.block.is_empty() {
            assert_eq!(part.lost, 0);
            break;
        }
        writer.append_block(&part.block).unwrap();
    }
    let trace = writer.finish(Ending::Asked, 0).unwrap();
    let mut reader = Reader::new(&trace[..]).unwrap();
    let (mut records, mut block) = (Vec::new(), Vec::new());
    while reader.next_block(&mut block).unwrap() {
        records.append(&mut block);
    }
    records
}

proptest! {
    #![proptest_config(common::config(48))]

    #[test]
    fn they_agree_on_every_write(
        is_crowded in prop::bool::ANY,
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let settings = if is_crowded { &CROWDED[..] } else { &ROOMY[..] };
        let (pm, disks) = (Pm::anonymous(16 << 20), vec![memory_disk(32 << 20)]);
        format(&pm, &disks, &FormatOptions { shards: Some(1), ..Default::default() }).unwrap();
        let rig = Rig { pm, disks };
        // Neither is ever full, and nothing happens by itself.
        let options = OpenOptions { cache_bytes: 64 << 20, workers: false, ..Default::default() };
        let volume = Volume::open(rig.pm.clone(), rig.disks.clone(), options, &|_, _, _| {})
            .unwrap();
        settings.iter().for_each(|&(param, value)| volume.tune(param, value).unwrap());
        let recording = volume.start_recording().unwrap();
        let create =
            |name: String| volume.create(Ino::ROOT, name.as_bytes(), &FILE).unwrap().ino;
        let filling = create("filling".into());
        for block in 0..FILLING_BLOCKS {
            do_step(&volume, filling, Step::Write { at: block, blocks: 1, durable: true });
        }
        let inos: Vec<Ino> = (0..FILES).map(|n| create(format!("{n}"))).collect();
        let before = 2 + FILLING_BLOCKS as usize + 2 * FILES;
        let mut placed = Vec::new();
        for &(file, step) in &steps {
            do_step(&volume, inos[file], step);
            placed.push(by_engine(&volume));
        }
        let records = recorded(&volume, recording.token);
        prop_assert_eq!(records.len(), before + steps.len());

        let mut config = Config::new(&recording.facts, "nvme-ssd".parse().unwrap());
        prop_assert_eq!((config.pm_bytes, config.cache_bytes), (16 << 20, 64 << 20));
        settings.iter().for_each(|&(param, value)| config.params.set(param, value).unwrap());
        let mut simulation = Simulation::new(config);
        for (number, record) in records.iter().enumerate() {
            // How fast this machine is makes no difference.
            simulation.step(&Record { time_us: 0, ..*record });
            if let Some(at) = number.checked_sub(before) {
                let simulated = by_simulation(&simulation.outcome());
                prop_assert_eq!(simulated, placed[at], "after step {}: {:?}", at,
                    &steps[..=at]);
            }
        }
        volume.close().unwrap();
    }
}
