//! What has happened to a volume, and the states that a power cut may therefore leave.
//!
//! A step that is durable is there from its return on, and every step before it; while an operation
//! runs, the first so many of its steps are there. Data may wait in the page cache ([`Waits`]):
//! while a write runs nobody knows yet, so it counts as waiting; when it has returned, it waits
//! only if the volume says that its bytes are dirty and nobody asked for a durable write, else it
//! is durable. A waiting write is there or not, until an fsync of its file, or a sync, has
//! returned; it is not mixed with anything else. A rename that replaces a file is there only
//! together with what was written to the file before.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::model::{Model, Step};
use crate::op::{Op, Path, RenameHow};
use crate::tree::{Tree, Trees, difference};

/// More waiting writes than this would make too many states.
const WAITING_MAX: usize = 8;

/// How long data may wait in the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// It all goes to PM.
    Never,
    /// Until the write returns: the volume is mounted so that all writes are durable.
    UntilReturn,
    /// Until an fsync or a sync returns.
    UntilSync,
}

#[derive(Clone, Debug)]
struct Done {
    step: Step,
    /// Inode (of the model) whose contents it changes.
    inode: Option<usize>,
    /// It may be there or not.
    waits: bool,
    /// Inode whose waiting data must be there if this is.
    needs: Option<usize>,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct History {
    start: Model,
    now: Model,
    waits: Waits,
    done: Vec<Done>,
    /// The steps that are being taken.
    current: Vec<Done>,
}

/// The states that may be found.
#[derive(Clone, Debug, Default)]
pub struct Legal {
    /// Trees, and models of them.
    pub states: BTreeMap<Tree, Model>,
    /// A refusal to mount: there is no volume.
    pub none: bool,
    /// What the only one of these states is like exactly, if somebody has seen it.
    pub seen: Option<Seen>,
}

/// What a volume showed when nothing waited.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its tree.
    pub trees: Trees,
    /// Change times may be older on its devices: those of what was renamed are logged later.
    pub lags: bool,
}

impl History {
    /// Begins with a volume that holds `model`, durably.
    pub fn new(model: Model, waits: Waits) -> Self {
        History { start: model.clone(), now: model, waits, done: Vec::new(), current: Vec::new() }
    }

    /// The model as programs see it now.
    pub fn now(&self) -> &Model {
        &self.now
    }

    /// Whether times are compared, which data in the page cache runs ahead of.
    pub fn times(&self) -> bool {
        self.waits == Waits::Never
    }

    /// An operation begins; the errno that it must end with.
    pub fn begin(&mut self, op: &Op) -> Result<(), i32> {
        let steps = self.now.steps(op)?;
        let mut ahead = self.now.clone();
        for step in steps {
            let inode = step.path().and_then(|path| ahead.find(path)).map(|node| node.id());
            let replaces = matches!(&step, Step::Whole(Op::Rename(_, to,
                how)) if *how != RenameHow::Exchange && ahead.find(*to).is_some());
            ahead.take(&step).expect("steps can be taken");
            let (waits, needs) = (
                self.waits != Waits::Never && step.contents().is_some(),
                inode.filter(|_| replaces),
            );
            self.current.push(Done { step, inode, waits, needs });
        }
        Ok(())
    }

    /// The operation has returned. `is_dirty`: whether these bytes of a file wait in the page
    /// cache.
    pub fn end(&mut self, op: &Op, is_dirty: &dyn Fn(Path, Range<usize>) -> bool) {
        match self.waits == Waits::UntilReturn || op.is_durable() {
            true => self.take_current(&|_, _| false),
            false => self.take_current(is_dirty),
        }
        if let Some(path) = op.syncs() {
            let inode = self.now.find(path).map(|node| node.id());
            self.settle(inode);
        }
        self.keep_few_waiting();
    }

    /// The operation has found no room: it has taken the first so many of its steps, not all, which
    /// is what `found` must show. Returns the states that a power cut may have left meanwhile.
    ///
    /// # Errors
    /// How the tree differs from what was there before.
    pub fn refused(
        &mut self,
        found: &Tree,
        is_dirty: &dyn Fn(Path, Range<usize>) -> bool,
    ) -> Result<Legal, String> {
        let before = self.now.tree(self.times());
        let mut now = self.now.clone();
        for taken in 0..self.current.len() {
            if now.tree(self.times()) == *found {
                self.current.truncate(taken);
                let during = self.legal();
                self.take_current(is_dirty);
                return Ok(during);
            }
            now.take(&self.current[taken].step).expect("steps can be taken");
        }
        Err(difference(&before, found))
    }

    fn take_current(&mut self, is_dirty: &dyn Fn(Path, Range<usize>) -> bool) {
        for mut done in std::mem::take(&mut self.current) {
            done.waits &= done.step.contents().is_some_and(|(path, bytes)| is_dirty(path, bytes));
            self.now.take(&done.step).expect("steps can be taken");
            if let Some(needed) = done.needs {
                self.settle(Some(needed));
            }
            self.done.push(done);
        }
    }

    /// A sync has returned.
    pub fn synced(&mut self) {
        self.settle(None);
    }

    fn settle(&mut self, inode: Option<usize>) {
        for done in &mut self.done {
            done.waits &= inode.is_some() && done.inode != inode;
        }
    }

    fn keep_few_waiting(&self) {
        assert!(
            self.done.iter().filter(|d| d.waits).count() <= WAITING_MAX,
            "the workload waits with too many writes"
        );
    }

    /// Whether anything may be lost.
    pub fn waits(&self) -> bool {
        self.done.iter().any(|done| done.waits)
    }

    /// The states that a power cut may leave now.
    pub fn legal(&self) -> Legal {
        let mut legal = Legal::default();
        for taken in 0..=self.current.len() {
            let all: Vec<&Done> = self.done.iter().chain(&self.current[..taken]).collect();
            let waiting: Vec<usize> = (0..all.len()).filter(|&i| all[i].waits).collect();
            for set in 0..1u32 << waiting.len() {
                let there = |i: usize| {
                    waiting.iter().position(|&w| w == i).is_none_or(|bit| set >> bit & 1 == 1)
                };
                self.add_state(&all, &there, &mut legal);
            }
        }
        legal
    }

    fn add_state(&self, all: &[&Done], there: &dyn Fn(usize) -> bool, legal: &mut Legal) {
        let mut model = self.start.clone();
        for (i, done) in all.iter().enumerate() {
            let lacks = |needed: usize| (0..i).any(|j| all[j].inode == Some(needed) && !there(j));
            if there(i) && done.needs.is_some_and(lacks) {
                return;
            }
            if there(i) {
                // A step that depends on a write that is not there (an attribute of its file, say)
                // may find nothing to do.
                let _ = model.take(&done.step);
            }
        }
        legal.states.insert(model.tree(self.times()), model);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: (Option<usize>, usize) = (None, 0);
    const B: (Option<usize>, usize) = (None, 1);

    fn run(history: &mut History, op: &Op) {
        history.begin(op).unwrap();
        history.end(op, &|_, _| true);
    }

    #[test]
    fn a_durable_operation_is_there_or_not_while_it_runs_and_there_when_it_returned() {
        let mut history = History::new(Model::new(), Waits::Never);
        history.begin(&Op::Create(A)).unwrap();
        assert_eq!(history.legal().states.len(), 2);
        history.end(&Op::Create(A), &|_, _| false);
        assert_eq!(history.legal().states.keys().collect::<Vec<_>>(), [&history.now().tree(true)]);
    }

    #[test]
    fn waiting_writes_are_there_or_not_until_an_fsync() {
        let mut history = History::new(Model::new(), Waits::UntilSync);
        run(&mut history, &Op::Create(A));
        run(&mut history, &Op::Write(A, 0, 10, 1));
        run(&mut history, &Op::Write(A, 20, 10, 2));
        assert_eq!(history.legal().states.len(), 4);
        history.begin(&Op::Fsync(A)).unwrap();
        assert_eq!(history.legal().states.len(), 4);
        history.end(&Op::Fsync(A), &|_, _| false);
        assert_eq!(history.legal().states.len(), 1);
    }

    #[test]
    fn what_is_not_dirty_when_a_write_returns_is_durable() {
        let mut history = History::new(Model::new(), Waits::UntilSync);
        run(&mut history, &Op::Create(A));
        let write = Op::Write(A, 0, 100, 1);
        history.begin(&write).unwrap();
        assert_eq!(history.legal().states.len(), 2);
        history.end(&write, &|path, bytes| path == A && bytes.contains(&100));
        assert_eq!(history.legal().states.keys().collect::<Vec<_>>(), [&history.now().tree(false)]);
    }

    #[test]
    fn a_durable_write_waits_only_while_it_runs() {
        for (waits, write) in [
            (Waits::UntilSync, Op::WriteDurable(A, 0, 10, 1)),
            (Waits::UntilReturn, Op::Write(A, 0, 10, 1)),
        ] {
            let mut history = History::new(Model::new(), waits);
            run(&mut history, &Op::Create(A));
            history.begin(&write).unwrap();
            assert_eq!(history.legal().states.len(), 2);
            history.end(&write, &|_, _| true);
            assert_eq!(history.legal().states.len(), 1);
        }
    }

    #[test]
    fn what_finds_no_room_has_taken_some_of_its_steps_but_not_all() {
        let mut history = History::new(Model::new(), Waits::Never);
        run(&mut history, &Op::Create(A));
        let before = history.now().tree(true);
        history.begin(&Op::Write(A, 0, 10, 1)).unwrap();
        assert_eq!(history.clone().refused(&before, &|_, _| false).unwrap().states.len(), 1);
        let mut whole = history.clone();
        whole.end(&Op::Write(A, 0, 10, 1), &|_, _| false);
        assert!(history.refused(&whole.now().tree(true), &|_, _| false).is_err());
    }

    #[test]
    fn a_replacing_rename_brings_the_new_contents_along() {
        let mut history = History::new(Model::new(), Waits::UntilSync);
        run(&mut history, &Op::Create(A));
        run(&mut history, &Op::Create(B));
        run(&mut history, &Op::Write(A, 0, 10, 1));
        let rename = Op::Rename(A, B, RenameHow::Plain);
        history.begin(&rename).unwrap();
        // Nothing; the write; the write and the rename.
        assert_eq!(history.legal().states.len(), 3);
        history.end(&rename, &|_, _| false);
        assert_eq!(history.legal().states.len(), 1);
    }
}
