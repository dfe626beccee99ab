//! Writes: the decision tree, and what it costs.

use std::ops::Range;

use terrace_policy::{Param, Stroke, Target, is_large, next_counter, prefers_disk};

use crate::config::BLOCK_BYTES;
use crate::cost::Work;
use crate::file::{Extent, Place, area_on_media};
use crate::flush::{flush_and_wait, note_dirty, take_pages};
use crate::hindsight::Written;
use crate::migrate::Mover;
use crate::read::read_edges;
use crate::volume::Volume;

/// A longer write is placed in pieces of this size, as in the engine.
const PIECE_BYTES_MAX: u64 = 4 << 20;

/// Why a write goes where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placed {
    Pm,
    LargeAsync,
    Bulk,
    PmFull,
    JoinsDirty,
}

/// A program writes a range; `durable`: it waits until that is durable.
pub(crate) fn write(
    volume: &mut Volume,
    mover: &mut Mover,
    ino: u64,
    offset: u64,
    end: u64,
    durable: bool,
) {
    let piece_bytes = PIECE_BYTES_MAX.min((volume.config.cache_pages() / 4).max(1) * BLOCK_BYTES);
    let mut at = offset;
    while at < end {
        let piece_end = end.min(at.saturating_add(piece_bytes));
        write_piece(volume, mover, ino, at, piece_end, durable);
        at = piece_end;
    }
    volume.would_cost(Work::WritePm, end - offset);
    if durable {
        flush_and_wait(volume, ino);
    }
}

fn write_piece(
    volume: &mut Volume,
    mover: &mut Mover,
    ino: u64,
    offset: u64,
    end: u64,
    durable: bool,
) {
    let (from, to) = (offset / BLOCK_BYTES, end.div_ceil(BLOCK_BYTES));
    read_edges(volume, ino, offset, end);
    volume.meet(ino);
    let under_pressure = volume.pm_is_left(to - from);
    let (placed, counter) = decide(volume, ino, from, to, durable);
    let sync_blocks = volume.config.params.get(Param::SyncBlocks);
    let judged = volume.edit(ino, |file| match durable {
        true => file.synchronicity.wrote_synchronously(sync_blocks),
        false => file.synchronicity.wrote(to - from, sync_blocks),
    });
    volume.judge(judged);
    let len = end - offset;
    let await_bytes = volume.config.params.get(Param::AwaitBytes);
    let shown =
        volume.edit(ino, |file| file.life.wrote(Stroke { offset, len, durable }, await_bytes));
    volume.showed(ino, shown);
    let (work, counted) = match placed {
        Placed::Pm => (Work::WritePm, &mut volume.outcome.written_pm_bytes),
        Placed::LargeAsync => (Work::WriteCache, &mut volume.outcome.written_large_async_bytes),
        Placed::Bulk => (Work::WriteCache, &mut volume.outcome.written_bulk_bytes),
        Placed::PmFull => (Work::WriteCache, &mut volume.outcome.written_pm_full_bytes),
        Placed::JoinsDirty => (Work::WriteCache, &mut volume.outcome.written_joins_dirty_bytes),
    };
    *counted += len;
    volume.work(work, len);
    let place = if placed == Placed::Pm { Place::Pm } else { Place::Dirty };
    let how = Written { in_pm: place == Place::Pm, under_pressure, durable };
    volume.hindsight.wrote(ino, offset..end, how);
    if place == Place::Dirty {
        take_pages(volume, ino, from, to);
    }
    replace(volume, ino, from..to, end, place, counter);
    match place {
        Place::Pm => {
            volume.traffic.pm_written += len;
            mover.wake(volume);
        }
        _ => note_dirty(volume, ino),
    }
    if placed == Placed::PmFull {
        mover.hurry(volume);
    }
}

/// Where a write goes, and the counter of its entry.
fn decide(volume: &mut Volume, ino: u64, from: u64, to: u64, durable: bool) -> (Placed, u16) {
    volume.files.entry(ino).or_default();
    let (file, params) = (&volume.files[&ino], &volume.config.params);
    let counter = next_counter(to - from, file.predecessors(from, to), params);
    let synchronous = durable || file.synchronicity.is_synchronous();
    let joins_dirty = file.size_bytes > file.committed_bytes
        || (file.blocks_at(Place::Dirty) > 0
            && file.overlaps(from, to).any(|(_, e)| e.place == Place::Dirty));
    let placed = if joins_dirty {
        Placed::JoinsDirty
    } else if prefers_disk(synchronous, is_large(counter, params)) {
        Placed::LargeAsync
    } else if !durable
        && volume.pm_is_left(to - from)
        && file.life.is_bulk(params.get(Param::AwaitBytes))
    {
        Placed::Bulk
    } else {
        place_in_pm(volume, to - from)
    };
    (placed, counter)
}

/// PM takes a write if it has room, after it has reclaimed removed files at the latest.
fn place_in_pm(volume: &mut Volume, blocks: u64) -> Placed {
    loop {
        match volume.config.placement().place_write(volume.pm_space(), blocks, false) {
            Target::Pm => return Placed::Pm,
            Target::PageCache if volume.reclaim() => {}
            Target::PageCache => return Placed::PmFull,
        }
    }
}

/// The new version of a range takes the place of the old one.
fn replace(
    volume: &mut Volume,
    ino: u64,
    blocks: Range<u64>,
    end: u64,
    place: Place,
    counter: u16,
) {
    let now_ns = volume.clock.now_ns();
    let Range { start: from, end: to } = blocks;
    volume.drop_clean(ino, from, to);
    let blocks = to - from;
    volume.edit(ino, |file| {
        let replaced = file.cut(from, to);
        let len = blocks as u32;
        let area_blocks = if place == Place::Pm { area_on_media(len) } else { len };
        file.put(from, Extent { blocks: len, area_blocks, mtime_ns: now_ns, counter, place });
        file.mtimes.replace(replaced, now_ns);
        file.mtimes.add(blocks - replaced, now_ns);
        file.last_write_ns = now_ns;
        file.read_in_a_row = 0;
        file.size_bytes = file.size_bytes.max(end);
        if place == Place::Pm {
            file.note_entry();
            file.committed_bytes = file.size_bytes;
        }
    });
    if place == Place::Pm {
        volume.cold.note(ino, volume.rank_ns(&volume.files[&ino]));
    }
}
