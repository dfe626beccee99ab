//! fio with verification, over files three times as large as PM.

use anyhow::{Result, ensure};
use std::process::Command;
use terrace_proof::{MIB, VolumeSpec, proof, run, tool};

/// Writes 384 MiB as `job` says, verifies every block, remounts, and verifies once more.
fn fio(name: &str, options: &str, job: &[&str]) -> Result<()> {
    let fio = tool("fio")?;
    let mut volume = VolumeSpec::new(name).pm_mib(128).disk_mib(1024).options(options).mount()?;
    let command = |extra: &[&str], directory: &std::path::Path| {
        let mut command = Command::new(&fio);
        // The directory first: fio resolves the file name when it meets it.
        command
            .args(["--name=proof", &format!("--directory={}", directory.display())])
            .args(["--size=384m", "--randseed=42", "--verify=crc32c"])
            .args(["--verify_fatal=1", "--thread", "--norandommap=0", "--filename=proof.data"])
            .args(["--output-format=terse", "--fallocate=none", "--verify_state_save=0"])
            .args(job)
            .args(extra);
        command
    };
    run(&mut command(&["--do_verify=1"], volume.root()))?;
    ensure!(
        std::fs::metadata(volume.join("proof.data"))?.len() == 384 * MIB,
        "fio wrote elsewhere"
    );
    volume.check()?;
    run(&mut command(&["--verify_only=1"], volume.root()))?;
    Ok(())
}

#[test]
fn random_writes() {
    proof(|| fio("fio-random", "", &["--rw=randwrite", "--bs=16k", "--ioengine=psync"]));
}

#[test]
fn random_writes_with_fsync() {
    proof(|| {
        fio("fio-fsync", "", &["--rw=randwrite", "--bs=64k", "--ioengine=psync", "--fsync=32"])
    });
}

#[test]
fn sequential_stream() {
    proof(|| {
        fio("fio-stream", "", &["--rw=write", "--bs=1m", "--ioengine=psync", "--end_fsync=1"])
    });
}

#[test]
fn memory_mapped() {
    proof(|| fio("fio-mmap", "", &["--rw=randwrite", "--bs=16k", "--ioengine=mmap"]));
}

#[test]
fn direct_io() {
    proof(|| {
        fio(
            "fio-direct",
            "",
            &["--rw=randwrite", "--bs=32k", "--ioengine=libaio", "--iodepth=8", "--direct=1"],
        )
    });
}

#[test]
fn durable_mount() {
    proof(|| fio("fio-durable", "durable", &["--rw=randwrite", "--bs=32k", "--ioengine=psync"]));
}
