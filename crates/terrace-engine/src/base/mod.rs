//! Words that every floor may use: the types that programs see, options, counters.
//!
//! What lives here knows no inode and no device. It may use `terrace-store` and the crates below.

pub(crate) mod counters;
pub(crate) mod heritage;
pub(crate) mod options;
pub(crate) mod patience;
pub(crate) mod pin;
pub(crate) mod recent;
pub(crate) mod recorder;
pub(crate) mod speeds;
pub(crate) mod tuning;
pub(crate) mod types;
pub(crate) mod waits;
pub(crate) mod wear;
pub(crate) mod why;
pub(crate) mod words;
