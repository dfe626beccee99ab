//! Verification of a log in use against media.
//!
//! The volatile state knows which pages the log has, so a damaged page hides none behind it. The
//! caller holds the inode's lock, and may release it between two calls: the ordinal of a page stays
//! the same while other pages come and go.

use terrace_layout::{
    BLOCK_BYTES, CheckedPtr, HEAD_OFFSET, INLINE_SLOTS, LogPageHeader, NEXT_OFFSET, SLOT_BYTES,
    TAIL_OFFSET, Tail, page_seed,
};
use terrace_media::Pm;

use super::walk::walk;
use super::{Log, entry_damage, inline_tails};
use crate::damage::{Damage, DamageKind, Structure};
use crate::types::Ino;

/// The result of verifying a part of a log.
#[derive(Debug, Default)]
pub struct Verified {
    /// Bytes that were read.
    pub bytes: u64,
    /// All damage in these bytes.
    pub damage: Vec<Damage>,
    /// Ordinal of the next page; `None` behind the last one.
    pub next: Option<u64>,
}

impl Log {
    /// Verifies the words of the record that lead into the log, and the entries in it.
    pub fn verify_record(&self, pm: &Pm) -> Verified {
        let mut damage = Vec::new();
        let tail = Tail(pm.load_u64(self.record_at + TAIL_OFFSET)).get();
        damage.extend(tail.err().map(|e| {
            let (at, kind) = (self.record_at + TAIL_OFFSET, DamageKind::Malformed(e));
            self.damage(pm, at, Structure::LogTail, kind)
        }));
        let head = self.record_at + HEAD_OFFSET;
        damage.extend(self.pages.front().and_then(|&first| self.verify_link(pm, head, first)));
        if self.inline_dropped {
            return Verified { bytes: 16, damage, next: Some(0) };
        }
        let inline = inline_tails(self.record_at);
        let (start, end) =
            (*inline.start(), if inline.contains(&self.tail) { self.tail } else { *inline.end() });
        let mut slots = [0u8; (INLINE_SLOTS * SLOT_BYTES) as usize];
        match pm.try_read(start, &mut slots) {
            Ok(()) => damage.extend(self.verify_entries(pm, self.inline_seed, start, end, &slots)),
            Err(error) => {
                let kind = DamageKind::Unreadable(error.errno());
                damage.push(self.damage(pm, start, Structure::LogEntry, kind))
            }
        }
        Verified { bytes: 16 + end - start, damage, next: Some(0) }
    }

    /// Verifies up to `count` pages from ordinal `from` on.
    pub fn verify_pages(&self, pm: &Pm, from: u64, count: usize) -> Verified {
        // The last page's ordinal is its sequence number; the others count back from there.
        let first = self.next_sequence.saturating_sub(self.pages.len() as u64);
        let mut verified = Verified::default();
        let skip = from.saturating_sub(first) as usize;
        let mut pages = self.pages.iter().enumerate().skip(skip);
        for (i, &block) in pages.by_ref().take(count) {
            self.verify_page(pm, block, self.pages.get(i + 1).copied(), &mut verified.damage);
            verified.bytes += BLOCK_BYTES;
        }
        verified.next = pages.next().map(|(i, _)| first + i as u64);
        verified
    }

    fn verify_page(&self, pm: &Pm, block: u64, next: Option<u64>, damage: &mut Vec<Damage>) {
        let start = block * BLOCK_BYTES;
        let mut page = [0u8; BLOCK_BYTES as usize];
        let read = pm.try_read(start, &mut page).map_err(|e| DamageKind::Unreadable(e.errno()));
        let decoded = read.and_then(|()| {
            LogPageHeader::decode(&page, self.ino, self.generation).map_err(|_| DamageKind::Damaged)
        });
        let header = match decoded {
            Ok(header) => header,
            Err(kind) => {
                return damage.push(self.damage(pm, start, Structure::LogPage, kind));
            }
        };
        damage.extend(next.and_then(|next| self.verify_link(pm, start + NEXT_OFFSET, next)));
        let first = start + SLOT_BYTES;
        let end = if (first..=start + BLOCK_BYTES).contains(&self.tail) {
            self.tail
        } else {
            start + BLOCK_BYTES
        };
        let seed = page_seed(self.inline_seed, header.sequence);
        damage.extend(self.verify_entries(pm, seed, first, end, &page[SLOT_BYTES as usize..]));
    }

    /// Damage of the pointer at byte `at`, which must lead to `block`.
    fn verify_link(&self, pm: &Pm, at: u64, block: u64) -> Option<Damage> {
        match CheckedPtr(pm.load_u64(at)).get() {
            Ok(Some((addr, _))) if addr.is_pm() && addr.block() == block => None,
            Ok(_) => {
                let kind = DamageKind::Wrong("does not lead to its next page".into());
                Some(self.damage(pm, at, Structure::LogPointer, kind))
            }
            Err(error) => {
                let kind = DamageKind::Malformed(error);
                Some(self.damage(pm, at, Structure::LogPointer, kind))
            }
        }
    }

    /// The first damaged entry of a region: the beginning of the next one is not known then.
    fn verify_entries(
        &self,
        pm: &Pm,
        seed: u32,
        start: u64,
        end: u64,
        bytes: &[u8],
    ) -> Option<Damage> {
        let damaged = |at, kind| entry_damage(pm, Ino(self.ino), at, kind);
        let region = &bytes[..(end - start) as usize];
        let read = walk(seed, start, region, &damaged, &mut |_, _| Ok(()));
        read.err()?.damage().cloned()
    }
}
