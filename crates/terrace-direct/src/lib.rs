//! Files of a Terrace mount, read and written in persistent memory by the program's own process.
//!
//! The mount's daemon lends a file ([`terrace_store::delegation`] says what that is). A
//! [`Borrowed`] file is one that this process has; its calls make no system call. A program opens a
//! [`File`].
//!
//! Rule: all that the direct path does not cover is slower, never wrong. So each call says
//! [`Refusal::Mount`] if it did nothing, and a system call on the mount is to do it.

mod back_off;
mod borrowed;
mod file;
mod handle;
mod known;
mod mount;
mod patient;
mod room;
mod wiped;

pub use terrace_store::delegation::NotLent;

pub use self::borrowed::{Borrowed, Fault, Give, PIECE_BYTES_MAX, Piece, Reason, Refusal};
pub use self::file::DirectFile;
pub use self::handle::{Error, File, Usage, Why};
pub use self::known::{Mounts, identity};
pub use self::mount::{Mount, NoMount};
pub use self::patient::Patient;
pub use self::room::with_room;
pub use self::wiped::WipedOnFork;
