//! Programs that know nothing of Terrace, run directly and otherwise.
//!
//! | module | holds |
//! |---|---|
//! | `calls`, `role` | this program in another role, which makes plain calls; who runs it so |
//! | `sqlite` | SQLite's commits (RocksDB is in `rocksdb`, trees of files in `trees`) |
//! | `leveldb` | values that LevelDB keeps |
//! | `mariadb`, `postgresql`, `server` | servers, and transactions |
//! | `share` | how many calls of a program went direct |
//! | `moments` | starts, first calls, and files that are taken back |

pub mod calls;
pub mod leveldb;
pub mod mariadb;
pub mod moments;
pub mod postgresql;
mod role;
mod server;
pub mod share;
mod sqlite;

use std::fmt::Write as _;
use std::sync::Arc;

use anyhow::Result;
use terrace_engine::Volume;

use crate::engine;
use crate::files::OnFiles;
use crate::workload::{Random, Sizes, Workload, Zipf};

use calls::Call;
use leveldb::puts;
use role::role;
pub use role::{Both, Way};
use sqlite::commits;
pub use sqlite::updates as sqlite_updates;

/// Declares programs, each made by a function from what it does, how it runs, where, and how much.
macro_rules! both {
    ($($(#[$meta:meta])* $name:ident = $($make:ident)::+($what:expr);)*) => {$(
        $(#[$meta])*
        pub const $name: Both = Both {
            direct: |directory, sizes| $($make)::+($what, Way::Direct, directory, sizes),
            plain: |directory, sizes| $($make)::+($what, Way::Plain, directory, sizes),
        };
    )*};
}

both! {
    /// 4 KiB pwrite at a random place, and fdatasync.
    OVERWRITE = role(Call::Overwrite);
    /// The same, two threads, a file each.
    OVERWRITE_TWO_FILES = role(Call::OverwriteTwoFiles);
    /// The same, two threads on one file.
    OVERWRITE_SHARED = role(Call::OverwriteShared);
    /// 4 KiB pread at a random place.
    READ = role(Call::Read);
    /// 128 bytes written to the end, and fdatasync.
    APPEND = role(Call::Append);
    /// A new file of 4 KiB.
    CREATE = role(Call::Create);
    /// A mail server, by two threads.
    VARMAIL = role(Call::Varmail);
    /// A server of databases, and transactions of a row each.
    MARIADB = mariadb::transactions(());
    /// Another one, which has a process for each client.
    POSTGRESQL = postgresql::transactions(());
    /// LevelDB's puts, each with a sync.
    LEVELDB = puts(());
    /// SQLite's commits, by the mode of its journal.
    SQLITE_WAL = commits("wal");
    /// See [`SQLITE_WAL`].
    SQLITE_PERSIST = commits("persist");
    /// See [`SQLITE_WAL`].
    SQLITE_DELETE = commits("delete");
}

/// The overwrites under `terrace run`, on a file of no mount.
pub const IDLE: OnFiles = |directory, sizes| role(Call::Overwrite, Way::Idle, directory, sizes);

/// The same overwrites of the same file in process.
pub fn overwrite_in_process(volume: &Arc<Volume>, sizes: Sizes) -> Result<Box<dyn Workload>> {
    engine::overwrite(volume, Sizes { file_bytes: role::file_bytes(sizes), ..sizes })
}

/// The same reads of the same file in process.
pub fn read_in_process(volume: &Arc<Volume>, sizes: Sizes) -> Result<Box<dyn Workload>> {
    engine::read(volume, Sizes { file_bytes: role::file_bytes(sizes), ..sizes })
}

/// Of a row of a large table.
const ROW_BYTES: u64 = 1000;

/// The rows of a table that is as large as a database of [`Sizes`], and which of them are updated:
/// the newest most, by Zipf's law.
struct Rows {
    zipf: Zipf,
    count: u64,
    random: Random,
}

impl Rows {
    fn of(sizes: Sizes) -> Self {
        // With what a database adds to a row.
        let count = (sizes.database_bytes / 1024).max(1);
        Self { zipf: Zipf::of(count), count, random: Random::new() }
    }

    fn count(&self) -> u64 {
        self.count
    }

    /// So many statements, each of which replaces a row of a table.
    fn updates(&mut self, table: &str, ops: u64) -> String {
        let value = "y".repeat(ROW_BYTES as usize);
        let mut script = String::new();
        for _ in 0..ops {
            let row = self.count - self.zipf.draw(&mut self.random);
            let _ = writeln!(script, "update {table} set b='{value}' where a={row};");
        }
        script
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn the_newest_rows_are_updated_most() {
        let options = crate::options::Options::parse_from(["terrace-bench", "--size", "16M"]);
        let mut rows = Rows::of(Sizes::on_mounts(&options));
        assert_eq!(rows.count(), 2048);
        let script = rows.updates("t", 1000);
        let row = |line: &str| line.rsplit_once("a=").unwrap().1.trim_end_matches(';').parse();
        let drawn: Vec<u64> = script.lines().map(|line| row(line).unwrap()).collect();
        assert!(drawn.len() == 1000 && drawn.iter().all(|row| (1..=2048).contains(row)));
        let newest = drawn.iter().filter(|&&row| row > 2048 - 128).count();
        assert!((650..950).contains(&newest), "{newest}");
    }
}
