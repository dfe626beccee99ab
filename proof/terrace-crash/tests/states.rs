//! Every crash state of a sample of workloads of one action and of longer ones: see
//! `docs/CRASH-STATES.md`.

use std::io::Write as _;

use terrace_crash::explore::Settings;
use terrace_crash::id::Workload;
use terrace_crash::search::{
    interrupted_moves, loans, migrations, mixtures, moves_in_pairs, removals, sampled, search,
    singles, tables,
};

/// More failures than this say nothing new.
const FAILURES_MAX: usize = 10;

fn none_is_wrong(name: &str, workloads: &[Workload], settings: Settings) {
    let (counts, failures) = search(workloads, settings, FAILURES_MAX, &|_, _| false);
    // Past the test runner's capture: the numbers are what this test is about.
    writeln!(std::io::stderr(), "{name}: {counts}").expect("stderr");
    let text: Vec<String> = failures.iter().map(ToString::to_string).collect();
    assert!(
        failures.is_empty(),
        "replay with `cargo run -p terrace-crash -- ID`\n{}",
        text.join("\n")
    );
}

#[test]
fn workloads_of_one_action_survive_every_crash() {
    // The others are for `make crash-long`.
    let workloads: Vec<_> = singles().into_iter().step_by(8).collect();
    none_is_wrong("one action, some", &workloads, Settings::QUICK);
}

#[test]
fn workloads_of_two_actions_survive_crashes() {
    let workloads: Vec<_> = mixtures().into_iter().chain(sampled(100, 2, 1)).collect();
    none_is_wrong("two actions, some", &workloads, Settings::QUICK);
}

#[test]
fn moves_survive_crashes_beside_other_actions() {
    // The others are for `make crash-long`.
    let workloads: Vec<_> = moves_in_pairs().into_iter().step_by(10).collect();
    none_is_wrong("moves and another action, some", &workloads, Settings::QUICK);
}

#[test]
fn moves_survive_crashes_whatever_happens_in_the_middle() {
    // The others are for `make crash-long`.
    let workloads: Vec<_> = interrupted_moves().into_iter().step_by(5).collect();
    none_is_wrong("moves, meanwhile, some", &workloads, Settings::QUICK);
}

#[test]
fn background_migration_survives_crashes() {
    // The others are for `make crash-long`.
    let workloads: Vec<_> = migrations().into_iter().step_by(6).collect();
    none_is_wrong("background migration, some", &workloads, Settings::QUICK);
}

#[test]
fn loans_survive_every_crash() {
    // The others are for `make crash-long`.
    let workloads: Vec<_> = loans().into_iter().step_by(4).collect();
    none_is_wrong("files that are lent, some", &workloads, Settings::QUICK);
}

#[test]
fn removals_without_room_survive_every_crash() {
    none_is_wrong("removals without room", &removals(), Settings::QUICK);
}

#[test]
fn tables_survive_every_crash_while_they_shrink_and_grow() {
    none_is_wrong("inode tables", &tables(), Settings::QUICK);
}
