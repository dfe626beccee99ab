//! Loading a log from media: from the record along the pages to the tail, and behind it along the
//! chain of entries that committed themselves.

use terrace_layout::{
    BLOCK_BYTES, BlockAddr, CheckedPtr, HEAD_OFFSET, InodeRecord, LogEntry, LogPageHeader,
    PAGE_SLOTS, SLOT_BYTES, Stamp, TAIL_OFFSET, Tail, entry_slots, page_seed,
};
use terrace_media::Pm;

use super::media::LogMedia;
use super::refs::Refs;
use super::walk::walk;
use super::{Log, entry_damage, inline_tails};
use crate::damage::{DamageKind, Structure};
use crate::error::FsResult;
use crate::planted::{Bug, planted};
use crate::seal;
use crate::types::Ino;

/// Sees a committed entry: the references to count, its position, the entry.
pub type Visit<'a> = &'a mut dyn FnMut(&mut Refs, u64, LogEntry<'_>) -> FsResult<()>;

impl Log {
    /// Reads a log from media, handing every committed entry with its position to `visit`, in
    /// order. `crashed`: stamp of the mount that wrote last, if it crashed and the volume has not
    /// been recovered since.
    ///
    /// # Errors
    /// Damage, with the place; errors of `visit`.
    pub fn load(
        media: LogMedia<'_>,
        record_at: u64,
        record: &InodeRecord,
        crashed: Option<Stamp>,
        visit: Visit<'_>,
    ) -> FsResult<Self> {
        let pm = media.pm;
        let mut log = Log::new(record_at, record);
        let malformed = |log: &Log, at, structure, e| {
            log.damage(pm, record_at + at, structure, DamageKind::Malformed(e))
        };
        let tail = Tail(record.tail).get();
        (log.tail, log.tail_generation) =
            tail.map_err(|e| malformed(&log, TAIL_OFFSET, Structure::LogTail, e))?;
        let head = CheckedPtr(record.head).get();
        let head = head.map_err(|e| malformed(&log, HEAD_OFFSET, Structure::LogPointer, e))?;
        let inline = inline_tails(record_at);
        let tail_inline = inline.contains(&log.tail);
        log.inline_dropped = !tail_inline && head.is_some_and(|(_, dropped)| dropped);
        if !log.inline_dropped {
            let (start, end) =
                (*inline.start(), if tail_inline { log.tail } else { *inline.end() });
            let slots = media.read_slots(record_at)?;
            let skip = log.load_archive(media, &slots[..(end - start) as usize], visit)?;
            log.visit_region(pm, start + skip as u64, end, &slots[skip..], visit)?;
            if tail_inline {
                log.roll_forward(pm, &slots[(end - start) as usize..], crashed, visit)?;
            }
        } else {
            log.slots = 0;
        }
        let mut next = if tail_inline { None } else { head };
        let mut reached = tail_inline;
        while let Some((addr, _)) = next.take() {
            next = log.load_page(media, addr, crashed, visit, &mut reached)?;
        }
        if !reached {
            let kind = DamageKind::Wrong("does not reach its tail".into());
            return Err(log.damage(pm, record_at, Structure::Log, kind).into());
        }
        log.slots_after_compaction = log.slots.div_ceil(2);
        Ok(log)
    }

    fn load_page(
        &mut self,
        media: LogMedia<'_>,
        addr: BlockAddr,
        crashed: Option<Stamp>,
        visit: Visit<'_>,
        reached: &mut bool,
    ) -> FsResult<Option<(BlockAddr, bool)>> {
        let pm = media.pm;
        if !addr.is_pm() || addr.byte() + BLOCK_BYTES > pm.len() {
            let kind = DamageKind::Wrong(format!("leads to block {addr:?}").into());
            return Err(self.damage(pm, self.record_at, Structure::Log, kind).into());
        }
        let start = addr.byte();
        let mut page = [0u8; BLOCK_BYTES as usize];
        media.read(start, &mut page)?;
        let header = LogPageHeader::decode(&page, self.ino, self.generation)
            .map_err(|_| self.damage(pm, start, Structure::LogPage, DamageKind::Damaged))?;
        if header.sequence < self.next_sequence {
            let kind = DamageKind::Wrong("runs in a circle".into());
            return Err(self.damage(pm, start, Structure::Log, kind).into());
        }
        self.next_sequence = header.sequence + 1;
        self.seed = page_seed(self.inline_seed, header.sequence);
        self.pages.push_back(addr.block());
        self.slots += PAGE_SLOTS;
        let first = start + SLOT_BYTES;
        *reached = (first..=start + BLOCK_BYTES).contains(&self.tail);
        let end = if *reached { self.tail } else { start + BLOCK_BYTES };
        self.visit_region(pm, first, end, &page[SLOT_BYTES as usize..], visit)?;
        if *reached {
            self.roll_forward(pm, &page[(end - start) as usize..], crashed, visit)?;
            return Ok(None);
        }
        Ok(CheckedPtr(header.next)
            .get()
            .map_err(|e| self.damage(pm, start, Structure::LogPointer, DamageKind::Malformed(e)))?)
    }

    /// Takes in the chain of entries behind the tail that committed themselves; `rest`: the bytes
    /// from the tail to the end of its region. Without a crash there is no chain.
    fn roll_forward(
        &mut self,
        pm: &Pm,
        rest: &[u8],
        crashed: Option<Stamp>,
        visit: Visit<'_>,
    ) -> FsResult<()> {
        let mut behind = rest;
        if let Some(stamp) = crashed {
            behind = self.take_chain(pm, rest, stamp, visit)?;
            if has_stamp(behind, stamp) {
                // Entries reach media one after the other: only the last one can be torn. No
                // earlier use of these bytes has left a stamp (`seal::forget`).
                self.torn = Some(self.tail);
                behind = &behind[SLOT_BYTES as usize..];
            }
        }
        // Recovery leaves nothing behind the tail that would pass for an entry of any mount. So the
        // volume has not been recovered, or the entry before this one is damaged.
        let mut slots = (0..behind.len()).step_by(SLOT_BYTES as usize);
        match slots.any(|at| {
            Stamp::of_entry(&behind[at..]).is_some() && self.sound(&behind[at..]).is_some()
        }) {
            true => {
                let kind = DamageKind::Wrong("is damaged, and committed others follow it".into());
                Err(entry_damage(pm, Ino(self.ino), self.tail, kind).into())
            }
            false => Ok(()),
        }
    }

    /// Takes in the entries at the beginning of `rest` with this stamp, except a last one whose
    /// data are missing; returns the bytes behind them.
    pub(super) fn take_chain<'b>(
        &mut self,
        pm: &Pm,
        mut rest: &'b [u8],
        stamp: Stamp,
        visit: Visit<'_>,
    ) -> FsResult<&'b [u8]> {
        let stamped = |log: &Self, bytes: &'b [u8]| {
            if has_stamp(bytes, stamp) { log.sound(bytes) } else { None }
        };
        while let Some((slots, entry)) = stamped(self, rest) {
            let next = &rest[(slots * SLOT_BYTES) as usize..];
            let is_last = stamped(self, next).is_none();
            if is_last && !seal::holds(pm, &entry) && !planted(Bug::SealIgnoresData) {
                break;
            }
            visit(&mut self.refs, self.tail, entry)?;
            self.tail += slots * SLOT_BYTES;
            self.tail_behind = true;
            rest = next;
            if planted(Bug::ChainOfOne) {
                return Ok(&[]);
            }
        }
        Ok(rest)
    }

    /// The sound entry of the tail's region at the beginning of `bytes`, and its slots.
    fn sound<'b>(&self, bytes: &'b [u8]) -> Option<(u64, LogEntry<'b>)> {
        let slots = entry_slots(bytes, bytes.len() as u64 / SLOT_BYTES)?;
        let entry = LogEntry::decode(&bytes[..(slots * SLOT_BYTES) as usize], self.seed).ok()?;
        Some((slots, entry))
    }

    /// After a crash: flushes what a killed daemon may have left in a cache only of all that
    /// [`Self::finish`] builds on. Whether there is something to finish.
    pub fn flush_found(&self, pm: &Pm) -> bool {
        self.flush_chain(pm);
        if !planted(Bug::ChainEndNotFlushed) {
            pm.flush_readable(self.record_at + HEAD_OFFSET, 8);
            pm.flush_readable(self.record_at + TAIL_OFFSET, 8);
        }
        self.tail_behind || self.torn.is_some()
    }

    /// Moves the tail on media behind the chain, and erases a torn entry, so that no slot of it can
    /// pass for an entry of a later mount; durable at the next fence. One has followed
    /// [`Self::flush_found`]. False: the tail is not this one any more, which was loaded. Nothing
    /// was done: a borrower that had been stopped goes on with its change. (A torn entry would have
    /// committed itself, so the change that it is of moves no tail.)
    #[must_use]
    pub fn finish(&mut self, pm: &Pm, loaded: u64) -> bool {
        let at = self.record_at + TAIL_OFFSET;
        let tail = Tail::new(self.tail, self.tail_generation).0;
        let is_same = match self.tail_behind && !planted(Bug::TailStaysBehind) {
            true => pm.compare_exchange_u64(at, loaded, tail).is_ok(),
            false => pm.load_u64(at) == loaded,
        };
        match is_same {
            true => pm.flush(at, 8),
            false if planted(Bug::LateTailOverwritten) => self.flush_tail(pm),
            false => return false,
        }
        self.tail_behind = false;
        if let Some(at) = self.torn {
            self.erase(pm, at);
        }
        true
    }

    /// Zeroes the first word of each slot of the torn entry at `at`.
    fn erase(&self, pm: &Pm, at: u64) {
        let end = self.region_end(self.pages.back().copied());
        let slots = entry_slots(&pm.load_u64(at).to_le_bytes(), (end - at) / SLOT_BYTES);
        for slot in 0..slots.unwrap_or(1) {
            pm.store_u64(at + slot * SLOT_BYTES, 0);
            pm.flush(at + slot * SLOT_BYTES, 8);
        }
    }

    /// Flushes the entries behind the tail on media that committed themselves, and what the last of
    /// them stands for: the process that stored it may have ended, or been stopped, before its own
    /// flush. Each earlier entry was durable before the next was stored.
    pub fn flush_chain(&self, pm: &Pm) {
        let on_media = Tail(pm.load_u64(self.record_at + TAIL_OFFSET)).get();
        let first = on_media.map_or(self.tail, |(tail, _)| tail);
        let chain = self.tail.checked_sub(first).filter(|len| (1..=BLOCK_BYTES).contains(len));
        let Some(len) = chain.filter(|_| !planted(Bug::ChainEndNotFlushed)) else { return };
        let mut bytes = vec![0; len as usize];
        if pm.try_read(first, &mut bytes).is_err() {
            return;
        }
        pm.flush_readable(first, len);
        let (mut rest, mut last) = (&bytes[..], None);
        while !rest.is_empty()
            && let Some((slots, entry)) = self.sound(rest)
        {
            last = seal::data_of(pm, &entry);
            rest = &rest[(slots * SLOT_BYTES) as usize..];
        }
        if let Some((at, len)) = last {
            pm.flush_readable(at, len);
        }
    }

    /// Byte of a torn entry behind the tail, if there is one: its data were lost, and it does not
    /// count.
    pub fn torn(&self) -> Option<u64> {
        self.torn
    }

    fn visit_region(
        &mut self,
        pm: &Pm,
        start: u64,
        end: u64,
        bytes: &[u8],
        visit: Visit<'_>,
    ) -> FsResult<()> {
        let (seed, refs, next_sequence) = (self.seed, &mut self.refs, &mut self.next_sequence);
        let ino = Ino(self.ino);
        let damaged = |at, kind| entry_damage(pm, ino, at, kind);
        walk(seed, start, &bytes[..(end - start) as usize], &damaged, &mut |position, entry| {
            if let LogEntry::Attr(e) = entry {
                *next_sequence = e.next_page.max(*next_sequence);
            }
            visit(refs, position, entry)
        })
    }
}

/// Whether a slot carries this stamp.
fn has_stamp(bytes: &[u8], stamp: Stamp) -> bool {
    !bytes.is_empty() && Stamp::of_entry(bytes) == Some(stamp)
}
