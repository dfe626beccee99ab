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
    /// At one point in so many the daemon is killed, and the power cut while another one recovers,
    /// and then does something; 0: at none.
    pub succession: u64,
}

/// The action of a killed daemon's successor once it has recovered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heir {
    /// It repeats the one that was cut short, as a program does that got no answer.
    Repeats,
    /// It does this one of the actions.
    Does(usize),
}

/// How much of a workload there is to draw lots about.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Size {
    /// States that are looked at.
    pub states: u64,
    /// Points at which a killed daemon leaves something undecided.
    pub kills: u64,
}

/// The lots of one workload.
#[derive(Debug)]
pub(crate) struct Lots {
    rates: Rates,
    hash: u64,
    size: Size,
    /// The step that was seen last, what its first state recovered to (`None`: to no volume), and
    /// whether another one has recovered to something else.
    step: Option<(usize, Option<Tree>, bool)>,
    /// Of its kills, those that were asked about.
    kills: u64,
}

impl Lots {
    /// For a workload of this size.
    pub fn new(rates: Rates, workload: &Workload, seed: u64, size: Size) -> Self {
        let text = workload.to_string();
        // FNV-1a: the same in every build.
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, |h: u64, b| {
            (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
        });
        Lots { rates, hash: hash ^ seed.rotate_left(32), size, step: None, kills: 0 }
    }

    /// Whether lot number `number` of `all`, one in so many, is drawn.
    fn drawn(&self, salt: u64, one_in: u64, number: u64, all: u64) -> bool {
        let phases = one_in.min(all) as usize;
        one_in > 0
            && phases > 0
            && number % one_in == Rng::with_seed(self.hash ^ salt).usize(..phases) as u64
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
        self.rates.recovery > 0
            && (commits || self.drawn(1, self.rates.recovery, state, self.size.states))
    }

    /// Whether the daemon is killed at the next point at which that leaves something undecided, and
    /// what its successor does, which has so many actions to choose from. To be asked of every such
    /// point.
    pub fn in_succession(&mut self, actions: usize) -> Option<Heir> {
        let number = self.kills;
        self.kills += 1;
        let one_in = self.rates.succession;
        self.drawn(3, one_in, number, self.size.kills).then(|| {
            match (number / one_in + self.hash).is_multiple_of(2) {
                true => Heir::Repeats,
                false => Heir::Does(self.action(!number, actions)),
            }
        })
    }

    fn action(&self, salt: u64, actions: usize) -> usize {
        Rng::with_seed(self.hash ^ Rng::with_seed(salt).u64(..)).usize(..actions)
    }

    /// Which of so many actions follows state number `state`, if one does.
    pub fn after(&self, state: u64, actions: usize) -> Option<usize> {
        self.drawn(2, self.rates.after, state, self.size.states)
            .then(|| self.action(state, actions))
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
                let mut lots = Lots::new(RATES, &workload, 1, Size { states, kills: 0 });
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
    fn one_of_two_daemons_is_killed_and_half_of_the_successors_repeat_what_was_cut_short() {
        let (mut repeats, mut does) = (0, BTreeSet::new());
        for workload in singles() {
            for kills in [1, 2, 5, 8] {
                let mut lots = Lots::new(RATES, &workload, 1, Size { states: 0, kills });
                let heirs: Vec<_> = (0..kills).filter_map(|_| lots.in_succession(50)).collect();
                let count = heirs.len() as u64;
                assert!((kills / 2).max(1) <= count && count <= kills.div_ceil(2), "{workload}");
                repeats += heirs.iter().filter(|&&heir| heir == Heir::Repeats).count();
                does.extend(heirs.iter().filter(|&&heir| heir != Heir::Repeats).map(|heir| {
                    let Heir::Does(action) = heir else { unreachable!("it was filtered") };
                    *action
                }));
            }
        }
        assert!(repeats > 1000 && does.len() == 50, "{repeats}, {}", does.len());
    }

    #[test]
    fn the_first_state_that_recovers_to_something_else_is_crashed_again_once_a_step() {
        let workload = &singles()[0];
        let tree = |text: &str| Some(Tree::from([(String::new(), text.to_owned())]));
        let rates = Rates { recovery: 1 << 40, after: 0, succession: 0 };
        let mut lots = Lots::new(rates, workload, 1, Size { states: u64::MAX, kills: 0 });
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
