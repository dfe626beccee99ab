//! fsx: random reads, writes, maps, truncates and holes in one file, each read verified.

use anyhow::{Result, bail, ensure};
use std::process::Command;
use std::time::{Duration, Instant};
use terrace_proof::{Scratch, VolumeSpec, proof, tool};

/// PM is smaller than the files, so that their data lies on both tiers and moves between them.
fn tiered(name: &str) -> VolumeSpec {
    VolumeSpec::new(name).pm_mib(32).disk_mib(512)
}

/// All operations that fsx knows, on a file of `file_bytes`, in operations of up to `op_bytes`.
fn configuration(file_bytes: u64, op_bytes: u64, align_bytes: u64) -> String {
    format!(
        "flen = {file_bytes}\n[opsize]\nmax = {op_bytes}\nmin = 0\nalign = \
         {align_bytes}\n[weights]\n\
         close_open = 1\nread = 10\nwrite = 10\nmapread = 8\nmapwrite = 8\ninvalidate = 1\n\
         truncate = 3\nfsync = 1\nfdatasync = 1\nposix_fallocate = 2\npunch_hole = 3\n\
         sendfile = 2\nposix_fadvise = 1\ncopy_file_range = 3\n"
    )
}

struct Run {
    config: String,
    seeds: u64,
    operations: u64,
}

/// How much data at least migrates on a volume whose data migrates all the time.
const MIGRATED_BYTES: u64 = 1 << 20;

/// How long all seeds of a test may take. Some seconds are usual.
const LIMIT: Duration = Duration::from_secs(300);

fn fsx(spec: VolumeSpec, run: &Run) -> Result<()> {
    let fsx = tool("fsx")?;
    let migrates = spec.migrates();
    let mut volume = spec.mount()?;
    let artifacts = Scratch::new("fsx-artifacts")?;
    std::fs::write(artifacts.join("fsx.toml"), &run.config)?;
    // Each daemon counts from zero.
    let awaits_migration = volume.is_mount() && migrates && !volume.is_killed_again_and_again();
    let started = Instant::now();
    for seed in 1.. {
        let is_enough =
            seed > run.seeds && (!awaits_migration || volume.migrated_bytes()?.0 > MIGRATED_BYTES);
        if is_enough {
            break;
        }
        // A fast machine is through with the seeds before much has moved, so more of them follow.
        ensure!(
            started.elapsed() < LIMIT,
            "after {seed} seeds {:?} bytes have migrated",
            volume.migrated_bytes()?
        );
        let output = Command::new(&fsx)
            .env("RUST_LOG", "warn")
            .arg("-f")
            .arg(artifacts.join("fsx.toml"))
            .args(["-N", &run.operations.to_string(), "-S", &seed.to_string(), "-P"])
            .arg(artifacts.path())
            .arg(volume.join(&format!("seed-{seed}")))
            .output()?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            let log = String::from_utf8_lossy(&output.stdout);
            bail!("fsx with seed {seed} and\n{}: {}\n{log}\n{text}", run.config, output.status);
        }
    }
    if awaits_migration {
        volume.wait_for_moved_logs()?;
    }
    volume.check()
}

/// PM never keeps anything for long: what is written moves, and is written again.
#[test]
fn everything_migrates_all_the_time() {
    proof(|| {
        let config = configuration(2 << 20, 128 << 10, 1);
        fsx(
            VolumeSpec::new("fsx-migrating").migrating(),
            &Run { config, seeds: 3, operations: 3000 },
        )
    });
}

#[test]
fn small_operations() {
    proof(|| {
        let config = configuration(256 << 10, 64 << 10, 1);
        fsx(tiered("fsx-small"), &Run { config, seeds: 4, operations: 3000 })
    });
}

/// Operations of up to 8 MiB: enough between two fsyncs to make the file asynchronous.
#[test]
fn file_larger_than_pm() {
    proof(|| {
        let config = configuration(48 << 20, 8 << 20, 1);
        fsx(tiered("fsx-large"), &Run { config, seeds: 2, operations: 250 })
    });
}

#[test]
fn durable_small_operations() {
    proof(|| {
        let config = configuration(256 << 10, 64 << 10, 1);
        fsx(tiered("fsx-durable").options("durable"), &Run { config, seeds: 3, operations: 2000 })
    });
}

#[test]
fn durable_file_larger_than_pm() {
    proof(|| {
        let config = configuration(48 << 20, 4 << 20, 4096);
        fsx(
            tiered("fsx-durable-large").options("durable"),
            &Run { config, seeds: 1, operations: 200 },
        )
    });
}
