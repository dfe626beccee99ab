//! The direct path, as `terrace status` tells it.

use serde::{Deserialize, Serialize};

/// What is lent, and to whom.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DirectStatus {
    /// Processes that are connected.
    pub processes: Vec<DirectProcess>,
    /// Bytes of PM to which a process may still store, although its loan has ended.
    pub quarantined_bytes: u64,
}

/// A process that is connected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DirectProcess {
    /// Its number.
    pub process: u64,
    /// Whose it is.
    pub user: u32,
    /// Its name, as the kernel has it; empty if it has ended.
    pub name: String,
    /// The files that it has.
    pub inodes: Vec<u64>,
}
