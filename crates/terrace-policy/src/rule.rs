//! Rules: what put a piece of a file where it lies. A decision is one of them, so nobody has to
//! find out afterwards why it was made.

use crate::temperature::Pressure;

/// Declares the rules: variant, number on media, name, words.
macro_rules! rules {
    ($($variant:ident $number:literal $name:literal $words:literal),* $(,)?) => {
        /// What put a piece of a file where it lies.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Rule {
            #[default]
            $(#[doc = $words] $variant = $number),*
        }

        impl Rule {
            /// Every rule, in the order of their numbers.
            pub const ALL: &[Rule] = &[$(Rule::$variant),*];

            /// Its name: lower case.
            pub fn name(self) -> &'static str {
                match self {
                    $(Rule::$variant => $name),*
                }
            }

            /// What it did, and why, in words that follow on "so many bytes".
            pub fn words(self) -> &'static str {
                match self {
                    $(Rule::$variant => $words),*
                }
            }
        }
    };
}

rules! {
    Unknown 0 "unknown"
        "came before Terrace FS noted why (format 3.5 and older)",
    Synchronous 1 "synchronous"
        "written to PM, because an fsync is expected soon",
    Small 2 "small"
        "written to PM, because the write was small or not known to be large",
    Durable 3 "durable"
        "written to PM, because the write was to be durable when it returned",
    OwnBlocks 4 "own_blocks"
        "written to blocks that the file had in PM, which had too little room for more",
    DisksFull 5 "disks_full"
        "written to PM, because the disks had no room",
    Pinned 6 "pinned"
        "written where the file is pinned, or on the way there",
    LargeAsync 7 "large_async"
        "written to the page cache, because the write was large and no fsync is expected soon",
    Bulk 8 "bulk"
        "written to the page cache, because nobody waits for it and data was leaving PM",
    PmFull 9 "pm_full"
        "written to the page cache, because PM had too little room",
    JoinsDirty 10 "joins_dirty"
        "written to the page cache, to join dirty pages of which nobody knows the rule",
    Unnoted 11 "unnoted"
        "in the page cache as zeros at the edge of a range, or since a daemon before this one",
    Reserved 12 "reserved"
        "reserved by fallocate, where a write of as much would have gone",
    Direct 13 "direct"
        "written to PM by a program itself, which had borrowed the file",
    Past 14 "past"
        "written to the page cache, because a disk took long writes sooner than PM",
    Cold 16 "cold"
        "moved out of a full PM as cold: older than cold_age, or than the file on average",
    ColdMean 17 "cold_mean"
        "moved out of a full PM, being no younger than the file on average (step 2)",
    ColdWhole 18 "cold_whole"
        "moved out of a full PM with all of a file not written lately (step 3)",
    ColdPart 19 "cold_part"
        "moved out of a full PM as the older part of what the file had there (step 4)",
    ColdTogether 20 "cold_together"
        "moved out of a full PM as cold, together with other small files",
    ColdMeanTogether 21 "cold_mean_together"
        "moved out of a full PM, being no younger than the file on average (step 2), together with \
         other small files",
    ColdWholeTogether 22 "cold_whole_together"
        "moved out of a full PM with all of a file not written lately (step 3), together \
         with other small files",
    ColdPartTogether 23 "cold_part_together"
        "moved out of a full PM as the older part of what the file had there (step 4), together \
         with other small files",
    Relief 24 "relief"
        "moved out of PM at once, because a program found next to no room there",
    Demoted 25 "demoted"
        "moved from a nearly full tier of disks to the next as cold",
    ReadMigration 26 "read_migration"
        "moved from PM to a disk and the page cache, because it was read often and DRAM idled",
    ReverseMigration 27 "reverse_migration"
        "moved from a disk to PM, because it was read and PM idled",
    MovedToPin 28 "moved_to_pin"
        "moved to the tier that the file is pinned to",
    ByHand 29 "by_hand"
        "moved by hand: terrace evict, warm or pin",
    Drained 30 "drained"
        "moved from a disk that was to leave the volume",
}

/// Why cold data leaves a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// Write migration: PM is fuller than formula (1) wants it.
    FullPm,
    /// A program needs room in PM at once.
    Relief,
    /// The tier of disks is nearly full.
    FullTier,
}

impl Rule {
    /// The rule of cold data that leaves for this reason; it was found under this pressure.
    /// `together`: with that of other files.
    pub fn of_cold(leaving: Leaving, pressure: Pressure, together: bool) -> Self {
        match (leaving, pressure, together) {
            (Leaving::Relief, ..) => Self::Relief,
            (Leaving::FullTier, ..) => Self::Demoted,
            (_, Pressure::Low, false) => Self::Cold,
            (_, Pressure::Medium, false) => Self::ColdMean,
            (_, Pressure::High, false) => Self::ColdWhole,
            (_, Pressure::Highest, false) => Self::ColdPart,
            (_, Pressure::Low, true) => Self::ColdTogether,
            (_, Pressure::Medium, true) => Self::ColdMeanTogether,
            (_, Pressure::High, true) => Self::ColdWholeTogether,
            (_, Pressure::Highest, true) => Self::ColdPartTogether,
        }
    }

    /// The rule of a number that media hold; those that nobody knows yet are unknown.
    pub fn of_number(number: u8) -> Self {
        let at = Self::ALL.partition_point(|rule| rule.number() < number);
        Self::ALL.get(at).copied().filter(|rule| rule.number() == number).unwrap_or_default()
    }

    /// Its number on media.
    #[inline]
    pub const fn number(self) -> u8 {
        self as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fit_media_and_ascend_and_names_differ() {
        for (at, &rule) in Rule::ALL.iter().enumerate() {
            assert!(rule.number() < 64, "{rule:?}: entries have six bits for it");
            assert_eq!(Rule::of_number(rule.number()), rule);
            let name = rule.name();
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
            for other in &Rule::ALL[..at] {
                assert!(other.number() < rule.number() && other.name() != name, "{rule:?}");
            }
        }
        assert_eq!([15, 31, 63].map(Rule::of_number), [Rule::Unknown; 3]);
    }

    #[test]
    fn each_step_and_each_reason_to_leave_has_its_rule() {
        let steps = [Pressure::Low, Pressure::Medium, Pressure::High, Pressure::Highest];
        let rules = |together| steps.map(|p| Rule::of_cold(Leaving::FullPm, p, together).number());
        assert_eq!((rules(false), rules(true)), ([16, 17, 18, 19], [20, 21, 22, 23]));
        let of = |leaving| steps.map(|pressure| Rule::of_cold(leaving, pressure, true));
        assert_eq!(of(Leaving::Relief), [Rule::Relief; 4]);
        assert_eq!(of(Leaving::FullTier), [Rule::Demoted; 4]);
    }

    #[test]
    fn the_documentation_lists_every_rule() {
        let rows = Rule::ALL
            .iter()
            .map(|rule| format!("| {} | `{}` | {} |\n", rule.number(), rule.name(), rule.words()));
        let table: String = rows.collect();
        let page =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/POLICY.md"))
                .unwrap();
        assert!(page.contains(&table), "docs/POLICY.md should have this table:\n{table}");
    }
}
