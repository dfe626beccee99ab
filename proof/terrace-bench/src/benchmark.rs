//! What a benchmark is: a contest or a measurement, its needs, and how its rows are called.
//!
//! Most are contests: an operation on our side and on baselines, in rounds (`contest`). The rest
//! measure by themselves (`large`, `dram`) and return rows.

use anyhow::Result;

use crate::depth;
use crate::engine::OnVolume;
use crate::files::OnFiles;
use crate::ground::Ground;
use crate::options::Options;
use crate::progress::Progress;
use crate::reach;
use crate::report::{Row, Unit};
use crate::stage::{Room, small_pm_bytes};
use crate::trees;
use crate::workload::{CACHE_BYTES, Sizes};

/// How a side does its operation.
#[derive(Clone, Copy, Debug)]
pub enum How {
    /// By system calls.
    Files(OnFiles),
    /// On a volume in process.
    Volume(OnVolume),
}

/// A baseline, and the ratio to reach where one is set.
#[derive(Clone, Copy, Debug)]
pub struct Against {
    /// What it is called in the row's name.
    pub name: &'static str,
    /// Where it runs.
    pub ground: Ground,
    /// What it does there.
    pub how: How,
    /// Least ratio of rates that counts as met.
    pub reach: Option<f64>,
}

/// One operation, measured on our side and on each baseline.
#[derive(Clone, Copy, Debug)]
pub struct Contest {
    /// Where our side runs, in the row's name.
    pub place: &'static str,
    /// The operation, in a few words.
    pub name: &'static str,
    /// Where our side runs.
    pub ground: Ground,
    /// What it does there.
    pub how: How,
    /// The comparisons, each a row.
    pub against: &'static [Against],
    /// A row more, against the slowest baseline of each round, and its least ratio.
    pub slowest_reach: Option<f64>,
    /// What is counted.
    pub unit: Unit,
    /// Of writes in process: bytes that the program writes, and at most how many may be stored to
    /// PM for them, if that is a target. A row compares the two.
    pub payload: Option<(usize, Option<usize>)>,
    /// READ messages that each operation must take on every FUSE mount, if that is what it is
    /// about.
    pub reads: Option<u64>,
    /// Bytes of each operation, nearly all of which must be read from disks, where there are any.
    pub cold_bytes: Option<u64>,
    /// All processes and all caches have as little memory as they need, and for caches no more than
    /// a small PM has.
    pub little_memory: bool,
    /// At most so many rounds, where each takes long.
    pub rounds_max: u32,
}

/// A benchmark that is no contest.
#[derive(Clone, Copy, Debug)]
pub struct Measurement {
    /// What it is about.
    pub title: &'static str,
    /// Names of all rows that it may return.
    pub rows: fn() -> Vec<String>,
    /// It mounts a volume.
    pub mounts: bool,
    /// What it needs.
    pub room: fn(&Options) -> Room,
    /// Measures.
    pub run: fn(&Options, &Progress) -> Result<Vec<Row>>,
}

/// A benchmark.
#[derive(Clone, Copy, Debug)]
pub enum Benchmark {
    /// Rates beside each other.
    Contest(Contest),
    /// Whatever else.
    Measurement(Measurement),
}

/// Appended to a contest's title for the row of bytes stored to PM.
const PM_BYTES: &str = "bytes stored to PM vs bytes written";

impl Contest {
    /// Place and operation.
    pub fn title(&self) -> String {
        format!("{}: {}", self.place, self.name)
    }

    /// The name of the row of one comparison.
    pub fn rate_row_name(&self, against: &Against) -> String {
        format!("{} vs {}", self.title(), against.name)
    }

    /// The name of the row against the slowest baseline.
    pub fn slowest_row_name(&self) -> String {
        format!("{} vs the slower of those", self.title())
    }

    /// The name of the row of bytes stored to PM.
    pub fn bytes_row_name(&self) -> String {
        format!("{}, {PM_BYTES}", self.title())
    }

    /// The grounds of all sides, ours first.
    pub fn grounds(&self) -> Vec<Ground> {
        std::iter::once(self.ground)
            .chain(self.against.iter().map(|against| against.ground))
            .collect()
    }

    /// How large files are to be.
    pub fn sizes(&self, options: &Options) -> Sizes {
        let sizes = match self.ground {
            Ground::Engine => Sizes::in_process(options),
            _ => Sizes::on_mounts(options),
        };
        // The kernel's cache gets the other half.
        let little = small_pm_bytes(sizes) / 2;
        Sizes { cache_bytes: if self.little_memory { little } else { CACHE_BYTES }, ..sizes }
    }

    /// Names of its rows.
    fn row_names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.against.iter().map(|against| self.rate_row_name(against)).collect();
        names.extend(self.slowest_reach.map(|_| self.slowest_row_name()));
        names.extend(self.payload.map(|_| self.bytes_row_name()));
        names
    }
}

impl Benchmark {
    /// What it is about.
    pub fn title(&self) -> String {
        match self {
            Benchmark::Contest(contest) => contest.title(),
            Benchmark::Measurement(measurement) => measurement.title.to_owned(),
        }
    }

    /// Names of all rows.
    pub fn row_names(&self) -> Vec<String> {
        match self {
            Benchmark::Contest(contest) => contest.row_names(),
            Benchmark::Measurement(measurement) => (measurement.rows)(),
        }
    }

    /// Whether any row is selected.
    pub fn matches(&self, options: &Options) -> bool {
        self.row_names().iter().any(|name| options.selects(name))
    }

    /// Whether it cannot do without FUSE.
    pub fn needs_fuse(&self) -> bool {
        match self {
            Benchmark::Contest(contest) => contest.grounds().iter().any(|ground| ground.is_fuse()),
            Benchmark::Measurement(measurement) => measurement.mounts,
        }
    }

    /// Whether it cannot do without loop devices.
    pub fn needs_loop_devices(&self) -> bool {
        matches!(self, Benchmark::Contest(contest) if contest.grounds().iter()
            .any(|ground| ground.has_image()))
    }

    /// Whether it bounds memory.
    pub fn needs_group(&self) -> bool {
        matches!(self, Benchmark::Contest(contest) if contest.little_memory)
    }

    /// Whether programs are run directly.
    pub fn needs_direct(&self) -> bool {
        self.row_names().iter().all(|name| name.starts_with(reach::DIRECT))
    }

    /// Whether it runs SQLite against the clock.
    pub fn needs_sqlite(&self) -> bool {
        self.is_contest_of("SQLite")
    }

    /// Whether it runs RocksDB.
    pub fn needs_rocksdb(&self) -> bool {
        self.is_contest_of("RocksDB")
    }

    /// Whether it runs a server of MariaDB.
    pub fn needs_mariadb(&self) -> bool {
        self.is_contest_of("MariaDB")
    }

    /// Whether it runs a server of PostgreSQL.
    pub fn needs_postgresql(&self) -> bool {
        self.is_contest_of("PostgreSQL")
    }

    /// Whether it runs LevelDB.
    pub fn needs_leveldb(&self) -> bool {
        self.is_contest_of("LevelDB")
    }

    /// Whether it runs the programs that work on trees of files.
    pub fn needs_trees(&self) -> bool {
        self.does_one_of(&trees::ALL)
    }

    /// Whether it runs `fio` against the clock.
    pub fn needs_fio(&self) -> bool {
        self.does_one_of(&depth::ALL)
    }

    /// Closures have no address by which they could be found.
    fn is_contest_of(&self, program: &str) -> bool {
        matches!(self, Benchmark::Contest(contest) if contest.name.contains(program))
    }

    fn does_one_of(&self, workloads: &[OnFiles]) -> bool {
        let is_one = |how: How| {
            matches!(how, How::Files(how) if workloads.iter()
                .any(|&one| std::ptr::fn_addr_eq(how, one)))
        };
        matches!(self, Benchmark::Contest(contest) if is_one(contest.how)
            || contest.against.iter().any(|against| is_one(against.how)))
    }

    /// What it needs while it runs.
    pub fn room(&self, options: &Options) -> Room {
        match self {
            Benchmark::Contest(contest) => {
                let sizes = contest.sizes(options);
                let room = Room::of(&contest.grounds(), sizes);
                match self.needs_trees() {
                    true => Room { shm: room.shm + trees::source_bytes(sizes), ..room },
                    false => room,
                }
            }
            Benchmark::Measurement(measurement) => (measurement.room)(options),
        }
    }
}
