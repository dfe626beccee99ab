//! The search: every state of every point of a workload is recovered, checked and compared; some of
//! them are crashed again, while they recover and while something more is done to them.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::AddAssign;
use std::sync::Arc;

use crate::actions::{Action, Named, actions};
use crate::again::{Heir, Lots, Rates, Size};
use crate::history::Legal;
use crate::id::{Deed, Stage, StateId, Workload};
use crate::image::Scratch;
use crate::model::Model;
use crate::point::{Effort, Point};
use crate::rig::{Config, Devices};
use crate::run::{Known, Run, recovered, run_mount, run_succession, run_then, run_workload};
use crate::tree::{Tree, Trees, difference};

/// How much is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Of each point of a workload.
    pub effort: Effort,
    /// Of each point of a recovery, and of what is done after one.
    pub again: Effort,
    /// Which states are crashed again.
    pub rates: Rates,
    /// Where sampled states come from.
    pub seed: u64,
}

impl Settings {
    /// What `make test` has time for.
    pub const QUICK: Settings = Settings {
        effort: Effort { bound: 100, corners: 30, seeds: 12 },
        again: Effort { bound: 16, corners: 5, seeds: 2 },
        rates: Rates { recovery: 80, after: 80, succession: 6 },
        seed: 1,
    };
    /// What a night has time for.
    pub const THOROUGH: Settings = Settings {
        effort: Effort { bound: 2500, corners: 500, seeds: 100 },
        again: Effort { bound: 100, corners: 30, seeds: 12 },
        rates: Rates { recovery: 20, after: 20, succession: 1 },
        seed: 1,
    };
}

/// What was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Workloads.
    pub workloads: u64,
    /// Points of theirs, and of those after recoveries.
    pub points: u64,
    /// Points of which every state was looked at.
    pub exhaustive: u64,
    /// Distinct states checked.
    pub states: u64,
    /// Those of them that came from a crash of a recovery.
    pub in_recovery: u64,
    /// Those of them that came from a power cut while a killed daemon's successor recovered, or in
    /// what it did then.
    pub after_kill: u64,
    /// Those of them that came from a crash of what was done after a recovery.
    pub after_recovery: u64,
    /// States that were the same as another one.
    pub repeated: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.workloads += other.workloads;
        self.points += other.points;
        self.exhaustive += other.exhaustive;
        self.states += other.states;
        self.in_recovery += other.in_recovery;
        self.after_kill += other.after_kill;
        self.after_recovery += other.after_recovery;
        self.repeated += other.repeated;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} distinct crash states of {} workloads ({} of crashes in recovery, {} after a \
             daemon was killed, {} after a recovery), at {} points, {} of them \
             exhaustively",
            self.states,
            self.workloads,
            self.in_recovery,
            self.after_kill,
            self.after_recovery,
            self.points,
            self.exhaustive
        )
    }
}

/// A state that should not be.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Replays it; the workload alone if it goes wrong without any crash.
    pub id: String,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  {}", self.id, self.what.trim_end())
    }
}

/// Searches, one workload after the other.
#[derive(Debug)]
pub struct Explorer {
    settings: Settings,
    /// What was looked at so far.
    pub counts: Counts,
    /// What was found so far.
    pub failures: Vec<Failure>,
    /// After so many failures it stops.
    failures_max: usize,
    /// Devices to recover images on; a panic may have left something running on them, then they are
    /// made anew.
    devices: Option<(&'static Config, Devices)>,
    then: Vec<Named>,
}

/// What was recovered (`None`: no volume), or what is wrong with it.
type Found = Result<Option<Trees>, String>;

/// A state that is being looked at.
struct State<'a> {
    run: &'a Run,
    point: &'a Point,
    scratch: &'a Scratch,
    /// Some of what was not durable is gone.
    loses: bool,
    /// It is what a daemon leaves that is killed there, and that leaves something undecided.
    is_kill: bool,
    /// Among those of its run.
    number: u64,
}

/// What a state turned out to be.
enum Verdict {
    /// Nothing to mount, as may be.
    None,
    Legal(Trees, Model),
    Wrong(String),
}

impl Explorer {
    /// A search that ends with the `failures_max`-th failure.
    pub fn new(settings: Settings, failures_max: usize) -> Self {
        let then = actions().into_iter().filter(|a| a.action != Action::Format).collect();
        let (counts, failures) = Default::default();
        Explorer { settings, counts, failures, failures_max, devices: None, then }
    }

    /// Whether it has found enough.
    pub fn is_done(&self) -> bool {
        self.failures.len() >= self.failures_max
    }

    /// Looks at a workload.
    pub fn explore(&mut self, workload: &Workload) {
        self.counts.workloads += 1;
        self.run(workload, run_workload(workload), &[], None);
    }

    /// Looks at what `deed` (`None`: the workload) after `stages` has come to.
    fn run(
        &mut self,
        workload: &Workload,
        run: Result<Run, String>,
        stages: &[Stage],
        deed: Option<Deed>,
    ) {
        let wrong = match run {
            Ok(run) => {
                self.states(workload, &run, stages);
                run.wrong
            }
            Err(what) => Some(what),
        };
        if let Some(what) = wrong.filter(|_| !self.is_done()) {
            let last = deed.map(|deed| Stage { deed, crash: None });
            self.fail(workload, stages.iter().cloned().chain(last).collect(), what);
        }
    }

    /// Looks at the states of a run.
    fn states(&mut self, workload: &Workload, run: &Run, stages: &[Stage]) {
        let mut scratch = Scratch::new(&run.base);
        let mut known = HashMap::new();
        let effort = if stages.is_empty() { self.settings.effort } else { self.settings.again };
        let chosen: Vec<_> =
            run.points.iter().map(|point| point.choices(&effort, self.settings.seed)).collect();
        let size = Size {
            states: chosen.iter().map(|(choices, _)| choices.len() as u64).sum(),
            kills: run.points.iter().filter(|point| point.has_cached()).count() as u64,
        };
        // Who was crashed twice is not crashed again.
        let mut lots = stages
            .is_empty()
            .then(|| Lots::new(self.settings.rates, workload, self.settings.seed, size));
        let mut number = 0;
        for (point, (choices, exhaustive)) in run.points.iter().zip(chosen) {
            point.store_durable(&mut scratch);
            let mark = scratch.mark();
            self.counts.points += 1;
            self.counts.exhaustive += u64::from(exhaustive);
            for choice in choices {
                let kept = point.kept(choice).expect("a choice of this point");
                point.store_kept(&kept, &mut scratch);
                let stage = Stage { deed: run.deed(point), crash: Some((point.moment, choice)) };
                let found = match known.get(&scratch.hash()) {
                    None => {
                        self.count(&stage.deed);
                        let found = self.recovered(run, &scratch);
                        known.insert(scratch.hash(), found.clone());
                        found
                    }
                    Some(found) => {
                        self.counts.repeated += 1;
                        Found::clone(found)
                    }
                };
                let loses = !point.is_all(&kept);
                let is_kill = choice.is_the_one_that_keeps_all() && !loses && point.has_cached();
                let state = State { run, point, scratch: &scratch, loses, is_kill, number };
                let stages: Vec<Stage> = stages.iter().cloned().chain([stage]).collect();
                self.state(workload, &state, found, &stages, lots.as_mut());
                number += 1;
                scratch.back_to(mark);
                if self.is_done() {
                    return;
                }
            }
            scratch.back_to(0);
        }
    }

    fn count(&mut self, deed: &Deed) {
        self.counts.states += 1;
        match deed {
            Deed::Action(_) => {}
            Deed::Mount => self.counts.in_recovery += 1,
            Deed::Succession | Deed::Heir(_) => self.counts.after_kill += 1,
            Deed::Then(_) => self.counts.after_recovery += 1,
        }
    }

    fn fail(&mut self, workload: &Workload, stages: Vec<Stage>, what: String) {
        let id = match stages.is_empty() {
            true => workload.to_string(),
            false => StateId { workload: workload.clone(), stages }.to_string(),
        };
        self.failures.push(Failure { id, what });
    }

    /// Judges a state, and crashes it again if it is its turn.
    fn state(
        &mut self,
        workload: &Workload,
        state: &State<'_>,
        found: Found,
        stages: &[Stage],
        lots: Option<&mut Lots>,
    ) {
        let (run, legal) = (state.run, state.run.legal(state.point));
        let recovers_to = match verdict(found, legal, may_undo(run, state.point, state.loses)) {
            Verdict::Wrong(what) => return self.fail(workload, stages.to_vec(), what),
            Verdict::None => None,
            Verdict::Legal(trees, model) => Some((trees, model)),
        };
        let Some(lots) = lots else {
            return;
        };
        let tree = recovers_to.as_ref().map(|(trees, _)| &trees.tree);
        let crash_recovery = lots.in_recovery(state.number, state.point.step, tree);
        let Some((trees, model)) = recovers_to else {
            return;
        };
        let image = || Arc::new(state.scratch.image().clone());
        let known = Known { during: legal, trees: &trees, model: &model };
        if crash_recovery {
            let again = run_mount(run.config, &image(), known);
            self.run(workload, again, stages, Some(Deed::Mount));
        }
        if state.is_kill
            && let Some(heir) = lots.in_succession(self.then.len())
        {
            let then = self.heir(workload, state, heir).cloned();
            let then = then.filter(|_| !model.root.is_empty());
            let again = run_succession(run, state.point, known, then.as_ref());
            let deed = then.map_or(Deed::Succession, |then| Deed::Heir(then.name));
            self.run(workload, again, stages, Some(deed));
        }
        // Without the directories to play in there is nothing to do.
        let follows = lots.after(state.number, self.then.len()).filter(|_| !model.root.is_empty());
        if let Some(then) = follows.map(|i| self.then[i].clone()) {
            let again = run_then(run.config, &image(), &model, &then);
            self.run(workload, again, stages, Some(Deed::Then(then.name)));
        }
    }

    /// The action of a killed daemon's successor; of what is cut short, some is not repeated.
    fn heir(&self, workload: &Workload, state: &State<'_>, heir: Heir) -> Option<&Named> {
        match heir {
            Heir::Does(action) => self.then.get(action),
            Heir::Repeats => match state.run.deed(state.point) {
                Deed::Action(n) => self.then.iter().find(|a| a.name == workload.actions[n].name),
                _ => None,
            },
        }
    }

    fn action(&self, name: &str) -> Result<&Named, String> {
        self.then.iter().find(|a| a.name == name).ok_or(format!("{name} cannot follow"))
    }

    /// What the image recovers to.
    fn recovered(&mut self, run: &Run, scratch: &Scratch) -> Found {
        let devices = match self.devices.take() {
            Some((config, devices)) if config == run.config => devices,
            _ => Devices::in_memory(&run.base),
        };
        let found = recovered(run, &devices, scratch.image());
        if found.is_ok() {
            self.devices = Some((run.config, devices));
        }
        found
    }

    /// Looks at one state again. What it is, at length; `Err` if it is wrong.
    ///
    /// # Errors
    /// What is wrong, at length; or that there is no such state.
    pub fn replay(&mut self, id: &StateId) -> Result<String, String> {
        let mut run = run_workload(&id.workload)?;
        let mut report = String::new();
        for (i, stage) in id.stages.iter().enumerate() {
            report += &format!("{stage}\n");
            let Some((moment, choice)) = stage.crash else {
                report += "  without a crash it ends as it must\n";
                break;
            };
            let wanted = |p: &&Point| run.deed(p) == stage.deed && p.moment == moment;
            let point = run
                .points
                .iter()
                .find(wanted)
                .ok_or(format!("{stage}: the run has no such point"))?
                .clone();
            let kept = point.kept(choice).ok_or(format!("{stage}: the point has no such state"))?;
            let mut scratch = Scratch::new(&run.base);
            point.store_durable(&mut scratch);
            point.store_kept(&kept, &mut scratch);
            report += &what_is_kept(&point, &kept.options);
            let found = self.recovered(&run, &scratch);
            let (trees, model) = match verdict(
                found,
                run.legal(&point),
                may_undo(&run, &point, !point.is_all(&kept)),
            ) {
                Verdict::Wrong(what) => return Err(format!("{report}  {what}")),
                Verdict::None => return Ok(format!("{report}  there is no volume, as may be\n")),
                Verdict::Legal(trees, model) => (trees, model),
            };
            report +=
                &format!("  legal: {}\n", difference(&Tree::new(), &trees.exact).trim_start());
            let Some(next) = id.stages.get(i + 1) else {
                break;
            };
            let image = Arc::new(scratch.image().clone());
            let known = Known { during: run.legal(&point), trees: &trees, model: &model };
            let next_run = match &next.deed {
                Deed::Mount => run_mount(run.config, &image, known),
                Deed::Succession | Deed::Heir(_) if !point.is_all(&kept) => {
                    return Err(format!("{stage}: a kill leaves all"));
                }
                Deed::Succession => run_succession(&run, &point, known, None),
                Deed::Heir(name) => run_succession(&run, &point, known, Some(self.action(name)?)),
                Deed::Then(name) => run_then(run.config, &image, &model, self.action(name)?),
                Deed::Action(_) => return Err("only the first crash is one of the workload".into()),
            };
            run = next_run.map_err(|error| format!("{report}{next}\n  {error}"))?;
        }
        Ok(report)
    }
}

/// Whether recovery may have something to undo: the crash has cut stores off, or an earlier crash
/// had, from which the run is a recovery.
fn may_undo(run: &Run, point: &Point, loses: bool) -> bool {
    loses || !matches!(run.deed(point), Deed::Action(_) | Deed::Then(_))
}

fn verdict(found: Found, legal: &Legal, may_undo: bool) -> Verdict {
    match found {
        Err(what) => Verdict::Wrong(what),
        Ok(None) if legal.none => Verdict::None,
        Ok(None) => Verdict::Wrong("the volume is gone".into()),
        Ok(Some(Trees { undone: Some(note), .. })) if !may_undo => {
            Verdict::Wrong(format!("nothing was cut off, but the mount says: {note}"))
        }
        Ok(Some(trees)) => {
            let Some(model) = legal.states.get(&trees.tree) else {
                return Verdict::Wrong(illegal(legal, &trees.tree));
            };
            let differs = legal
                .seen
                .as_ref()
                .map(|seen| seen.trees.difference(&trees, seen.lags))
                .unwrap_or_default();
            match differs.is_empty() {
                true => Verdict::Legal(trees, model.clone()),
                false => Verdict::Wrong(format!("not as it was before the crash:\n{differs}")),
            }
        }
    }
}

/// What a state keeps, part by part.
fn what_is_kept(point: &Point, options: &[usize]) -> String {
    use crate::point::Part;
    let line = |(part, option): (&Part, &usize)| {
        let what = match part {
            Part::Line(line) => format!("PM line at byte {}", line.index * 64),
            Part::Data(lines) => format!(
                "{} PM lines of data, the first at byte {}",
                lines.len(),
                lines[0].index * 64
            ),
            Part::Write { device, write } => {
                format!("disk {device}, {} bytes at byte {}", write.data.len(), write.offset)
            }
        };
        format!("  keeps {option} of {} of {what}\n", part.options() - 1)
    };
    point.parts.iter().zip(options).map(line).collect()
}

/// Says what a tree that may not be is like: how it differs from those that may be, the nearest
/// first.
fn illegal(legal: &Legal, tree: &Tree) -> String {
    let differences: BTreeMap<usize, String> = legal
        .states
        .keys()
        .map(|may| difference(may, tree))
        .map(|text| (text.lines().count(), text))
        .collect();
    let mut text = format!("one of {} legal states expected; found instead\n", legal.states.len());
    for (_, difference) in differences.into_iter().take(2) {
        text += &format!("{difference}  or\n");
    }
    text.truncate(text.len() - "  or\n".len().min(text.len()));
    text
}
