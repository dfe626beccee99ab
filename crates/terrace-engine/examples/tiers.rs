//! On which tier a file's blocks lie, and how they get to another.
//!
//! `cargo run --package terrace-engine --example tiers`

use std::error::Error;

use terrace_engine::{
    FileKind, FormatOptions, Ino, NewInode, OpenOptions, Volume, WriteOptions, format,
};
use terrace_media::{Pm, memory_disk};

const FILE: NewInode =
    NewInode { kind: FileKind::Regular, mode: 0o644, umask: 0o022, uid: 0, gid: 0, rdev: 0 };
const PM_TIER: u8 = 0;
const DISK_TIER: u8 = 1;

/// Writes a file to PM, moves its first half to the disk, and brings it back.
pub fn main() -> Result<(), Box<dyn Error>> {
    // Devices in the memory of this process serve for a look; they end with it.
    let (pm, disk) = (Pm::anonymous(16 << 20), memory_disk(128 << 20));
    format(&pm, std::slice::from_ref(&disk), &FormatOptions::default())?;
    let volume = Volume::open(pm, vec![disk], OpenOptions::default(), &|_, _, _| {})?;

    let file = volume.create(Ino::ROOT, b"log", &FILE)?.ino;
    volume.write(file, 0, &[1; 64 << 10], WriteOptions::default())?;
    assert_eq!(tiers(&volume, file)?, [("pm".to_owned(), 64 << 10)]);

    let moved = volume.move_range(file, DISK_TIER, 0, 32 << 10)?;
    println!("moved {} bytes", moved.moved_bytes);
    assert_eq!(
        tiers(&volume, file)?,
        [("disk1".to_owned(), 32 << 10), ("pm".to_owned(), 32 << 10)]
    );

    volume.move_file(file, PM_TIER)?;
    assert!(tiers(&volume, file)?.iter().all(|(tier, _)| tier == "pm"));
    volume.close()?;
    Ok(())
}

/// The file's extents: each one's tier, and its length in bytes. Prints them, too.
fn tiers(volume: &Volume, file: Ino) -> Result<Vec<(String, u64)>, Box<dyn Error>> {
    let map = volume.file_map(file)?;
    println!("{} bytes:", map.size_bytes);
    for extent in &map.extents {
        let (begin, end) = (extent.offset_bytes, extent.offset_bytes + extent.len_bytes);
        println!("  {begin}..{end} on {} at {}", extent.tier, extent.device_offset_bytes);
    }
    Ok(map.extents.into_iter().map(|extent| (extent.tier, extent.len_bytes)).collect())
}
