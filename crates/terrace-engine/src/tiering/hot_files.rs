//! Files that are read much, in the order in which they move.

use terrace_policy::{Rule, hottest};

use crate::tiering::round::Round;

/// Files that are read, as of the last look at all files of a shard, for the rounds of a second: a
/// look takes as long as there are files in DRAM.
#[derive(Debug, Default)]
pub(crate) struct HotFiles {
    /// Inode numbers, the hottest last.
    files: Vec<u64>,
    /// The migration and the second of the last look.
    looked: Option<(Rule, u64)>,
    /// The last look found more files than are remembered.
    has_more: bool,
    /// Data has moved since, so that another look finds others.
    has_moved: bool,
}

impl HotFiles {
    pub fn needs_look(&self, rule: Rule, second: u64) -> bool {
        let is_used_up = self.files.is_empty() && self.has_more && self.has_moved;
        self.looked != Some((rule, second)) || is_used_up
    }

    /// Remembers the `most` hottest of the files that a look has found: their artime, and number.
    pub fn remember(&mut self, rule: Rule, second: u64, mut found: Vec<(i64, u64)>, most: usize) {
        let has_more = found.len() > most;
        hottest(&mut found, most);
        let files = found.into_iter().rev().map(|(_, ino)| ino).collect();
        *self = Self { files, looked: Some((rule, second)), has_more, has_moved: false };
    }

    /// Takes the hottest.
    pub fn pop(&mut self) -> Option<u64> {
        self.files.pop()
    }

    /// A round has ended. The file that it took last may have more to move, and is the next.
    pub fn end_round(&mut self, last: Option<u64>, round: &Round) {
        self.files.extend(last);
        self.has_moved |= !round.is_in_vain();
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    const RULE: Rule = Rule::ReverseMigration;

    #[test]
    fn a_look_serves_a_second_and_is_repeated_only_if_that_finds_others() {
        let mut hot = HotFiles::default();
        let found = vec![(1, 11), (3, 13), (2, 12)];
        let vain = Round::Stuck(String::new());
        assert!(hot.needs_look(RULE, 1));
        hot.remember(RULE, 1, found.clone(), 2);
        assert_eq!(hot.files, [12, 13], "the hottest last");
        assert!(hot.needs_look(RULE, 2) && hot.needs_look(Rule::ReadMigration, 1));
        hot.files.clear();
        assert!(!hot.needs_look(RULE, 1), "it would find the same");
        hot.end_round(None, &vain);
        assert!(!hot.needs_look(RULE, 1), "nothing has moved");
        hot.end_round(Some(12), &Round::Moved(1));
        assert!(!hot.needs_look(RULE, 1), "there is one left");
        assert_eq!(hot.files.pop(), Some(12));
        assert!(hot.needs_look(RULE, 1));
        hot.remember(RULE, 1, found, 3);
        hot.files.clear();
        hot.end_round(None, &Round::Moved(1));
        assert!(!hot.needs_look(RULE, 1), "there were no others");
    }
}
