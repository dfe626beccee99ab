//! Many workloads, on several threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use fastrand::Rng;

use crate::actions::{Action, Named, action, actions};
use crate::catalog::{MIGRATIONS, PREPS, Prep};
use crate::explore::{Counts, Explorer, Failure, Settings};
use crate::history::Waits;
use crate::id::Workload;

/// Every workload of one action.
pub fn singles() -> Vec<Workload> {
    PREPS
        .iter()
        .flat_map(|prep| actions().into_iter().map(move |action| workload(prep, vec![action])))
        .collect()
}

fn workload(prep: &'static Prep, actions: Vec<Named>) -> Workload {
    ended(Workload { prep, actions })
}

/// With a sync at its end if data may wait in the page cache then.
fn ended(mut workload: Workload) -> Workload {
    let Workload { prep, actions } = &mut workload;
    let last = &actions.last().expect("an action").action;
    if prep.config.waits() == Waits::UntilSync
        && matches!(last, Action::Op(_) | Action::Interrupted(..))
    {
        actions.push(action("sync").expect("there is one"));
    }
    workload
}

/// What two descriptors of one file may do to it, one after the other: mixtures of appends,
/// truncations and allocations.
pub fn mixtures() -> Vec<Workload> {
    const ACTIONS: [&str; 8] = [
        "append",
        "write-beyond-end",
        "truncate-down",
        "truncate-up",
        "allocate",
        "allocate-keep-size",
        "punch",
        "zero-keep-size",
    ];
    let named = |name| action(name).expect("there is one");
    let plain = &PREPS[0];
    let pair = |first| ACTIONS.map(|second| workload(plain, vec![named(first), named(second)]));
    ACTIONS.into_iter().flat_map(pair).collect()
}

/// Changes by a process that has borrowed a file, in turns with each other and with the owner's.
pub fn loans() -> Vec<Workload> {
    const LENT: [&str; 7] = [
        "patch-lent",
        "append-lent",
        "append-beyond-block-lent",
        "overwrite-lent",
        "write-beyond-end-lent",
        "truncate-down-lent",
        "truncate-up-lent",
    ];
    const OTHERS: [&str; 14] = [
        "patch",
        "append",
        "append-beyond-block",
        "overwrite-block",
        "overwrite-unaligned",
        "write-beyond-end",
        "truncate-down",
        "allocate-keep-size",
        "punch",
        "utimes",
        "move-to-disk",
        "unlink",
        "kill",
        "remount",
    ];
    let mut texts = Vec::new();
    for prep in ["plain", "page-full", "compaction", "patched", "reserved"] {
        for lent in LENT {
            texts.extend(LENT.map(|next| format!("{prep}/{lent},{next}")));
            texts.extend(OTHERS.map(|next| format!("{prep}/{lent},{next},{lent}")));
        }
    }
    texts.iter().map(|text| ended(text.parse().expect("a workload"))).collect()
}

/// What frees an inode, alone and in pairs, without room for a log page.
pub fn removals() -> Vec<Workload> {
    const REMOVALS: [&str; 9] = [
        "unlink",
        "unlink-one-of-two",
        "unlink-symlink",
        "unlink-attributes",
        "rmdir",
        "rename-over",
        "rename-across-over",
        "rename-across-over-one-of-two",
        "rename-dir-over",
    ];
    let mut texts: Vec<String> = REMOVALS.iter().map(|one| format!("no-room/{one}")).collect();
    for first in ["unlink-one-of-two", "unlink-symlink", "rmdir"] {
        texts.extend(
            ["sync", "remount", "unlink-attributes"]
                .map(|second| format!("no-room/{first},{second}")),
        );
    }
    // Nothing waits but change times of what was renamed, which find no room either.
    texts.iter().map(|text| text.parse().expect("a workload")).collect()
}

/// Inode tables that give something back, and grow again.
pub fn tables() -> Vec<Workload> {
    const TEXTS: [&str; 8] = [
        "table-middle/sync",
        "table-middle/unlink,sync",
        "table-middle/remount",
        "table-middle/sync,create",
        "table-end/sync",
        "table-end/remount",
        "table-gap/create,create-in",
        "table-gap/mkdir,remount",
    ];
    TEXTS.iter().map(|text| text.parse().expect("a workload")).collect()
}

/// What may happen to a file while it moves.
const MEANWHILE: [&str; 22] = [
    "patch",
    "append",
    "append-beyond-block",
    "overwrite-block",
    "overwrite-unaligned",
    "write-beyond-end",
    "write-large",
    "write-durable",
    "truncate-all",
    "truncate-down",
    "truncate-up",
    "allocate",
    "allocate-keep-size",
    "punch",
    "zero",
    "copy",
    "chmod",
    "utimes",
    "fsync",
    "rename-over",
    "unlink",
    "unlink-held",
];

/// Volumes and what is done to them, a move last.
const MOVES: [&str; 14] = [
    "plain/move-to-disk",
    "plain/write-large,move-to-disk",
    "plain/move-to-disk,move-to-pm",
    "page-full/move-to-disk",
    "compaction/move-to-disk",
    "patched/move-to-disk",
    "reserved/move-to-disk",
    "checksums/move-to-disk",
    "checksums/move-to-disk,move-to-pm",
    "plain/write-large,move-to-disk,move-to-pm",
    "dirty/fsync,move-to-disk",
    "three-tiers/move-to-pm",
    "three-tiers/move-to-last-tier",
    "pm-nearly-full/move-to-disk",
];

/// Moves in the middle of which something else happens to the file.
pub fn interrupted_moves() -> Vec<Workload> {
    let with = |before: &str, meanwhile| {
        format!("{before}+{meanwhile}").parse::<Workload>().expect("a workload")
    };
    MOVES
        .iter()
        .flat_map(|before| MEANWHILE.map(|meanwhile| with(before, meanwhile)))
        .map(ended)
        .collect()
}

/// Moves after something else has happened to the file, and before.
pub fn moves_in_pairs() -> Vec<Workload> {
    let pair = |prep: &str, first: &str, second: &str| {
        format!("{prep}/{first},{second}").parse::<Workload>().expect("a workload")
    };
    let mut workloads = Vec::new();
    for (prep, one) in MOVES
        .iter()
        .filter_map(|before| before.split_once('/'))
        .filter(|(_, names)| !names.contains(','))
    {
        workloads.extend(
            MEANWHILE.iter().flat_map(|other| [pair(prep, one, other), pair(prep, other, one)]),
        );
    }
    workloads.into_iter().map(ended).collect()
}

/// What may happen before, in the middle of, or after a migration; besides, names come and go.
const BESIDE_MIGRATION: [&str; 16] = [
    "patch",
    "append",
    "overwrite-unaligned",
    "write-large",
    "write-durable",
    "truncate-all",
    "truncate-down",
    "allocate",
    "punch",
    "copy",
    "fsync",
    "rename-over",
    "rename-over-one-of-two",
    "rename-exchange",
    "unlink",
    "unlink-attributes",
];

/// Background migration of each kind, with other actions before it, in the middle of it and after
/// it.
pub fn migrations() -> Vec<Workload> {
    let mut texts = Vec::new();
    for prep in MIGRATIONS.iter().map(|prep| prep.name) {
        let migrate = if prep == "reverse-migration" { "migrate-up" } else { "migrate" };
        texts.push(format!("{prep}/{migrate}"));
        texts.push(format!("{prep}/{migrate},remount"));
        for other in BESIDE_MIGRATION {
            texts.push(format!("{prep}/{migrate}+{other}"));
            texts.push(format!("{prep}/{other},{migrate}"));
            texts.push(format!("{prep}/{migrate},{other}"));
        }
    }
    texts.iter().map(|text| ended(text.parse().expect("a workload"))).collect()
}

/// Every workload of two actions on every volume, shuffled by a seed: whoever stops early has seen
/// some of everything.
pub fn pairs(seed: u64) -> Vec<Workload> {
    let mut pairs = Vec::new();
    for prep in PREPS {
        for first in actions().into_iter().filter(|a| a.action != Action::Format) {
            pairs.extend(
                actions().into_iter().map(|second| workload(prep, vec![first.clone(), second])),
            );
        }
    }
    let mut random = Rng::with_seed(seed);
    for i in (1..pairs.len()).rev() {
        pairs.swap(i, random.usize(..=i));
    }
    pairs
}

/// So many workloads of so many actions each, from a seed.
pub fn sampled(count: usize, len: usize, seed: u64) -> Vec<Workload> {
    let mut random = Rng::with_seed(seed);
    let all = actions();
    let mut pick = |last: bool| loop {
        let action = all[random.usize(..all.len())].clone();
        if last || action.action != Action::Format {
            break action;
        }
    };
    let mut preps = Rng::with_seed(!seed);
    let workload = |_| {
        let prep = &PREPS[preps.usize(..PREPS.len())];
        workload(prep, (0..len).map(|i| pick(i + 1 == len)).collect())
    };
    (0..count).map(workload).collect()
}

/// Looks at all of them, on all cores. After `failures_max` failures, or when `stop` says so, it
/// ends: the first so many (`Counts::workloads`) have been looked at then.
pub fn search(
    workloads: &[Workload],
    settings: Settings,
    failures_max: usize,
    stop: &(dyn Fn(&Counts, &[Failure]) -> bool + Sync),
) -> (Counts, Vec<Failure>) {
    let next = AtomicUsize::new(0);
    let total = Mutex::new((Counts::default(), Vec::new()));
    let work = || {
        while let Some(workload) = workloads.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut explorer = Explorer::new(settings, failures_max);
            explorer.explore(workload);
            let mut total = total.lock().expect("no panic");
            total.0 += explorer.counts;
            total.1.append(&mut explorer.failures);
            if total.1.len() >= failures_max || stop(&total.0, &total.1) {
                break;
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
        work();
    });
    total.into_inner().expect("no panic")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_all_there_in_an_order_of_the_seed() {
        let text = |seed| pairs(seed).iter().map(ToString::to_string).collect::<Vec<_>>();
        let (mut one, mut two) = (text(1), text(2));
        assert_eq!(one, text(1));
        assert_ne!(one, two);
        one.sort_unstable();
        two.sort_unstable();
        assert_eq!(one, two);
        let count = actions().len();
        assert_eq!(one.len(), PREPS.len() * (count - 1) * count);
        assert!(one.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
