//! Where the data of a file lies, in a table.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde::Deserialize;
use terrace_engine::{ArchiveInfo, FileOpinion, counted};

use super::{Table, line};
use crate::size::format_size;

/// What is shown of a [`terrace_engine::FileMap`].
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct FileMap {
    ino: u64,
    size_bytes: u64,
    extents: Vec<Extent>,
    dirty_bytes: u64,
    dirty: Vec<Dirty>,
    log_pages: u64,
    log_archive: Option<ArchiveInfo>,
    opinion: Option<FileOpinion>,
    pin: Option<String>,
}

/// What is shown of a [`terrace_engine::DirtyRange`].
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct Dirty {
    offset_bytes: u64,
    len_bytes: u64,
}

/// What is shown of a [`terrace_engine::ExtentInfo`].
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Extent {
    offset_bytes: u64,
    len_bytes: u64,
    tier: String,
    device: String,
    device_offset_bytes: u64,
    unwritten: bool,
    cached_bytes: u64,
    write_counter: u8,
}

/// Where a file is: its share of each tier, then extents and holes in file order.
pub fn file_map(path: &Path, map: &FileMap) -> String {
    let mut text =
        format!("{}: inode {}, {}", path.display(), map.ino, format_size(map.size_bytes));
    let mut shares = BTreeMap::<&str, u64>::new();
    for extent in &map.extents {
        *shares.entry(&extent.tier).or_default() += extent.len_bytes;
    }
    for (tier, bytes) in shares {
        let _ = write!(text, ", {} in {tier}", format_size(bytes));
    }
    if map.dirty_bytes > 0 {
        let _ = write!(text, ", {} dirty in memory", format_size(map.dirty_bytes));
    }
    if map.log_pages > 0 {
        let _ = write!(text, ", {}", counted(map.log_pages, "log page", "log pages"));
    }
    if let Some(archive) = &map.log_archive {
        let _ = write!(text, ", {} of its log in {}", format_size(archive.len_bytes), archive.tier);
    }
    if let Some(tier) = &map.pin {
        let _ = write!(text, ", pinned to {tier}");
    }
    text = line(&text);
    if let Some(opinion) = &map.opinion {
        text += &in_words(opinion);
    }
    if !map.extents.is_empty() || !map.dirty.is_empty() {
        text += &extents(map);
    }
    text
}

/// What the policy makes of a file.
fn in_words(opinion: &FileOpinion) -> String {
    let age = |age_seconds: Option<u64>| match age_seconds {
        None => "never".to_owned(),
        Some(seconds @ 0..120) => format!("{seconds} s ago"),
        Some(seconds @ 120..7200) => format!("{} min ago", seconds / 60),
        Some(seconds) => format!("{} h ago", seconds / 3600),
    };
    let synchronous = if opinion.synchronous { "synchronous" } else { "asynchronous" };
    let traits = [
        (opinion.read_dominated, ", read-dominated"),
        (opinion.bulk, ", bulk"),
        (opinion.brief, ", brief"),
        (opinion.cold, ", cold"),
    ];
    let traits: String = traits.iter().filter(|(is_so, _)| *is_so).map(|(_, what)| *what).collect();
    let (written, read) = (age(opinion.mean_write_age_seconds), age(opinion.mean_read_age_seconds));
    format!("{synchronous}{traits}; on average written {written}, read {read}\n")
}

/// Extents, what waits in memory, and the holes between them. Dirty data over an extent is newer
/// than the extent.
fn extents(map: &FileMap) -> String {
    let on_devices = map.extents.iter().map(|extent| {
        let unwritten = if extent.unwritten { "unwritten" } else { "" };
        let (at, cached) =
            (extent.device_offset_bytes.to_string(), extent.cached_bytes.to_string());
        let rewritten = extent.write_counter.to_string();
        let cells = [
            extent.tier.clone(),
            at,
            cached,
            rewritten,
            unwritten.to_owned(),
            extent.device.clone(),
        ];
        (extent.offset_bytes, extent.len_bytes, cells)
    });
    let alone = |name: &str| {
        let mut cells: [String; 6] = Default::default();
        name.clone_into(&mut cells[0]);
        cells
    };
    let dirty = map
        .dirty
        .iter()
        .map(|range| (range.offset_bytes, range.len_bytes, alone("page cache (dirty)")));
    let mut pieces: Vec<(u64, u64, [String; 6])> = on_devices.chain(dirty).collect();
    pieces.sort_by_key(|&(offset_bytes, ..)| offset_bytes);
    let mut table = Table::new(&[
        ">OFFSET",
        ">LENGTH",
        "TIER",
        ">DEVICE OFFSET",
        ">CACHED",
        ">REWRITTEN",
        "",
        "DEVICE",
    ]);
    let mut row = |offset_bytes: u64, len_bytes: u64, cells: [String; 6]| {
        table.row([offset_bytes.to_string(), len_bytes.to_string()].into_iter().chain(cells));
    };
    let mut end_bytes = 0;
    for (offset_bytes, len_bytes, cells) in pieces {
        if end_bytes < offset_bytes {
            row(end_bytes, offset_bytes - end_bytes, alone("hole"));
        }
        row(offset_bytes, len_bytes, cells);
        end_bytes = end_bytes.max(offset_bytes.saturating_add(len_bytes));
    }
    if end_bytes < map.size_bytes {
        row(end_bytes, map.size_bytes - end_bytes, alone("hole"));
    }
    table.to_text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::through_json;
    use terrace_engine::ExtentInfo;

    #[test]
    fn a_file_map_shows_extents_what_waits_in_memory_and_holes() {
        let extent = |offset_bytes, len_bytes, tier: &str, unwritten| ExtentInfo {
            offset_bytes,
            len_bytes,
            tier: tier.to_owned(),
            device: format!("/dev/{tier}"),
            device_offset_bytes: 1 << 20,
            unwritten,
            cached_bytes: 0,
            write_counter: 3,
        };
        let map = terrace_engine::FileMap {
            ino: 7,
            size_bytes: 65536,
            extents: vec![extent(4096, 8192, "pm", false), extent(12288, 4096, "disk1", true)],
            dirty_bytes: 12288,
            dirty: [(8192, 4096), (20480, 8192)]
                .map(|(offset_bytes, len_bytes)| terrace_engine::DirtyRange {
                    offset_bytes,
                    len_bytes,
                })
                .to_vec(),
            log_pages: 2,
            log_archive: Some(ArchiveInfo {
                tier: "disk2".to_owned(),
                device: "/dev/disk2".to_owned(),
                device_offset_bytes: 8192,
                len_bytes: 4096,
            }),
            opinion: FileOpinion {
                read_dominated: true,
                bulk: true,
                mean_write_age_seconds: Some(500),
                mean_read_age_seconds: Some(20_000),
                ..FileOpinion::default()
            },
            pin: Some("disk1".to_owned()),
            more: None,
        };
        let expected = "\
/mnt/f: inode 7, 64 KiB, 4 KiB in disk1, 8 KiB in pm, 12 KiB dirty in memory, 2 log pages, \
4 KiB of its log in disk2, pinned to disk1
asynchronous, read-dominated, bulk; on average written 8 min ago, read 5 h ago
OFFSET  LENGTH  TIER                DEVICE OFFSET  CACHED  REWRITTEN             DEVICE
     0    4096  hole
  4096    8192  pm                        1048576       0          3             /dev/pm
  8192    4096  page cache (dirty)
 12288    4096  disk1                     1048576       0          3  unwritten  /dev/disk1
 16384    4096  hole
 20480    8192  page cache (dirty)
 28672   36864  hole
";
        assert_eq!(file_map(Path::new("/mnt/f"), &through_json(&map)), expected);
    }

    #[test]
    fn an_empty_file_has_no_table() {
        let map = FileMap { ino: 7, ..FileMap::default() };
        assert_eq!(file_map(Path::new("f"), &map), "f: inode 7, 0 B\n");
    }
}
