//! Each fuzz target for a moment: random changes of real inputs, the same each time.
//! `PROPTEST_CASES` gives them more time, `PROPTEST_RNG_SEED` other changes; `make fuzz` runs the
//! real fuzzers.

use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use terrace_damage::targets::{ALL, Edit, seeds};

/// A number from the environment, or another.
fn setting<T: std::str::FromStr>(name: &str, otherwise: T) -> T {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(otherwise)
}

fn seed() -> u64 {
    setting("PROPTEST_RNG_SEED", 20_260_101)
}

fn config(cases: u32) -> ProptestConfig {
    let cases = setting("PROPTEST_CASES", cases);
    let rng_seed = RngSeed::Fixed(seed());
    ProptestConfig {
        cases,
        rng_seed,
        failure_persistence: None,
        max_shrink_iters: 500,
        ..Default::default()
    }
}

/// A change to an input: bytes stored, cut out, or cut off.
fn change() -> impl Strategy<Value = (u8, prop::sample::Index, Vec<u8>)> {
    (
        0..8u8,
        any::<prop::sample::Index>(),
        prop_oneof![interesting(), prop::collection::vec(any::<u8>(), 1..9)],
    )
}

/// Numbers at which something ends, as they stand on media.
fn interesting() -> impl Strategy<Value = Vec<u8>> {
    let ends = (0u32..64, -1i64..2).prop_map(|(bit, more)| (1u64 << bit).wrapping_add_signed(more));
    (prop_oneof![Just(u64::MAX), Just(0), ends], 1..9usize)
        .prop_map(|(n, len)| n.to_le_bytes()[..len].to_vec())
}

fn apply(input: &mut Vec<u8>, (how, index, bytes): (u8, prop::sample::Index, Vec<u8>)) {
    if input.is_empty() {
        return input.extend(bytes);
    }
    let at = index.index(input.len());
    match how {
        0 => drop(input.splice(at..at, bytes)),
        1 => input.truncate(at),
        _ => {
            let end = input.len().min(at + bytes.len());
            input.splice(at..end, bytes);
        }
    }
}

/// Runs a target on changed seeds; a failure shows the smallest input that was found to fail.
fn smoke(target: fn(&[u8]), inputs: impl Strategy<Value = Vec<u8>>, cases: u32) {
    let panics = terrace_damage::count_panics();
    let result = TestRunner::new(config(cases)).run(&inputs, |input| {
        let passed = catch_unwind(AssertUnwindSafe(|| target(&input))).is_ok();
        prop_assert!(passed && terrace_damage::count_panics() == panics, "it panics");
        Ok(())
    });
    if let Err(error) = result {
        panic!("seed {}: {error}", seed());
    }
}

#[test]
fn decoders() {
    for (name, target) in ALL.iter().filter(|(name, _)| *name != "recover") {
        let seeds = seeds(name);
        assert!(!seeds.is_empty(), "{name}");
        let inputs = (prop::sample::select(seeds), prop::collection::vec(change(), 0..6)).prop_map(
            |(mut input, changes)| {
                changes.into_iter().for_each(|c| apply(&mut input, c));
                input
            },
        );
        let cases = match *name {
            "saved" | "control" => 500,
            _ => 20_000,
        };
        smoke(*target, inputs, cases);
    }
}

fn edit() -> impl Strategy<Value = Edit> {
    let bytes = prop_oneof![interesting(), prop::collection::vec(any::<u8>(), 1..17)];
    let write =
        (any::<u16>(), prop_oneof![0..64u16, any::<u16>()], bytes, prop::bool::weighted(0.9))
            .prop_map(|(place, offset, bytes, sealed)| Edit::Write {
                place,
                offset,
                bytes,
                sealed,
            });
    let copy = (any::<u16>(), any::<u16>(), any::<bool>())
        .prop_map(|(place, from, sealed)| Edit::Copy { place, from, sealed });
    let raw = (
        any::<u16>(),
        any::<u16>(),
        prop_oneof![interesting(), prop::collection::vec(any::<u8>(), 1..9)],
    )
        .prop_map(|(block, offset, bytes)| Edit::Raw { block, offset, bytes });
    let resize =
        (any::<u16>(), any::<u16>()).prop_map(|(device, blocks)| Edit::Resize { device, blocks });
    prop_oneof![24 => write, 4 => copy, 4 => raw, 1 => resize]
}

/// What is encoded is read back.
#[test]
fn edits_survive_their_encoding() {
    let inputs = prop::collection::vec(edit(), 1..9);
    TestRunner::new(config(500))
        .run(&inputs, |edits| {
            let mut encoded = Vec::new();
            edits.iter().for_each(|edit| edit.encode(&mut encoded));
            prop_assert_eq!(Edit::parse(&encoded), edits);
            Ok(())
        })
        .unwrap();
}

#[test]
fn recovery() {
    let inputs = (any::<u8>(), prop::collection::vec(edit(), 1..5)).prop_map(|(first, edits)| {
        let mut input = vec![first];
        edits.iter().for_each(|edit| edit.encode(&mut input));
        input
    });
    smoke(terrace_damage::targets::recover, inputs, 1500);
}
