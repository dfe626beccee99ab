//! The trace of a volume's operations: what was read, written, synchronized and removed, and when;
//! a few bytes each.
//!
//! A trace is a preamble with the [`Facts`] of the volume, then blocks of [`Record`]s, then a block
//! that says how it ended. Files are named by inode number only. `docs/WHATIF.md` has the table of
//! the format.
//!
//! * [`BlockEncoder`] makes blocks: who records and who writes the file may be two processes.
//! * [`Writer`] writes a trace, from records or from such blocks.
//! * [`Reader`] reads one. A torn end (the writer was killed, the disk was full) is cut off; damage
//!   elsewhere is an error that names the place.

mod block;
mod error;
mod facts;
mod read;
mod record;
mod version;
mod write;

pub use block::{BlockEncoder, PAYLOAD_BYTES_MAX};
pub use error::TraceError;
pub use facts::{Facts, TierFacts};
pub use read::{Reader, Summary};
pub use record::{Operation, Record};
pub use version::{FORMAT_MAJOR, FORMAT_MINOR};
pub use write::{Ending, Writer};
