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

use std::sync::Arc;

use anyhow::Result;
use terrace_engine::Volume;

use crate::engine;
use crate::files::OnFiles;
use crate::workload::{Sizes, Workload};

use calls::Call;
use leveldb::puts;
use role::role;
pub use role::{Both, Way};
use sqlite::commits;

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
