//! Budgets of devices, as the command line gives them: `DEVICE:BYTES/day`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Result, bail};
use serde_json::Value;
use terrace_engine::{NamedDevice, WearBudget};

use crate::output::quoted;
use crate::size::{format_size, parse_size};

/// Less is not worth a flush: migration would wait for days to move anything.
const LEAST_BYTES_PER_DAY: u64 = 1 << 20;

/// Parses `DEVICE:BYTES/day`.
///
/// # Errors
/// A sentence that quotes the text and says what is wrong with it.
pub fn parse(text: &str) -> Result<WearBudget, String> {
    let Some((device, rate)) = text.rsplit_once(':') else {
        return Err(format!(
            "{}: a budget is given as DEVICE:BYTES/day, as in disk1:100G/day",
            quoted(text)
        ));
    };
    Ok(WearBudget { device: device_of(device)?, bytes_per_day: parse_rate(rate)? })
}

/// Parses `BYTES/day`.
///
/// # Errors
/// As [`parse`].
pub fn parse_rate(text: &str) -> Result<u64, String> {
    let size = text.strip_suffix("/day").ok_or_else(|| {
        format!("{} does not end in /day: give bytes per day, as in 100G/day", quoted(text))
    })?;
    match parse_size(size)? {
        bytes if bytes < LEAST_BYTES_PER_DAY => Err(format!(
            "{} is too little; give at least {}/day, or migrate=0 so that nothing moves by itself",
            quoted(text),
            format_size(LEAST_BYTES_PER_DAY)
        )),
        bytes => Ok(bytes),
    }
}

fn device_of(text: &str) -> Result<NamedDevice, String> {
    match text.strip_prefix("disk").map(str::parse) {
        _ if text == "pm" => Ok(NamedDevice::Index(0)),
        Some(Ok(index)) if index > 0 => Ok(NamedDevice::Index(index)),
        _ if text.contains('/') => Ok(NamedDevice::Path(text.into())),
        _ => Err(format!(
            "{} is no device: name pm, disk1, … as `terrace device list` does, or a path with a \
             slash in it",
            quoted(text)
        )),
    }
}

/// The text that [`parse`] makes the same budget of.
///
/// # Errors
/// A path that is not UTF-8.
pub fn to_text(budget: &WearBudget) -> Result<String, String> {
    let device = match &budget.device {
        NamedDevice::Index(0) => "pm".to_owned(),
        NamedDevice::Index(index) => format!("disk{index}"),
        NamedDevice::Path(path) => match path.to_str() {
            Some(path) => path.to_owned(),
            None => {
                return Err(format!("{}: a path that is not UTF-8 cannot be told", path.display()));
            }
        },
    };
    Ok(format!("{device}:{}/day", budget.bytes_per_day))
}

/// Whether the mount of which `status` tells has these budgets: a remount changes none. Of several
/// for a device the last one counts. A device that is not there may have left the volume since the
/// table of mounts was written: its budget is left out, with a warning.
///
/// # Errors
/// One is another.
pub fn must_be_in_force(budgets: &[WearBudget], status: &Value) -> Result<()> {
    let last: BTreeMap<_, _> =
        budgets.iter().map(|budget| (index_of(&budget.device, status), budget)).collect();
    for (index, budget) in last {
        let known = status["wear"]["devices"].as_array().into_iter().flatten();
        let known: Vec<&Value> =
            known.filter(|device| index.is_some() && device["index"].as_u64() == index).collect();
        if known.is_empty() {
            let text = to_text(budget).map_err(anyhow::Error::msg)?;
            tracing::warn!("wear={text}: the volume has no such device; nothing is changed");
            continue;
        }
        let in_force = known.iter().find_map(|device| device["budget"]["bytes_per_day"].as_u64());
        if in_force != Some(budget.bytes_per_day) {
            let text = to_text(budget).map_err(anyhow::Error::msg)?;
            let now = in_force.map_or_else(
                || "that device has no budget".to_owned(),
                |bytes| format!("that device has {}/day", format_size(bytes)),
            );
            bail!(
                "wear={text}: {now}, and a remount changes no budget; leave the option out, or \
                 unmount the volume, and mount it with the new one"
            );
        }
    }
    Ok(())
}

/// The index of a device in the mount of which `status` tells.
fn index_of(device: &NamedDevice, status: &Value) -> Option<u64> {
    let path = match device {
        NamedDevice::Index(index) => return Some(u64::from(*index)),
        NamedDevice::Path(path) => path,
    };
    let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let devices = status["devices"].as_array().into_iter().flatten();
    let of_path = |other: &&Value| {
        other["path"].as_str().is_some_and(|other| real(Path::new(other)) == real(path))
    };
    devices.into_iter().find(of_path).and_then(|device| device["index"].as_u64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_names_a_device_and_bytes_per_day() {
        let of = |device, bytes_per_day| Ok(WearBudget { device, bytes_per_day });
        for (text, expected) in [
            ("pm:1T/day", of(NamedDevice::Index(0), 1 << 40)),
            ("disk1:100G/day", of(NamedDevice::Index(1), 100 << 30)),
            ("disk12:1.5MB/day", of(NamedDevice::Index(12), 1_500_000)),
            ("/dev/a:b:1M/day", of(NamedDevice::Path("/dev/a:b".into()), 1 << 20)),
        ] {
            assert_eq!(parse(text), expected, "{text}");
            let budget = expected.unwrap();
            assert_eq!(parse(&to_text(&budget).unwrap()), Ok(budget), "{text}");
        }
    }

    #[test]
    fn what_is_no_budget_is_quoted_and_explained() {
        for (text, why) in [
            ("disk1", "DEVICE:BYTES/day"),
            ("disk1:100G", "does not end in /day"),
            ("disk1:100G/week", "does not end in /day"),
            ("disk1:/day", "begin with a number"),
            ("disk1:1K/day", "at least 1 MiB/day"),
            ("disk1:0/day", "migrate=0"),
            ("disk0:1G/day", "device list"),
            ("disk:1G/day", "device list"),
            ("sda:1G/day", "a path with a slash"),
            (":1G/day", "device list"),
        ] {
            let message = parse(text).unwrap_err();
            assert!(message.contains(why), "{text}: {message}");
        }
    }
}
