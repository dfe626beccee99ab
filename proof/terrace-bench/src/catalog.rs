//! The benchmarks, the baselines of each, and the ratio it is to reach. Those of the direct path
//! are in `direct`, those of small PMs in `small_pm`.

mod direct;
mod small_pm;

use crate::benchmark::{Against, Benchmark, Contest, How, Measurement};
use crate::depth;
use crate::dram;
use crate::engine::{self, OnVolume};
use crate::files::{self, OnFiles};
use crate::ground::Ground;
use crate::helpers;
use crate::large;
use crate::loads;
use crate::log_migration;
use crate::many;
use crate::message;
use crate::migration;
use crate::names;
use crate::policy;
use crate::prediction;
use crate::read_migration;
use crate::report::Unit;
use crate::rocksdb;
use crate::simulated;
use crate::small_migration;
use crate::stream;
use crate::streaming;
use crate::threads;
use crate::trees;
use crate::workload::{BLOCK_BYTES, PIECE_BYTES, RECORD_BYTES};

const fn reported(name: &'static str, ground: Ground, how: How) -> Against {
    Against { name, ground, how, reach: None }
}

const fn target(name: &'static str, ground: Ground, how: How, reach: f64) -> Against {
    Against { name, ground, how, reach: Some(reach) }
}

const BARE: Contest = Contest {
    place: "engine",
    name: "",
    ground: Ground::Engine,
    how: How::Files(files::overwrite),
    against: &[],
    slowest_reach: None,
    unit: Unit::OpsPerSecond,
    payload: None,
    reads: None,
    cold_bytes: None,
    little_memory: false,
    rounds_max: u32::MAX,
};

/// In process.
const fn engine(name: &'static str, how: OnVolume, against: &'static [Against]) -> Contest {
    Contest { name, how: How::Volume(how), against, ..BARE }
}

/// On a mount whose files are in PM.
const fn mounted(name: &'static str, how: OnFiles, against: &'static [Against]) -> Contest {
    let (place, ground) = ("mount", Ground::Mount { durable: false });
    Contest { place, name, ground, how: How::Files(how), against, ..BARE }
}

/// The same, durable.
const fn durable(name: &'static str, how: OnFiles, against: &'static [Against]) -> Contest {
    Contest {
        place: "mount -o durable",
        ground: Ground::Mount { durable: true },
        ..mounted(name, how, against)
    }
}

/// On a mount whose files are on disk, in MiB per second.
const fn streamed(name: &'static str, how: OnFiles, against: &'static [Against]) -> Contest {
    let (place, ground) = ("mount", Ground::MountOnDisk);
    Contest {
        place,
        ground,
        unit: Unit::MibPerSecond,
        slowest_reach: Some(0.9),
        ..mounted(name, how, against)
    }
}

/// Reads of a file on disk.
const fn read_on_disk(name: &'static str, how: OnFiles, against: &'static [Against]) -> Contest {
    let cold_bytes = Some(depth::READ_BYTES);
    Contest { ground: Ground::MountOnDisk, cold_bytes, ..mounted(name, how, against) }
}

const TMPFS: Ground = Ground::Tmpfs;
const TMPFS_HUGE: Ground = Ground::TmpfsHuge;
const NULL: Ground = Ground::Null { durable: false };
const NULL_DURABLE: Ground = Ground::Null { durable: true };
const FUSE: &str = "do-nothing FUSE";
const EXT4_JOURNAL: &str = "ext4 data=journal, journal in memory";
const XFS_LOG: &str = "XFS, log in memory";

/// Both: what the engine costs (with a target), what FUSE and engine cost together.
macro_rules! null_and_tmpfs {
    ($how:expr, $null:expr, $tmpfs:expr) => {
        &[
            Against { name: FUSE, ground: NULL, how: How::Files($how), reach: $null },
            Against { name: "tmpfs", ground: TMPFS, how: How::Files($how), reach: $tmpfs },
        ]
    };
}

/// What a journaling file system would be set up with in place of Terrace, and what FUSE alone
/// costs.
macro_rules! null_and_journals {
    ($how:expr, $null:expr) => {
        null_and_journals!($how, $null, None, None)
    };
    ($how:expr, $null:expr, $ext4:expr, $xfs:expr) => {
        &[
            target(FUSE, $null, How::Files($how), 0.9),
            Against {
                reach: $ext4,
                ..reported(EXT4_JOURNAL, Ground::Ext4Journal, How::Files($how))
            },
            Against { reach: $xfs, ..reported(XFS_LOG, Ground::XfsLog, How::Files($how)) },
        ]
    };
}

use null_and_journals;

/// The kernel's file system on a disk, and what FUSE alone costs.
macro_rules! ext4_and_null {
    ($how:expr, $ext4:expr) => {
        &[
            target("ext4", Ground::Ext4, How::Files($how), $ext4),
            reported(FUSE, NULL, How::Files($how)),
        ]
    };
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// All benchmarks, in the order of their rows.
pub fn all() -> impl Iterator<Item = &'static Benchmark> {
    CATALOG.iter().chain(small_pm::CATALOG).chain(direct::CATALOG)
}

static CATALOG: &[Benchmark] = &[
    Benchmark::Contest(Contest {
        payload: Some((BLOCK_BYTES, None)),
        ..engine(
            "4 KiB durable overwrite",
            engine::overwrite,
            &[
                target("tmpfs", TMPFS, How::Files(files::overwrite), 2.0),
                reported("tmpfs of huge pages", TMPFS_HUGE, How::Files(files::overwrite)),
            ],
        )
    }),
    Benchmark::Contest(engine(
        "4 KiB random read",
        engine::read,
        &[
            target("tmpfs", TMPFS, How::Files(files::read), 2.0),
            reported("tmpfs of huge pages", TMPFS_HUGE, How::Files(files::read)),
        ],
    )),
    Benchmark::Contest(engine(
        "create + write 4 KiB + unlink",
        engine::create_write_unlink,
        &[target("tmpfs", TMPFS, How::Files(names::create_write_unlink), 1.5)],
    )),
    Benchmark::Contest(Contest {
        payload: Some((RECORD_BYTES, Some(2 * RECORD_BYTES))),
        ..engine(
            "128-byte durable append",
            engine::append,
            &[target("tmpfs", TMPFS, How::Files(files::append), 2.0)],
        )
    }),
    Benchmark::Contest(mounted(
        "4 KiB write",
        files::overwrite,
        null_and_tmpfs!(files::overwrite, Some(0.9), None),
    )),
    Benchmark::Contest(mounted(
        "fsync after a 4 KiB write",
        files::fsync,
        null_and_tmpfs!(files::fsync, Some(0.9), None),
    )),
    Benchmark::Contest(mounted(
        "4 KiB write + fsync",
        files::overwrite_fsync,
        null_and_tmpfs!(files::overwrite_fsync, None, None),
    )),
    Benchmark::Contest(durable(
        "4 KiB write + fsync",
        files::overwrite_fsync,
        &[
            target(
                "without -o durable",
                Ground::Mount { durable: false },
                How::Files(files::overwrite_fsync),
                1.6,
            ),
            reported(FUSE, NULL_DURABLE, How::Files(files::overwrite_fsync)),
            reported("tmpfs", TMPFS, How::Files(files::overwrite_fsync)),
        ],
    )),
    Benchmark::Contest(Contest {
        reads: Some(1),
        ..mounted(
            "4 KiB read, cold",
            files::cold_read,
            null_and_tmpfs!(files::cold_read, Some(0.9), None),
        )
    }),
    Benchmark::Contest(Contest {
        reads: Some(0),
        ..mounted("4 KiB read, cached", files::read, null_and_tmpfs!(files::read, None, None))
    }),
    Benchmark::Contest(mounted(
        "create",
        names::create,
        null_and_tmpfs!(names::create, Some(0.9), None),
    )),
    Benchmark::Contest(mounted(
        "unlink",
        names::unlink,
        null_and_tmpfs!(names::unlink, Some(0.9), None),
    )),
    Benchmark::Contest(mounted(
        "stat, cached",
        names::stat,
        null_and_tmpfs!(names::stat, None, Some(0.9)),
    )),
    Benchmark::Contest(Contest {
        reads: Some(0),
        ..mounted(
            "open + read 64 KiB + close, cached",
            files::open_read_close,
            null_and_tmpfs!(files::open_read_close, None, Some(0.9)),
        )
    }),
    Benchmark::Contest(mounted(
        "128-byte append",
        files::append,
        null_and_tmpfs!(files::append, None, None),
    )),
    Benchmark::Measurement(Measurement {
        title: "messages of mounts, each served by a process of its own",
        rows: message::row_names,
        mounts: true,
        room: message::room,
        run: message::run,
    }),
    Benchmark::Contest(Contest {
        cold_bytes: Some(PIECE_BYTES as u64),
        ..streamed(
            "sequential read of a file on disk, cold",
            stream::read,
            &[
                reported("ext4", Ground::Ext4, How::Files(stream::read)),
                reported(FUSE, NULL, How::Files(stream::read)),
            ],
        )
    }),
    Benchmark::Contest(streamed(
        "sequential write of a file on disk + fsync",
        stream::write,
        &[
            reported("ext4", Ground::Ext4, How::Files(stream::write)),
            reported(FUSE, NULL, How::Files(stream::write)),
        ],
    )),
    Benchmark::Contest(read_on_disk(
        "64 KiB random reads of a file on disk, 32 at a time",
        depth::random_read,
        &[target("ext4", Ground::Ext4, How::Files(depth::random_read), 0.9)],
    )),
    Benchmark::Contest(mounted(
        "RocksDB fillseq, sync",
        rocksdb::fillseq,
        null_and_journals!(rocksdb::fillseq, NULL),
    )),
    Benchmark::Contest(durable(
        "RocksDB fillseq, sync",
        rocksdb::fillseq,
        null_and_journals!(rocksdb::fillseq, NULL_DURABLE, Some(12.0), Some(16.0)),
    )),
    Benchmark::Contest(mounted(
        "fileserver",
        loads::fileserver,
        ext4_and_null!(loads::fileserver, 0.6),
    )),
    Benchmark::Contest(mounted(
        "webserver",
        loads::webserver,
        ext4_and_null!(loads::webserver, 0.8),
    )),
    Benchmark::Contest(mounted("webproxy", loads::webproxy, ext4_and_null!(loads::webproxy, 0.6))),
    Benchmark::Contest(mounted(
        "varmail",
        loads::varmail,
        &[
            target(FUSE, NULL, How::Files(loads::varmail), 0.9),
            target(EXT4_JOURNAL, Ground::Ext4Journal, How::Files(loads::varmail), 5.0),
        ],
    )),
    Benchmark::Contest(mounted("untar", trees::unpack, ext4_and_null!(trees::unpack, 0.6))),
    Benchmark::Contest(mounted("rm -r", trees::remove, ext4_and_null!(trees::remove, 0.7))),
    Benchmark::Contest(mounted("cp -r", trees::copy, ext4_and_null!(trees::copy, 0.6))),
    // Do-nothing FUSE keeps no long files, so it has no packs and no objects.
    Benchmark::Contest(mounted(
        "git clone",
        trees::clone,
        &[target("ext4", Ground::Ext4, How::Files(trees::clone), 0.8)],
    )),
    Benchmark::Contest(mounted(
        "build",
        trees::build,
        &[target("ext4", Ground::Ext4, How::Files(trees::build), 1.0)],
    )),
    Benchmark::Contest(engine(
        "4 KiB durable overwrite, two threads, a file each",
        threads::overwrite_two,
        &[target("one thread", Ground::Engine, How::Volume(threads::overwrite_one), 1.8)],
    )),
    Benchmark::Contest(engine(
        "4 KiB random read, two threads, a file each",
        threads::read_two,
        &[target("one thread", Ground::Engine, How::Volume(threads::read_one), 1.8)],
    )),
    Benchmark::Contest(engine(
        "4 KiB random read, two threads, one file",
        threads::read_shared_two,
        &[target("one thread", Ground::Engine, How::Volume(threads::read_one), 1.8)],
    )),
    Benchmark::Contest(Contest {
        place: "machine",
        ..engine(
            "copies of 4 KiB from memory, two threads",
            threads::copy_two,
            &[reported("one thread", Ground::Engine, How::Volume(threads::copy_one))],
        )
    }),
    Benchmark::Contest(engine(
        "create in a directory of 1 million files",
        many::create_among_many,
        &[target("of 10", Ground::Engine, How::Volume(many::create_among_few), 0.8)],
    )),
    Benchmark::Contest(engine(
        "lookup in a directory of 1 million files",
        many::lookup_among_many,
        &[
            reported("of 10", Ground::Engine, How::Volume(many::lookup_among_few)),
            target(
                "of any of as many files in directories of 10",
                Ground::Engine,
                How::Volume(many::lookup_in_many),
                0.8,
            ),
        ],
    )),
    Benchmark::Contest(engine(
        "unlink in a directory of 1 million files",
        many::unlink_among_many,
        &[target("of 10", Ground::Engine, How::Volume(many::unlink_among_few), 0.8)],
    )),
    Benchmark::Contest(engine(
        "4 KiB durable overwrite in a file of 100 GiB",
        many::overwrite_large_file,
        &[target(
            "in files of 1 MiB",
            Ground::Engine,
            How::Volume(many::overwrite_small_files),
            0.8,
        )],
    )),
    Benchmark::Contest(engine(
        "4 KiB read in a file of 100 GiB",
        many::read_large_file,
        &[target("in files of 1 MiB", Ground::Engine, How::Volume(many::read_small_files), 0.8)],
    )),
    Benchmark::Measurement(Measurement {
        title: "migration",
        rows: || owned(migration::ROWS),
        mounts: false,
        room: migration::room,
        run: migration::run,
    }),
    Benchmark::Measurement(Measurement {
        title: "migration of small files",
        rows: || owned(small_migration::ROWS),
        mounts: false,
        room: small_migration::room,
        run: small_migration::run,
    }),
    Benchmark::Measurement(Measurement {
        title: "a stream through a full PM",
        rows: || owned(streaming::ROWS),
        mounts: false,
        room: streaming::room,
        run: streaming::run,
    }),
    Benchmark::Measurement(Measurement {
        title: "log migration",
        rows: || owned(log_migration::ROWS),
        mounts: false,
        room: log_migration::room,
        run: log_migration::run,
    }),
    Benchmark::Measurement(Measurement {
        title: "read migration",
        rows: || owned(read_migration::ROWS),
        mounts: false,
        room: read_migration::room,
        run: read_migration::run,
    }),
    Benchmark::Measurement(Measurement {
        title: "helpers of a slow PM",
        rows: || owned(helpers::ROWS),
        mounts: false,
        room: |_| helpers::room(),
        run: helpers::run,
    }),
    Benchmark::Measurement(Measurement {
        title: "policy in a durable write",
        rows: || owned(policy::ROWS),
        mounts: false,
        room: policy::room,
        run: policy::run,
    }),
    Benchmark::Measurement(Measurement {
        title: "prediction of fsyncs",
        rows: || owned(prediction::ROWS),
        mounts: true,
        room: prediction::room,
        run: prediction::run,
    }),
    Benchmark::Measurement(Measurement {
        title: "predicted beside measured time",
        rows: || owned(simulated::ROWS),
        mounts: true,
        room: simulated::room,
        run: simulated::run,
    }),
    Benchmark::Measurement(Measurement {
        title: "mount and recovery of 1 million files",
        rows: || owned(large::ROWS),
        mounts: false,
        room: large::room,
        run: large::run,
    }),
    Benchmark::Measurement(Measurement {
        title: "DRAM of resident inodes",
        rows: || owned(dram::ROWS),
        mounts: false,
        room: dram::room,
        run: dram::run,
    }),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_name_of_its_own() {
        let names: Vec<String> = all().flat_map(Benchmark::row_names).collect();
        let distinct: std::collections::HashSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
    }

    #[test]
    fn sides_in_process_run_on_the_engine_and_all_others_on_files() {
        for contest in all().filter_map(|benchmark| match benchmark {
            Benchmark::Contest(contest) => Some(contest),
            Benchmark::Measurement(_) => None,
        }) {
            let sides = contest.against.iter().map(|against| (against.ground, against.how));
            for (ground, how) in sides.chain([(contest.ground, contest.how)]) {
                assert_eq!(
                    matches!(how, How::Volume(_)),
                    ground.is_in_process(),
                    "{}: {ground}",
                    contest.title()
                );
            }
            assert!(!contest.against.is_empty(), "{}", contest.title());
        }
    }
    #[test]
    fn rows_that_need_programs_are_known() {
        let titles = |needs: fn(&Benchmark) -> bool| -> Vec<String> {
            all().filter(|benchmark| needs(benchmark)).map(Benchmark::title).collect()
        };
        let rocksdb = titles(Benchmark::needs_rocksdb);
        assert!(rocksdb.len() == 21 && rocksdb.iter().all(|name| name.contains("RocksDB")));
        let trees = titles(Benchmark::needs_trees);
        assert!(trees.len() == 8 && trees.iter().any(|name| name == "direct: build"), "{trees:?}");
        assert_eq!(titles(Benchmark::needs_sqlite).len(), 5);
        let mariadb = titles(Benchmark::needs_mariadb);
        assert!(mariadb.len() == 3 && mariadb.contains(&"direct: MariaDB commit".to_owned()));
        let little = titles(Benchmark::needs_group);
        assert!(little.len() == 11 && little.iter().all(|name| name.contains("little memory")));
        assert_eq!(titles(Benchmark::needs_postgresql), ["direct: PostgreSQL transaction"]);
        assert_eq!(titles(Benchmark::needs_leveldb), ["direct: LevelDB fillsync"]);
        let direct = titles(Benchmark::needs_direct);
        assert!(direct.iter().all(|name| name.starts_with("direct: ")), "{direct:?}");
    }
}
