//! What can be wrong with a trace.

use std::io;

use crate::version::FORMAT_MAJOR;

/// Why a trace cannot be read or written. Offsets are bytes from the start of the trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// It does not begin as a trace does.
    #[error("this is no trace of `terrace record`")]
    Foreign,
    /// A later program wrote it.
    #[error(
        "the trace has format {major}, this program reads up to {}: use a newer terrace",
        FORMAT_MAJOR
    )]
    Newer {
        /// Its major version.
        major: u16,
    },
    /// It ends within its preamble: nothing was recorded.
    #[error("the trace ends after {bytes} bytes, within its header: record it again")]
    NoHeader {
        /// Its length.
        bytes: u64,
    },
    /// Something in it is not what was written.
    #[error(
        "the trace is damaged at byte {offset}: {what}; take another copy of it, or record it again"
    )]
    Damaged {
        /// Where the damaged piece begins.
        offset: u64,
        /// What is wrong with it.
        what: String,
    },
    /// The file cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

pub(crate) fn damaged(offset: u64, what: impl Into<String>) -> TraceError {
    TraceError::Damaged { offset, what: what.into() }
}
