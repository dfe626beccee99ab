//! The benchmarks of volumes whose PM is a few percent of the data.

use super::{
    EXT4_JOURNAL, FUSE, NULL, NULL_DURABLE, XFS_LOG, engine, mounted, null_and_journals, owned,
    reported, target,
};
use crate::amplification;
use crate::benchmark::{Against, Benchmark, Contest, How, Measurement};
use crate::direct::{mariadb, sqlite_updates};
use crate::engine::OnVolume;
use crate::files::OnFiles;
use crate::ground::Ground;
use crate::hindsight;
use crate::loads;
use crate::lsm;
use crate::moving;
use crate::rocksdb;

const TIERED: Ground = Ground::Tiered { small: false, durable: false };
const ENGINE_TIERED: Ground = Ground::EngineTiered { small: false };
const LARGE_PM: &str = "PM with room for all";
/// The disk, which writes all tables and nothing else.
const DISK_ALONE: &str = "the disk, sequentially";
/// Where a round of one side takes seconds.
const LONG_ROUNDS: u32 = 5;

/// On a mount with a small PM and a disk.
const fn small_pm(name: &'static str, how: OnFiles, against: &'static [Against]) -> Contest {
    let (place, ground) = ("mount, small PM", Ground::Tiered { small: true, durable: false });
    Contest { place, ground, ..mounted(name, how, against) }
}

/// On such a volume in process.
const fn in_process(name: &'static str, how: OnVolume, against: &'static [Against]) -> Contest {
    let (place, ground) = ("engine, small PM", Ground::EngineTiered { small: true });
    Contest { place, ground, rounds_max: LONG_ROUNDS, ..engine(name, how, against) }
}

/// The same, mounted and durable.
const fn small_pm_durable(
    name: &'static str,
    how: OnFiles,
    against: &'static [Against],
) -> Contest {
    let (place, ground) =
        ("mount -o durable, small PM", Ground::Tiered { small: true, durable: true });
    Contest { place, ground, ..mounted(name, how, against) }
}

/// On a mount with a small PM, beside one with PM for all, and both with little memory for caches.
const fn little_memory(name: &'static str, how: OnFiles, against: &'static [Against]) -> Benchmark {
    Benchmark::Contest(Contest {
        place: "mount, small PM, little memory",
        little_memory: true,
        rounds_max: LONG_ROUNDS,
        ..small_pm(name, how, against)
    })
}

/// The same for what is compared with PM that has room for all.
macro_rules! little_memory {
    ($name:literal, $how:expr, $reach:literal) => {
        little_memory($name, $how, &[target(LARGE_PM, TIERED, How::Files($how), $reach)])
    };
}

pub static CATALOG: &[Benchmark] = &[
    Benchmark::Contest(Contest {
        rounds_max: LONG_ROUNDS,
        ..small_pm(
            "RocksDB fillseq of a database, sync",
            rocksdb::fillseq_all,
            &[target(LARGE_PM, TIERED, How::Files(rocksdb::fillseq_all), 0.95)],
        )
    }),
    Benchmark::Contest(Contest {
        rounds_max: LONG_ROUNDS,
        ..small_pm(
            "RocksDB fillrandom of a database, sync",
            rocksdb::fillrandom_all,
            &[target(LARGE_PM, TIERED, How::Files(rocksdb::fillrandom_all), 0.95)],
        )
    }),
    Benchmark::Contest(Contest {
        rounds_max: LONG_ROUNDS,
        ..small_pm(
            "RocksDB overwrite of a database, sync",
            rocksdb::overwrite_all,
            &[target(LARGE_PM, TIERED, How::Files(rocksdb::overwrite_all), 0.95)],
        )
    }),
    Benchmark::Contest(Contest {
        rounds_max: LONG_ROUNDS,
        ..small_pm(
            "RocksDB readwhilewriting of a database, sync",
            rocksdb::read_while_writing,
            &[target(LARGE_PM, TIERED, How::Files(rocksdb::read_while_writing), 0.95)],
        )
    }),
    Benchmark::Contest(Contest {
        slowest_reach: Some(0.9),
        ..in_process(
            "log and tables of a store, keys in order",
            lsm::fill_in_order,
            &[
                reported(LARGE_PM, ENGINE_TIERED, How::Volume(lsm::fill_in_order)),
                reported(DISK_ALONE, Ground::Ext4, How::Files(lsm::leave_in_order)),
            ],
        )
    }),
    Benchmark::Contest(Contest {
        slowest_reach: Some(0.8),
        ..in_process(
            "log and tables of a store, keys at random",
            lsm::fill_at_random,
            &[
                reported(LARGE_PM, ENGINE_TIERED, How::Volume(lsm::fill_at_random)),
                reported(DISK_ALONE, Ground::Ext4, How::Files(lsm::leave_at_random)),
            ],
        )
    }),
    Benchmark::Contest(small_pm(
        "RocksDB fillseq, sync",
        rocksdb::fillseq,
        null_and_journals!(rocksdb::fillseq, NULL),
    )),
    Benchmark::Contest(small_pm_durable(
        "RocksDB fillseq, sync",
        rocksdb::fillseq,
        null_and_journals!(rocksdb::fillseq, NULL_DURABLE),
    )),
    Benchmark::Contest(small_pm(
        "varmail",
        loads::varmail,
        &[
            target(LARGE_PM, TIERED, How::Files(loads::varmail), 0.9),
            target(FUSE, NULL, How::Files(loads::varmail), 0.9),
            reported(EXT4_JOURNAL, Ground::Ext4Journal, How::Files(loads::varmail)),
            reported(XFS_LOG, Ground::XfsLog, How::Files(loads::varmail)),
        ],
    )),
    Benchmark::Contest(small_pm_durable(
        "varmail",
        loads::varmail,
        null_and_journals!(loads::varmail, NULL_DURABLE),
    )),
    Benchmark::Contest(small_pm(
        "fileserver",
        loads::fileserver,
        &[target(LARGE_PM, TIERED, How::Files(loads::fileserver), 0.9)],
    )),
    Benchmark::Contest(small_pm(
        "webserver",
        loads::webserver,
        &[target(LARGE_PM, TIERED, How::Files(loads::webserver), 0.9)],
    )),
    Benchmark::Contest(small_pm(
        "webproxy",
        loads::webproxy,
        &[target(LARGE_PM, TIERED, How::Files(loads::webproxy), 0.9)],
    )),
    Benchmark::Contest(Contest {
        rounds_max: LONG_ROUNDS,
        ..small_pm(
            "SQLite updates of a large database, WAL",
            sqlite_updates,
            &[target(LARGE_PM, TIERED, How::Files(sqlite_updates), 0.9)],
        )
    }),
    Benchmark::Contest(Contest {
        rounds_max: LONG_ROUNDS,
        ..small_pm(
            "MariaDB updates of a large database",
            mariadb::updates,
            &[target(LARGE_PM, TIERED, How::Files(mariadb::updates), 0.9)],
        )
    }),
    little_memory!("RocksDB fillseq of a database, sync", rocksdb::fillseq_all, 0.95),
    little_memory!("RocksDB fillrandom of a database, sync", rocksdb::fillrandom_all, 0.95),
    little_memory!("RocksDB overwrite of a database, sync", rocksdb::overwrite_all, 0.95),
    little_memory!(
        "RocksDB readwhilewriting of a database, sync",
        rocksdb::read_while_writing,
        0.95
    ),
    little_memory!("RocksDB fillseq, sync", rocksdb::fillseq, 0.9),
    little_memory!("varmail", loads::varmail, 0.9),
    little_memory!("fileserver", loads::fileserver, 0.9),
    little_memory!("webserver", loads::webserver, 0.9),
    little_memory!("webproxy", loads::webproxy, 0.9),
    little_memory!("SQLite updates of a large database, WAL", sqlite_updates, 0.9),
    little_memory!("MariaDB updates of a large database", mariadb::updates, 0.9),
    Benchmark::Measurement(Measurement {
        title: "a hot set that moves",
        rows: || owned(moving::ROWS),
        mounts: false,
        room: moving::room,
        run: moving::run,
    }),
    Benchmark::Measurement(Measurement {
        title: "bytes to the disk",
        rows: || owned(amplification::ROWS),
        mounts: true,
        room: amplification::room,
        run: amplification::run,
    }),
    Benchmark::Measurement(Measurement {
        title: "hindsight",
        rows: hindsight::rows,
        mounts: true,
        room: amplification::room,
        run: hindsight::run,
    }),
];
