//! In place of a ring, for tests: a socket on which a test plays the kernel. The test is told of
//! commands, and copies messages and answers to and from the entries in the ledger, as the kernel
//! does.
//!
//! A test gives each worker a socket of its own ([`serve_by`]). There is one queue then.

use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::{Mutex, MutexGuard};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::planted::{Step, step};

/// The result of a command whose entry the kernel keeps.
pub const KEPT: i32 = 1;

/// A command to the kernel, as a test is told of it.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Command {
    /// REGISTER (1) or COMMIT_AND_FETCH (2).
    pub command: u32,
    /// 1: the worker waits for the result, which may be [`KEPT`].
    pub is_asked: u32,
    /// Of COMMIT_AND_FETCH: the message that the entry holds the answer to.
    pub commit_id: u64,
    /// Of REGISTER: where the headers lie,
    pub headers: u64,
    /// where the payload does,
    pub payload: u64,
    /// and how long it may be.
    pub payload_bytes: u64,
}

static SOCKETS: Mutex<Vec<RawFd>> = Mutex::new(Vec::new());

fn sockets() -> MutexGuard<'static, Vec<RawFd>> {
    SOCKETS.lock().expect("no thread panics here")
}

/// Has the workers of daemons that are forked from now on use these sockets, one each, which must
/// stay open; or rings, if there are none.
///
/// # Panics
/// If a thread has panicked in here.
pub fn serve_by(new: Vec<RawFd>) {
    *sockets() = new;
}

/// How many queues there are, if a test plays the kernel.
pub(crate) fn queues() -> Option<u16> {
    (!sockets().is_empty()).then_some(1)
}

/// A worker's socket.
pub(crate) struct StandIn(BorrowedFd<'static>);

impl StandIn {
    /// That of the worker with this seat, if a test plays the kernel.
    pub fn of(seat: usize) -> Option<StandIn> {
        // The first seat is that of the thread on `/dev/fuse`.
        let socket = *sockets().get(seat - 1)?;
        // SAFETY: a fork of the test has it as long as it lives.
        Some(StandIn(unsafe { BorrowedFd::borrow_raw(socket) }))
    }

    /// Sends a command.
    pub fn push(
        &self,
        command: u32,
        commit_id: u64,
        iovecs: Option<&[libc::iovec; 2]>,
        is_asked: bool,
    ) -> io::Result<()> {
        let at = |which: usize| iovecs.map_or(0, |iovecs| iovecs[which].iov_base as u64);
        let (headers, payload) = (at(0), at(1));
        let payload_bytes = iovecs.map_or(0, |iovecs| iovecs[1].iov_len as u64);
        let is_asked = is_asked.into();
        let command = Command { command, is_asked, commit_id, headers, payload, payload_bytes };
        step(Step::Commit);
        rustix::io::write(self.0, command.as_bytes())?;
        Ok(())
    }

    /// Sends a command, and waits for what came of it; `None`: the kernel keeps the entry.
    pub fn ask(
        &self,
        command: u32,
        commit_id: u64,
        iovecs: Option<&[libc::iovec; 2]>,
    ) -> io::Result<Option<i32>> {
        self.push(command, commit_id, iovecs, true)?;
        Ok(Some(self.result()?).filter(|&result| result != KEPT))
    }

    /// Waits for the result of a command: as the kernel's, or [`KEPT`].
    pub fn result(&self) -> io::Result<i32> {
        let mut result = 0_i32;
        if rustix::io::read(self.0, result.as_mut_bytes())? == 0 {
            return Ok(-libc::ENOTCONN);
        }
        if result == 0 {
            step(Step::Delivered);
        }
        Ok(result)
    }
}
