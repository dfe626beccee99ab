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
//! | `session` | a connection from INIT to its end; notifications |
//! | `device` | threads on `/dev/fuse` |
//! | `ring`, `worker`, `slot` | threads on io_uring, a queue for each CPU; their answers |
//! | `entry` | the memory of a worker's messages, and what a dead daemon left there |
//! | `uring` | rings as workers use them |
//! | `tripwire` | nothing is lost that the kernel has given to a ring whose thread is killed |
//! | `place` | the CPU that a worker runs on |
//! | `cpus` | the CPUs of the machine, and those that threads may use |
//! | `interrupts` | requests whose program got a signal |
//! | `connection` | from a decoded message to the file system |
//! | `ledger`, `blame` | what outlives the daemon: requests under way, and which killed it |
//! | [`planted`], `stand_in` | steps of a daemon's life, bugs, and a socket for a ring, for tests |
//! | `counts` | how many messages of each kind came |
//! | `load` | how many threads, queues and buffers serve |

pub mod abi;
mod blame;
mod connection;
mod counts;
mod cpus;
mod device;
mod entry;
mod init;
mod interrupts;
mod kind;
mod ledger;
mod load;
mod mapped;
mod moves;
mod place;
pub mod planted;
mod reply;
mod request;
mod ring;
mod session;
mod slot;
#[cfg(feature = "planted")]
pub mod stand_in;
mod tripwire;
mod uring;
mod worker;

pub use connection::FileSystem;
pub use counts::{MessageCounts, MessageSnapshot};
pub use cpus::{count_cpus, may_use_all_cpus, online_cpus, possible_cpus};
pub use init::Terms;
pub use interrupts::{Patience, is_wait_over};
pub use kind::Message;
pub use ledger::{LEDGER_LAYOUT, Ledger, NOTE_BYTES_MAX, Past, SEATS_MAX};
pub use load::{Load, LoadMeter};
pub use reply::{Listing, Reply};
pub use request::{Caller, Malformed, Operation, Request, decode, split};
pub use ring::allow_descriptors;
pub use session::{Notifier, Session, Threads};

/// Whether this machine can have rings as a session over io_uring needs them.
pub fn has_rings() -> bool {
    uring::new_ring().is_ok()
}
