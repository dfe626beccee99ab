//! What inodes take in DRAM: memory that stays allocated when they are used for the first time
//! after a mount.

use anyhow::{Result, ensure};
use terrace_engine::{Fallocate, FileKind, Ino, NewInode, OpenOptions, Volume};

use crate::bed::{Bed, DiskKind};
use crate::engine::{DURABLE, FILE, write_all};
use crate::heap::kept_bytes;
use crate::interrupt;
use crate::options::Options;
use crate::progress::Progress;
use crate::report::{Row, Unit};
use crate::stage::{Room, memory_directory};
use crate::workload::{BLOCK_BYTES, FILLING, PIECE_BYTES};

const NAME: &str = "DRAM: a name in a directory";
const INODE: &str = "DRAM: a resident inode (empty file)";
const ENTRY: &str = "DRAM: a write entry";
const EXTENT: &str = "DRAM: a file of one contiguous extent, 16 MiB vs 4 KiB";

/// All rows.
pub const ROWS: &[&str] = &[NAME, INODE, ENTRY, EXTENT];

const EXTENT_FILES: u64 = 8;
const EXTENT_BYTES: u64 = 16 << 20;

fn files(options: &Options) -> u64 {
    options.many() / 10
}

fn pm_bytes(options: &Options) -> u64 {
    // A record, a directory entry and a slot for each file and each write entry; the extents;
    // blocks of all entries.
    let of_files = files(options) * (512 + 128 + BLOCK_BYTES as u64);
    of_files.next_multiple_of(BLOCK_BYTES as u64)
        + EXTENT_FILES * (EXTENT_BYTES + (1 << 20))
        + (64 << 20)
}

/// What it needs.
pub fn room(options: &Options) -> Room {
    Room { shm: pm_bytes(options), ..Room::default() }
}

/// Measures them all on one volume.
///
/// # Errors
/// If the system or the engine refuses.
pub fn run(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    let memory = memory_directory()?;
    let mut bed = Bed::new(
        memory.path(),
        "dram",
        pm_bytes(options),
        &DiskKind::None,
        OpenOptions::default(),
    )?;
    progress.step("making files");
    let files = files(options);
    populate(bed.volume(), files)?;
    bed.close()?;
    bed.reopen()?;
    progress.step("measuring");
    let volume = bed.volume();
    let (names_bytes, directory) = kept_bytes(|| -> Result<Ino> {
        let directory = named(volume, "files")?;
        let mut seen = 0;
        let visit = &mut |_: terrace_engine::DirEntry<'_>| {
            seen += 1;
            true
        };
        volume.readdir(directory, 0, visit)?;
        ensure!(seen == files + 2, "a directory of {files} files lists {seen} names");
        Ok(directory)
    })?;
    let (inodes_bytes, ()) = kept_bytes(|| -> Result<()> {
        (0..files).try_for_each(|file| {
            Ok(volume.lookup(directory, file.to_string().as_bytes()).map(drop)?)
        })
    })?;
    let entries_bytes = use_bytes(volume, "entries", 1)?;
    let small_bytes = use_bytes(volume, "small", EXTENT_FILES)?;
    let large_bytes = use_bytes(volume, "large", EXTENT_FILES)?;
    bed.close()?;

    let each = |bytes: i64, count: u64| bytes as f64 / count as f64;
    let (small_each, large_each) =
        (each(small_bytes, EXTENT_FILES), each(large_bytes, EXTENT_FILES));
    Ok(vec![
        Row::figure(NAME, Unit::Bytes, each(names_bytes, files)),
        Row::figure(INODE, Unit::Bytes, each(inodes_bytes, files)),
        Row::figure(ENTRY, Unit::Bytes, each(entries_bytes, files)),
        Row::lower_is_better(EXTENT, Unit::Bytes, small_each, large_each, Some(0.5)),
    ])
}

fn populate(volume: &Volume, files: u64) -> Result<()> {
    let directory_of = NewInode { kind: FileKind::Directory, mode: 0o755, ..FILE };
    let directory = volume.create(Ino::ROOT, b"files", &directory_of)?.ino;
    for file in 0..files {
        interrupt::check()?;
        let ino = volume.create(directory, file.to_string().as_bytes(), &FILE)?.ino;
        volume.forget(ino, 1);
    }
    let entries = volume.create(Ino::ROOT, b"entries 0", &FILE)?.ino;
    for entry in 0..files {
        interrupt::check()?;
        let offset = 2 * entry * BLOCK_BYTES as u64;
        volume.fallocate(entries, Fallocate::Allocate, offset, BLOCK_BYTES as u64)?;
    }
    for file in 0..EXTENT_FILES {
        let small = volume.create(Ino::ROOT, format!("small {file}").as_bytes(), &FILE)?.ino;
        write_all(volume, small, 0, &FILLING[..BLOCK_BYTES], DURABLE)?;
        let large = volume.create(Ino::ROOT, format!("large {file}").as_bytes(), &FILE)?.ino;
        for offset in (0..EXTENT_BYTES).step_by(PIECE_BYTES) {
            write_all(volume, large, offset, &FILLING, DURABLE)?;
        }
    }
    Ok(())
}

fn named(volume: &Volume, name: &str) -> Result<Ino> {
    Ok(volume.lookup(Ino::ROOT, name.as_bytes())?.ino)
}

/// What the first use of files keeps allocated, inode and all.
fn use_bytes(volume: &Volume, name: &str, files: u64) -> Result<i64> {
    let mut byte = [0];
    let (kept, ()) = kept_bytes(|| {
        (0..files).try_for_each(|file| {
            let len_bytes = volume.read(named(volume, &format!("{name} {file}"))?, 0, &mut byte)?;
            ensure!(len_bytes == 1, "{name} {file} is empty");
            Ok(())
        })
    })?;
    Ok(kept)
}
