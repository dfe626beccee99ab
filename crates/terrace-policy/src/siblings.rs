//! Siblings: files of one kind. A new file is expected to be like them.
//!
//! Files are of one *kind* if they are in one directory and their names follow one pattern. Each
//! kind counts the files that were born (written for the first time) and those of them that showed
//! a [trait](Traits). What most of its siblings have shown is expected of a new file.
//!
//! Invariants: no more than [`BIRTHS_MAX`] births count, and of no trait more files than births:
//! what is older counts less. The table has a fixed number of rows; a new kind takes the row of the
//! one in its set that nobody was born to for longest.

use crate::kinds::{Kind, Kinds};
use crate::life::{TRAITS, Traits};

/// When so many files of a kind were born, all its counts are halved.
const BIRTHS_MAX: u8 = 64;
/// Of so many siblings something is known.
const BIRTHS_MIN: u8 = 3;
/// Rows among which a kind has its place.
const WAYS: usize = 8;
/// Rows of the table.
const ROWS: usize = 1024;

/// The counts of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Which; 0 in a row that is free.
    pub kind: Kind,
    /// When a file was last born to it, in births of all kinds.
    pub last_birth: u32,
    /// Files that were born, with a weight that fades.
    pub births: u8,
    /// Of these, files that showed a trait: by the number of its bit.
    pub showed: [u8; TRAITS],
}

impl Row {
    fn note_birth(&mut self, births: u32) {
        self.last_birth = births;
        self.births += 1;
        if self.births > BIRTHS_MAX {
            self.births /= 2;
            self.showed.iter_mut().for_each(|count| *count /= 2);
        }
    }

    fn note(&mut self, traits: Traits) {
        for bit in traits.bits() {
            self.showed[bit] = (self.showed[bit] + 1).min(self.births);
        }
    }

    /// The traits of most files, if enough are known.
    pub fn common(&self) -> Option<Traits> {
        let is_common = |&bit: &usize| self.showed[bit] * 2 > self.births;
        (self.births >= BIRTHS_MIN).then(|| Traits::of_bits((0..TRAITS).filter(is_common)))
    }

    /// Whether it is one that [`Siblings`] could have made.
    fn is_possible(&self) -> bool {
        self.kind != Kind::default()
            && (1..=BIRTHS_MAX).contains(&self.births)
            && self.showed.iter().all(|&count| count <= self.births)
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Siblings {
    rows: Box<[Row]>,
    births: u32,
}

impl Default for Siblings {
    fn default() -> Self {
        Self { rows: vec![Row::default(); ROWS].into(), births: 0 }
    }
}

impl Siblings {
    /// What was known at the last mount. Rows that cannot be are left out.
    pub fn from_rows(rows: impl IntoIterator<Item = Row>) -> Self {
        let mut siblings = Self::default();
        for row in rows.into_iter().filter(Row::is_possible) {
            let place = siblings.place_of(row.kind);
            siblings.births = siblings.births.max(row.last_birth);
            if siblings.rows[place].last_birth <= row.last_birth {
                siblings.rows[place] = row;
            }
        }
        siblings
    }

    /// What is known, for the next mount.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.kind != Kind::default())
    }

    /// A file is written for the first time: what its siblings have in common, those of its
    /// directory if enough of them are known.
    pub fn born(&mut self, kinds: Kinds) -> Option<Traits> {
        if kinds == Kinds::none() {
            return None;
        }
        self.births = self.births.saturating_add(1);
        let births = self.births;
        let known = kinds.each().map(|kind| {
            let place = self.place_of(kind);
            let row = &mut self.rows[place];
            if row.kind != kind {
                *row = Row { kind, ..Row::default() };
            }
            let known = row.common();
            row.note_birth(births);
            known
        });
        known.into_iter().flatten().next()
    }

    /// What a new file of these kinds would be judged by, if enough is known: how many siblings
    /// count, and whether they are of its directory.
    pub fn known(&self, kinds: Kinds) -> Option<(u8, bool)> {
        let births = kinds.each().map(|kind| {
            let row = &self.rows[self.place_of(kind)];
            (row.kind == kind && kind != Kind::default() && row.common().is_some())
                .then_some(row.births)
        });
        let [of_directory, anywhere] = births;
        of_directory.map(|n| (n, true)).or(anywhere.map(|n| (n, false)))
    }

    /// A file has shown these for the first time.
    pub fn showed(&mut self, kinds: Kinds, traits: Traits) {
        for kind in kinds.each() {
            let place = self.place_of(kind);
            let row = &mut self.rows[place];
            // Its kind may have lost its row meanwhile.
            if row.kind == kind && kind != Kind::default() {
                row.note(traits);
            }
        }
    }

    /// Where the row of a kind is, or would be: in the place of another one, if need be.
    fn place_of(&self, kind: Kind) -> usize {
        let first = (kind.0 % (ROWS / WAYS) as u64) as usize * WAYS;
        let set = &self.rows[first..first + WAYS];
        let own = set.iter().position(|row| row.kind == kind);
        let oldest = || (0..WAYS).min_by_key(|&way| set[way].last_birth).expect("there are ways");
        first + own.unwrap_or_else(oldest)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn most_siblings_say_what_a_file_is_like() {
        let (mut siblings, kinds) = (Siblings::default(), Kinds::of(1, b"1.log"));
        for _ in 0..3 {
            assert_eq!(siblings.born(kinds), None);
            siblings.showed(kinds, Traits::AWAITED);
        }
        assert_eq!(siblings.born(kinds), Some(Traits::AWAITED));
        // Elsewhere, too, but not against what is known there.
        let elsewhere = Kinds::of(2, b"2.log");
        for expected in [Traits::AWAITED, Traits::AWAITED, Traits::default(), Traits::default()] {
            assert_eq!(siblings.born(elsewhere), Some(expected));
        }
        assert_eq!(siblings.born(kinds), Some(Traits::AWAITED));
        assert_eq!(siblings.born(Kinds::of(1, b"x")), None);
    }

    #[test]
    fn what_is_older_counts_less() {
        let (mut siblings, kinds) = (Siblings::default(), Kinds::of(1, b"1.log"));
        for _ in 0..1000 {
            siblings.born(kinds);
            siblings.showed(kinds, Traits::BRIEF);
        }
        let births = (1..).find(|_| siblings.born(kinds) == Some(Traits::default()));
        assert!(births.is_some_and(|births| (20..80).contains(&births)), "{births:?}");
    }

    #[test]
    fn files_without_siblings_count_nowhere() {
        let mut siblings = Siblings::default();
        assert_eq!(siblings.born(Kinds::none()), None);
        siblings.showed(Kinds::none(), Traits::BRIEF);
        assert_eq!(siblings.rows().count(), 0);
    }

    proptest! {
        #[test]
        fn the_table_stays_within_its_bounds_and_survives_a_mount(
            steps in prop::collection::vec((0..2000u64, 0..16usize), 1..3000),
        ) {
            let mut siblings = Siblings::default();
            for (number, bit) in steps {
                let kinds = Kinds::from_numbers([number + 1, number % 7 + 10_000]);
                if bit < TRAITS {
                    siblings.showed(kinds, Traits::of_bits([bit].into_iter()));
                } else {
                    siblings.born(kinds);
                }
            }
            prop_assert!(siblings.rows().all(Row::is_possible));
            let again = Siblings::from_rows(siblings.rows().copied());
            prop_assert_eq!(&again.rows, &siblings.rows);
            prop_assert!(again.births <= siblings.births);
        }

        #[test]
        fn rows_that_cannot_be_are_left_out(
            kind in 0..3u64,
            births in 0..80u8,
            count in 0..80u8,
        ) {
            let mut row = Row { kind: Kind(kind), births, ..Row::default() };
            row.showed[2] = count;
            let siblings = Siblings::from_rows([row]);
            let is_possible = kind > 0 && (1..=BIRTHS_MAX).contains(&births) && count <= births;
            prop_assert_eq!(siblings.rows().count(), usize::from(is_possible));
        }
    }
}
