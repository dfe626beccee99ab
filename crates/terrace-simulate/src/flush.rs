//! Dirty pages and their way to the disk.
//!
//! Writeback in the background waits for an idle disk, so that its pages count as dirty while it is
//! behind; whoever needs pages or durability waits in the queue.

use std::time::Duration;

use terrace_policy::{DirtyState, is_crowded, writeback_due};

use crate::BLOCK_BYTES;
use crate::file::Place;
use crate::simulation::Simulation;

impl Simulation {
    /// A file has new dirty pages.
    pub(crate) fn note_dirty(&mut self, ino: u64) {
        let now_ns = self.clock.now_ns();
        let file = self.files.entry(ino).or_default();
        if !self.dirty_files.contains(&(file.dirty_since_ns, ino)) {
            file.dirty_since_ns = now_ns;
            self.dirty_files.insert((now_ns, ino));
        }
        if is_crowded(self.blocks_at(Place::Dirty), self.config.cache_pages()) {
            self.write_back_if_due(ino);
        }
    }

    /// Makes room for a range of dirty pages. A program waits for what must be written first.
    pub(crate) fn take_pages(&mut self, ino: u64, from: u64, to: u64) {
        let dirty_already = |file: &crate::file::File| {
            file.overlaps(from, to)
                .filter(|(_, e)| e.place == Place::Dirty)
                .map(|(_, e)| u64::from(e.blocks))
                .sum()
        };
        let need = to - from - self.files.get(&ino).map_or(0, dirty_already);
        let budget = self.config.cache_pages();
        let begun_ns = self.outcome.disk_wait_ns;
        let mut stalls = 0;
        while self.blocks_at(Place::Dirty) + need > budget {
            let Some(&(_, oldest)) = self.dirty_files.first() else { break };
            self.flush_and_wait(oldest);
            stalls = 1;
        }
        self.outcome.stalls += stalls;
        self.outcome.stalled_ns += self.outcome.disk_wait_ns - begun_ns;
        let room = self.room_for_clean().saturating_sub(need);
        self.clean.shrink(room);
    }

    /// A program waits until all of a file is durable.
    pub(crate) fn flush_and_wait(&mut self, ino: u64) {
        if let Some(done_ns) = self.flush(ino) {
            self.wait(done_ns);
        }
    }

    /// Takes a file's dirty pages to the disk, in one run. When they are there; `None` if there are
    /// none.
    fn flush(&mut self, ino: u64) -> Option<i64> {
        let file = self.files.get(&ino)?;
        let blocks = file.blocks_at(Place::Dirty);
        if blocks == 0 {
            return None;
        }
        let pieces = self.edit(ino, |file| {
            file.committed_bytes = file.size_bytes;
            file.is_rewritten = false;
            file.relocate(0, u64::MAX, Place::Disk, |_, extent| extent.place == Place::Dirty)
        });
        self.forget_if_clean(ino);
        let room = self.room_for_clean();
        for (start, blocks) in pieces {
            (start..start + blocks).for_each(|block| self.clean.insert((ino, block), room));
        }
        self.outcome.written_back_bytes += blocks * BLOCK_BYTES;
        Some(self.clock.write(blocks * BLOCK_BYTES))
    }

    /// Looks at the file that has been dirty for the longest time.
    pub(crate) fn write_back_oldest(&mut self) {
        if let Some(&(_, oldest)) = self.dirty_files.first() {
            self.write_back_if_due(oldest);
        }
    }

    /// Looks at all files that are dirty.
    pub(crate) fn write_back_due(&mut self) {
        let files: Vec<u64> = self.dirty_files.iter().map(|&(_, ino)| ino).collect();
        files.into_iter().for_each(|ino| self.write_back_if_due(ino));
    }

    fn write_back_if_due(&mut self, ino: u64) {
        let Some(file) = self.files.get(&ino).filter(|_| self.clock.is_idle()) else { return };
        let age_ns = self.clock.now_ns().saturating_sub(file.dirty_since_ns).max(0);
        let state = DirtyState {
            age: Duration::from_nanos(age_ns as u64),
            urgent: file.is_rewritten,
            pages: file.blocks_at(Place::Dirty),
        };
        let age_limit = Duration::from_secs(self.config.writeback_seconds.into());
        if writeback_due(state, age_limit, self.blocks_at(Place::Dirty), self.config.cache_pages())
            .is_some()
        {
            self.flush(ino);
        }
    }
}
