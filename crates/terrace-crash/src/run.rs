//! Runs: something is done to a volume, and every point at which the power may go is kept, with the states that may be
//! found after it.

use std::sync::Arc;

use crate::apply::apply;
use crate::catalog::{Action, Named};
use crate::catch::caught;
use crate::history::{History, Legal};
use crate::id::{Deed, Workload};
use crate::image::Image;
use crate::model::Model;
use crate::point::{Moment, Point};
use crate::rig::{Config, Open, Rig, recover};
use crate::tree::{Tree, tree_of};

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
}

impl Run {
    /// What may be found after a crash at a point of it.
    pub fn legal(&self, point: &Point) -> &Legal {
        let step = &self.steps[point.step];
        if point.moment == Moment::End { &step.end } else { &step.during }
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
    config: &'static Config,
    history: History,
    steps: Vec<StepLegal>,
}

impl Doing {
    fn open(config: &'static Config, image: &Arc<Image>, model: Model) -> Result<Self, String> {
        let rig = Rig::new(image);
        let volume = Some(Open::new(config.open(&rig.devices, None).map_err(|e| format!("mount: {e}"))?));
        Ok(Doing { rig, volume, config, history: History::new(model, config.lazy()), steps: Vec::new() })
    }

    fn volume(&self) -> &Open {
        self.volume.as_ref().expect("mounted")
    }

    /// An action of the workload, not recorded.
    fn prelude(&mut self, ops: &[crate::model::Op]) -> Result<(), String> {
        for op in ops {
            self.history.begin(op).map_err(|e| format!("{op:?}: the model says errno {e}"))?;
            apply(self.volume(), op).map_err(|e| format!("{op:?}: errno {e}"))?;
            self.history.end(op);
        }
        if !self.config.lazy() {
            self.history = History::new(self.history.now().clone(), false);
        }
        Ok(())
    }

    /// Does and records an action. `Ok(false)`: nothing can follow it.
    fn act(&mut self, deed: Deed, action: &Action) -> Result<bool, String> {
        let step = self.steps.len();
        let mut legal = StepLegal { deed: Some(deed), ..StepLegal::default() };
        let goes_on = match action {
            Action::Op(op) => {
                let expected = self.history.begin(op);
                legal.during = self.history.legal();
                let found = self.rig.record(step, || apply(self.volume(), op));
                if found == Err(libc::ENOSPC) && expected.is_ok() {
                    // The model has room for everything; what a volume without room has done is a part of it.
                    legal.end = legal.during.clone();
                    self.steps.push(legal);
                    return Ok(false);
                }
                if found != expected {
                    return Err(format!("{op:?} says {found:?} instead of {expected:?}"));
                }
                if found.is_ok() {
                    self.history.end(op);
                }
                true
            }
            Action::Sync => {
                legal.during = self.history.legal();
                self.rig.record(step, || self.volume().sync()).map_err(|e| format!("sync: {e}"))?;
                self.history.synced();
                true
            }
            Action::Remount => {
                legal.during = self.history.legal();
                let volume = self.volume.take().expect("mounted");
                let (config, devices) = (self.config, &self.rig.devices);
                let volume = self.rig.record(step, || {
                    volume.close()?;
                    config.open(devices, None).map_err(|e| format!("mount: {e}"))
                })?;
                self.volume = Some(Open::new(volume));
                self.history.synced();
                true
            }
            Action::Format => {
                legal.during = self.history.legal();
                legal.during.none = true;
                let empty = Model::empty();
                legal.end.states.insert(empty.tree(self.history.times()), empty);
                legal.during.states.extend(legal.end.states.clone());
                self.volume.take().expect("mounted").abandon();
                self.rig.record(step, || self.rig.devices.format(self.config))?;
                false
            }
        };
        if *action != Action::Format {
            legal.end = self.history.legal();
            let found = tree_of(self.volume(), self.history.times()).map_err(|e| format!("reading: {e}"))?;
            let expected = self.history.now().tree(self.history.times());
            if found != expected {
                return Err(format!("without any crash:\n{}", crate::tree::difference(&expected, &found)));
            }
        }
        self.steps.push(legal);
        Ok(goes_on)
    }

    fn finish(self, base: &Arc<Image>) -> Run {
        let points = self.rig.take_points();
        let times = self.history.times();
        if let Some(volume) = self.volume {
            volume.abandon();
        }
        Run { config: self.config, base: base.clone(), points, steps: self.steps, times }
    }
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
        for (i, named) in workload.actions.iter().enumerate() {
            if !doing.act(Deed::Action(i), &named.action)? {
                break;
            }
        }
        Ok(doing.finish(&prepared.image))
    })
}

/// Recovers an image that is known to recover to `tree`. Cut short, a recovery may next time find more of what was being
/// done when the power went the first time (`legal`); once it has returned, nothing but `tree`.
///
/// # Errors
/// What goes wrong without another crash.
pub fn run_mount(
    config: &'static Config,
    image: &Arc<Image>,
    legal: &Legal,
    tree: &Tree,
    model: &Model,
) -> Result<Run, String> {
    caught(|| {
        let rig = Rig::new(image);
        let volume = rig.record(0, || config.open(&rig.devices, None).map_err(|e| format!("mount: {e}")))?;
        Open::new(volume).abandon();
        let mut end = Legal::default();
        end.states.insert(tree.clone(), model.clone());
        let step = StepLegal { deed: Some(Deed::Mount), during: legal.clone(), end };
        let times = !config.lazy();
        Ok(Run { config, base: image.clone(), points: rig.take_points(), steps: vec![step], times })
    })
}

/// Recovers an image that is known to recover to `model`, and goes on with an action.
///
/// # Errors
/// What goes wrong without another crash.
pub fn run_then(config: &'static Config, image: &Arc<Image>, model: &Model, then: &Named) -> Result<Run, String> {
    caught(|| {
        let mut doing = Doing::open(config, image, model.clone())?;
        doing.act(Deed::Then(then.name), &then.action)?;
        Ok(doing.finish(image))
    })
}

/// What an image recovers to.
///
/// # Errors
/// What is wrong with it.
pub fn recovered(run: &Run, devices: &crate::rig::Devices, image: &Image) -> Result<Option<Tree>, String> {
    caught(|| {
        devices.load(image);
        recover(run.config, devices, run.times)
    })
}
