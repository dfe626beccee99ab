//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use terrace_fuse::Transport;
use terrace_policy::{Param, Params};

use crate::reach;

/// Below this, a batch of cold reads would not fit into the file of a benchmark on a mount.
const SIZE_BYTES_MIN: u64 = 16 << 20;
const SIZE_BYTES_MAX: u64 = 1 << 40;
const MANY: u64 = 1_000_000;

/// Benchmarks of Terrace FS: each operation beside its baseline, in rounds that take turns.
#[derive(Debug, Parser)]
#[command(name = "terrace-bench", version)]
pub struct Options {
    /// Measure only rows whose name contains this (upper or lower case).
    #[arg(long, value_name = "SUBSTRING", default_value = "", hide_default_value = true)]
    pub filter: String,
    /// Measure only the rows by which the mount is judged.
    #[arg(long)]
    pub reach: bool,
    /// Measure only the rows by which the direct path is judged.
    #[arg(long, conflicts_with = "reach")]
    pub direct: bool,
    /// A run to try things out: everything smaller and shorter, figures that mean little.
    #[arg(long)]
    pub quick: bool,
    /// Rounds per row; medians are taken over them.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 7,
        default_value_if("quick", "true", "1"),
        value_parser = clap::value_parser!(u32).range(1..=1000)
    )]
    pub rounds: u32,
    /// Length of a round of one side, in seconds.
    #[arg(
        long,
        value_name = "S",
        default_value = "0.4",
        default_value_if("quick", "true", "0.02"),
        value_parser = parse_seconds
    )]
    pub seconds: f64,
    /// Size of the file that is read and overwritten in process; on mounts it is a quarter of that.
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "1G",
        default_value_if("quick", "true", "16M"),
        value_parser = parse_size
    )]
    pub size: u64,
    /// Directory for files that stand for disks; by default the one for temporary files, or
    /// /var/tmp where that is in memory.
    #[arg(long, value_name = "DIRECTORY")]
    pub disk_dir: Option<PathBuf>,
    /// The program whose mounts the rows on messages measure; by default TERRACE_BIN, or `terrace`
    /// beside this program.
    #[arg(long, value_name = "FILE")]
    pub terrace: Option<PathBuf>,
    /// An older such program, for comparison; without it, these rows are left out.
    #[arg(long, value_name = "FILE")]
    pub before: Option<PathBuf>,
    /// The way of messages of all other mounts: device, io_uring (root; for the moment of a mount
    /// it is switched on) or auto.
    #[arg(long, value_name = "WAY", default_value = "device")]
    pub transport: Transport,
    /// Thresholds of volumes whose PM is small (NAME=VALUE, any number of times; see POLICY.md):
    /// what a rule is worth.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_setting)]
    pub settings: Vec<(Param, u64)>,
    /// Run one operation in process alone for --seconds, ours and then tmpfs, and print the rates:
    /// for a profiler.
    #[arg(long, value_name = "OPERATION", conflicts_with = "filter")]
    pub profile: Option<Profile>,
    /// With --profile: our side only.
    #[arg(long, requires = "profile")]
    pub no_baseline: bool,
    /// Where the rows go as JSON.
    #[arg(long, value_name = "FILE", default_value = "target/bench/results.json")]
    pub output: PathBuf,
}

/// The operations that can be run alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Profile {
    /// 4 KiB durable overwrite at random offsets.
    Overwrite,
    /// 4 KiB random read.
    Read,
    /// 128-byte durable append.
    Append,
    /// Create, write 4 KiB, unlink.
    Create,
}

impl Options {
    /// Whether a row of this name is selected.
    pub fn selects(&self, row_name: &str) -> bool {
        (!self.reach || reach::contains(row_name))
            && (!self.direct || row_name.starts_with(reach::DIRECT))
            && row_name.to_lowercase().contains(&self.filter.to_lowercase())
    }

    /// The thresholds of a volume whose PM is small.
    pub fn params(&self) -> Params {
        let mut params = Params::default();
        for &(param, value) in &self.settings {
            params.set(param, value).expect("checked when it was parsed");
        }
        params
    }

    /// How many "very many" files are.
    pub fn many(&self) -> u64 {
        if self.quick { MANY / 100 } else { MANY }
    }
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 60.0 => Ok(seconds),
        _ => Err("give seconds above 0 and up to 60, such as 0.4".to_owned()),
    }
}

/// A threshold and its value, in its unit.
fn parse_setting(text: &str) -> Result<(Param, u64), String> {
    let (name, value) = text.split_once('=').ok_or("give NAME=VALUE, such as await_bytes=0")?;
    let param =
        Param::from_name(name).ok_or_else(|| format!("no threshold has the name {name}"))?;
    let value = value.parse().map_err(|_| format!("{value} is no whole number"))?;
    param.tunable().check(value).map_err(|error| error.to_string())?;
    Ok((param, value))
}

/// Bytes, of a number of MiB (`512M`) or GiB (`2G`).
fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || "give 16M to 1024G, such as 512M or 2G".to_owned();
    let (digits, unit_bytes) = match (text.strip_suffix(['M', 'm']), text.strip_suffix(['G', 'g']))
    {
        (Some(digits), _) => (digits, 1_u64 << 20),
        (_, Some(digits)) => (digits, 1 << 30),
        _ => return Err(wrong()),
    };
    let bytes = digits
        .parse::<u64>()
        .ok()
        .and_then(|count| count.checked_mul(unit_bytes))
        .ok_or_else(wrong)?;
    if (SIZE_BYTES_MIN..=SIZE_BYTES_MAX).contains(&bytes) { Ok(bytes) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_whole_mebibytes_within_bounds() {
        assert_eq!(parse_size("16M"), Ok(16 << 20));
        assert_eq!(parse_size("2g"), Ok(2 << 30));
        assert_eq!(parse_size("1024G"), Ok(1 << 40));
        for wrong in ["", "M", "512", "15M", "1025G", "99999999999999999999M", "-1M", "1.5G"] {
            assert!(parse_size(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn rounds_take_time_but_not_for_ever() {
        assert_eq!(parse_seconds("0.02"), Ok(0.02));
        for wrong in ["0", "-1", "nan", "inf", "61", "fast"] {
            assert!(parse_seconds(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn settings_are_thresholds_within_their_ranges() {
        assert_eq!(parse_setting("await_bytes=0"), Ok((Param::AwaitBytes, 0)));
        for wrong in ["", "await_bytes", "nothing=1", "await_bytes=x", "migrate=2"] {
            assert!(parse_setting(wrong).is_err(), "{wrong:?}");
        }
        let options = Options::parse_from(["terrace-bench", "--set", "siblings=0"]);
        assert_eq!(options.params().get(Param::Siblings), 0);
    }

    #[test]
    fn the_command_line_is_sound() {
        use clap::CommandFactory;
        Options::command().debug_assert();
    }
}
