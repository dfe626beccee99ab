//! The role of a daemon in the life of its mount.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use terrace_fuse::control::Upgrader;
use terrace_fuse::{Handover, Ledger, Mounted};

use super::line::Word;
use super::way::{Way, upgrader};
use crate::daemon::{self, Ready};

/// The role of a daemon in the life of its mount.
#[derive(Debug)]
pub enum Role<'a> {
    /// The only one.
    Alone(&'a mut Ready),
    /// The first one, with the way to its keeper.
    First(&'static Ledger, Arc<Way>, Terms),
    /// One that takes the mount of another up.
    Successor(&'static Ledger, Option<Handover>, Arc<Way>, Cause),
}

/// Why a daemon has a successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It died of this signal.
    Death(i32),
    /// The successor is to be of another program.
    Upgrade,
    /// The one of another program, which should have taken its place, has failed.
    FailedUpgrade,
}

/// The ties between the first daemon and its keeper.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The daemon leaves the terminal once it serves.
    pub leaves: bool,
    /// Without a keeper there is to be no mount.
    pub is_wanted: bool,
}

impl Role<'_> {
    /// Memory that outlives this daemon.
    pub fn ledger(&self) -> Option<&'static Ledger> {
        match self {
            Role::Alone(_) => None,
            Role::First(ledger, ..) | Role::Successor(ledger, ..) => Some(ledger),
        }
    }

    /// The connection that a successor takes up.
    pub fn take_handover(&mut self) -> Option<Handover> {
        match self {
            Role::Successor(_, handover, ..) => handover.take(),
            Role::Alone(_) | Role::First(..) => None,
        }
    }

    /// The way to have this daemon replaced, when a command asks for that.
    pub fn upgrader(&self) -> Arc<Upgrader> {
        match self {
            Role::Alone(_) => upgrader(None),
            Role::First(_, way, _) | Role::Successor(_, _, way, _) => {
                upgrader(Some(Arc::clone(way)))
            }
        }
    }

    /// The mount is served: whoever waits for that is told.
    ///
    /// # Errors
    /// They are gone; the kernel is too old for a keeper.
    pub fn serves(&mut self, mounted: &mut Mounted) -> Result<()> {
        match self {
            Role::Alone(ready) => ready.serve(),
            Role::First(_, way, terms) => {
                let handover = mounted.take_handover();
                if handover.is_none() && terms.is_wanted {
                    bail!("a keeper needs Linux 6.9 or later; mount with -o nokeeper");
                }
                if terms.leaves {
                    daemon::leave_terminal()?;
                }
                hand_over(way, handover.as_ref()).context("the keeper of this daemon is gone")
            }
            Role::Successor(_, _, way, _) => {
                way.settle();
                Ok(())
            }
        }
    }
}

fn hand_over(way: &Way, handover: Option<&Handover>) -> std::io::Result<()> {
    use std::os::fd::AsFd;
    let Some(handover) = handover else {
        return way.line().tell(Word::Serves, "", None);
    };
    way.line().tell(Word::Serves, &handover.device, Some(handover.connection.as_fd()))?;
    way.is_kept_from_now_on();
    Ok(())
}
