//! Which states of a workload are crashed again.
//!
//! Lots are drawn from a hash of the workload and of what is counted, so that neither short
//! workloads nor some of the actions go without, and every run draws the same ones. On top of that,
//! one state at which an action commits is always crashed while it recovers: the first that
//! recovers to something else than the first of its step did.

use fastrand::Rng;

use crate::id::Workload;
use crate::tree::Tree;

/// How many are crashed again. At least one state of every workload is, in either way.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// One state in so many is crashed again while it recovers; 0: none.
    pub recovery: u64,
    /// One state in so many goes on with another action, and crashes in it; 0: none.
    pub after: u64,
    /// At one point in so many the daemon is killed, and the power cut while another one recovers.
    pub succession: u64,
}

/// The lots of one workload.
#[derive(Debug)]
pub(crate) struct Lots {
    rates: Rates,
    hash: u64,
    /// Of its states, numbered as they are looked at.
    states: u64,
    /// The step that was seen last, what its first state recovered to (`None`: to no volume), and
    /// whether another one has recovered to something else.
    step: Option<(usize, Option<Tree>, bool)>,
    /// Of its points, those at which the daemon can be killed with something undecided.
    points: u64,
}

impl Lots {
    /// For a workload of which so many states are looked at.
    pub fn new(rates: Rates, workload: &Workload, seed: u64, states: u64) -> Self {
        let text = workload.to_string();
        // FNV-1a: the same in every build.
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, |h: u64, b| {
            (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
        });
        Lots { rates, hash: hash ^ seed.rotate_left(32), states, step: None, points: 0 }
    }

    fn drawn(&self, salt: u64, one_in: u64, state: u64) -> bool {
        let phases = one_in.min(self.states) as usize;
        one_in > 0
            && phases > 0
            && state % one_in == Rng::with_seed(self.hash ^ salt).usize(..phases) as u64
    }

    /// Whether state number `state`, of `step`, is crashed while it recovers to `tree`. To be asked
    /// of every state.
    pub fn in_recovery(&mut self, state: u64, step: usize, tree: Option<&Tree>) -> bool {
        let commits = match &mut self.step {
            Some((last, first, seen)) if *last == step => {
                let commits = !*seen && first.as_ref() != tree;
                *seen |= commits;
                commits
            }
            _ => {
                self.step = Some((step, tree.cloned(), false));
                false
            }
        };
        self.rates.recovery > 0 && (commits || self.drawn(1, self.rates.recovery, state))
    }

    /// Whether the daemon is killed at the next point at which that leaves something undecided.
    pub fn in_succession(&mut self) -> bool {
        let phase = Rng::with_seed(self.hash ^ 3).u64(..self.rates.succession.max(1));
        self.points += 1;
        self.rates.succession > 0 && (self.points - 1) % self.rates.succession == phase
    }

    /// Which of so many actions follows state number `state`, if one does.
    pub fn after(&self, state: u64, actions: usize) -> Option<usize> {
        self.drawn(2, self.rates.after, state)
            .then(|| Rng::with_seed(self.hash ^ Rng::with_seed(state).u64(..)).usize(..actions))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::search::singles;

    const RATES: Rates = Rates { recovery: 40, after: 40, succession: 2 };

    #[test]
    fn every_workload_is_crashed_again_in_either_way_and_all_actions_follow() {
        let mut following = BTreeSet::new();
        for workload in singles() {
            for states in [1, 7, 39, 40, 500] {
                let mut lots = Lots::new(RATES, &workload, 1, states);
                let in_recovery =
                    (0..states).filter(|&n| lots.in_recovery(n, 0, None)).count() as u64;
                let after: Vec<_> = (0..states).filter_map(|n| lots.after(n, 50)).collect();
                for count in [in_recovery, after.len() as u64] {
                    assert!(
                        (states / 40).max(1) <= count && count <= states.div_ceil(40),
                        "{workload}: {count}"
                    );
                }
                following.extend(after);
            }
        }
        assert_eq!(following.len(), 50);
    }

    #[test]
    fn one_of_two_daemons_is_killed() {
        for workload in singles() {
            let mut lots = Lots::new(RATES, &workload, 1, 0);
            let killed: Vec<bool> = (0..4).map(|_| lots.in_succession()).collect();
            assert!(killed[0] != killed[1] && killed[..2] == killed[2..], "{workload}");
        }
    }

    #[test]
    fn the_first_state_that_recovers_to_something_else_is_crashed_again_once_a_step() {
        let workload = &singles()[0];
        let tree = |text: &str| Some(Tree::from([(String::new(), text.to_owned())]));
        let rates = Rates { recovery: 1 << 40, after: 0, succession: 0 };
        let mut lots = Lots::new(rates, workload, 1, u64::MAX);
        let states = [
            (0, tree("old")),
            (0, tree("old")),
            (0, tree("new")),
            (0, tree("new")),
            (1, tree("new")),
            (1, None),
        ];
        let asked: Vec<bool> =
            states.iter().map(|(step, tree)| lots.in_recovery(9, *step, tree.as_ref())).collect();
        assert_eq!(asked, [false, false, true, false, false, true]);
    }
}
