//! What a file has done since its birth, or since it was loaded, and what that says of the writes
//! to come.
//!
//! Invariants: `again`, `in_sequence` are parts of `written`. Each trait is shown at most once in a
//! life, so that each file counts as one among its [siblings](crate::Siblings).

use crate::kinds::Kinds;

/// A file that is removed so soon after its birth is brief: its data was not worth moving.
const BRIEF_NS: i64 = 10_000_000_000;
/// A file's own writes say more of it than its siblings do from so many bytes on.
const TELLING_BYTES: u32 = 64 << 10;
/// Counters are halved when so much was written: what is older counts less.
const WRITTEN_MAX: u32 = 1 << 30;
/// Sizes that a file reaches: this, and each time [`SIZE_FACTOR`] times as much.
const SIZE_MIN: u64 = 64 << 10;
const SIZE_FACTOR: u64 = 4;
/// How many such sizes there are: the last is 1 GiB.
const SIZES: usize = 8;
/// Bits of [`Traits`].
pub(crate) const TRAITS: usize = 4 + SIZES;

/// What files have shown: a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Traits(u16);

impl Traits {
    /// Somebody waited for a short stretch of its writes.
    pub const AWAITED: Self = Self(1);
    /// Most of its writes did not begin where the one before ended.
    pub const SCATTERED: Self = Self(1 << 1);
    /// Most of what was written to it replaced what was there.
    pub const REWRITTEN: Self = Self(1 << 2);
    /// It was removed within seconds of its birth.
    pub const BRIEF: Self = Self(1 << 3);

    /// It has reached the `n`th of the sizes.
    const fn reached(n: usize) -> Self {
        Self(1 << (4 + n))
    }

    /// All that a file of this size has reached.
    fn of_size(bytes: u64) -> Self {
        let times = (bytes / SIZE_MIN).checked_ilog(SIZE_FACTOR);
        let reached = times.map_or(0, |times| times as usize + 1).min(SIZES);
        Self(((1 << reached) - 1) << 4)
    }

    /// The largest of the sizes in the set; 0 if there is none.
    pub fn size_bytes(self) -> u64 {
        (0..SIZES).rev().find(|&n| self.has(Self::reached(n))).map_or(0, size_bytes)
    }

    /// Those of both.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those that `other` lacks.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether all of `other` are in it.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether none speaks against bulk.
    const fn are_of_bulk(self) -> bool {
        let against = Self::AWAITED.and(Self::SCATTERED).and(Self::REWRITTEN);
        self.0 & against.0 == 0
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The traits of these bits, numbered from 0.
    pub(crate) fn of_bits(bits: impl Iterator<Item = usize>) -> Self {
        bits.fold(Self::default(), |all, bit| Self(all.0 | 1 << bit))
    }

    /// The bits of its traits.
    pub(crate) fn bits(self) -> impl Iterator<Item = usize> {
        (0..TRAITS).filter(move |bit| self.0 >> bit & 1 == 1)
    }
}

fn size_bytes(n: usize) -> u64 {
    SIZE_MIN * SIZE_FACTOR.pow(n as u32)
}

/// A write as a [`Life`] sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stroke {
    /// First byte.
    pub offset: u64,
    /// Bytes written.
    pub len: u64,
    /// It is durable when it returns.
    pub durable: bool,
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    kinds: Kinds,
    born_ns: i64,
    /// Where the last write ended.
    end: u64,
    /// Where the file has ended at most, so far.
    reach: u64,
    written: u32,
    again: u32,
    in_sequence: u32,
    /// Written since the last fsync.
    stretch: u32,
    /// What siblings had in common when it was born.
    expected: Traits,
    shown: Traits,
    /// Whether somebody waits for its writes, once that is known.
    awaited: Option<bool>,
    /// Nothing was written yet, and nobody has looked at its siblings.
    is_fresh: bool,
}

impl Default for Life {
    /// Of a file of which nothing is known.
    fn default() -> Self {
        Self::loaded(0)
    }
}

impl Life {
    /// A file is born that is of these kinds.
    pub fn born(kinds: Kinds, now_ns: i64) -> Self {
        Self {
            kinds,
            born_ns: now_ns,
            end: 0,
            reach: 0,
            written: 0,
            again: 0,
            in_sequence: 0,
            stretch: 0,
            // What nothing is known of is waited for: PM is the faster guess.
            expected: Traits::AWAITED,
            shown: Traits::default(),
            awaited: None,
            is_fresh: true,
        }
    }

    /// A file of this size has been loaded that was born at some time.
    pub fn loaded(size: u64) -> Self {
        let born = Self::born(Kinds::none(), i64::MIN);
        Self { end: size, reach: size, is_fresh: false, ..born }
    }

    /// Whether it is about to be written for the first time, and [`Self::expect`] was not called.
    #[inline]
    pub fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    /// Its siblings have these traits. `None`: nothing is known of them.
    pub fn expect(&mut self, siblings: Option<Traits>) {
        self.expected = siblings.unwrap_or(self.expected);
        self.is_fresh = false;
    }

    /// The kinds of the file: none if it has been loaded.
    pub fn kinds(&self) -> Kinds {
        self.kinds
    }

    /// A write; returns the traits that show for the first time. Nobody waits for stretches of
    /// `await_bytes` ([`Param::AwaitBytes`](crate::Param::AwaitBytes)) or more.
    pub fn wrote(&mut self, stroke: Stroke, await_bytes: u64) -> Traits {
        let Stroke { offset, len, durable } = stroke;
        let again = self.reach.saturating_sub(offset).min(len);
        let in_sequence = if offset == self.end { len } else { 0 };
        self.end = offset + len;
        self.count(len, again, in_sequence);
        self.go_on(len, durable, await_bytes)
    }

    /// Another process has written so many bytes by itself, with so many syncs, and the file has
    /// this size now. As if it had written as much before each sync, and behind what was there as
    /// far as the file has grown. Returns the traits that show for the first time.
    pub fn was_written(&mut self, bytes: u64, syncs: u64, size: u64, await_bytes: u64) -> Traits {
        let grown = size.saturating_sub(self.reach).min(bytes);
        self.end = size;
        self.count(bytes, bytes - grown, grown);
        self.go_on(bytes / syncs.saturating_add(1), false, await_bytes)
    }

    /// An fsync; returns the traits that show for the first time.
    pub fn synced(&mut self, await_bytes: u64) -> Traits {
        if self.stretch == 0 {
            return Traits::default();
        }
        let judged = self.judge(await_bytes);
        self.stretch = 0;
        self.show(judged)
    }

    /// The last name of the file is gone; returns the traits that show for the first time.
    pub fn ended(&mut self, now_ns: i64) -> Traits {
        let is_brief = self.is_young(now_ns) && !self.is_fresh;
        self.show(if is_brief { Traits::BRIEF } else { Traits::default() })
    }

    /// Whether files like it are removed within seconds, and it is no older.
    pub fn is_brief(&self, now_ns: i64) -> bool {
        self.nature().has(Traits::BRIEF) && self.is_young(now_ns)
    }

    /// Whether its writes are bulk: nobody waits for them, they follow on each other, and they
    /// stay. A disk takes such as well as PM does.
    pub fn is_bulk(&self, await_bytes: u64) -> bool {
        await_bytes > 0 && self.nature().are_of_bulk()
    }

    /// By how much a file counts as younger than it is when what is cold is looked for, in
    /// nanoseconds: what will be gone soon is moved last, bulk first.
    pub fn grace_ns(&self, now_ns: i64, await_bytes: u64, cold_age_s: u64) -> i64 {
        let (age_ns, nature) = (cold_age_s as i64 * 1_000_000_000, self.nature());
        if nature.has(Traits::BRIEF) && self.is_young(now_ns) {
            age_ns
        } else if await_bytes > 0 && nature.are_of_bulk() {
            -age_ns
        } else {
            0
        }
    }

    /// So many bytes were written up to `end`, of which so many replaced others, and so many began
    /// where the write before ended.
    fn count(&mut self, bytes: u64, again: u64, in_sequence: u64) {
        let limited = |bytes| u32::try_from(bytes).unwrap_or(u32::MAX).min(WRITTEN_MAX);
        self.reach = self.reach.max(self.end);
        self.written += limited(bytes);
        self.again += limited(again);
        self.in_sequence += limited(in_sequence);
        if self.written > WRITTEN_MAX {
            self.written /= 2;
            self.again /= 2;
            self.in_sequence /= 2;
        }
    }

    /// The stretch since the last fsync goes on for so many bytes.
    fn go_on(&mut self, bytes: u64, durable: bool, await_bytes: u64) -> Traits {
        self.stretch = self.stretch.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        let mut shown = self.own().and(Traits::of_size(self.reach));
        if durable || self.is_long(await_bytes) {
            shown = shown.and(self.judge(await_bytes));
        }
        if durable {
            self.stretch = 0;
        }
        self.show(shown)
    }

    /// The traits that are expected of it: those that it has shown itself, and as long as it has
    /// done too little for that, those of its siblings.
    pub fn nature(&self) -> Traits {
        let of_siblings = match self.is_telling() {
            true => self.expected.without(Traits::SCATTERED.and(Traits::REWRITTEN)),
            false => self.expected,
        };
        let nature = of_siblings.and(self.own());
        match self.awaited {
            Some(true) => nature.and(Traits::AWAITED),
            Some(false) => nature.without(Traits::AWAITED),
            None => nature,
        }
    }

    /// What is known of the writes since the last fsync, now that it comes or is long in coming:
    /// somebody waited for them, or not.
    fn judge(&mut self, await_bytes: u64) -> Traits {
        let is_awaited = !self.is_long(await_bytes);
        self.awaited = Some(is_awaited);
        if is_awaited { Traits::AWAITED } else { Traits::default() }
    }

    fn is_long(&self, await_bytes: u64) -> bool {
        await_bytes > 0 && u64::from(self.stretch) >= await_bytes
    }

    /// Whether its own writes are enough to say how they follow on each other.
    pub fn is_telling(&self) -> bool {
        self.written >= TELLING_BYTES
    }

    /// Whether its own writes and syncs say if somebody waits for it.
    pub fn has_been_judged(&self) -> bool {
        self.awaited.is_some()
    }

    /// What its writes say, if they are enough.
    fn own(&self) -> Traits {
        let mut own = Traits::default();
        if self.is_telling() {
            if self.in_sequence < self.written / 2 {
                own = own.and(Traits::SCATTERED);
            }
            if self.again > self.written / 2 {
                own = own.and(Traits::REWRITTEN);
            }
        }
        own
    }

    fn is_young(&self, now_ns: i64) -> bool {
        (0..BRIEF_NS).contains(&now_ns.saturating_sub(self.born_ns))
    }

    fn show(&mut self, traits: Traits) -> Traits {
        let new = traits.without(self.shown);
        self.shown = self.shown.and(traits);
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 256 << 10;
    const SECOND: i64 = 1_000_000_000;
    const KIB: u64 = 1 << 10;

    fn born(now_ns: i64, siblings: Option<Traits>) -> Life {
        let mut life = Life::born(Kinds::none(), now_ns);
        life.expect(siblings);
        life
    }

    /// A file that is written in pieces, at the end of what is there.
    fn append(life: &mut Life, pieces: u64, len: u64, durable: bool) -> Traits {
        (0..pieces).fold(Traits::default(), |all, _| {
            let stroke = Stroke { offset: life.end, len, durable };
            all.and(life.wrote(stroke, LIMIT))
        })
    }

    fn is_bulk(life: &Life) -> bool {
        life.is_bulk(LIMIT)
    }

    #[test]
    fn a_file_of_which_nothing_is_known_is_waited_for_until_its_writes_go_on_and_on() {
        let mut life = born(0, None);
        assert_eq!(append(&mut life, 63, 4 * KIB, false).size_bytes(), 64 * KIB);
        assert!(!is_bulk(&life));
        assert_eq!(life.nature(), Traits::AWAITED);
        let shown = append(&mut life, 1, 4 * KIB, false);
        assert!(is_bulk(&life) && shown.size_bytes() == 256 * KIB);
        // Somebody waits after all.
        assert_eq!(life.synced(LIMIT), Traits::default());
        assert!(is_bulk(&life), "for a long stretch");
        let _ = append(&mut life, 1, 100, false);
        assert_eq!(life.synced(LIMIT), Traits::AWAITED);
        assert!(!is_bulk(&life));
        let _ = append(&mut life, 1, 100, false);
        assert!(life.synced(LIMIT).is_empty(), "a trait shows once");
    }

    #[test]
    fn a_log_is_waited_for() {
        let mut life = born(0, Some(Traits::default()));
        assert!(is_bulk(&life));
        let _ = append(&mut life, 1, 1000, false);
        assert!(life.synced(LIMIT).has(Traits::AWAITED) && !is_bulk(&life));
        let mut life = born(0, Some(Traits::default()));
        assert!(append(&mut life, 1, 1000, true).has(Traits::AWAITED) && !is_bulk(&life));
    }

    #[test]
    fn what_is_scattered_or_written_again_is_no_bulk() {
        let write = |life: &mut Life, offset| {
            life.wrote(Stroke { offset, len: 4 * KIB, durable: false }, LIMIT)
        };
        let mut scattered = born(0, Some(Traits::default()));
        let shown = (0..16).map(|n| write(&mut scattered, (97 * n % 64) * 8 * KIB));
        assert!(shown.fold(Traits::default(), Traits::and).has(Traits::SCATTERED));
        assert!(!is_bulk(&scattered));
        let mut again = born(0, Some(Traits::default()));
        let shown = (0..64).map(|n| write(&mut again, n % 8 * 4 * KIB));
        assert!(shown.fold(Traits::default(), Traits::and).has(Traits::REWRITTEN));
        assert!(!is_bulk(&again));
        // A file's own writes outweigh its siblings'.
        let mut ordered = born(0, Some(Traits::SCATTERED));
        let _ = append(&mut ordered, 15, 4 * KIB, false);
        assert!(!is_bulk(&ordered));
        let _ = append(&mut ordered, 1, 4 * KIB, false);
        assert!(is_bulk(&ordered));
    }

    #[test]
    fn what_will_be_gone_soon_counts_as_young_and_bulk_as_old() {
        let grace = |life: &Life, now_s| life.grace_ns(now_s * SECOND, LIMIT, 30) / SECOND;
        let brief = born(100 * SECOND, Some(Traits::BRIEF.and(Traits::AWAITED)));
        assert_eq!([99, 100, 109, 110].map(|now| grace(&brief, now)), [0, 30, 30, 0]);
        assert_eq!(grace(&born(0, Some(Traits::default())), 1), -30);
        assert_eq!(grace(&born(0, None), 1), 0);
        assert_eq!(grace(&Life::loaded(0), i64::MAX / SECOND), 0);
    }

    #[test]
    fn a_life_is_brief_if_it_ends_within_seconds() {
        assert_eq!(born(SECOND, None).ended(11 * SECOND - 1), Traits::BRIEF);
        assert!(born(SECOND, None).ended(11 * SECOND).is_empty());
        assert!(Life::loaded(0).ended(0).is_empty());
        assert!(Life::born(Kinds::none(), 0).ended(0).is_empty(), "nothing was written");
    }

    #[test]
    fn without_a_limit_everything_is_waited_for() {
        let mut life = born(0, Some(Traits::default()));
        let stroke = Stroke { offset: 0, len: 1 << 40, durable: false };
        assert_eq!(life.wrote(stroke, 0).size_bytes(), 1 << 30);
        assert!(!life.is_bulk(0) && life.synced(0) == Traits::AWAITED);
    }

    #[test]
    fn what_another_process_writes_counts_by_what_it_leaves() {
        let mut log = born(0, Some(Traits::default()));
        assert_eq!(log.was_written(128 * KIB, 100, 128 * KIB, LIMIT).size_bytes(), 64 * KIB);
        assert!(is_bulk(&log), "the syncs are still to come");
        assert_eq!(log.synced(LIMIT), Traits::AWAITED);
        assert!(log.was_written(128 * KIB, 100, 128 * KIB, LIMIT).is_empty());
        assert_eq!(
            log.was_written(128 * KIB, 100, 128 * KIB, LIMIT),
            Traits::REWRITTEN.and(Traits::SCATTERED)
        );
        let mut bulk = born(0, None);
        assert_eq!(bulk.was_written(1 << 20, 1, 1 << 20, LIMIT).size_bytes(), 1 << 20);
        assert!(is_bulk(&bulk));
    }

    #[test]
    fn a_size_has_all_that_are_less() {
        let sizes = [0, 65_535, 65_536, 262_143, 262_144, 1 << 30, u64::MAX].map(Traits::of_size);
        let reached = sizes.map(|traits| traits.bits().count());
        assert_eq!(reached, [0, 0, 1, 1, 2, SIZES, SIZES]);
        assert_eq!(sizes[4].size_bytes(), 262_144);
    }

    #[test]
    fn sizes_are_reached_one_after_the_other() {
        let mut life = born(0, None);
        assert_eq!(append(&mut life, 1, 64 * KIB - 1, false).size_bytes(), 0);
        assert_eq!(append(&mut life, 1, 1, false).size_bytes(), 64 * KIB);
        assert!(append(&mut life, 1, 1, false).is_empty());
        assert_eq!(append(&mut life, 1, 1 << 20, false).size_bytes(), 1 << 20);
    }
}
