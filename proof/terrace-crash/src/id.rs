//! Names of crash states: `plain/patch,append/1.f2=x1a` is the state number 0x1a at the second
//! fence of the second action of a workload; what follows a `~` is a crash of what was done next
//! with it, or, without a moment, what was done next without a crash
//! (`plain/patch/1.f2=x1a~chmod`). `~succession` is the recovery by a killed daemon's successor,
//! and `~succession+chmod` an action of the successor after that, in the same mount.
//!
//! Moments: `f2` the second fence, `d1` the first flush of a disk, `u` between unmount and mount,
//! `m` when what happened in the middle has returned, `e` the end. States: `x` number, `c` corner
//! case, `s` seed; all hexadecimal.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result, bail};

use crate::actions::{Named, action};
use crate::catalog::Prep;
use crate::point::{Choice, Moment};

/// A volume to start from and what is done to it.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Where it starts.
    pub prep: &'static Prep,
    /// What is done.
    pub actions: Vec<Named>,
}

/// What was done when the power went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// The so many-th action of the workload, from 0.
    Action(usize),
    /// The state before was recovered.
    Mount,
    /// The daemon was killed there, and not the power: another one has recovered all that was
    /// stored.
    Succession,
    /// The same, and then the other one did this.
    Heir(String),
    /// It was recovered, and then this was done.
    Then(String),
}

/// What was done, and the crash that ended it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// What was done.
    pub deed: Deed,
    /// When the power went and what was left; `None`: it was done without a crash.
    pub crash: Option<(Moment, Choice)>,
}

/// A crash state: what leads there.
#[derive(Clone, Debug)]
pub struct StateId {
    /// The workload.
    pub workload: Workload,
    /// The crashes, one after the other.
    pub stages: Vec<Stage>,
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.actions.iter().map(|a| a.name.as_str()).collect();
        write!(f, "{}/{}", self.prep.name, names.join(","))
    }
}

impl FromStr for Workload {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (prep, names) = text.split_once('/').context("a workload is PREP/ACTION,ACTION,...")?;
        let prep = Prep::named(prep)
            .with_context(|| format!("there is no volume {prep:?} to start from"))?;
        let named = |name| action(name).with_context(|| format!("there is no action {name:?}"));
        Ok(Workload { prep, actions: names.split(',').map(named).collect::<Result<_>>()? })
    }
}

const SUCCESSION: &str = "succession";

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.deed {
            Deed::Action(n) => write!(f, "{n}")?,
            Deed::Mount => write!(f, "mount")?,
            Deed::Succession => f.write_str(SUCCESSION)?,
            Deed::Heir(name) => write!(f, "{SUCCESSION}+{name}")?,
            Deed::Then(name) => write!(f, "{name}")?,
        }
        let Some((moment, choice)) = self.crash else {
            return Ok(());
        };
        match moment {
            Moment::Fence(n) => write!(f, ".f{n}")?,
            Moment::Flush(n) => write!(f, ".d{n}")?,
            Moment::Unmounted => write!(f, ".u")?,
            Moment::Meanwhile => write!(f, ".m")?,
            Moment::End => write!(f, ".e")?,
        }
        match choice {
            Choice::Index(n) => write!(f, "=x{n:x}"),
            Choice::Corner(n) => write!(f, "=c{n:x}"),
            Choice::Seed(n) => write!(f, "=s{n:x}"),
        }
    }
}

impl FromStr for Stage {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (deed, crash) =
            text.split_once('.').map_or((text, None), |(deed, crash)| (deed, Some(crash)));
        let known = |name: &str| -> Result<String> {
            Ok(action(name).with_context(|| format!("there is no action {name:?}"))?.name)
        };
        let deed = match (deed.parse(), deed, deed.split_once('+')) {
            (Ok(n), ..) => Deed::Action(n),
            (_, "mount", _) => Deed::Mount,
            (_, SUCCESSION, _) => Deed::Succession,
            (_, _, Some((SUCCESSION, name))) => Deed::Heir(known(name)?),
            (_, name, _) => Deed::Then(known(name)?),
        };
        let Some(crash) = crash else {
            return Ok(Stage { deed, crash: None });
        };
        let (moment, choice) = crash.split_once('=').context("a crash is WHAT.MOMENT=STATE")?;
        let moment = match moment.split_at_checked(1) {
            Some(("f", n)) => Moment::Fence(n.parse()?),
            Some(("d", n)) => Moment::Flush(n.parse()?),
            Some(("u", "")) => Moment::Unmounted,
            Some(("m", "")) => Moment::Meanwhile,
            Some(("e", "")) => Moment::End,
            _ => bail!("{moment:?} is no moment: f1, d1, u, m or e"),
        };
        let number = |n| {
            u64::from_str_radix(n, 16).with_context(|| format!("{n:?} is no hexadecimal number"))
        };
        let choice = match choice.split_at_checked(1) {
            Some(("x", n)) => Choice::Index(number(n)?),
            Some(("c", n)) => Choice::Corner(number(n)? as usize),
            Some(("s", n)) => Choice::Seed(number(n)?),
            _ => bail!("{choice:?} is no state: x1, c1 or s1"),
        };
        Ok(Stage { deed, crash: Some((moment, choice)) })
    }
}

impl fmt::Display for StateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stages: Vec<_> = self.stages.iter().map(Stage::to_string).collect();
        write!(f, "{}/{}", self.workload, stages.join("~"))
    }
}

impl FromStr for StateId {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (workload, stages) =
            text.rsplit_once('/').context("an id is PREP/ACTIONS/CRASH~CRASH...")?;
        let stages = stages.split('~').map(Stage::from_str).collect::<Result<Vec<_>>>()?;
        let (first, last) = (&stages[0], &stages[stages.len() - 1]);
        if first.crash.is_none()
            || stages.iter().any(|stage| stage.crash.is_none() && stage != last)
        {
            bail!("only what is done last may end without a crash");
        }
        Ok(StateId { workload: workload.parse()?, stages })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_printed() {
        for text in [
            "plain/patch/0.f2=x1a",
            "plain/remount/0.u=c1",
            "plain/append,move-to-disk+patch/1.m=x0",
            "disks/patch,append/1.d1=c3~mount.f2=sff~unlink.e=x0",
            "plain/append/0.f1=c1~succession.e=x0",
            "plain/append/0.f1=c1~succession+create.f2=x1",
            "plain/append/0.f1=c1~succession+create",
        ] {
            assert_eq!(text.parse::<StateId>().unwrap().to_string(), text);
        }
        for wrong in [
            "plain",
            "plain/patch/0",
            "plain/patch/0.e=x0~mount~chmod",
            "plain/patch",
            "plain/patch/0.q1=x1",
            "nowhere/patch/0.e=x0",
            "plain/patch/0.f1=y",
            "plain/patch+patch/0.f1=x0",
            "plain/append/0.f1=c1~succession+nothing.e=x0",
            "plain/move-to-disk+move-to-pm/0.f1=x0",
            "plain/move-to-disk+sync/0.f1=x0",
        ] {
            assert!(wrong.parse::<StateId>().is_err(), "{wrong}");
        }
    }
}
