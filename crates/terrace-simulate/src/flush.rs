//! Dirty pages and their way to the disk.
//!
//! Writeback in the background waits for an idle disk, so that its pages count as dirty while it is
//! behind; whoever needs pages or durability waits in the queue.

use std::cmp::Reverse;
use std::time::Duration;

use terrace_policy::{DirtyState, Param, flush_groups, is_crowded, writeback_due};

use crate::config::BLOCK_BYTES;
use crate::cost::Work;
use crate::file::Place;
use crate::volume::Volume;

/// A file has new dirty pages.
pub(crate) fn note_dirty(volume: &mut Volume, ino: u64) {
    let now_ns = volume.clock.now_ns();
    let file = volume.files.entry(ino).or_default();
    if !volume.dirty_files.contains(&(file.dirty_since_ns, ino)) {
        file.dirty_since_ns = now_ns;
        volume.dirty_files.insert((now_ns, ino));
    }
    // A worker that is woken looks at all of them.
    if is_crowded(volume.blocks_at(Place::Dirty), volume.config.cache_pages())
        && is_due(volume, ino)
    {
        write_back_due(volume);
    }
}

/// Makes room for a range of dirty pages. A program waits for what must be written first.
pub(crate) fn take_pages(volume: &mut Volume, ino: u64, from: u64, to: u64) {
    let dirty_already = |file: &crate::file::File| {
        file.overlaps(from, to)
            .filter(|(_, e)| e.place == Place::Dirty)
            .map(|(_, e)| u64::from(e.blocks))
            .sum()
    };
    let need = to - from - volume.files.get(&ino).map_or(0, dirty_already);
    let budget = volume.config.cache_pages();
    let begun_ns = volume.outcome.disk_wait_ns;
    let mut stalls = 0;
    while volume.blocks_at(Place::Dirty) + need > budget {
        if !flush_some_and_wait(volume) {
            break;
        }
        stalls = 1;
    }
    volume.outcome.stalls += stalls;
    volume.outcome.stalled_ns += volume.outcome.disk_wait_ns - begun_ns;
    let room = volume.room_for_clean().saturating_sub(need);
    volume.clean.shrink(room);
}

/// A program waits until the files with the most dirty pages are on the disk, as many as one flush
/// is for. False if nothing is dirty.
fn flush_some_and_wait(volume: &mut Volume) -> bool {
    let mut files: Vec<u64> = volume.dirty_files.iter().map(|&(_, ino)| ino).collect();
    files.sort_by_cached_key(|&ino| Reverse(dirty_pages(volume, ino)));
    match groups(volume, &files).first() {
        Some(group) => flush_and_wait_for(volume, group),
        None => return false,
    }
    true
}

/// A program waits until all of a file is durable, with what is on its way to the disk already.
pub(crate) fn flush_and_wait(volume: &mut Volume, ino: u64) {
    let Some(file) = volume.files.get(&ino) else { return };
    let (dirty, under_way_ns) = (file.blocks_at(Place::Dirty), file.flushed_ns);
    // One flush of a file at a time.
    volume.wait(under_way_ns);
    if dirty > 0 {
        flush_and_wait_for(volume, &[ino]);
    }
}

fn flush_and_wait_for(volume: &mut Volume, files: &[u64]) {
    let (bytes, done_ns) = flush(volume, files);
    volume.work(Work::Flush, bytes);
    volume.wait(done_ns);
}

/// Dirty files, by the flushes that they need.
fn groups(volume: &Volume, files: &[u64]) -> Vec<Vec<u64>> {
    let with_pages = files.iter().map(|&ino| (ino, dirty_pages(volume, ino)));
    flush_groups(with_pages, volume.config.params.get(Param::FlushGroup))
}

fn dirty_pages(volume: &Volume, ino: u64) -> u64 {
    volume.files[&ino].blocks_at(Place::Dirty)
}

/// Takes the dirty pages of files to the disk, in one run; how many bytes, and when they are there.
fn flush(volume: &mut Volume, files: &[u64]) -> (u64, i64) {
    let bytes = files.iter().map(|&ino| clean(volume, ino)).sum::<u64>() * BLOCK_BYTES;
    volume.outcome.written_back_bytes += bytes;
    let done_ns = volume.clock.write(bytes);
    files.iter().for_each(|&ino| volume.edit(ino, |file| file.flushed_ns = done_ns));
    (bytes, done_ns)
}

/// A file's dirty pages turn clean; how many they are.
fn clean(volume: &mut Volume, ino: u64) -> u64 {
    let pieces = volume.edit(ino, |file| {
        file.committed_bytes = file.size_bytes;
        file.is_rewritten = false;
        file.relocate(0, u64::MAX, Place::Disk, |_, extent| extent.place == Place::Dirty)
    });
    volume.forget_if_clean(ino);
    let room = volume.room_for_clean();
    for &(start, blocks) in &pieces {
        (start..start + blocks).for_each(|block| volume.clean.insert((ino, block), room));
    }
    blocks_of(&pieces)
}

fn blocks_of(pieces: &[(u64, u64)]) -> u64 {
    pieces.iter().map(|&(_, blocks)| blocks).sum()
}

/// Looks at all files that are dirty, if the one that has been dirty for the longest time is due.
pub(crate) fn write_back_oldest(volume: &mut Volume) {
    if let Some(&(_, oldest)) = volume.dirty_files.first()
        && is_due(volume, oldest)
    {
        write_back_due(volume);
    }
}

/// Writes back what is due, those files first that have waited longest, until the disk has
/// something to do.
pub(crate) fn write_back_due(volume: &mut Volume) {
    if !volume.clock.is_idle() {
        return;
    }
    let dirty = volume.dirty_files.iter().map(|&(_, ino)| ino);
    let files: Vec<u64> = dirty.filter(|&ino| is_due(volume, ino)).collect();
    for group in groups(volume, &files) {
        flush(volume, &group);
        if !volume.clock.is_idle() {
            return;
        }
    }
}

fn is_due(volume: &Volume, ino: u64) -> bool {
    let Some(file) = volume.files.get(&ino) else { return false };
    let age_ns = volume.clock.now_ns().saturating_sub(file.dirty_since_ns).max(0);
    let state = DirtyState {
        age: Duration::from_nanos(age_ns as u64),
        urgent: file.is_rewritten,
        pages: file.blocks_at(Place::Dirty),
    };
    let age_limit = Duration::from_secs(volume.config.writeback_seconds.into());
    let (dirty, budget) = (volume.blocks_at(Place::Dirty), volume.config.cache_pages());
    writeback_due(state, age_limit, dirty, budget).is_some()
}
