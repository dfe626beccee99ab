//! The FUSE protocol: messages as checked structures, and the way to the kernel. It knows no file
//! system.
//!
//! | module | holds |
//! |---|---|
//! | [`abi`] | structures and numbers of the protocol |
//! | `kind` | the kinds of messages |
//! | `request` | bytes of a message as checked values |
//! | `reply` | answers |
//! | `init` | INIT: what both sides agree on |
//! | `session` | the connection over `/dev/fuse`, its threads, notifications |
//! | `counts` | how many messages of each kind came |

pub mod abi;
mod counts;
mod init;
mod kind;
mod reply;
mod request;
mod session;

pub use counts::{MessageCounts, MessageSnapshot};
pub use init::Terms;
pub use kind::Message;
pub use reply::{Listing, Reply};
pub use request::{Caller, Malformed, Operation, Request, decode, split};
pub use session::{FileSystem, Notifier, Session, Threads};
