//! RocksDB's own benchmark and checkers, with more data than PM holds.

use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;
use terrace_proof::{VolumeSpec, proof, run, tool};

/// Fills a database, reads, overwrites and compacts it with checksums verified, then has RocksDB
/// check every table file, before and after a remount.
fn db_bench(name: &str, mount_options: &str, flags: &[&str]) -> Result<()> {
    let bench = tool("db_bench")?;
    let mut volume = VolumeSpec::new(name).pm_mib(48).options(mount_options).mount()?;
    let database = volume.join("db");
    let workload = |benchmarks: &str, count: u64, extra: &[&str]| {
        let mut command = Command::new(&bench);
        command
            .arg(format!("--db={}", database.display()))
            .arg(format!("--wal_dir={}", database.display()))
            .arg(format!("--benchmarks={benchmarks}"))
            .arg(format!("--num={count}"))
            .args(["--value_size=1024", "--key_size=16", "--threads=2", "--seed=11"])
            .args(["--verify_checksum=1", "--compression_type=none", "--write_buffer_size=8388608"])
            .args(["--target_file_size_base=8388608", "--open_files=64", "--cache_size=4194304"])
            .args(extra)
            .args(flags);
        run(&mut command)
    };
    workload("fillsync", 4000, &[])?;
    let mixed = "fillrandom,overwrite,readrandom,readseq,seekrandom,readwhilewriting,compact";
    workload(mixed, 30_000, &["--reads=8000"])?;
    check_tables(&database)?;
    volume.check()?;
    check_tables(&database)?;
    let report = workload("readseq,verifychecksum", 8_000, &["--use_existing_db=1"])?;
    ensure!(report.contains("readseq"), "no result: {report}");
    Ok(())
}

fn check_tables(database: &Path) -> Result<()> {
    let consistent = run(Command::new(tool("ldb")?)
        .arg(format!("--db={}", database.display()))
        .arg("checkconsistency"))?;
    ensure!(consistent.trim() == "OK", "ldb checkconsistency: {consistent}");
    let tables: Vec<_> = std::fs::read_dir(database)?
        .map(|entry| entry.map(|e| e.path()))
        .filter(|path| path.as_ref().map_or(true, |p| p.extension().is_some_and(|e| e == "sst")))
        .collect::<std::io::Result<_>>()
        .context("listing the tables")?;
    ensure!(!tables.is_empty(), "the database has no table files");
    for table in tables {
        let verdict = run(Command::new(tool("sst_dump")?)
            .arg(format!("--file={}", table.display()))
            .args(["--command=verify", "--verify_checksum"]))?;
        ensure!(!verdict.to_lowercase().contains("corrupt"), "{}: {verdict}", table.display());
    }
    Ok(())
}

#[test]
fn buffered() {
    proof(|| db_bench("rocksdb", "", &[]));
}

#[test]
fn memory_mapped() {
    proof(|| db_bench("rocksdb-mmap", "", &["--mmap_read=1", "--mmap_write=1"]));
}

#[test]
fn direct_io() {
    proof(|| {
        let flags = ["--use_direct_reads=1", "--use_direct_io_for_flush_and_compaction=1"];
        db_bench("rocksdb-direct", "", &flags)
    });
}

#[test]
fn durable_mount() {
    proof(|| db_bench("rocksdb-durable", "durable", &[]));
}
