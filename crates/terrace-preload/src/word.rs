//! The state of a descriptor in one word, changed by compare-and-swap only.
//!
//! A word says that calls take the mount, and why; or that they go direct; or, in the table, that
//! an open file description has the state. It counts calls on the mount, and those under way that
//! use the kernel's position: a descriptor does not go direct while there are any. Each change of
//! kind counts the generation up, so who looked before and after knows that nothing has changed.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};

use crate::backend::Reason;

const KIND: u64 = 3;
const MOUNT: u64 = 0;
const DESCRIPTION: u64 = 1;
const DIRECT: u64 = 2;
const REASON: u32 = 2;
const CALLS: u32 = 16;
const UNDER_WAY: u32 = 32;
const GENERATION: u32 = 48;
const FIELD: u64 = 0xffff;
/// Where the address of a description stands: addresses of programs have 47 bits, and
/// descriptions are aligned.
const ADDRESS: u64 = ((1 << GENERATION) - 1) & !63;

/// Reasons that stay, as bits.
const FINAL: u64 = {
    let (mut bits, mut at) = (0, 0);
    while at < Reason::ALL.len() {
        if Reason::ALL[at].patience().is_none() {
            bits |= 1 << at;
        }
        at += 1;
    }
    bits
};

/// One state. All zero: on the mount, for the reason `Foreign`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Word(u64);

impl Word {
    /// The word that follows this one, on the mount.
    pub(crate) const fn then_mount(self, reason: Reason) -> Self {
        Self(MOUNT | (reason as u64) << REASON | self.next_generation())
    }

    /// The word that follows this one, direct.
    pub(crate) const fn then_direct(self) -> Self {
        Self(DIRECT | self.next_generation())
    }

    /// The word that follows this one, and refers to a description at an address.
    pub(crate) fn then_description(self, address: usize) -> Self {
        debug_assert_eq!(address as u64 & !ADDRESS, 0);
        Self(DESCRIPTION | address as u64 | self.next_generation())
    }

    /// The same state, refused for a reason: the calls are counted anew.
    pub(crate) const fn refused(self, reason: Reason) -> Self {
        let kept = self.0 & (FIELD << GENERATION | FIELD << UNDER_WAY);
        Self(MOUNT | (reason as u64) << REASON | kept)
    }

    const fn next_generation(self) -> u64 {
        (self.0 >> GENERATION).wrapping_add(1) << GENERATION
    }

    const fn field(self, at: u32) -> u64 {
        self.0 >> at & FIELD
    }

    #[inline(always)]
    pub(crate) const fn is_direct(self) -> bool {
        self.0 & KIND == DIRECT
    }

    /// The address of the description that has the state.
    #[inline(always)]
    pub(crate) const fn description(self) -> Option<usize> {
        if self.0 & KIND == DESCRIPTION { Some((self.0 & ADDRESS) as usize) } else { None }
    }

    /// Why calls take the mount, if they do.
    #[inline]
    pub(crate) fn reason(self) -> Option<Reason> {
        if self.0 & KIND != MOUNT {
            return None;
        }
        Reason::ALL.get((self.0 >> REASON & 0xff) as usize).copied()
    }

    /// Whether it is on the mount and stays there.
    #[inline(always)]
    pub(crate) const fn stays(self) -> bool {
        self.0 & KIND == MOUNT && FINAL >> (self.0 >> REASON & 0xff) & 1 != 0
    }

    /// Whether it is time to ask the backend.
    pub(crate) fn due(self) -> bool {
        self.reason().and_then(Reason::patience).is_some_and(|patience| {
            self.field(CALLS) >= u64::from(patience) && self.field(UNDER_WAY) == 0
        })
    }

    #[cfg(test)]
    pub(crate) fn calls(self) -> u64 {
        self.field(CALLS)
    }
}

/// A word that threads share.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Cell(AtomicU64);

impl Cell {
    #[cfg(test)]
    const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    #[inline(always)]
    pub(crate) fn load(&self) -> Word {
        Word(self.0.load(Acquire))
    }

    /// Replaces a word if nothing has changed.
    pub(crate) fn replace(&self, old: Word, new: Word) -> bool {
        self.0.compare_exchange(old.0, new.0, AcqRel, Relaxed).is_ok()
    }

    /// Replaces whatever word is there, and gives it.
    pub(crate) fn change(&self, new: impl Fn(Word) -> Word) -> Word {
        loop {
            let old = self.load();
            if self.replace(old, new(old)) {
                return old;
            }
        }
    }

    /// Lets it stay on the mount for a reason, if it may go direct later.
    pub(crate) fn keep_off(&self, reason: Reason) {
        self.change(|word| match word.reason() {
            Some(_) if !word.stays() => word.refused(reason),
            _ => word,
        });
    }

    /// Counts a call on the mount. It is under way until the guard goes, if it uses the kernel's
    /// position.
    pub(crate) fn count(&self, weight: u16, positioned: bool) -> Option<UnderWay<'_>> {
        let mut seen = self.load();
        loop {
            if seen.0 & KIND != MOUNT || seen.stays() {
                return None;
            }
            let calls = (seen.field(CALLS) + u64::from(weight)).min(FIELD);
            // A counter that stands still could hide a call from `replace`.
            let calls = if calls == FIELD { FIELD / 2 } else { calls };
            let way = seen.field(UNDER_WAY) + u64::from(positioned);
            let rest = seen.0 & !(FIELD << CALLS | FIELD << UNDER_WAY);
            let new = rest | calls << CALLS | way << UNDER_WAY;
            match self.0.compare_exchange_weak(seen.0, new, AcqRel, Acquire) {
                Ok(_) if positioned => {
                    return Some(UnderWay { cell: self, generation: seen.field(GENERATION) });
                }
                Ok(_) => return None,
                Err(other) => seen = Word(other),
            }
        }
    }
}

/// A call on the mount that uses the kernel's position.
#[derive(Debug)]
pub(crate) struct UnderWay<'a> {
    cell: &'a Cell,
    generation: u64,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut seen = self.cell.load();
        // Another generation has not counted this call.
        while seen.0 & KIND == MOUNT
            && seen.field(GENERATION) == self.generation
            && seen.field(UNDER_WAY) > 0
        {
            let new = Word(seen.0 - (1 << UNDER_WAY));
            if self.cell.replace(seen, new) {
                return;
            }
            seen = self.cell.load();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn few() -> Cell {
        let cell = Cell::new();
        cell.change(|word| word.then_mount(Reason::Few));
        cell
    }

    #[test]
    fn the_second_write_or_the_eighth_read_asks() {
        let writes = few();
        for due in [false, false, true] {
            assert_eq!(writes.load().due(), due);
            drop(writes.count(4, true));
        }
        let reads = few();
        for _ in 0..7 {
            assert!(!reads.load().due());
            drop(reads.count(1, true));
        }
        assert!(reads.load().due());
    }

    #[test]
    fn nobody_asks_while_a_call_uses_the_kernels_position() {
        let cell = few();
        let way = cell.count(100, true);
        assert!(!cell.load().due());
        drop(way);
        assert!(cell.load().due());
    }

    #[test]
    fn a_call_of_an_earlier_generation_is_not_counted_down() {
        let cell = few();
        let old = cell.count(1, true);
        cell.change(|word| word.then_mount(Reason::Few));
        let new = cell.count(1, true);
        drop(old);
        assert_eq!(cell.load().field(UNDER_WAY), 1);
        drop(new);
        assert_eq!(cell.load().field(UNDER_WAY), 0);
        assert_eq!(cell.load().calls(), 1);
    }

    #[test]
    fn a_final_reason_is_never_counted() {
        let cell = Cell::new();
        assert_eq!(cell.load().reason(), Some(Reason::Foreign));
        assert!(cell.load().stays());
        assert!(cell.count(1, true).is_none());
        assert_eq!(cell.load(), Word(0));
    }

    #[test]
    fn every_call_changes_the_word_even_if_the_count_is_full() {
        let cell = few();
        for _ in 0..70_000 {
            let before = cell.load();
            drop(cell.count(1, true));
            assert_ne!(cell.load(), before);
            assert!(!before.due() || cell.load().due());
        }
    }

    #[test]
    fn a_description_keeps_its_address_and_counts_generations() {
        let cell = few();
        let before = cell.load();
        let address = 0x7fff_dead_be40;
        cell.change(|word| word.then_description(address));
        assert_eq!(cell.load().description(), Some(address));
        assert_eq!(cell.load().field(GENERATION), before.field(GENERATION) + 1);
        assert!(!cell.load().is_direct() && cell.load().reason().is_none());
        assert!(cell.load().then_direct().is_direct());
    }
}
