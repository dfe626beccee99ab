//! The floor of mounting: opening a volume and recovering it, closing it, and format.
//!
//! `open` is the order of things: devices are matched by label, tables and free space loaded or
//! recovered (`recovery`, `scan`), the components composed (`parts`), dirty pages of a dead daemon
//! adopted, a new epoch begun, threads started. `close` is the clean unmount. `offline` reads a
//! volume that is not mounted without changing it.
//!
//! It uses all floors below; nothing below knows it.

pub(crate) mod close;
pub(crate) mod devices;
mod epoch;
pub(crate) mod format;
pub(crate) mod offline;
pub(crate) mod open;
pub(crate) mod parts;
pub(crate) mod recovery;
pub(crate) mod scan;
pub(crate) mod threads;
