//! Programs that lose patience at any moment of a wait: their calls have had no effect, or say how
//! much they have done.

use shuttle::rand::Rng;
use terrace_store::planted::Bug;
use terrace_store::sync::thread;

use super::{BLOCK, FILE, Rig, Tier, contents, errno, finds, holds, make, must_survive, together};
use crate::{Ino, WriteOptions, let_waits_end};

fn is_lost_now() -> bool {
    shuttle::rand::thread_rng().gen_range(0..3) == 0
}

/// Two programs write more than the page cache takes, and one of them may be interrupted.
fn writes(durable: bool) {
    let (rig, tier) = (Rig::new(), Tier::Disk(8));
    let volume = rig.open(tier);
    let [patient, other] = ["patient", "other"].map(|name| make(&volume, Ino::ROOT, name, &FILE));
    let options = WriteOptions { durable, ..WriteOptions::default() };
    together! {
        {
            for byte in 1..3 {
                let data = vec![byte; 5 * BLOCK];
                assert_eq!(volume.write(patient, 0, &data, options).unwrap(), data.len());
            }
        }
        {
            let_waits_end(is_lost_now);
            let mut expected = Vec::new();
            for byte in 1..4 {
                let data = vec![byte; 5 * BLOCK];
                match errno(volume.write(other, 0, &data, options)) {
                    Ok(len) => {
                        expected.splice(..len.min(expected.len()), data[..len].iter().copied());
                    }
                    Err(libc::EINTR) => {}
                    Err(errno) => panic!("errno {errno}"),
                }
                assert!(contents(&volume, other) == expected, "not what the call has said");
            }
        }
        { volume.fsync(patient, false).unwrap() }
    };
    assert_eq!(contents(&volume, patient), vec![2; 5 * BLOCK]);
    must_survive(&rig, volume, tier, "other");
}

fn writes_to_the_cache() {
    writes(false);
}

fn durable_writes() {
    writes(true);
}

#[test]
fn a_write_is_interrupted_before_its_effect_or_is_short() {
    holds(600, writes_to_the_cache);
    holds(600, durable_writes);
}

#[test]
fn a_write_that_is_interrupted_after_its_effect_is_found() {
    finds(Bug::LostAfterEffect, 600, durable_writes);
}
