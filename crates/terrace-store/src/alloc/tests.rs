use super::*;
use proptest::prelude::*;

fn fresh(blocks: u64) -> DeviceAlloc {
    DeviceAlloc::from_bitmap(blocks, 1024, 2, Vec::new())
}

fn longest_free(used: &[bool]) -> u64 {
    used.split(|used| *used).map(<[bool]>::len).max().unwrap_or(0) as u64
}

proptest! {
    #[test]
    fn runs_never_overlap_and_counts_hold(
        wants in proptest::collection::vec((1u64..300, any::<bool>()), 1..200),
    ) {
        let alloc = fresh(5000);
        let mut owned: Vec<Run> = Vec::new();
        let mut used = vec![false; 5000];
        for (i, (want, give_back)) in wants.into_iter().enumerate() {
            if let Some(run) = alloc.alloc(i % 2, want, [Use::Data, Use::Metadata][i % 2]) {
                prop_assert!(run.len >= 1 && run.len <= want);
                for b in run.start..run.start + run.len {
                    prop_assert!(!std::mem::replace(&mut used[b as usize], true));
                }
                owned.push(run);
            } else {
                prop_assert_eq!(alloc.free_blocks(), 0);
            }
            if give_back && !owned.is_empty() {
                let run = owned.swap_remove(i % owned.len());
                alloc.free(run);
                used[run.start as usize..(run.start + run.len) as usize].fill(false);
            }
            prop_assert_eq!(alloc.free_blocks(), used.iter().filter(|u| !**u).count() as u64);
            for (group, used) in alloc.groups.iter().zip(used.chunks(1024)) {
                prop_assert!(group.lock().longest >= longest_free(used));
            }
        }
        let mut seen = vec![false; 5000];
        alloc.visit_used(|r| seen[r.start as usize..(r.start + r.len) as usize].fill(true));
        prop_assert_eq!(seen, used);
    }
}

#[test]
fn a_full_device_says_so_and_recovers() {
    let alloc = fresh(1500);
    let mut runs = Vec::new();
    while let Some(run) = alloc.alloc(0, 700, Use::Data) {
        runs.push(run);
    }
    assert_eq!(alloc.free_blocks(), 0);
    runs.into_iter().for_each(|r| alloc.free(r));
    assert_eq!(alloc.free_blocks(), 1500);
    assert_eq!(alloc.alloc(1, 1024, Use::Data).map(|r| r.len), Some(1024));
}

/// Every third block is free: no search for two is begun a second time.
#[test]
fn a_search_in_vain_is_not_repeated() {
    let alloc = fresh(2048);
    let runs: Vec<Run> = (0..2048).map(|_| alloc.alloc(0, 1, Use::Data).unwrap()).collect();
    runs.iter().filter(|run| run.start % 3 == 0).for_each(|&run| alloc.free(run));
    let longest = || [0, 1].map(|g: usize| alloc.groups[g].lock().longest);
    assert_eq!(longest(), [1024; 2]);
    assert_eq!(alloc.alloc(0, 2, Use::Metadata).map(|run| run.len), Some(1));
    assert_eq!(longest(), [1; 2]);
    // Two blocks of the second group, in two words of the bitmap, between free ones.
    alloc.free(Run { start: 1024 + 63, len: 2 });
    assert_eq!(longest(), [1, 4]);
    assert_eq!(alloc.alloc(0, 4, Use::Data), Some(Run { start: 1024 + 62, len: 4 }));
    assert_eq!(alloc.alloc(0, 4, Use::Data).map(|run| run.len), Some(1));
    assert_eq!(longest(), [1; 2]);
}

#[test]
fn the_free_bits_around_a_run_are_counted() {
    let mut words = vec![!0; 4];
    clear_bits(&mut words, Run { start: 10, len: 150 });
    assert_eq!(clear_around(&words, Run { start: 128, len: 1 }), 150);
    assert_eq!(clear_around(&words, Run { start: 10, len: 150 }), 150);
    assert_eq!(clear_around(&[0; 3], Run { start: 64, len: 3 }), 192);
    clear_bits(&mut words, Run { start: 0, len: 10 });
    assert_eq!(clear_around(&words, Run { start: 0, len: 1 }), 160);
    clear_bits(&mut words, Run { start: 255, len: 1 });
    assert_eq!(clear_around(&words, Run { start: 255, len: 1 }), 1);
}

#[test]
fn a_double_free_is_noted_and_counts_hold() {
    let alloc = fresh(1024);
    let run = alloc.alloc(0, 4, Use::Data).unwrap();
    alloc.free(run);
    assert!(alloc.freed_twice().is_none() && !alloc.is_damaged());
    alloc.free(run);
    assert_eq!(alloc.freed_twice(), Some(run.start));
    assert!(alloc.is_damaged());
    assert_eq!(alloc.free_blocks(), 1024);
}
