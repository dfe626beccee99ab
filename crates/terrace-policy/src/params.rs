//! Every threshold of the policy: its name, unit, range, default and current value.
//!
//! Invariant: each value of a [`Params`] lies in the range of its [`Tunable`], so that no formula
//! meets a zero divisor or an overflow because of them. `docs/POLICY.md` shows the same table; a
//! test holds the two together.

use std::fmt;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A threshold of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Param {
    /// From so many blocks between two fsyncs on, a file is asynchronous.
    SyncBlocks,
    /// An entry whose counter exceeds it is large.
    LargeWrites,
    /// Shorter writes are never large.
    LargeBlocks,
    /// Least share of its predecessor's area that a write of a stable size covers.
    LargeShare,
    /// More reads in a row than so many times a file's size make it read-dominated.
    ReadFactor,
    /// A file untouched for so long is cold as a whole.
    ColdAge,
    /// PM usage that starts migration while as much is read as written.
    MigrateAt,
    /// By how much twice the reads raise that usage.
    MigrateStep,
    /// It never falls below this.
    MigrateMin,
    /// It never rises above this.
    MigrateMax,
    /// PM reads in percent of DRAM reads above which DRAM idles.
    FlowHigh,
    /// PM reads in percent of DRAM reads below which PM idles.
    FlowLow,
    /// Seconds in a row for which reads are out of balance before data moves.
    FlowSeconds,
    /// Longest run that migration writes to a disk at once.
    Group,
    /// Longest run that a miss fetches from a disk.
    Fetch,
    /// Page cache usage below which migrated pages stay in DRAM.
    KeepCached,
    /// Limit of migration.
    MigrateRate,
    /// Usage of a disk tier above which it migrates to the next.
    TierFull,
    /// PM usage above which logs migrate, too.
    LogsAt,
    /// Whether migration runs.
    Migrate,
    /// From so many bytes between two fsyncs on, nobody waits for a file's writes.
    AwaitBytes,
    /// Whether something is expected of a new file because of its siblings.
    Siblings,
    /// Share of the time in which PM turns over for which data counts as written lately.
    Lately,
    /// By how much PM is slower before memory and disks help it.
    Helpers,
    /// Time without data that had to leave PM after which other data may come back.
    Settle,
    /// Whether logs are written anew for little while data has to leave PM.
    TightLogs,
    /// Most that short dirty files are written back at once.
    FlushGroup,
}

/// What a threshold counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Blocks of 4 KiB.
    Blocks,
    /// Things, counted.
    Count,
    /// Hundredths.
    Percent,
    /// A multiple.
    Factor,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// 0 is off, 1 is on.
    Switch,
}

impl Unit {
    /// The unit in words: `"bytes/s"`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Blocks => "blocks",
            Self::Count => "count",
            Self::Percent => "percent",
            Self::Factor => "factor",
            Self::Seconds => "seconds",
            Self::Bytes => "bytes",
            Self::BytesPerSecond => "bytes/s",
            Self::Switch => "switch",
        }
    }
}

/// All about a threshold but its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunable {
    /// Which.
    pub param: Param,
    /// Its name as a mount option.
    pub name: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// Least value.
    pub min: u64,
    /// Greatest value.
    pub max: u64,
    /// The papers' value.
    pub default: u64,
    /// What it decides, in a sentence.
    pub about: &'static str,
}

/// How many thresholds there are.
pub const PARAMS: usize = 27;

const fn tunable(
    param: Param,
    name: &'static str,
    unit: Unit,
    range: (u64, u64),
    default: u64,
) -> Tunable {
    Tunable { param, name, unit, min: range.0, max: range.1, default, about: "" }
}

impl Tunable {
    const fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    /// Whether the threshold may be `value`.
    ///
    /// # Errors
    ///
    /// `value` lies outside the range.
    pub fn check(&self, value: u64) -> Result<(), OutOfRange> {
        if (self.min..=self.max).contains(&value) {
            Ok(())
        } else {
            Err(OutOfRange { param: self.param, value })
        }
    }
}

/// All thresholds, in the order of [`Param`].
pub const TUNABLES: [Tunable; PARAMS] = [
    tunable(Param::SyncBlocks, "sync_blocks", Unit::Blocks, (1, 1 << 30), 1024)
        .about("a file with so many blocks or more written between two fsyncs is asynchronous"),
    tunable(Param::LargeWrites, "large_writes", Unit::Count, (0, 14), 4)
        .about("a write is large if its counter exceeds this"),
    tunable(Param::LargeBlocks, "large_blocks", Unit::Blocks, (1, 4096), 4)
        .about("shorter writes are never large"),
    tunable(Param::LargeShare, "large_share", Unit::Percent, (1, 100), 50).about(
        "a write of a stable size is at least so large, compared with the writes it \
                replaces",
    ),
    tunable(Param::ReadFactor, "read_factor", Unit::Factor, (1, 1000), 2).about(
        "a file is read-dominated if more than so many times its size was read since it \
                was written",
    ),
    tunable(Param::ColdAge, "cold_age", Unit::Seconds, (0, 86_400), 30)
        .about("a file that was not written for so long is cold as a whole"),
    tunable(Param::MigrateAt, "migrate_at", Unit::Percent, (1, 100), 70)
        .about("PM usage above which data moves to disk while PM is read as much as written"),
    tunable(Param::MigrateStep, "migrate_step", Unit::Percent, (0, 50), 5).about(
        "twice the reads raise that usage by this, twice the writes lower it; 0: it is \
                fixed",
    ),
    tunable(Param::MigrateMin, "migrate_min", Unit::Percent, (1, 100), 50).about(
        "that usage is \
        at least this",
    ),
    tunable(Param::MigrateMax, "migrate_max", Unit::Percent, (1, 100), 90).about(
        "that usage is \
        at most this",
    ),
    tunable(Param::FlowHigh, "flow_high", Unit::Percent, (100, 10_000), 200)
        .about("DRAM idles if reads from PM are above this share of reads from DRAM"),
    tunable(Param::FlowLow, "flow_low", Unit::Percent, (1, 100), 50)
        .about("PM idles if reads from PM are below this share of reads from DRAM"),
    tunable(Param::FlowSeconds, "flow_seconds", Unit::Seconds, (1, 60), 4)
        .about("DRAM or PM idle for so many seconds in a row before data moves"),
    tunable(Param::Group, "group", Unit::Bytes, (64 * KIB, 64 * MIB), 16 * MIB)
        .about("most that migration writes to a disk at once; whole blocks count"),
    tunable(Param::Fetch, "fetch", Unit::Bytes, (4 * KIB, 16 * MIB), MIB)
        .about("most that a read fetches from a disk ahead of need; whole blocks count"),
    tunable(Param::KeepCached, "keep_cached", Unit::Percent, (0, 100), 50).about(
        "cold data that moves to disk stays cached while the page cache is used less than \
                this",
    ),
    tunable(Param::MigrateRate, "migrate_rate", Unit::BytesPerSecond, (0, 1 << 40), 0)
        .about("migration moves at most this; 0: no limit"),
    tunable(Param::TierFull, "tier_full", Unit::Percent, (1, 100), 90)
        .about("usage above which a tier of disks moves cold data to the next"),
    tunable(Param::LogsAt, "logs_at", Unit::Percent, (0, 100), 95).about(
        "PM usage above which logs of cold files move to disk, too, when there is no cold \
                data left to move",
    ),
    tunable(Param::Migrate, "migrate", Unit::Switch, (0, 1), 1).about(
        "0: nothing moves between \
        tiers by itself",
    ),
    tunable(Param::AwaitBytes, "await_bytes", Unit::Bytes, (0, 1 << 40), 256 * KIB).about(
        "nobody waits for a file of which so many bytes or more are written between two fsyncs; \
                0: somebody waits for each",
    ),
    tunable(Param::Siblings, "siblings", Unit::Switch, (0, 1), 1)
        .about("0: nothing is expected of a new file because of others like it"),
    tunable(Param::Lately, "lately", Unit::Percent, (0, 100), 12).about(
        "data counts as written lately for this share of the time in which as much is written as \
                PM holds, at most a second; 0: for a second",
    ),
    tunable(Param::Helpers, "helpers", Unit::Percent, (0, 1000), 25).about(
        "reads leave PM, and long writes go past it, if it takes so much longer than memory or a \
                disk; 0: reads leave as the papers say, writes never go past it",
    ),
    tunable(Param::Settle, "settle", Unit::Seconds, (0, 86_400), 10)
        .about("data comes back to PM if none had to leave it for so long; 0: at once"),
    tunable(Param::TightLogs, "tight_logs", Unit::Switch, (0, 1), 1).about(
        "1: while data has to leave PM, a log is written anew when half of it is dead; 0: only if \
                that gains four pages, too",
    ),
    tunable(Param::FlushGroup, "flush_group", Unit::Bytes, (0, 64 * MIB), 4 * MIB).about(
        "short dirty files are written back together, so much at once, with one flush; 0: one \
                file at a time",
    ),
];

impl Param {
    /// All of them, in the order of [`TUNABLES`].
    pub const ALL: [Self; PARAMS] = {
        let mut all = [Self::SyncBlocks; PARAMS];
        let mut i = 0;
        while i < PARAMS {
            all[i] = TUNABLES[i].param;
            assert!(all[i] as usize == i, "TUNABLES are in the order of Param");
            i += 1;
        }
        all
    };

    /// Name, unit, range and default.
    pub fn tunable(self) -> &'static Tunable {
        static TABLE: [Tunable; PARAMS] = TUNABLES;
        &TABLE[self as usize]
    }

    /// The threshold called so as a mount option.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|param| param.tunable().name == name)
    }
}

/// A value outside its threshold's range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange {
    /// The threshold.
    pub param: Param,
    /// What it should have become.
    pub value: u64,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tunable { name, unit, min, max, .. } = self.param.tunable();
        write!(f, "{name}={} is out of range: give {min} to {max} ({})", self.value, unit.name())
    }
}

impl std::error::Error for OutOfRange {}

/// The value of every threshold. By default, the papers'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params([u64; PARAMS]);

impl Default for Params {
    fn default() -> Self {
        Self(Param::ALL.map(|param| param.tunable().default))
    }
}

impl Params {
    /// A threshold's value, in its unit.
    pub fn get(&self, param: Param) -> u64 {
        self.0[param as usize]
    }

    /// Changes a threshold.
    ///
    /// # Errors
    ///
    /// `value` lies outside its range; nothing has changed.
    pub fn set(&mut self, param: Param, value: u64) -> Result<(), OutOfRange> {
        param.tunable().check(value)?;
        self.0[param as usize] = value;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for param in Param::ALL {
            assert_eq!(Param::from_name(param.tunable().name), Some(param));
        }
        assert_eq!(Param::from_name("no_such"), None);
    }

    #[test]
    fn every_value_of_a_range_is_taken_and_no_other() {
        for param in Param::ALL {
            let Tunable { min, max, default, .. } = *param.tunable();
            let mut params = Params::default();
            assert_eq!(params.get(param), default);
            for value in [min, default, max] {
                params.set(param, value).unwrap();
                assert_eq!(params.get(param), value);
            }
            for value in [min.checked_sub(1), max.checked_add(1)].into_iter().flatten() {
                assert_eq!(params.set(param, value), Err(OutOfRange { param, value }));
                assert_eq!(params.get(param), max, "a refused value changes nothing");
            }
        }
    }

    #[test]
    fn a_refusal_names_option_value_range_and_unit() {
        let refusal = Params::default().set(Param::Fetch, 1).unwrap_err().to_string();
        assert_eq!(refusal, "fetch=1 is out of range: give 4096 to 16777216 (bytes)");
    }

    #[test]
    fn the_manual_shows_this_table() {
        let manual = include_str!("../../../docs/POLICY.md");
        let shown: Vec<&str> = manual
            .lines()
            .skip_while(|line| !line.starts_with("| Option"))
            .skip(2)
            .take_while(|line| line.starts_with('|'))
            .collect();
        let table: Vec<String> = TUNABLES
            .iter()
            .map(|t| {
                format!(
                    "| `{}` | {} | {} | {} to {} | {} |",
                    t.name,
                    t.unit.name(),
                    t.default,
                    t.min,
                    t.max,
                    t.about
                )
            })
            .collect();
        assert_eq!(shown, table);
    }
}
