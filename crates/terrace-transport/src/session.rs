//! A connection to the kernel, and the threads that serve it: over `/dev/fuse` here, over io_uring
//! in [`ring`](crate::ring).
//!
//! Invariant: each message is answered exactly once ([`Reply`] sees to it), also one that is
//! malformed or unknown.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use zerocopy::IntoBytes;

use crate::abi::{
    InHeader, InitFlags, NOTIFY_INVAL_INODE, NotifyInvalInodeOut, OutHeader, WriteIn,
};
use crate::counts::MessageCounts;
use crate::init::{Terms, negotiate};
use crate::kind::Message;
use crate::reply::Reply;
use crate::request::{Malformed, Operation, Request, decode, split};
use crate::ring::Rings;

/// Answers messages, from any of several threads.
pub trait FileSystem: Send + Sync {
    /// Gives the answer, at once or later. A message that is not supported is answered with
    /// ENOSYS: of most kinds the kernel never sends another one then.
    fn answer(&self, request: &Request<'_>, reply: Reply);
}

/// How a session is served.
#[derive(Clone, Copy, Debug)]
pub struct Threads {
    /// How many take messages from `/dev/fuse`.
    pub count: usize,
    /// Each has a descriptor and queue of its own.
    pub own_queues: bool,
    /// Over io_uring: how many, at most, take messages from the queue of one CPU.
    pub per_cpu_max: usize,
}

/// A connection on which INIT has been answered.
#[derive(Debug)]
pub struct Session {
    device: Arc<OwnedFd>,
    counts: Arc<MessageCounts>,
    flags: InitFlags,
    message_bytes_max: u32,
}

impl Session {
    /// Waits for the kernel's INIT on a new connection, and answers it.
    ///
    /// # Errors
    /// The kernel lacks a required feature, or has ended the connection.
    pub fn begin(connection: OwnedFd, terms: &Terms) -> io::Result<Session> {
        let flags = negotiate(&connection, terms)?;
        let message_bytes_max = terms.message_bytes_max;
        Ok(Self { device: Arc::new(connection), counts: Arc::default(), flags, message_bytes_max })
    }

    /// Messages that have come in so far.
    pub fn counts(&self) -> &Arc<MessageCounts> {
        &self.counts
    }

    /// Sends the kernel orders that it has not asked for.
    pub fn notifier(&self) -> Notifier {
        Notifier { device: Arc::clone(&self.device) }
    }

    /// Whether messages come over io_uring.
    pub fn is_over_io_uring(&self) -> bool {
        self.flags.contains(InitFlags::OVER_IO_URING)
    }

    pub(crate) fn device(&self) -> &Arc<OwnedFd> {
        &self.device
    }

    pub(crate) fn message_bytes_max(&self) -> usize {
        self.message_bytes_max as usize
    }

    /// Serves the connection until it ends: the file system has been unmounted. `started` is told
    /// when the kernel has what it needs to send messages, or why not: then the file system must be
    /// unmounted.
    ///
    /// # Errors
    /// The connection is broken, or the system gives no thread or descriptor. The threads that run
    /// serve on until it ends.
    ///
    /// # Panics
    /// If the file system panics.
    pub fn run(
        &self,
        file_system: &impl FileSystem,
        threads: Threads,
        started: impl FnOnce(io::Result<()>),
    ) -> io::Result<()> {
        if !self.is_over_io_uring() {
            started(Ok(()));
            return self.serve_device(file_system, threads);
        }
        let rings = Rings::new(self, file_system, threads.per_cpu_max)?;
        std::thread::scope(|scope| {
            started(rings.start(scope));
            // Forgets and interrupts.
            self.serve(&self.device, file_system)
        })
    }

    fn serve_device(&self, file_system: &impl FileSystem, threads: Threads) -> io::Result<()> {
        std::thread::scope(|scope| {
            let start = |number: usize| {
                let device = match threads.own_queues && number > 0 {
                    true => Arc::new(clone_queue(&self.device)?),
                    false => Arc::clone(&self.device),
                };
                let serve = move || self.serve(&device, file_system);
                std::thread::Builder::new()
                    .name(format!("terrace-fuse-{number}"))
                    .spawn_scoped(scope, serve)
            };
            let mut started = Vec::new();
            let mut result = Ok(());
            for number in 0..threads.count {
                match start(number) {
                    Ok(thread) => started.push(thread),
                    Err(error) => result = result.and(Err(error)),
                }
            }
            for thread in started {
                result = result.and(thread.join().unwrap_or_else(|p| std::panic::resume_unwind(p)));
            }
            result
        })
    }

    /// Takes and answers messages until the connection ends.
    fn serve(&self, device: &Arc<OwnedFd>, file_system: &impl FileSystem) -> io::Result<()> {
        let mut buffer = MessageBuffer::new(self.message_bytes_max as usize);
        loop {
            match rustix::io::read(device, buffer.space()) {
                Ok(len) => self.take(device, buffer.message(len), file_system)?,
                // The request was interrupted before it was read.
                Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => {}
                Err(Errno::NODEV) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn take(
        &self,
        device: &Arc<OwnedFd>,
        message: &[u8],
        file_system: &impl FileSystem,
    ) -> io::Result<()> {
        let (header, body) = split(message)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "a malformed FUSE message"))?;
        let kind = Message::from_opcode(header.opcode);
        let reply = match kind.is_none_or(Message::is_answered) {
            true => Reply::new(header.unique, Arc::clone(device)),
            false => Reply::none(),
        };
        self.dispatch(kind, decode(header, body), reply, file_system);
        Ok(())
    }

    /// Hands a message to the file system, or answers what is none.
    pub(crate) fn dispatch(
        &self,
        kind: Option<Message>,
        decoded: Result<Request<'_>, Malformed>,
        reply: Reply,
        file_system: &impl FileSystem,
    ) {
        match decoded {
            Ok(request) => {
                self.count(kind, &request);
                file_system.answer(&request, reply);
            }
            Err(Malformed::Unknown(_)) => reply.error(libc::ENOSYS),
            Err(malformed) => {
                tracing::error!("a malformed FUSE message: {malformed:?}");
                reply.error(libc::EIO);
            }
        }
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

/// Tells the kernel something by itself.
#[derive(Clone, Debug)]
pub struct Notifier {
    device: Arc<OwnedFd>,
}

impl Notifier {
    /// Makes the kernel drop an inode's attributes and, unless `offset` is negative, its pages from
    /// there on: `len` bytes, or all with a `len` of 0. The kernel waits for pages that are being
    /// read or written back.
    ///
    /// # Errors
    /// The kernel's. An inode that the kernel does not know is no error.
    pub fn invalidate(&self, ino: u64, offset: i64, len: i64) -> io::Result<()> {
        let body = NotifyInvalInodeOut { ino, off: offset, len };
        let len = (size_of::<OutHeader>() + size_of_val(&body)) as u32;
        let header = OutHeader { len, error: NOTIFY_INVAL_INODE, unique: 0 };
        let message = [header.as_bytes(), body.as_bytes()].concat();
        match rustix::io::write(&self.device, &message) {
            Ok(_) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Where a message is read into. The data of a WRITE begins on a page, so that a disk can take it
/// without another copy.
struct MessageBuffer {
    bytes: Vec<u8>,
    start: usize,
}

impl MessageBuffer {
    const PAGE: usize = 4096;
    /// The bytes before the data of a WRITE.
    const HEAD: usize = size_of::<InHeader>() + size_of::<WriteIn>();

    fn new(message_bytes_max: usize) -> Self {
        let bytes = vec![0; message_bytes_max + 2 * Self::PAGE];
        let start = bytes.as_ptr().align_offset(Self::PAGE) + Self::PAGE - Self::HEAD;
        Self { bytes, start }
    }

    fn space(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }

    fn message(&self, len: usize) -> &[u8] {
        &self.bytes[self.start..self.start + len]
    }
}

/// Another descriptor of the connection, with a queue of its own.
fn clone_queue(device: &OwnedFd) -> io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    // _IOR(229, 0, u32)
    const FUSE_DEV_IOC_CLONE: libc::c_ulong = 0x8004_e500;
    let queue = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let original = device.as_raw_fd().cast_unsigned();
    // SAFETY: the ioctl reads one u32, which lives until it returns.
    let done = unsafe { libc::ioctl(queue.as_raw_fd(), FUSE_DEV_IOC_CLONE, &raw const original) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(queue) }
}
