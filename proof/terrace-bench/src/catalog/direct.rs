//! The benchmarks of the direct path.

use anyhow::Result;

use super::{BARE, EXT4_JOURNAL, XFS_LOG, reported, target};
use crate::benchmark::{Against, Benchmark, Contest, How, Measurement};
use crate::direct::{self, moments};
use crate::engine;
use crate::ground::Ground;
use crate::options::Options;
use crate::progress::Progress;
use crate::report::Row;
use crate::rocksdb::{self, ycsb};
use crate::trees;

/// A program that is run directly on a mount that lends, beside the same program on that mount, on
/// tmpfs and on journalling file systems: the ratios to reach of the last three, or, before `;`, of
/// the mount, too. More may follow.
macro_rules! direct {
    ($name:literal, $both:expr, $tmpfs:expr, $ext4:expr, $xfs:expr $(, $more:expr)*) => {
        direct!($name, $both, None; $tmpfs, $ext4, $xfs $(, $more)*)
    };
    ($name:literal, $both:expr, $mount:expr; $tmpfs:expr, $ext4:expr, $xfs:expr
        $(, $more:expr)*) => {
        Benchmark::Contest(Contest {
            name: $name,
            how: How::Files($both.direct),
            against: &[
                Against {
                    reach: $mount,
                    ..reported("the mount", Ground::Lending, How::Files($both.plain))
                },
                Against {
                    reach: $tmpfs,
                    ..reported("tmpfs", Ground::Tmpfs, How::Files($both.plain))
                },
                Against {
                    reach: $ext4,
                    ..reported(EXT4_JOURNAL, Ground::Ext4Journal, How::Files($both.plain))
                },
                Against {
                    reach: $xfs,
                    ..reported(XFS_LOG, Ground::XfsLog, How::Files($both.plain))
                },
                $($more),*
            ],
            ..DIRECT
        })
    };
}

/// The same operation by the engine in process: a direct call takes at most 1.2 times as long.
macro_rules! in_process {
    ($how:expr) => {
        target("the engine in process", Ground::Engine, How::Volume($how), 0.83)
    };
}

/// A program that is run directly, beside the same one on the same mount.
macro_rules! beside_the_mount {
    ($name:literal, $both:expr) => {
        Benchmark::Contest(Contest {
            name: $name,
            how: How::Files($both.direct),
            against: &[target("the mount", Ground::Lending, How::Files($both.plain), 1.0)],
            ..DIRECT
        })
    };
}

/// Two threads beside one, both directly.
macro_rules! two_threads {
    ($name:literal, $both:expr, $reach:literal) => {
        Benchmark::Contest(Contest {
            name: $name,
            how: How::Files($both.direct),
            against: &[target(
                "one thread",
                Ground::Lending,
                How::Files(direct::OVERWRITE.direct),
                $reach,
            )],
            ..DIRECT
        })
    };
}

const DIRECT: Contest = Contest { place: "direct", ground: Ground::Lending, ..BARE };

/// A moment that a process has once.
const fn moment(
    title: &'static str,
    rows: fn() -> Vec<String>,
    run: fn(&Options, &Progress) -> Result<Vec<Row>>,
) -> Benchmark {
    Benchmark::Measurement(Measurement { title, rows, mounts: true, room: moments::room, run })
}

/// In the order of their rows.
pub static CATALOG: &[Benchmark] = &[
    direct!(
        "4 KiB overwrite + fdatasync",
        direct::OVERWRITE,
        Some(1.1),
        None,
        None,
        in_process!(direct::overwrite_in_process)
    ),
    direct!(
        "4 KiB random read",
        direct::READ,
        Some(1.2),
        None,
        None,
        in_process!(direct::read_in_process)
    ),
    direct!(
        "128-byte append + fdatasync",
        direct::APPEND,
        Some(0.6),
        None,
        None,
        in_process!(engine::append)
    ),
    direct!("create, write 4 KiB, close", direct::CREATE, None, None, None),
    two_threads!(
        "4 KiB overwrite + fdatasync, two threads, a file each",
        direct::OVERWRITE_TWO_FILES,
        1.7
    ),
    two_threads!(
        "4 KiB overwrite + fdatasync, two threads, one file",
        direct::OVERWRITE_SHARED,
        1.2
    ),
    Benchmark::Contest(Contest {
        name: "4 KiB overwrite + fdatasync of a file of no mount",
        ground: Ground::Tmpfs,
        how: How::Files(direct::IDLE),
        against: &[target(
            "without terrace run",
            Ground::Tmpfs,
            How::Files(direct::OVERWRITE.plain),
            0.99,
        )],
        ..DIRECT
    }),
    moment("direct: the first calls of a process", moments::first_names, moments::run_first),
    moment("direct: the start of a process", moments::start_names, moments::run_start),
    moment("direct: a file that is taken back", moments::taken_back_names, moments::run_taken_back),
    moment(
        "direct: a file of a stopped program that is taken back",
        moments::stopped_names,
        moments::run_stopped,
    ),
    direct!("RocksDB fillseq, sync", rocksdb::FILLSEQ, Some(1.3), Some(80.0), Some(90.0)),
    direct!("RocksDB fillrandom, sync", rocksdb::FILLRANDOM, Some(1.0), None, None),
    direct!("RocksDB like YCSB A", ycsb::A, None, None, None),
    direct!("RocksDB like YCSB B", ycsb::B, None, None, None),
    direct!("RocksDB like YCSB C", ycsb::C, None, None, None),
    direct!("RocksDB like YCSB D", ycsb::D, None, None, None),
    direct!("RocksDB like YCSB E", ycsb::E, None, None, None),
    direct!("RocksDB like YCSB F", ycsb::F, None, None, None),
    direct!("SQLite commit, WAL", direct::SQLITE_WAL, None, Some(10.0), Some(10.0)),
    direct!("SQLite commit, PERSIST", direct::SQLITE_PERSIST, None, Some(5.0), Some(5.0)),
    direct!("SQLite commit, DELETE", direct::SQLITE_DELETE, None, Some(4.0), Some(4.0)),
    direct!("MariaDB commit", direct::MARIADB, None, None, None),
    direct!("PostgreSQL transaction", direct::POSTGRESQL, Some(0.95); None, None, None),
    direct!("LevelDB fillsync", direct::LEVELDB, None, None, None),
    direct!("varmail", direct::VARMAIL, None, Some(5.3), Some(3.9)),
    beside_the_mount!("untar", trees::UNPACK),
    beside_the_mount!("git clone", trees::CLONE),
    beside_the_mount!("build", trees::BUILD),
];
