//! The part that all threads of a session share, whatever way messages take: the connection, the
//! counts, and the step from a decoded message to the file system.
//!
//! Invariant: each message is answered exactly once ([`Reply`] sees to it), also one that is
//! malformed or unknown.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::abi::InHeader;
use crate::counts::MessageCounts;
use crate::interrupts::Interrupts;
use crate::kind::Message;
use crate::ledger::{Ledger, UnderWay};
use crate::load::LoadMeter;
use crate::reply::Reply;
use crate::request::{Malformed, Operation, Request};

/// A request of which so many daemons died is not carried out again.
const DAEMONS_KILLED_MAX: u32 = 2;

/// Answers messages, from any of several threads.
pub trait FileSystem: Send + Sync {
    /// Gives the answer, at once or later. A message that is not supported is answered with
    /// ENOSYS: of most kinds the kernel never sends another one then.
    fn answer(&self, request: &Request<'_>, reply: Reply);
}

/// A connection to the kernel, on which INIT has been answered.
#[derive(Debug)]
pub(crate) struct Connection {
    pub device: Arc<OwnedFd>,
    pub counts: Arc<MessageCounts>,
    pub load: LoadMeter,
    pub interrupts: Arc<Interrupts>,
    pub message_bytes_max: usize,
    /// What a successor of this daemon needs.
    pub ledger: Option<&'static Ledger>,
}

impl Connection {
    /// Hands a message to the file system, or answers what is none.
    pub fn dispatch(
        &self,
        kind: Option<Message>,
        decoded: Result<Request<'_>, Malformed>,
        reply: Reply,
        file_system: &impl FileSystem,
    ) {
        match decoded {
            Ok(request) => {
                self.count(kind, &request);
                match request.operation {
                    Operation::Interrupt { unique } => self.interrupts.note(unique),
                    _ => file_system.answer(&request, reply),
                }
            }
            Err(Malformed::Unknown(_)) => reply.error(libc::ENOSYS),
            Err(malformed) => {
                tracing::error!("a malformed FUSE message: {malformed:?}");
                reply.error(libc::EIO);
            }
        }
    }

    /// Has the file system carry out a request, unless too many daemons died of it.
    pub fn carry_out(
        &self,
        header: &InHeader,
        decoded: Result<Request<'_>, Malformed>,
        (reply, under_way): (Reply, Option<UnderWay>),
        file_system: &impl FileSystem,
    ) {
        let kind = Message::from_opcode(header.opcode);
        if under_way.is_some_and(|request| request.killed() >= DAEMONS_KILLED_MAX) {
            let name = kind.map_or("unknown", Message::name);
            tracing::error!(
                "{DAEMONS_KILLED_MAX} daemons died of a request ({name}, inode {}): it fails",
                header.nodeid
            );
            reply.error(libc::EIO);
        } else {
            self.dispatch(kind, decoded, reply, file_system);
        }
        self.ledger.into_iter().for_each(Ledger::leave);
    }

    fn count(&self, kind: Option<Message>, request: &Request<'_>) {
        match (kind, request.operation) {
            (_, Operation::BatchForget(inodes)) => {
                inodes.iter().for_each(|_| self.counts.add(Message::Forget))
            }
            (Some(Message::Rename2), _) => self.counts.add(Message::Rename),
            (Some(Message::CopyFileRange64), _) => self.counts.add(Message::CopyFileRange),
            (Some(kind), _) => self.counts.add(kind),
            (None, _) => {}
        }
    }
}
