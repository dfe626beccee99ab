//! Files by where their data lies: the coldest of each tier, and those that are pinned.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

use rustc_hash::FxHashMap;
use terrace_layout::DEVICES_MAX;
use terrace_policy::ColdList;

use crate::base::types::Ino;

/// Files with data in a tier, coldest first.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    /// By tier.
    pub cold: Vec<ColdList>,
    /// Records of the inode table that have been looked at since the mount: what is in them is
    /// listed, or has been written since.
    pub scanned: u64,
    /// Records that have been looked at for logs in this turn.
    pub logs_seen: u64,
    pub pins: PinnedFiles,
}

impl Lists {
    /// The files of a tier.
    pub fn of_tier(&mut self, tier: u8) -> &mut ColdList {
        let tier = usize::from(tier);
        if self.cold.len() <= tier {
            self.cold.resize_with(tier + 1, ColdList::default);
        }
        &mut self.cold[tier]
    }

    /// A file is gone.
    pub fn forget(&mut self, ino: Ino) {
        for list in &mut self.cold {
            list.remove(ino.0);
        }
        self.pins.note(ino, None, false);
    }
}

/// Misplaced files that are tried before the others have their turn.
const TRIED_MISPLACED_MAX: usize = 16;

/// Pinned files of a shard that have been used since the mount.
#[derive(Debug, Default)]
pub(crate) struct PinnedFiles {
    pub tiers: FxHashMap<u64, u8>,
    /// How many are pinned to a tier, by its number.
    pub counts: [u64; DEVICES_MAX],
    /// Those with data on another tier than the one they are pinned to.
    pub misplaced: BTreeSet<u64>,
    /// The misplaced file that was tried last.
    tried: u64,
}

impl PinnedFiles {
    /// A file is pinned to this tier, or to none.
    pub fn note(&mut self, ino: Ino, pin: Option<u8>, is_misplaced: bool) {
        let old = match pin {
            Some(tier) => self.tiers.insert(ino.0, tier),
            None => self.tiers.remove(&ino.0),
        };
        old.into_iter().for_each(|tier| self.counts[usize::from(tier)] -= 1);
        pin.into_iter().for_each(|tier| self.counts[usize::from(tier)] += 1);
        match is_misplaced {
            true => self.misplaced.insert(ino.0),
            false => self.misplaced.remove(&ino.0),
        };
    }

    /// Some misplaced files and their pins, others each time.
    pub fn next_misplaced(&mut self) -> Vec<(u64, u8)> {
        let behind = self.misplaced.range((Excluded(self.tried), Unbounded));
        let rest = self.misplaced.range(..=self.tried);
        let next: Vec<u64> = behind.chain(rest).copied().take(TRIED_MISPLACED_MAX).collect();
        self.tried = next.last().copied().unwrap_or_default();
        next.into_iter().filter_map(|ino| Some((ino, *self.tiers.get(&ino)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinned_files_are_counted_and_misplaced_ones_take_turns() {
        let mut files = PinnedFiles::default();
        (1..=40).for_each(|ino| files.note(Ino(ino), Some(if ino % 2 == 0 { 0 } else { 2 }), true));
        files.note(Ino(1), Some(0), true);
        assert_eq!((files.counts[0], files.counts[1], files.counts[2]), (21, 0, 19));
        let mut turn =
            || files.next_misplaced().into_iter().map(|(ino, _)| ino).collect::<Vec<u64>>();
        let turns = [turn(), turn(), turn()];
        assert_eq!((turns[0].clone(), turns[1].clone()), ((1..=16).collect(), (17..=32).collect()));
        assert_eq!(turns[2], (33..=40).chain(1..=8).collect::<Vec<_>>());
        (1..=40).for_each(|ino| files.note(Ino(ino), None, false));
        assert_eq!((files.next_misplaced(), files.counts), (vec![], [0; DEVICES_MAX]));
    }
}
