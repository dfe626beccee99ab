//! The kernel's side of io_uring, as Linux 6.14 to 6.18 keeps it: one queue, and a socket in place
//! of each worker's ring.
//!
//! A request that was delivered stays in its entry until somebody commits its number. Only a
//! successor may try a number that was committed already. Other entries of a daemon that died are
//! gone. A request without a free entry waits, and is handed out when an answer is committed, not
//! when an entry is registered.

use std::collections::VecDeque;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use anyhow::{Context, Result, bail, ensure};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, Shutdown, SocketFlags, SocketType, shutdown, socketpair,
};
use terrace_transport::Message;
use terrace_transport::abi::{
    CreateIn, EntryHeaders, GetxattrIn, InHeader, LinkIn, MkdirIn, MknodIn, OutHeader, Rename2In,
    SetxattrIn, WriteIn,
};
use terrace_transport::stand_in::{Command, KEPT, serve_by};
use zerocopy::{FromBytes, IntoBytes};

use crate::daemon::DEPTH;
use crate::messages::{Answer, Sent, message};

const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;

/// An entry of a daemon that lives, or with a request.
#[derive(Debug)]
struct Entry {
    headers: *mut EntryHeaders,
    payload: *mut u8,
    payload_bytes: usize,
    /// The worker that has registered it or committed its last answer; `None`: that has died.
    worker: Option<usize>,
    /// The request in it.
    holds: Option<u64>,
}

/// See the module.
#[derive(Debug)]
pub struct Rings {
    /// Of each worker: the kernel's end, and the daemon's.
    sockets: Vec<(OwnedFd, OwnedFd)>,
    entries: Vec<Entry>,
    waiting: VecDeque<(u64, Sent)>,
}

impl Rings {
    /// No entry yet. Daemons that are started from now on use them.
    ///
    /// # Errors
    /// The system gives no sockets.
    pub fn new() -> Result<Self> {
        let pair = |_| {
            let flags = SocketFlags::CLOEXEC;
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        };
        let sockets = (0..DEPTH).map(pair).collect::<std::result::Result<Vec<_>, Errno>>()?;
        serve_by(sockets.iter().map(|(_, daemons)| daemons.as_raw_fd()).collect());
        Ok(Self { sockets, entries: Vec::new(), waiting: VecDeque::new() })
    }

    /// The kernel's end of each worker's socket.
    pub fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(|(kernels, _)| kernels.as_fd())
    }

    /// Whether all workers of the daemon have an entry.
    pub fn is_whole(&self) -> bool {
        self.entries.iter().filter(|entry| entry.worker.is_some()).count() == DEPTH
    }

    /// Whether requests wait that no worker is about to take.
    pub fn is_stuck(&self) -> bool {
        self.is_whole()
            && !self.waiting.is_empty()
            && self.entries.iter().all(|entry| entry.holds.is_none())
    }

    /// Sends a request.
    ///
    /// # Errors
    /// The system's.
    pub fn send(&mut self, unique: u64, sent: &Sent) -> Result<()> {
        let is_free = |entry: &Entry| entry.worker.is_some() && entry.holds.is_none();
        match self.entries.iter().position(is_free) {
            Some(free) => self.deliver(free, unique, sent),
            None => {
                self.waiting.push_back((unique, sent.clone()));
                Ok(())
            }
        }
    }

    /// Copies a request into an entry.
    fn deliver(&mut self, at: usize, unique: u64, sent: &Sent) -> Result<()> {
        let entry = &mut self.entries[at];
        let worker = entry.worker.context("an entry of a dead daemon")?;
        entry.holds = Some(unique);
        let message = message(unique, sent);
        let (header, body) = message.split_at(size_of::<InHeader>());
        let (op, payload) = body.split_at(op_bytes(sent));
        ensure!(payload.len() <= entry.payload_bytes, "a long request");
        // SAFETY: memory of the ledger, which this process has mapped at the same address; no
        // daemon uses an entry that has no message.
        unsafe {
            let headers = &mut *entry.headers;
            headers.op_in[..op.len()].copy_from_slice(op);
            entry.payload.copy_from_nonoverlapping(payload.as_ptr(), payload.len());
            headers.payload_sz = payload.len() as u32;
            headers.commit_id = unique;
            headers.in_out[..header.len()].copy_from_slice(header);
        }
        self.tell(worker, 0)
    }

    fn tell(&self, worker: usize, result: i32) -> Result<()> {
        rustix::io::write(&self.sockets[worker].0, result.as_bytes())?;
        Ok(())
    }

    /// Does what a worker asks for; the answer, if it commits one.
    ///
    /// # Errors
    /// It asks for what makes no sense.
    pub fn obey(&mut self, worker: usize) -> Result<Option<(u64, Answer)>> {
        let mut command = [0; size_of::<Command>()];
        let len = rustix::io::read(&self.sockets[worker].0, &mut command)?;
        ensure!(len == command.len(), "a short command");
        let command = Command::read_from_bytes(&command).ok().context("a short command")?;
        match command.command {
            REGISTER => self.register(worker, &command).map(|()| None),
            COMMIT_AND_FETCH => self.commit(worker, &command),
            other => bail!("command {other}"),
        }
    }

    fn register(&mut self, worker: usize, command: &Command) -> Result<()> {
        let headers = std::ptr::with_exposed_provenance_mut(command.headers as usize);
        let holds = self.entries.iter().find(|entry| entry.headers == headers);
        ensure!(holds.is_none(), "an entry is registered that is in use: {holds:?}");
        self.entries.push(Entry {
            headers,
            payload: std::ptr::with_exposed_provenance_mut(command.payload as usize),
            payload_bytes: command.payload_bytes as usize,
            worker: Some(worker),
            holds: None,
        });
        self.tell(worker, KEPT)
    }

    fn commit(&mut self, worker: usize, command: &Command) -> Result<Option<(u64, Answer)>> {
        let id = command.commit_id;
        let Some(at) = self.entries.iter().position(|entry| entry.holds == Some(id)) else {
            ensure!(command.is_asked != 0, "{id} is committed, which no entry holds");
            self.tell(worker, -libc::ENOENT)?;
            return Ok(None);
        };
        let entry = &mut self.entries[at];
        // SAFETY: as for a delivery; whoever commits an answer uses the entry no longer.
        let (headers, payload) = unsafe {
            let payload = std::slice::from_raw_parts(entry.payload, entry.payload_bytes);
            (entry.headers.read(), payload)
        };
        let (out, _) = OutHeader::read_from_prefix(&headers.in_out).ok().context("short")?;
        ensure!(out.unique == id, "the answer to {} is committed as that to {id}", out.unique);
        let bytes = payload[..headers.payload_sz as usize].to_vec();
        ensure!(out.len as usize == size_of::<OutHeader>() + bytes.len(), "a wrong length");
        (entry.worker, entry.holds) = (Some(worker), None);
        match self.waiting.pop_front() {
            Some((unique, sent)) => self.deliver(at, unique, &sent)?,
            None if command.is_asked != 0 => self.tell(worker, KEPT)?,
            None => {}
        }
        Ok(Some((id, Answer { errno: -out.error, bytes })))
    }

    /// The daemon has died, and all that it asked for was done.
    ///
    /// # Errors
    /// The system's.
    pub fn bury(&mut self) -> Result<()> {
        self.entries.iter_mut().for_each(|entry| entry.worker = None);
        self.entries.retain(|entry| entry.holds.is_some());
        // A dead worker takes no result.
        for (_, daemons) in &self.sockets {
            loop {
                match rustix::net::recv(daemons, &mut [0; 4][..], RecvFlags::DONTWAIT) {
                    Ok(_) => {}
                    Err(Errno::AGAIN) => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    /// Ends the connection.
    ///
    /// # Errors
    /// The system's.
    pub fn end(&self) -> Result<()> {
        self.sockets().try_for_each(|socket| Ok(shutdown(socket, Shutdown::Write)?))
    }
}

impl Drop for Rings {
    fn drop(&mut self) {
        serve_by(Vec::new());
    }
}

/// How much of a message is the structure of its kind. The rest is its payload.
fn op_bytes(sent: &Sent) -> usize {
    match sent.kind {
        Message::Lookup
        | Message::Removexattr
        | Message::Rmdir
        | Message::Symlink
        | Message::Unlink => 0,
        Message::Create | Message::Tmpfile => size_of::<CreateIn>(),
        Message::Getxattr => size_of::<GetxattrIn>(),
        Message::Link => size_of::<LinkIn>(),
        Message::Mkdir => size_of::<MkdirIn>(),
        Message::Mknod => size_of::<MknodIn>(),
        Message::Rename2 => size_of::<Rename2In>(),
        Message::Setxattr => size_of::<SetxattrIn>(),
        Message::Write => size_of::<WriteIn>(),
        _ => sent.body.len(),
    }
}
