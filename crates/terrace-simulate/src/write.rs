//! Writes: the decision tree, and what it costs.

use terrace_policy::{Param, Target, is_large, next_counter, prefers_disk};

use crate::BLOCK_BYTES;
use crate::clock::write_ns;
use crate::file::{Extent, Place, area_on_media};
use crate::simulation::Simulation;

/// A longer write is placed in pieces of this size, as in the engine.
const PIECE_BYTES_MAX: u64 = 4 << 20;

/// Why a write goes where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placed {
    Pm,
    LargeAsync,
    PmFull,
    JoinsDirty,
}

impl Simulation {
    /// A program writes a range; `durable`: it waits until that is durable.
    pub(crate) fn write(&mut self, ino: u64, offset: u64, end: u64, durable: bool) {
        let piece_bytes = PIECE_BYTES_MAX.min((self.config.cache_pages() / 4).max(1) * BLOCK_BYTES);
        let mut at = offset;
        while at < end {
            let piece_end = end.min(at.saturating_add(piece_bytes));
            self.write_piece(ino, at, piece_end, durable);
            at = piece_end;
        }
        self.outcome.all_pm_ns += write_ns(&self.config.pm, end - offset);
        if durable {
            self.flush_and_wait(ino);
        }
    }

    fn write_piece(&mut self, ino: u64, offset: u64, end: u64, durable: bool) {
        let (from, to) = (offset / BLOCK_BYTES, end.div_ceil(BLOCK_BYTES));
        self.read_edges(ino, offset, end);
        let (placed, counter) = self.decide(ino, from, to, durable);
        let sync_blocks = self.config.params.get(Param::SyncBlocks);
        let judged = self.edit(ino, |file| match durable {
            true => file.synchronicity.wrote_synchronously(sync_blocks),
            false => file.synchronicity.wrote(to - from, sync_blocks),
        });
        self.judge(judged);
        let len = end - offset;
        let (device, counted) = match placed {
            Placed::Pm => (self.config.pm, &mut self.outcome.written_pm_bytes),
            Placed::LargeAsync => (self.config.dram, &mut self.outcome.written_large_async_bytes),
            Placed::PmFull => (self.config.dram, &mut self.outcome.written_pm_full_bytes),
            Placed::JoinsDirty => (self.config.dram, &mut self.outcome.written_joins_dirty_bytes),
        };
        *counted += len;
        self.outcome.io_ns += write_ns(&device, len);
        let place = if placed == Placed::Pm { Place::Pm } else { Place::Dirty };
        if place == Place::Dirty {
            self.take_pages(ino, from, to);
        }
        self.replace(ino, (from, to), end, place, counter);
        match place {
            Place::Pm => {
                self.traffic.pm_written += len;
                self.wake_mover();
            }
            _ => self.note_dirty(ino),
        }
    }

    /// Where a write goes, and the counter of its entry.
    fn decide(&mut self, ino: u64, from: u64, to: u64, durable: bool) -> (Placed, u16) {
        self.files.entry(ino).or_default();
        let (file, params) = (&self.files[&ino], &self.config.params);
        let counter = next_counter(to - from, file.predecessors(from, to), params);
        let synchronous = durable || file.synchronicity.is_synchronous();
        let joins_dirty = file.size_bytes > file.committed_bytes
            || (file.blocks_at(Place::Dirty) > 0
                && file.overlaps(from, to).any(|(_, e)| e.place == Place::Dirty));
        let placed = if joins_dirty {
            Placed::JoinsDirty
        } else if prefers_disk(synchronous, is_large(counter, params)) {
            Placed::LargeAsync
        } else {
            match self.config.placement().place_write(self.pm_space(), to - from, false) {
                Target::Pm => Placed::Pm,
                Target::PageCache => Placed::PmFull,
            }
        };
        (placed, counter)
    }

    /// The new version of a range takes the place of the old one.
    fn replace(&mut self, ino: u64, (from, to): (u64, u64), end: u64, place: Place, counter: u16) {
        let now_ns = self.clock.now_ns();
        self.drop_clean(ino, from, to);
        let blocks = to - from;
        let amtime_ns = self.edit(ino, |file| {
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
                file.committed_bytes = file.size_bytes;
            }
            file.mtimes.time_ns()
        });
        if place == Place::Pm {
            self.cold.note(ino, amtime_ns);
        }
    }
}
