//! `stats`, `top`, `record` and `simulate`.

use std::path::PathBuf;

use clap::Args;
use terrace_media::DeviceModel;
use terrace_policy::Param;

use crate::output::quoted;
use crate::{size, thresholds, wear};

/// `stats`
#[derive(Args, Debug)]
pub struct StatsArgs {
    /// Where the volume is mounted, or its PM device
    #[arg(value_name = "MOUNTPOINT|PM")]
    pub target: PathBuf,
    /// Print what was done since the volume was mounted, and every counter, and end
    #[arg(long, conflicts_with = "interval")]
    pub once: bool,
    /// Print JSON: one object per line
    #[arg(long)]
    pub json: bool,
    /// Time between two lines
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=86_400)
    )]
    pub interval: u64,
}

pub(super) const STATS_HELP: &str = "\
Examples:
  terrace stats /mnt                          rates, every second
  terrace stats /mnt --interval 10
  terrace stats /mnt --once                   totals since the volume was mounted
  terrace stats /mnt --json | jq '.counters.written_back_bytes / .elapsed_ms'

The first lines come after the first interval. It ends when the volume is
unmounted. Reads and writes of PM are those of file data; those of disks are all
that the devices did: read-ahead, checksums and scrubs, too. With --json, files
has the hottest and coldest ones, for root and the user who mounted the volume.";

/// `top`
#[derive(Args, Debug)]
pub struct TopArgs {
    /// Where the volume is mounted, or its PM device
    #[arg(value_name = "MOUNTPOINT|PM")]
    pub target: PathBuf,
    /// How often to draw anew
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=86_400)
    )]
    pub interval: u64,
}

/// `record`
#[derive(Args, Debug)]
pub struct RecordArgs {
    /// Where the volume is mounted, or its PM device
    #[arg(value_name = "MOUNTPOINT|PM")]
    pub target: PathBuf,
    /// The trace; what is there is replaced
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// End after so many seconds [default: at Ctrl-C]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub seconds: Option<u64>,
}

pub(super) const RECORD_HELP: &str = "\
Examples:
  terrace record /mnt -o day.trace                  until Ctrl-C
  terrace record /mnt -o day.trace --seconds 3600
  terrace simulate day.trace --pm 2G,4G,8G

A trace has times, operations, inode numbers, offsets and lengths: no names,
no data. It takes a few bytes per operation. Programs do not wait for it: what
cannot be noted at once is counted as lost. It ends when the volume is
unmounted, too. Root and the user who mounted the volume may record, one at a
time.";

/// `simulate`
#[derive(Args, Debug)]
pub struct SimulateArgs {
    /// What `terrace record` wrote
    pub trace: PathBuf,
    /// Sizes of PM to try, separated by commas [default: a quarter of what there was, to four times
    /// as much]
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = size::parse_size)]
    pub pm: Vec<u64>,
    /// Sizes of the page cache to try [default: what there was]
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = size::parse_size)]
    pub cache: Vec<u64>,
    /// Another value for a threshold, or several to try; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUES", value_parser = parse_threshold)]
    pub settings: Vec<ThresholdValues>,
    /// What migration may write to `pm` or `disk` in a day, or several budgets to try; `off`: any
    /// number of bytes; may be repeated
    #[arg(long = "wear", value_name = "DEVICE:BYTES/day", value_parser = parse_wear)]
    pub wear: Vec<WearValues>,
    /// Model of the disks
    #[arg(long, value_name = "MODEL", default_value = "nvme-ssd",
          value_parser = clap::builder::PossibleValuesParser::new(DeviceModel::NAMES))]
    pub disk: String,
    /// Another trace that says how long operations took, on this kind of machine and disk: for what
    /// the trace itself does not show; may be repeated
    #[arg(long = "costs", value_name = "TRACE")]
    pub costs: Vec<PathBuf>,
    /// Prices per GB, a name and a price per line, where they differ from the default
    #[arg(long, value_name = "FILE")]
    pub prices: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Values of a threshold to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThresholdValues {
    /// Which.
    pub param: Param,
    /// At least one.
    pub values: Vec<u64>,
}

/// Budgets of a device to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WearValues {
    /// 0: PM; 1: the disks.
    pub device: usize,
    /// Bytes per day, at least one; 0: any number.
    pub values: Vec<u64>,
}

/// Parses `DEVICE:BYTES/day,…`.
fn parse_wear(text: &str) -> Result<WearValues, String> {
    let (device, values) = match text.split_once(':') {
        Some(("pm", values)) => (0, values),
        Some(("disk", values)) => (1, values),
        _ => {
            return Err(format!(
                "{}: a budget is given as pm:BYTES/day or disk:BYTES/day, as in disk:100G/day",
                quoted(text)
            ));
        }
    };
    let value = |text| if text == "off" { Ok(0) } else { wear::parse_rate(text) };
    Ok(WearValues { device, values: values.split(',').map(value).collect::<Result<_, _>>()? })
}

/// Parses `NAME=VALUE,…`.
fn parse_threshold(text: &str) -> Result<ThresholdValues, String> {
    let mut values = text.split(',');
    let (param, first) = thresholds::parse_setting(values.next().unwrap_or_default())?;
    let rest = values.map(|value| thresholds::parse_value(param, value));
    let values = std::iter::once(Ok(first)).chain(rest).collect::<Result<_, String>>()?;
    Ok(ThresholdValues { param, values })
}

pub(super) fn simulate_help() -> String {
    format!(
        "\
Examples:
  terrace simulate day.trace
  terrace simulate day.trace --pm 2G,4G,8G --cache 256M,1G --disk sata-ssd
  terrace simulate day.trace --pm 4G --set cold_age=10,30,120 --set group=4M
  terrace simulate day.trace --wear disk:off,100G/day,10G/day
  terrace simulate day.trace --json | jq '.results[] | {{pm_bytes, slowdown}}'

Every combination is simulated: placement, page cache and migration as the
policy has them, devices by their models. The table has, for each, where reads
were served and writes went; what was written back, moved from PM to disk
because PM was full or DRAM idle, and moved to PM; how often writers waited
for pages; how long all operations took, and how many times as long as with
everything in PM; and the price of PM, page cache and disks. docs/WHATIF.md
says what is modelled.

A trace says how long operations took. Half of them tell what the engine
itself costs, and the others how well the prediction fits the volume that was
recorded: the first lines compare the two. It fits if --disk is the model of
the disks that were recorded.

{}",
        size::HELP
    )
}
