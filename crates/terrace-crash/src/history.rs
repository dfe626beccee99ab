//! What has happened to a volume, and the states that a power cut may therefore leave.
//!
//! A step that is durable is there from its return on, and every step before it; while an operation runs, the first so
//! many of its steps are there. Data that waits in the page cache (`lazy`) is there or not, write by write, until an
//! fsync of its file, or a sync, has returned; it is not mixed with anything else. A rename that replaces a file is there
//! only together with what was written to the file before.

use std::collections::BTreeMap;

use crate::model::{Model, Op, RenameHow, Step};
use crate::tree::Tree;

/// More waiting writes than this would make too many states.
const WAITING_MAX: usize = 8;

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
    lazy: bool,
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
}

impl History {
    /// Begins with a volume that holds `model`, durably. `lazy`: data may wait in the page cache.
    pub fn new(model: Model, lazy: bool) -> Self {
        History { start: model.clone(), now: model, lazy, done: Vec::new(), current: Vec::new() }
    }

    /// The model as programs see it now.
    pub fn now(&self) -> &Model {
        &self.now
    }

    /// Whether times are compared, which data in the page cache runs ahead of.
    pub fn times(&self) -> bool {
        !self.lazy
    }

    /// An operation begins; the errno that it must end with.
    pub fn begin(&mut self, op: &Op) -> Result<(), i32> {
        let steps = self.now.steps(op)?;
        let mut ahead = self.now.clone();
        for step in steps {
            let inode = step.path().and_then(|path| ahead.find(path)).map(|node| node.id());
            let replaces = matches!(&step, Step::Whole(Op::Rename(_, to, how)) if *how != RenameHow::Exchange && ahead.find(*to).is_some());
            ahead.take(&step).expect("steps can be taken");
            let (waits, needs) = (self.lazy && step.is_data(), inode.filter(|_| replaces));
            self.current.push(Done { step, inode, waits, needs });
        }
        Ok(())
    }

    /// The operation has returned.
    pub fn end(&mut self, op: &Op) {
        for done in std::mem::take(&mut self.current) {
            self.now.take(&done.step).expect("steps can be taken");
            if let Some(needed) = done.needs {
                self.settle(Some(needed));
            }
            self.done.push(done);
        }
        if let Op::Fsync(path) = op {
            let inode = self.now.find(*path).map(|node| node.id());
            self.settle(inode);
        }
        self.keep_few_waiting();
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
        assert!(self.done.iter().filter(|d| d.waits).count() <= WAITING_MAX, "the workload waits with too many writes");
    }

    /// The states that a power cut may leave now.
    pub fn legal(&self) -> Legal {
        let mut legal = Legal::default();
        for taken in 0..=self.current.len() {
            let all: Vec<&Done> = self.done.iter().chain(&self.current[..taken]).collect();
            let waiting: Vec<usize> = (0..all.len()).filter(|&i| all[i].waits).collect();
            for set in 0..1u32 << waiting.len() {
                let there = |i: usize| waiting.iter().position(|&w| w == i).is_none_or(|bit| set >> bit & 1 == 1);
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
                // What depends on a write that is not there (an attribute of its file, say) may find nothing to do.
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
        history.end(op);
    }

    #[test]
    fn a_durable_operation_is_there_or_not_while_it_runs_and_there_when_it_returned() {
        let mut history = History::new(Model::new(), false);
        history.begin(&Op::Create(A)).unwrap();
        assert_eq!(history.legal().states.len(), 2);
        history.end(&Op::Create(A));
        assert_eq!(history.legal().states.keys().collect::<Vec<_>>(), [&history.now().tree(true)]);
    }

    #[test]
    fn waiting_writes_are_there_or_not_until_an_fsync() {
        let mut history = History::new(Model::new(), true);
        run(&mut history, &Op::Create(A));
        run(&mut history, &Op::Write(A, 0, 10, 1));
        run(&mut history, &Op::Write(A, 20, 10, 2));
        assert_eq!(history.legal().states.len(), 4);
        history.begin(&Op::Fsync(A)).unwrap();
        assert_eq!(history.legal().states.len(), 4);
        history.end(&Op::Fsync(A));
        assert_eq!(history.legal().states.len(), 1);
    }

    #[test]
    fn a_replacing_rename_brings_the_new_contents_along() {
        let mut history = History::new(Model::new(), true);
        run(&mut history, &Op::Create(A));
        run(&mut history, &Op::Create(B));
        run(&mut history, &Op::Write(A, 0, 10, 1));
        let rename = Op::Rename(A, B, RenameHow::Plain);
        history.begin(&rename).unwrap();
        // Nothing; the write; the write and the rename.
        assert_eq!(history.legal().states.len(), 3);
        history.end(&rename);
        assert_eq!(history.legal().states.len(), 1);
    }
}
