//! Many workloads, on several threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use terrace_media::Random;

use crate::catalog::{Action, Named, PREPS, Prep, action, actions};
use crate::explore::{Counts, Explorer, Failure, Settings};
use crate::id::Workload;

/// Every workload of one action; with a sync after it where data may wait in the page cache.
pub fn singles() -> Vec<Workload> {
    let sync = action("sync").expect("there is one");
    let mut workloads = Vec::new();
    for prep in PREPS {
        for action in actions() {
            let synced = prep.config.lazy() && matches!(action.action, Action::Op(_));
            let actions = std::iter::once(action).chain(synced.then(|| sync.clone())).collect();
            workloads.push(Workload { prep, actions });
        }
    }
    workloads
}

/// Every workload of two actions on `prep`.
pub fn pairs(prep: &'static Prep) -> Vec<Workload> {
    let first = actions().into_iter().filter(|a| a.action != Action::Format);
    let pair =
        |first: Named| actions().into_iter().map(move |second| Workload { prep, actions: vec![first.clone(), second] });
    first.flat_map(pair).collect()
}

/// So many workloads of so many actions each, from a seed.
pub fn sampled(count: usize, len: usize, seed: u64) -> Vec<Workload> {
    let mut random = Random(seed);
    let all = actions();
    let mut pick = |last: bool| loop {
        let action = all[random.below(all.len())].clone();
        if last || action.action != Action::Format {
            break action;
        }
    };
    let mut preps = Random(!seed);
    let workload = |_| Workload {
        prep: &PREPS[preps.below(PREPS.len())],
        actions: (0..len).map(|i| pick(i + 1 == len)).collect(),
    };
    (0..count).map(workload).collect()
}

/// Looks at all of them, on all cores. After `failures_max` failures, or when `stop` says so, it ends.
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
