//! A volume used as a library: format, create, write, fsync, list, close, open again, read.
//!
//! `cargo run --package terrace-engine --example files`

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use terrace_engine::{
    FileKind, FormatOptions, Ino, NewInode, OpenOptions, Volume, WriteOptions, format,
};
use terrace_media::{DiskOpenOptions, Pm, PmOpenOptions, create_disk_file, open_disk};

const FILE: NewInode =
    NewInode { kind: FileKind::Regular, mode: 0o644, umask: 0o022, uid: 0, gid: 0, rdev: 0 };

/// Writes a file, closes the volume, and finds the file again.
pub fn main() -> Result<(), Box<dyn Error>> {
    // Emulated PM is a file in memory. Real PM is opened by its path, such as /dev/dax0.0.
    let memory = tempfile::tempdir_in("/dev/shm")?;
    let storage = tempfile::tempdir()?;
    let (pm_path, disk_path) = (memory.path().join("pm"), storage.path().join("disk"));
    Pm::create_file(&pm_path, 16 << 20)?;
    create_disk_file(&disk_path, 128 << 20)?;
    {
        let pm = Pm::open(&pm_path, &PmOpenOptions::default())?;
        let disk = open_disk(&disk_path, &DiskOpenOptions::default())?;
        format(&pm, &[disk], &FormatOptions::default())?;
    }

    let volume = open(&pm_path, &disk_path)?;
    let file = volume.create(Ino::ROOT, b"greeting", &FILE)?.ino;
    volume.write(file, 0, b"hello, tiers", WriteOptions::default())?;
    volume.fsync(file, false)?;
    volume.readdir(Ino::ROOT, 0, &mut |entry| {
        println!("{:?} {}", entry.kind, String::from_utf8_lossy(entry.name));
        true
    })?;
    // Each name that an operation returned counts as a use, until it is forgotten.
    volume.forget(file, 1);
    volume.close()?;
    drop(volume);

    let volume = open(&pm_path, &disk_path)?;
    let found = volume.lookup(Ino::ROOT, b"greeting")?;
    let mut bytes = vec![0; usize::try_from(found.size)?];
    volume.read(found.ino, 0, &mut bytes)?;
    assert_eq!(bytes, b"hello, tiers");
    println!("read again: {}", String::from_utf8_lossy(&bytes));
    volume.close()?;
    Ok(())
}

fn open(pm: &Path, disk: &Path) -> Result<Arc<Volume>, Box<dyn Error>> {
    let pm = Pm::open(pm, &PmOpenOptions::default())?;
    let disk = open_disk(disk, &DiskOpenOptions::default())?;
    // Opening recovers the volume if it was not closed. That may take long, and reports progress.
    let progress = |what: &str, done: u64, of: u64| println!("{what}: {done} of {of}");
    Ok(Volume::open(pm, vec![disk], OpenOptions::default(), &progress)?)
}
