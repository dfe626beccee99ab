//! The kernel's switch for FUSE over io_uring, which holds for the whole machine: set for the
//! moment of a mount and put back, also after errors and Ctrl-C.

use std::fs;

use anyhow::{Context, Result, bail};
use terrace_fuse::RingOffer;

const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// The switch in the position asked for, until this is dropped.
#[derive(Debug)]
#[must_use = "the switch goes back when this is dropped"]
pub struct Switch {
    /// Its former position, if it had to be changed.
    before: Option<String>,
}

impl Switch {
    /// Switches FUSE over io_uring on or off.
    ///
    /// # Errors
    /// If this kernel, machine or user cannot.
    pub fn set(on: bool) -> Result<Self> {
        let switch = Self::turn(on)?;
        match RingOffer::here() {
            RingOffer::Offered | RingOffer::SwitchedOff { .. } => Ok(switch),
            offer if on => bail!("{}", offer.obstacle().unwrap_or("no FUSE over io_uring here")),
            _ => Ok(switch),
        }
    }

    fn turn(on: bool) -> Result<Self> {
        let before = match fs::read_to_string(SWITCH) {
            Ok(before) => before.trim().to_owned(),
            Err(_) if !on => return Ok(Self { before: None }),
            Err(_) => bail!("{}", RingOffer::here().obstacle().unwrap_or("no FUSE over io_uring")),
        };
        if (before == "Y") == on {
            return Ok(Self { before: None });
        }
        fs::write(SWITCH, if on { "Y" } else { "N" })
            .with_context(|| format!("setting {SWITCH}, which takes root"))?;
        Ok(Self { before: Some(before) })
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        if let Some(before) = &self.before
            && let Err(error) = fs::write(SWITCH, before)
        {
            eprintln!("terrace-bench: {SWITCH} was {before} and could not be put back: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_goes_back() {
        let now = || fs::read_to_string(SWITCH).ok();
        let before = now();
        match Switch::set(true) {
            Ok(switch) => {
                assert_eq!(now().as_deref().map(str::trim), Some("Y"));
                drop(switch);
            }
            Err(why) => eprintln!("skipped: {why:#}"),
        }
        assert_eq!(now(), before);
    }
}
