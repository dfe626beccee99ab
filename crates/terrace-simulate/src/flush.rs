//! Dirty pages and their way to the disk.
//!
//! Writeback in the background waits for an idle disk, so that its pages count as dirty while it is
//! behind; whoever needs pages or durability waits in the queue.

use std::time::Duration;

use terrace_policy::{DirtyState, is_crowded, writeback_due};

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
    if is_crowded(volume.blocks_at(Place::Dirty), volume.config.cache_pages()) {
        write_back_if_due(volume, ino);
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
        let Some(&(_, oldest)) = volume.dirty_files.first() else { break };
        flush_and_wait(volume, oldest);
        stalls = 1;
    }
    volume.outcome.stalls += stalls;
    volume.outcome.stalled_ns += volume.outcome.disk_wait_ns - begun_ns;
    let room = volume.room_for_clean().saturating_sub(need);
    volume.clean.shrink(room);
}

/// A program waits until all of a file is durable, with what is on its way to the disk already.
pub(crate) fn flush_and_wait(volume: &mut Volume, ino: u64) {
    let Some(file) = volume.files.get(&ino) else { return };
    let (dirty, under_way_ns) = (file.blocks_at(Place::Dirty), file.flushed_ns);
    // One flush of a file at a time.
    volume.wait(under_way_ns);
    if dirty > 0 {
        let done_ns = flush(volume, ino);
        volume.work(Work::Flush, dirty * BLOCK_BYTES);
        volume.wait(done_ns);
    }
}

/// Takes a file's dirty pages to the disk, in one run; when they are there.
fn flush(volume: &mut Volume, ino: u64) -> i64 {
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
    let bytes = blocks_of(&pieces) * BLOCK_BYTES;
    volume.outcome.written_back_bytes += bytes;
    let done_ns = volume.clock.write(bytes);
    volume.edit(ino, |file| file.flushed_ns = done_ns);
    done_ns
}

fn blocks_of(pieces: &[(u64, u64)]) -> u64 {
    pieces.iter().map(|&(_, blocks)| blocks).sum()
}

/// Looks at the file that has been dirty for the longest time.
pub(crate) fn write_back_oldest(volume: &mut Volume) {
    if let Some(&(_, oldest)) = volume.dirty_files.first() {
        write_back_if_due(volume, oldest);
    }
}

/// Looks at all files that are dirty.
pub(crate) fn write_back_due(volume: &mut Volume) {
    let files: Vec<u64> = volume.dirty_files.iter().map(|&(_, ino)| ino).collect();
    files.into_iter().for_each(|ino| write_back_if_due(volume, ino));
}

fn write_back_if_due(volume: &mut Volume, ino: u64) {
    let Some(file) = volume.files.get(&ino).filter(|_| volume.clock.is_idle()) else { return };
    let age_ns = volume.clock.now_ns().saturating_sub(file.dirty_since_ns).max(0);
    let state = DirtyState {
        age: Duration::from_nanos(age_ns as u64),
        urgent: file.is_rewritten,
        pages: file.blocks_at(Place::Dirty),
    };
    let age_limit = Duration::from_secs(volume.config.writeback_seconds.into());
    if writeback_due(state, age_limit, volume.blocks_at(Place::Dirty), volume.config.cache_pages())
        .is_some()
    {
        flush(volume, ino);
    }
}
