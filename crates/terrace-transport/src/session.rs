//! A connection to the kernel from INIT to its end, and notifications.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use zerocopy::IntoBytes;

use crate::abi::{InitFlags, NOTIFY_INVAL_INODE, NOTIFY_RESEND, NotifyInvalInodeOut, OutHeader};
use crate::blame;
use crate::connection::{Connection, FileSystem};
use crate::counts::MessageCounts;
use crate::device::{self, Pace, has_message};
use crate::init::{Terms, negotiate};
use crate::ledger::Ledger;
use crate::load::LoadMeter;
use crate::ring::Rings;

/// How a session is served.
#[derive(Clone, Copy, Debug)]
pub struct Threads {
    /// How many take messages from `/dev/fuse`.
    pub count: usize,
    /// Each has a descriptor and queue of its own.
    pub own_queues: bool,
    /// Over io_uring: how many take messages from the queue of one CPU; see
    /// [`Session::workers_per_queue`].
    pub per_cpu: usize,
}

/// A connection on which INIT has been answered.
#[derive(Debug)]
pub struct Session {
    connection: Connection,
    flags: InitFlags,
}

impl Session {
    /// Waits for the kernel's INIT on a new connection, and answers it.
    ///
    /// # Errors
    /// The kernel lacks a required feature, or has ended the connection.
    ///
    /// With a ledger, a successor of this process can take the connection up.
    pub fn begin(
        device: OwnedFd,
        terms: &Terms,
        ledger: Option<&'static Ledger>,
    ) -> io::Result<Session> {
        let flags = negotiate(&device, terms)?;
        if let Some(ledger) = ledger {
            ledger.begin(flags);
            blame::watch()?;
        }
        Ok(Self::new(device, terms, flags, ledger))
    }

    /// Takes up the connection of a daemon that died, whose ledger this process has inherited. The
    /// kernel hands out again every request that has no answer, before all new ones; over io_uring
    /// they are in the ledger, and see [`Session::run`].
    ///
    /// # Errors
    /// The kernel does not hand them out: Linux 6.9 and later does.
    pub fn take_up(device: OwnedFd, terms: &Terms, ledger: &'static Ledger) -> io::Result<Session> {
        blame::watch()?;
        let session = Self::new(device, terms, ledger.flags(), Some(ledger));
        if !session.is_over_io_uring() {
            session.have_sent_again(ledger)?;
        }
        Ok(session)
    }

    fn have_sent_again(&self, ledger: &Ledger) -> io::Result<()> {
        let device = &self.connection.device;
        let resend =
            OutHeader { len: size_of::<OutHeader>() as u32, error: NOTIFY_RESEND, unique: 0 };
        match rustix::io::write(device, resend.as_bytes()) {
            // It was unmounted, as the first thread will find.
            Ok(_) | Err(Errno::NODEV | Errno::NOTCONN | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
        if matches!(has_message(device), Ok(false)) {
            // A daemon that has nothing to answer is as good as one that answered.
            ledger.note_answer();
        }
        Ok(())
    }

    fn new(
        device: OwnedFd,
        terms: &Terms,
        flags: InitFlags,
        ledger: Option<&'static Ledger>,
    ) -> Session {
        let connection = Connection {
            device: Arc::new(device),
            counts: Arc::default(),
            load: LoadMeter::default(),
            interrupts: Arc::default(),
            message_bytes_max: terms.message_bytes_max as usize,
            ledger,
        };
        Self { connection, flags }
    }

    /// Whether a successor can take the connection up.
    pub fn can_be_taken_up(&self) -> bool {
        let ways = InitFlags::HAS_RESEND | InitFlags::OVER_IO_URING;
        self.connection.ledger.is_some() && self.flags.intersects(ways)
    }

    /// How many workers queues of io_uring are to have: so many, but a successor keeps to what the
    /// first daemon had.
    pub fn workers_per_queue(&self, wanted: usize) -> usize {
        self.connection.ledger.map_or(wanted, |ledger| ledger.keep_depth(wanted))
    }

    /// Another descriptor of the connection.
    ///
    /// # Errors
    /// The system gives none.
    pub fn share_connection(&self) -> io::Result<OwnedFd> {
        self.connection.device.try_clone()
    }

    /// Messages that have come in so far.
    pub fn counts(&self) -> &Arc<MessageCounts> {
        &self.connection.counts
    }

    /// What serves the session, at any moment.
    pub fn load(&self) -> LoadMeter {
        self.connection.load.clone()
    }

    /// Sends the kernel orders that it has not asked for.
    pub fn notifier(&self) -> Notifier {
        Notifier { device: Arc::clone(&self.connection.device) }
    }

    /// Whether messages come over io_uring.
    pub fn is_over_io_uring(&self) -> bool {
        self.flags.contains(InitFlags::OVER_IO_URING)
    }

    /// Serves the connection until it ends: the file system has been unmounted. `started` is told
    /// when the kernel has what it needs to send messages, or why not: then the file system must be
    /// unmounted. If the connection was taken up over io_uring, requests may wait in the kernel
    /// then, until another process has asked the file system for something on each CPU, as often as
    /// a queue has workers.
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
        let connection = &self.connection;
        if !self.is_over_io_uring() {
            started(Ok(()));
            return device::serve_all(connection, file_system, threads.count, threads.own_queues);
        }
        let rings = Rings::new(connection, file_system, threads.per_cpu)?;
        std::thread::scope(|scope| {
            started(rings.start(scope));
            // Forgets, which are all that comes in numbers, and interrupts.
            device::serve(connection, &connection.device, file_system, 0, Pace::InBatches)
        })
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
