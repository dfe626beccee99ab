//! Reads: from where, and what it costs.

use terrace_policy::{Param, fetch_blocks, reads_past_cache};

use crate::config::BLOCK_BYTES;
use crate::cost::Work;
use crate::file::Place;
use crate::volume::Volume;

/// A program reads a range, all of it before the end of the file.
pub(crate) fn read(volume: &mut Volume, ino: u64, offset: u64, end: u64) {
    if offset == end {
        volume.work(Work::ReadNothing, 0);
        return;
    }
    let (from, to) = (offset / BLOCK_BYTES, end.div_ceil(BLOCK_BYTES));
    volume.find(ino, from, to);
    let now_ns = volume.clock.now_ns();
    let (pieces, sequential) = volume.edit(ino, |file| {
        let sequential = file.read_end == offset;
        file.read_end = end;
        file.size_bytes = file.size_bytes.max(end);
        if file.blocks_at(Place::Dirty) == 0 {
            file.committed_bytes = file.size_bytes;
        }
        file.note_read(from, to, now_ns);
        (file.pieces(from, to), sequential)
    });
    let (mut pm_bytes, mut cache_bytes, mut disk_bytes) = (0, 0, 0);
    for (start, blocks, extent) in pieces {
        // The first and the last block may be read in part.
        let bytes = |from: u64, blocks: u64| {
            end.min((from + blocks) * BLOCK_BYTES) - offset.max(from * BLOCK_BYTES)
        };
        match extent.map(|extent| extent.place) {
            None => {}
            Some(Place::Pm) => pm_bytes += bytes(start, blocks),
            Some(Place::Dirty) => cache_bytes += bytes(start, blocks),
            Some(Place::Disk) => {
                for (is_cached, at, run) in cached_runs(volume, ino, start, blocks) {
                    if is_cached {
                        cache_bytes += bytes(at, run);
                    } else {
                        disk_bytes += bytes(at, run);
                        fetch(volume, ino, at, run, sequential);
                    }
                }
            }
        }
    }
    count_read(volume, pm_bytes, cache_bytes, disk_bytes);
}

fn count_read(volume: &mut Volume, pm_bytes: u64, cache_bytes: u64, disk_bytes: u64) {
    for (work, bytes) in [(Work::ReadPm, pm_bytes), (Work::ReadCache, cache_bytes)] {
        if bytes > 0 {
            volume.work(work, bytes);
        }
    }
    if pm_bytes + cache_bytes + disk_bytes > 0 {
        volume.would_cost(Work::ReadPm, pm_bytes + cache_bytes + disk_bytes);
    } else {
        volume.work(Work::ReadNothing, 0);
    }
    volume.outcome.read_pm_bytes += pm_bytes;
    volume.outcome.read_cache_bytes += cache_bytes;
    volume.outcome.read_disk_bytes += disk_bytes;
    volume.traffic.pm_read += pm_bytes;
    volume.traffic.dram_read += cache_bytes + disk_bytes;
}

/// A range of the disk as runs of blocks that are in the page cache, which they are used in,
/// and that are not.
fn cached_runs(volume: &mut Volume, ino: u64, start: u64, blocks: u64) -> Vec<(bool, u64, u64)> {
    let mut runs: Vec<(bool, u64, u64)> = Vec::new();
    for block in start..start + blocks {
        let is_cached = volume.clean.touch((ino, block));
        match runs.last_mut().filter(|run| run.0 == is_cached) {
            Some(run) => run.2 += 1,
            None => runs.push((is_cached, block, 1)),
        }
    }
    runs
}

/// A program waits for blocks of the disk. Short runs come with some read-ahead and stay in the
/// page cache.
fn fetch(volume: &mut Volume, ino: u64, start: u64, blocks: u64, sequential: bool) {
    let mut fetched = blocks;
    if !reads_past_cache(blocks) {
        let most = volume.config.params.get(Param::Fetch) / BLOCK_BYTES;
        let wanted = fetch_blocks(blocks, sequential, most);
        // Up to where the disk has the file without a gap.
        let on_disk = volume.files[&ino].overlaps(start, start + wanted);
        let extends = |end: u64, (at, extent): (u64, crate::file::Extent)| {
            if at == end && extent.place == Place::Disk {
                at + u64::from(extent.blocks)
            } else {
                end
            }
        };
        fetched = on_disk.fold(start, extends) - start;
        let room = volume.room_for_clean();
        (start..start + fetched).for_each(|block| volume.clean.insert((ino, block), room));
    }
    volume.work(Work::ReadDisk, fetched * BLOCK_BYTES);
    let done_ns = volume.clock.read(fetched * BLOCK_BYTES);
    volume.wait(done_ns);
}

/// A write that covers its first or last block in part needs the rest of it, which may have to
/// come from the disk.
pub(crate) fn read_edges(volume: &mut Volume, ino: u64, offset: u64, end: u64) {
    let Some(file) = volume.files.get(&ino) else { return };
    let (size_bytes, first, last) =
        (file.size_bytes, offset / BLOCK_BYTES, (end - 1) / BLOCK_BYTES);
    let first_is_partial = !offset.is_multiple_of(BLOCK_BYTES);
    let last_is_partial = !end.is_multiple_of(BLOCK_BYTES) && end < size_bytes;
    let edges = [
        (first, first_is_partial),
        (last, last_is_partial && (first != last || !first_is_partial)),
    ];
    for (block, _) in edges.into_iter().filter(|edge| edge.1) {
        let on_disk =
            volume.files[&ino].overlaps(block, block + 1).any(|(_, e)| e.place == Place::Disk);
        if on_disk && !volume.clean.contains((ino, block)) {
            fetch(volume, ino, block, 1, false);
        }
    }
}
