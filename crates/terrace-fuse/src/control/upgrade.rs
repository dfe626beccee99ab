//! Replacing the daemon of a mount by one of another program, as commands ask for it, and which
//! program serves.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::{Command, answered, ask, open};

/// What [`upgrade`] asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upgrade {
    /// The program's path, absolute.
    pub program: PathBuf,
    /// Number of the device that the program lies on, as `st_dev`: where the daemon runs, the path
    /// may lead to another file.
    pub device: u64,
    /// Number of its inode there.
    pub inode: u64,
    /// Number of this upgrade, which no other one has: the daemon that comes knows by it that the
    /// request, which it finds without an answer, has been carried out.
    pub token: u64,
}

/// The result of an upgrade.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upgraded {
    /// The daemon that serves now.
    pub daemon: DaemonStatus,
    /// A fault that is left, although the daemon has been replaced.
    pub remark: Option<String>,
}

/// Replaces the daemon, or says in words why not. It is another daemon that answers, if that
/// succeeds.
pub type Upgrader = dyn Fn(&Upgrade) -> Result<Upgraded, String> + Send + Sync;

/// The daemon that serves a mount, a part of its state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DaemonStatus {
    /// Version of its program.
    pub version: String,
    /// Number of its process.
    pub process: u32,
    /// Path of its program, where that is known.
    pub program: Option<PathBuf>,
    /// The file of that name is another one by now, or gone.
    pub replaced: bool,
}

impl DaemonStatus {
    /// Of this process.
    #[must_use]
    pub fn here() -> Self {
        /// The kernel appends this to the name of a file that is gone.
        const GONE: &str = " (deleted)";
        let link = std::fs::read_link("/proc/self/exe").ok();
        let path = link.as_deref().and_then(Path::to_str);
        let gone = path.and_then(|path| path.strip_suffix(GONE)).map(PathBuf::from);
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            process: std::process::id(),
            replaced: gone.is_some(),
            program: gone.or(link),
        }
    }
}

/// Replaces the daemon of the volume mounted at or above `mountpoint`. Returns when the next one
/// serves, or says in words why the daemon goes on.
///
/// # Errors
/// As [`status`](super::status); the caller is neither root nor the daemon's user.
pub fn upgrade(mountpoint: &Path, wanted: &Upgrade) -> Result<Upgraded> {
    let arguments = serde_json::to_string(wanted)?;
    let answer = ask(&open(mountpoint)?, mountpoint, Command::Upgrade, &arguments)?;
    answered(&answer).with_context(|| mountpoint.display().to_string())
}
