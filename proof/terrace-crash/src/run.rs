//! Runs: something is done to a volume, and every point at which the power may go is kept, with the
//! states that may be found after it.

use std::sync::Arc;

use parking_lot::Mutex;
use tempfile::TempDir;
use terrace_engine::Volume;
use terrace_media::IoOp;
use terrace_policy::Param;

use crate::actions::{Action, Named};
use crate::apply::{apply, is_dirty};
use crate::catch::caught;
use crate::history::{History, Legal, Seen, Waits};
use crate::id::{Deed, Workload};
use crate::image::Image;
use crate::model::Model;
use crate::op::Op;
use crate::point::{Moment, Point};
use crate::rig::{Config, Event, Open, Rig, recover};
use crate::tree::{Trees, difference, tree_of, trees_of};

/// What may be found after a step: while it ran, and when it had returned.
#[derive(Clone, Debug, Default)]
pub struct StepLegal {
    /// What was done.
    pub deed: Option<Deed>,
    during: Legal,
    end: Legal,
}

/// A run, seen afterwards.
#[derive(Debug)]
pub struct Run {
    /// What it started from.
    pub config: &'static Config,
    /// What it started from.
    pub base: Arc<Image>,
    /// The points, in order.
    pub points: Vec<Point>,
    /// By [`Point::step`].
    pub steps: Vec<StepLegal>,
    /// Whether times are compared.
    pub times: bool,
    /// What went wrong without any crash: it ends there.
    pub wrong: Option<String>,
}

impl Run {
    /// What may be found after a crash at a point of it.
    pub fn legal(&self, point: &Point) -> &Legal {
        let step = &self.steps[point.step];
        if point.moment.is_end() { &step.end } else { &step.during }
    }

    /// What was done at a point of it.
    pub fn deed(&self, point: &Point) -> Deed {
        self.steps[point.step].deed.clone().expect("a step that was done")
    }
}

/// Does something and keeps what it left.
struct Doing {
    rig: Rig,
    volume: Option<Open>,
    /// Outlives the daemon, not the power.
    cache: TempDir,
    config: &'static Config,
    history: History,
    /// See [`Seen::lags`].
    lags: bool,
    steps: Vec<StepLegal>,
}

impl Doing {
    fn open(config: &'static Config, image: &Arc<Image>, model: Model) -> Result<Self, String> {
        let mut doing = Doing::unmounted(config, Rig::new(image), model)?;
        doing.volume = Some(doing.mount()?);
        Ok(doing)
    }

    fn unmounted(config: &'static Config, rig: Rig, model: Model) -> Result<Self, String> {
        let cache = TempDir::new().map_err(|e| format!("a directory for the page cache: {e}"))?;
        let history = History::new(model, config.waits());
        Ok(Doing { rig, volume: None, cache, config, history, lags: false, steps: Vec::new() })
    }

    fn mount(&self) -> Result<Open, String> {
        let volume = self.config.open_with(&self.rig.devices, Some(self.cache.path()));
        volume.map(Open::new).map_err(|e| format!("mount: {e}"))
    }

    fn volume(&self) -> &Open {
        self.volume.as_ref().expect("mounted")
    }

    /// An action of the workload, not recorded.
    fn prelude(&mut self, ops: &[Op]) -> Result<(), String> {
        for op in ops {
            let expected = self.history.begin(op);
            let volume = self.volume.as_ref().expect("mounted");
            let found = apply(volume, op);
            returned(&mut self.history, volume, op, expected, found)?;
        }
        let waits = self.config.waits();
        if waits != Waits::UntilSync {
            self.history = History::new(self.history.now().clone(), waits);
        }
        Ok(())
    }

    /// Does and records the actions of the workload.
    fn actions(&mut self, actions: &[Named]) -> Result<(), String> {
        for (i, named) in actions.iter().enumerate() {
            if !self.act(&Deed::Action(i), &named.action)? {
                break;
            }
        }
        Ok(())
    }

    /// Does and records an action. `Ok(false)`: nothing can follow it.
    fn act(&mut self, deed: &Deed, action: &Action) -> Result<bool, String> {
        match action {
            Action::Op(op) => self.op(deed, op)?,
            Action::Interrupted(op, meanwhile) => self.interrupted(deed, op, meanwhile)?,
            Action::Sync => {
                let step = self.begin(deed);
                self.rig
                    .record(step, Moment::End, || self.volume().sync())
                    .map_err(|e| format!("sync: {e}"))?;
                self.history.synced();
            }
            Action::Remount => self.remount(deed)?,
            Action::Kill => self.kill(deed)?,
            Action::Format => {
                self.format(deed)?;
                return Ok(false);
            }
        }
        self.end();
        let found =
            trees_of(self.volume(), self.history.times()).map_err(|e| format!("reading: {e}"))?;
        let expected = self.history.now().tree(self.history.times());
        if found.tree != expected {
            return Err(format!("without any crash:\n{}", difference(&expected, &found.tree)));
        }
        self.lags = match action {
            Action::Op(op) | Action::Interrupted(_, op) => {
                self.lags || matches!(op, Op::Rename(..))
            }
            _ => false,
        };
        if !self.history.waits() {
            self.steps.last_mut().expect("a step").end.seen =
                Some(Seen { trees: found, lags: self.lags });
        }
        Ok(true)
    }

    /// A step begins: its number.
    fn begin(&mut self, deed: &Deed) -> usize {
        let during = self.history.legal();
        self.steps.push(StepLegal { deed: Some(deed.clone()), during, end: Legal::default() });
        self.steps.len() - 1
    }

    /// It has ended.
    fn end(&mut self) {
        self.steps.last_mut().expect("a step").end = self.history.legal();
    }

    fn op(&mut self, deed: &Deed, op: &Op) -> Result<(), String> {
        let expected = self.history.begin(op);
        let step = self.begin(deed);
        let found = self.rig.record(step, Moment::End, || apply(self.volume(), op));
        let volume = self.volume.as_ref().expect("mounted");
        if let Some(during) = returned(&mut self.history, volume, op, expected, found)? {
            self.steps[step].during = during;
        }
        Ok(())
    }

    /// Three steps: what is done before `meanwhile` happens, that, and what is left to do then.
    fn interrupted(&mut self, deed: &Deed, op: &Op, meanwhile: &Op) -> Result<(), String> {
        let (kind, moved) = match *op {
            Op::Move(path, tier) => {
                let node = self.history.now().find(path).ok_or("there is nothing to move")?;
                (if tier == 0 { IoOp::Read } else { IoOp::Write }, Some(node.id()))
            }
            Op::Migrate { up } => (if up { IoOp::Read } else { IoOp::Write }, None),
            _ => return Err(format!("{op:?}: only what moves data is interrupted")),
        };
        let before = self.begin(deed);
        let expected = self.history.begin(meanwhile);
        let (during, after) = (self.begin(deed), self.begin(deed));
        let outcome = Arc::new(Mutex::new(None));
        let event: Event = {
            let (volume, meanwhile) = (self.volume().share(), meanwhile.clone());
            let (mut history, outcome) = (self.history.clone(), outcome.clone());
            Box::new(move |recorder| {
                recorder.step(during);
                // It may not make room in PM for itself: it would wait for the move that waits for
                // it here.
                let found = without_migration(&volume, || apply(&volume, &meanwhile));
                recorder.point(Moment::Meanwhile);
                recorder.step(after);
                let returned = returned(&mut history, &volume, &meanwhile, expected, found);
                *outcome.lock() = Some((history, returned));
            })
        };
        let work = || self.rig.record(before, Moment::End, || apply(self.volume(), op));
        let found = self.rig.interrupt(kind, event, work);
        let (history, returned) =
            outcome.lock().take().ok_or_else(|| format!("{op:?}: the disks have nothing to do"))?;
        self.history = history;
        if let Some(legal) = returned? {
            self.steps[during].during = legal;
        }
        self.steps[during].end = self.history.legal();
        self.steps[after].during = self.history.legal();
        // A file that is gone cannot be moved.
        let gone = moved.is_some_and(|id| self.history.now().links(id) == 0);
        match found {
            Ok(()) => Ok(()),
            Err(libc::ESTALE) if gone => Ok(()),
            Err(errno) => Err(format!("{op:?}, and {meanwhile:?} meanwhile: errno {errno}")),
        }
    }

    /// Two steps: when the unmount has returned, nothing waits any more.
    fn remount(&mut self, deed: &Deed) -> Result<(), String> {
        let volume = self.volume.take().expect("mounted");
        let step = self.begin(deed);
        self.rig.record(step, Moment::Unmounted, || volume.close())?;
        self.history.synced();
        self.end();
        let step = self.begin(deed);
        self.volume = Some(self.rig.record(step, Moment::End, || self.mount())?);
        Ok(())
    }

    /// The next daemon finds what the devices were given, durable or not, and the page cache.
    fn kill(&mut self, deed: &Deed) -> Result<(), String> {
        self.volume.take().expect("mounted").abandon();
        let step = self.begin(deed);
        self.volume = Some(self.rig.record(step, Moment::End, || self.mount())?);
        self.history.synced();
        Ok(())
    }

    fn format(&mut self, deed: &Deed) -> Result<(), String> {
        let mut end = Legal::default();
        let empty = Model::empty();
        end.states.insert(empty.tree(self.history.times()), empty);
        self.volume.take().expect("mounted").abandon();
        let step = self.begin(deed);
        let legal = &mut self.steps[step];
        legal.during.none = true;
        legal.during.states.extend(end.states.clone());
        legal.end = end;
        self.rig.record(step, Moment::End, || self.rig.devices.format(self.config))
    }

    /// Mounts a volume that is known to recover to something, and records it.
    fn recover(&mut self, deed: Deed, known: Known<'_>) -> Result<(), String> {
        let seen = Some(Seen { trees: known.trees.clone(), lags: false });
        let mut end = Legal { seen, ..Legal::default() };
        end.states.insert(known.trees.tree.clone(), known.model.clone());
        self.volume = Some(self.rig.record(self.steps.len(), Moment::End, || self.mount())?);
        self.steps.push(StepLegal { deed: Some(deed), during: known.during.clone(), end });
        Ok(())
    }

    fn finish(self, base: &Arc<Image>) -> Run {
        let points = self.rig.take_points();
        let times = self.history.times();
        if let Some(volume) = self.volume {
            volume.abandon();
        }
        Run {
            config: self.config,
            base: base.clone(),
            points,
            steps: self.steps,
            times,
            wrong: None,
        }
    }

    /// As [`Self::finish`], for a run that may have gone wrong: of what had not returned then,
    /// nobody knows what is right.
    fn ended_with(self, base: &Arc<Image>, result: Result<(), String>) -> Run {
        let mut run = self.finish(base);
        run.wrong = result.err();
        let Run { points, steps, .. } = &mut run;
        points.retain(|point| !point.moment.is_end() || !steps[point.step].end.states.is_empty());
        run
    }
}

/// Does something while nothing is moved in the background, nor to make room.
fn without_migration<T>(volume: &Volume, work: impl FnOnce() -> T) -> T {
    let before = volume.params().get(Param::Migrate);
    volume.tune(Param::Migrate, 0).expect("in its range");
    let result = work();
    volume.tune(Param::Migrate, before).expect("in its range");
    result
}

/// An operation has returned `found`. What a power cut may have left while it ran, if it has been
/// refused: the model has room for everything, a volume may have none for some of an operation.
fn returned(
    history: &mut History,
    volume: &Volume,
    op: &Op,
    expected: Result<(), i32>,
    found: Result<(), i32>,
) -> Result<Option<Legal>, String> {
    let is_dirty = |path, bytes| is_dirty(volume, path, &bytes);
    if found == Err(libc::ENOSPC) && expected.is_ok() {
        let tree = tree_of(volume, history.times()).map_err(|e| format!("reading: {e}"))?;
        let during = history.refused(&tree, &is_dirty);
        return during
            .map(Some)
            .map_err(|differs| format!("{op:?} finds no room, and has changed:\n{differs}"));
    }
    if found != expected {
        return Err(format!("{op:?} says {found:?} instead of {expected:?}"));
    }
    if found.is_ok() {
        history.end(op, &is_dirty);
    }
    Ok(None)
}

/// Runs a workload.
///
/// # Errors
/// What goes wrong without any crash.
pub fn run_workload(workload: &Workload) -> Result<Run, String> {
    let prepared = workload.prep.prepared();
    caught(|| {
        let mut doing = Doing::open(workload.prep.config, &prepared.image, prepared.model.clone())?;
        doing.prelude(&prepared.live)?;
        let result = doing.actions(&workload.actions);
        Ok(doing.ended_with(&prepared.image, result))
    })
}

/// The state that an image is known to recover to.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// A recovery that is cut short may next time find more of what was being done when the first
    /// crash came.
    pub during: &'a Legal,
    /// Once a recovery has returned, nothing but this is found,
    pub trees: &'a Trees,
    /// which is what this model describes.
    pub model: &'a Model,
}

/// Recovers an image.
///
/// # Errors
/// Anything that goes wrong without another crash.
pub fn run_mount(
    config: &'static Config,
    image: &Arc<Image>,
    known: Known<'_>,
) -> Result<Run, String> {
    caught(|| {
        let mut doing = Doing::unmounted(config, Rig::new(image), known.model.clone())?;
        doing.recover(Deed::Mount, known)?;
        Ok(doing.finish(image))
    })
}

/// Recovers what a killed daemon has left at a point of a run, and goes on with an action.
///
/// # Errors
/// A mount that goes wrong without another crash.
pub fn run_succession(
    run: &Run,
    point: &Point,
    known: Known<'_>,
    then: Option<&Named>,
) -> Result<Run, String> {
    caught(|| {
        let (image, stored) = point.left_by_kill(&run.base);
        let rig = Rig::with_stored(&image, stored);
        let mut doing = Doing::unmounted(run.config, rig, known.model.clone())?;
        doing.recover(Deed::Succession, known)?;
        let result =
            then.map_or(Ok(true), |then| doing.act(&Deed::Heir(then.name.clone()), &then.action));
        Ok(doing.ended_with(&image, result.map(drop)))
    })
}

/// Recovers an image that is known to recover to `model`, and goes on with an action.
///
/// # Errors
/// What goes wrong without another crash.
pub fn run_then(
    config: &'static Config,
    image: &Arc<Image>,
    model: &Model,
    then: &Named,
) -> Result<Run, String> {
    caught(|| {
        let mut doing = Doing::open(config, image, model.clone())?;
        let result = doing.act(&Deed::Then(then.name.clone()), &then.action);
        Ok(doing.ended_with(image, result.map(drop)))
    })
}

/// What an image recovers to.
///
/// # Errors
/// What is wrong with it.
pub fn recovered(
    run: &Run,
    devices: &crate::rig::Devices,
    image: &Image,
) -> Result<Option<Trees>, String> {
    caught(|| {
        devices.load(image);
        recover(run.config, devices, run.times)
    })
}
