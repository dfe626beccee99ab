//! Free space: nothing is handed out twice, nothing is lost, promises are kept.

use std::sync::Mutex as Real;

use terrace_layout::{BlockAddr, DeviceEntry};
use terrace_media::{Pm, memory_disk};
use terrace_policy::Placement;
use terrace_store::alloc::{DeviceAlloc, Run, Use};
use terrace_store::members::Member;
use terrace_store::planted::Bug;
use terrace_store::space::{BlockSource, Purpose, Space, Tiers};
use terrace_store::sync::thread;

use super::{finds, holds, together};

const BLOCKS: u64 = 200;
const GROUP_BLOCKS: u64 = 64;

/// Who has which block, as the callers see it. Never locked across a switch of threads.
struct Ledger(Real<Vec<bool>>);

impl Ledger {
    fn new() -> Ledger {
        Ledger(Real::new(vec![false; BLOCKS as usize]))
    }

    fn set(&self, run: Run, owned: bool) {
        let mut blocks = self.0.lock().unwrap();
        for block in &mut blocks[run.start as usize..(run.start + run.len) as usize] {
            assert_ne!(
                *block,
                owned,
                "{run:?} was {}",
                if owned { "handed out twice" } else { "taken back twice" }
            );
            *block = owned;
        }
    }

    fn owned(&self) -> Vec<bool> {
        self.0.lock().unwrap().clone()
    }
}

/// Takes runs, gives some back, in an order of its own for each thread.
fn churn(alloc: &DeviceAlloc, ledger: &Ledger, shard: usize) {
    let mut mine: Vec<Run> = Vec::new();
    for (i, want) in [5, 64, 1, 17, 33, 64, 2, 40].into_iter().enumerate() {
        if let Some(run) =
            alloc.alloc(shard, want, if want % 2 == 0 { Use::Data } else { Use::Metadata })
        {
            assert!(run.len >= 1 && run.len <= want);
            ledger.set(run, true);
            mine.push(run);
        }
        if i % 3 == shard && !mine.is_empty() {
            let run = mine.remove(0);
            ledger.set(run, false);
            alloc.free(run);
        }
    }
}

fn must_agree(alloc: &DeviceAlloc, ledger: &Ledger) {
    let owned = ledger.owned();
    let free = owned.iter().filter(|&&owned| !owned).count() as u64;
    assert_eq!(alloc.free_blocks(), free);
    let mut used = vec![false; owned.len()];
    alloc.visit_used(|run| used[run.start as usize..(run.start + run.len) as usize].fill(true));
    assert_eq!(used, owned);
    let mut groups = 0;
    alloc.visit_groups(|_, _, free| groups += free).unwrap();
    assert_eq!(groups, free);
}

fn allocator() {
    let alloc = DeviceAlloc::from_bitmap(BLOCKS, GROUP_BLOCKS, 3, Vec::new());
    let ledger = Ledger::new();
    together! {
        { churn(&alloc, &ledger, 0) }
        { churn(&alloc, &ledger, 1) }
        { churn(&alloc, &ledger, 2) }
    };
    must_agree(&alloc, &ledger);
}

#[test]
fn no_block_is_handed_out_twice_or_lost() {
    holds(4000, allocator);
}

#[test]
fn an_allocator_in_two_steps_is_found() {
    finds(Bug::AllocInTwoSteps, 1000, allocator);
}

/// After a clean unmount bitmaps come when they are needed, whoever needs them first.
fn lazy_allocator() {
    let words: Vec<u64> = vec![0, 0, 0, !0 << (BLOCKS % 64)];
    let counts: Vec<u32> = words.iter().map(|w| w.count_zeros()).collect();
    let loader = Box::new(move |group: u64| Ok((group != 1).then(|| vec![words[group as usize]])));
    let alloc = DeviceAlloc::from_summaries(BLOCKS, GROUP_BLOCKS, 3, &counts, loader);
    let ledger = Ledger::new();
    together! {
        { churn(&alloc, &ledger, 0) }
        { churn(&alloc, &ledger, 1) }
        { churn(&alloc, &ledger, 2) }
    };
    // The bitmap of one group is damaged: none of its blocks is had, and none is counted.
    let owned = ledger.owned();
    assert!(alloc.is_damaged() && !owned[64..128].contains(&true));
    let owned = owned.iter().filter(|&&owned| owned).count() as u64;
    assert_eq!(alloc.free_blocks(), BLOCKS - GROUP_BLOCKS - owned);
}

#[test]
fn bitmaps_that_come_late_lose_nothing() {
    holds(2000, lazy_allocator);
}

/// Dirty pages are promised disk space while others take some for good.
fn promises() {
    let [pm, alloc] =
        [64, BLOCKS].map(|blocks| DeviceAlloc::from_bitmap(blocks, GROUP_BLOCKS, 1, Vec::new()));
    let [row, entry] = [0, 1].map(|i| DeviceEntry {
        index: i.into(),
        tier: i,
        blocks: BLOCKS,
        ..DeviceEntry::EMPTY
    });
    let disk = Member { entry, disk: memory_disk(BLOCKS * 4096), alloc };
    let space = Space::new(
        Pm::anonymous(64 * 4096),
        row,
        pm,
        vec![disk],
        Placement { pm_full_percent: 90 },
    );
    let reserve = |blocks: u64, promised: &Real<u64>| {
        if space.reserve_disk(blocks) {
            *promised.lock().unwrap() += blocks;
        }
    };
    // As an allocation of blocks ahead of writing does it.
    let take = |blocks: u64, taken: &Real<Vec<Run>>| {
        if space.reserve_disk(blocks) {
            let mut missing = blocks;
            while missing > 0 {
                let (_, run) = space
                    .alloc_disk(0, missing, Tiers::from(1), &[])
                    .expect("what was promised is there");
                taken.lock().unwrap().push(run);
                missing -= run.len;
            }
            space.unreserve_disk(blocks);
        }
    };
    let (promised, taken) = (Real::new(0), Real::new(Vec::new()));
    together! {
        { reserve(80, &promised); reserve(30, &promised) }
        { take(60, &taken); take(40, &taken) }
        { take(50, &taken) }
    };
    let promised = promised.into_inner().unwrap();
    let taken: u64 = taken.into_inner().unwrap().iter().map(|run| run.len).sum();
    assert_eq!(space.device_space(1).1, BLOCKS - taken);
    assert_eq!(
        space.disk_available(),
        (BLOCKS - taken).checked_sub(promised).expect("promises are kept")
    );
    let source = space.source(0, Purpose::Freeing);
    source.free(BlockAddr::pm(source.alloc_meta().unwrap()), 1);
}

#[test]
fn disk_space_is_promised_once() {
    holds(4000, promises);
}

#[test]
fn a_promise_on_an_old_count_is_found() {
    finds(Bug::ReserveUnchecked, 4000, promises);
}
