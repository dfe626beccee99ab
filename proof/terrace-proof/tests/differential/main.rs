//! Random operations on a mount and on a directory of the host file system, compared call by call
//! (result and errno) and tree by tree.
//!
//! A failure prints its seed and a shortened list of operations. `TERRACE_DIFF_SEED` sets the first
//! seed, `TERRACE_DIFF_SEEDS` how many to run, `TERRACE_DIFF_OPS` the operations per seed.

mod apply;
mod calls;
mod features;
mod ops;

use anyhow::{Context, Result, bail, ensure};
use apply::Side;
use features::Features;
use ops::{Generator, Op};
use terrace_proof::{Rng, Scratch, TestVolume, Tree, TreeScope, VolumeSpec, environment, proof};

const SCOPE: TreeScope = TreeScope { all_times: false, xattrs: true };
/// Reruns spent on shortening a failing list.
const SHRINK_RUNS: usize = 120;

/// Runs `ops` on a fresh volume and on a fresh directory, and returns how many calls succeeded.
/// Fails at the first difference, or if the volume is not sound at the end.
fn execute(spec: &VolumeSpec, host: &Scratch, ops: &[Op]) -> Result<usize> {
    let mut volume = spec.clone().mount()?;
    let subject = volume.join("tree");
    let reference = Scratch::new_in(host.path(), "tree")?;
    std::fs::create_dir(&subject)?;
    let successes =
        compare(&mut volume, &mut Side::new(&subject), &mut Side::new(reference.path()), ops)?;
    volume.check().context("terrace check at the end")?;
    std::fs::remove_dir_all(&subject).context("removing the tree")?;
    volume.check().context("terrace check of the empty volume")?;
    Ok(successes)
}

fn compare(
    volume: &mut TestVolume,
    subject: &mut Side,
    reference: &mut Side,
    ops: &[Op],
) -> Result<usize> {
    let mut successes = 0;
    for (number, op) in ops.iter().enumerate() {
        match op {
            Op::Remount => {
                subject.close_all();
                reference.close_all();
                volume.check().with_context(|| format!("terrace check at remount {number}"))?;
                same_trees(subject, reference)
                    .with_context(|| format!("after remount {number}"))?;
            }
            Op::CompareTrees => {
                same_trees(subject, reference)
                    .with_context(|| format!("trees at operation {number}"))?;
            }
            op => {
                let (got, expected) = (subject.apply(op), reference.apply(op));
                successes += usize::from(expected.is_ok());
                ensure!(
                    got == expected,
                    "operation {number}, {op:?}: {} here, {} on the host",
                    calls::describe(got),
                    calls::describe(expected)
                );
            }
        }
    }
    same_trees(subject, reference).context("trees at the end")?;
    Ok(successes)
}

fn same_trees(subject: &Side, reference: &Side) -> Result<()> {
    let tree = Tree::read(subject.root(), SCOPE)?;
    tree.must_equal(&Tree::read(reference.root(), SCOPE)?)?;
    for path in tree.regular_files() {
        terrace_proof::check_holes(&subject.root().join(path))?;
    }
    Ok(())
}

/// What kind of failure it is: `check`, or the operation's or the property's name. While a list is
/// shortened it must stay the same, or the result would show some other failure than the one
/// reported.
fn signature(failure: &str) -> &str {
    if failure.contains("terrace check") {
        return "check";
    }
    let (_, what) =
        failure.rsplit_once("\": ").or(failure.split_once(", ")).unwrap_or(("", failure));
    what.split([' ', '{']).next().unwrap_or(what)
}

/// Removes operations as long as what is left still fails alike, and returns the shortest list
/// found.
fn shrink(spec: &VolumeSpec, host: &Scratch, mut ops: Vec<Op>, failure: &str) -> (Vec<Op>, String) {
    let mut runs = 0;
    let mut last = String::from("not reproduced by a second run");
    let mut chunk = ops.len();
    while chunk > 0 && runs < SHRINK_RUNS {
        let mut start = 0;
        while start < ops.len() && runs < SHRINK_RUNS {
            let mut fewer = ops.clone();
            // The first pass, over everything at once, asks whether the failure comes back at all.
            let whole = chunk == ops.len();
            if !whole {
                fewer.drain(start..(start + chunk).min(ops.len()));
            }
            runs += 1;
            match execute(spec, host, &fewer).map_err(|error| format!("{error:#}")) {
                Err(error) if signature(&error) == signature(failure) => {
                    last = error;
                    ops = fewer;
                    start += if whole { chunk } else { 0 };
                }
                _ => start += chunk,
            }
        }
        chunk /= 2;
    }
    (ops, last)
}

fn differential(name: &str, mount_options: &str, first_seed: u64) -> Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        terrace_proof::skip("owners and trusted attributes need root")
    );
    let first_seed = environment("TERRACE_DIFF_SEED", first_seed)?;
    let seeds = environment("TERRACE_DIFF_SEEDS", 3)?;
    let count = environment("TERRACE_DIFF_OPS", 3000)?;
    let host = Scratch::reference("reference")?;
    let features = Features::of(&host)?;
    let spec = VolumeSpec::new(name).pm_mib(32).options(mount_options);
    for seed in first_seed..first_seed + seeds {
        let ops = Generator::new(Rng::new(seed), features).list(count as usize);
        match execute(&spec, &host, &ops) {
            // Mostly failing calls would prove little.
            Ok(successes) => ensure!(successes > ops.len() / 4, "only {successes} calls succeeded"),
            Err(error) => {
                let failure = format!("{error:#}");
                let (ops, last) = shrink(&spec, &host, ops, &failure);
                let list: Vec<String> = ops.iter().map(|op| format!("{op:?}")).collect();
                let list = list.join("\n");
                bail!(
                    "TERRACE_DIFF_SEED={seed}: {failure}\nshortened to {} \
                     operations:\n{list}\n{last}",
                    ops.len()
                );
            }
        }
    }
    Ok(())
}

#[test]
fn same_as_the_host() {
    proof(|| differential("differential", "", 1));
}

#[test]
fn same_as_the_host_when_durable() {
    proof(|| differential("differential-durable", "durable", 101));
}

#[test]
fn same_as_the_host_when_shared() {
    proof(|| differential("differential-shared", "allow_other,default_permissions", 201));
}

#[test]
fn signatures_tell_failures_apart() {
    let tree = "trees at the end: 1 differences between the trees:\n\"a: b\": mode 750, not 2750";
    assert_eq!(signature(tree), "mode");
    let call =
        "operation 83, Fallocate { path: \"f\", offset: 1 }: NOTSUP here, success on the host";
    assert_eq!(signature(call), "Fallocate");
}
