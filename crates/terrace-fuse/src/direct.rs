//! The daemon's side of the direct path: a socket on which processes ask for files, and what the
//! kernel may do with these meanwhile.
//!
//! Invariants:
//! * A file is lent to a process that has all of its open files. So nobody else reads it through
//!   the kernel's cache, has it mapped, or appends to it, and whoever opens it takes it back first.
//! * While a file is lent, or about to be, the kernel caches neither its attributes nor its pages.
//!   A loan begins after the kernel has dropped all pages, and only if no message since then can
//!   have brought new ones. Every READ and WRITE takes the file back, in the engine.
//! * The kernel does not know the size of a file that has been lent. It asks for it when the file
//!   is opened next ([`opens`]).
//! * Pages are dropped by the threads here, never by one that takes messages: those that the kernel
//!   waits for are answered meanwhile.
//! * A process that has ended, or has closed its connection, has nothing lent.

mod opens;
mod peers;

use std::collections::HashMap;
use std::fs;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags};
use terrace_engine::{Attr, FsError, Ino, Volume};
use terrace_store::delegation::NotLent;
use terrace_store::delegation::message::{Answer, LAYOUT, MESSAGE_BYTES, Request, Wanted};
use terrace_transport::Ledger;
use terrace_transport::abi::{OpenFlags, OpenOut};

use self::opens::{Opens, Way};
use self::peers::Peer;
use crate::config::LoanSocket;
use crate::control::DirectStatus;
use crate::kernel_cache::KernelCache;
use crate::terms::opened;

/// Processes that are connected at a time.
const CLIENTS_MAX: usize = 256;
/// How often a file is tried that others are using at the moment.
const TRIES: usize = 3;
/// How long it takes no connections after one could not be taken.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// A loan has no more blocks than this.
const BLOCKS_MAX: u64 = 16_384;

/// See the module.
#[derive(Debug)]
pub(crate) struct Direct {
    socket: LoanSocket,
    shared: Arc<Shared>,
    /// Takes connections; `None` only while this is dropped.
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    volume: Arc<Volume>,
    kernel: KernelCache,
    opens: Opens,
    /// Files that are about to be lent, and whether a message since may have brought pages to the
    /// kernel's cache.
    lending: Mutex<HashMap<u64, bool>>,
    /// Whether there are any: what keeps other messages from the lock.
    about_to_lend: AtomicUsize,
    clients: Mutex<Vec<Arc<Peer>>>,
    stopping: AtomicBool,
}

impl Direct {
    /// Takes connections at `socket`.
    ///
    /// # Errors
    /// The system gives no socket there, or no thread.
    pub(crate) fn new(
        volume: Arc<Volume>,
        kernel: KernelCache,
        ledger: &'static Ledger,
        socket: LoanSocket,
    ) -> io::Result<Self> {
        let named = |error: io::Error| {
            let advice = match error.raw_os_error() {
                Some(libc::ENAMETOOLONG) => "; choose a shorter cache_dir",
                _ => "",
            };
            let path = socket.path.display();
            io::Error::new(error.kind(), format!("lend: {path}: {error}{advice}"))
        };
        let listener = peers::listen(&socket).map_err(named)?;
        let shared = Arc::new(Shared {
            volume,
            kernel,
            opens: Opens::new(ledger),
            lending: Mutex::default(),
            about_to_lend: AtomicUsize::new(0),
            clients: Mutex::default(),
            stopping: AtomicBool::new(false),
        });
        let of_thread = Arc::clone(&shared);
        let group = socket.group;
        let run = move || of_thread.take_connections(&listener, group);
        let thread = std::thread::Builder::new().name("terrace-direct".to_owned()).spawn(run)?;
        Ok(Self { socket, shared, thread: Some(thread) })
    }

    /// The socket.
    pub(crate) fn path(&self) -> &Path {
        &self.socket.path
    }

    /// What `terrace status` tells.
    pub(crate) fn status(&self) -> DirectStatus {
        let lent = self.shared.volume.lent();
        let clients = self.shared.clients.lock();
        let mut processes: Vec<_> = clients.iter().map(|peer| peer.told()).collect();
        processes.sort_by_key(|process| process.process);
        // One that has closed its connection and opened it again has two for a moment.
        processes.dedup_by_key(|process| process.process);
        for process in &mut processes {
            let its = lent.iter().filter(|(_, borrower)| *borrower == process.process);
            process.inodes = its.map(|(ino, _)| ino.0).collect();
        }
        let quarantined_bytes = self.shared.volume.loans().quarantined_bytes;
        DirectStatus { processes, quarantined_bytes }
    }

    /// A READ or WRITE is about to be served: it may bring pages to the kernel's cache.
    #[inline]
    pub(crate) fn note_use(&self, ino: Ino) {
        if self.shared.about_to_lend.load(Ordering::Acquire) > 0
            && let Some(used) = self.shared.lending.lock().get_mut(&ino.0)
        {
            *used = true;
        }
    }

    /// The attributes that the kernel is told, and whether it may keep them: not of a file that
    /// another process changes.
    #[inline]
    pub(crate) fn told(&self, attr: &Attr) -> (Attr, bool) {
        match self.shared.opens.behind(attr.ino.0) {
            None => (*attr, true),
            Some(loans) => self.shared.told_to_catch_up(attr, loans),
        }
    }

    /// The kernel opens a file that was just made.
    pub(crate) fn created(&self, ino: Ino) {
        self.shared.opens.open(ino.0);
    }

    /// The kernel opens a file. A file that is lent comes back first.
    ///
    /// # Errors
    /// `ESTALE`: the kernel is to look the name up again, which it does by itself.
    pub(crate) fn open(&self, ino: Ino, flags: i32) -> Result<OpenOut, i32> {
        let Shared { volume, opens, .. } = &*self.shared;
        // Before anything else: a loan that begins meanwhile finds it.
        opens.open(ino.0);
        if opens.behind(ino.0).is_some() && volume.is_lent(ino) {
            // A file that is gone or damaged is lent to nobody, and calls will say what it is.
            let _ = volume.take_back(ino);
        }
        let flags = match opens.way(ino.0, flags) {
            Way::Cached => OpenFlags::empty(),
            Way::Uncached => OpenFlags::DIRECT_IO,
            Way::AskAgain => {
                opens.close(ino.0);
                return Err(libc::ESTALE);
            }
        };
        let open = opened();
        Ok(OpenOut { open_flags: open.open_flags | flags.bits(), ..open })
    }

    /// The kernel has closed a file.
    pub(crate) fn closed(&self, ino: Ino) {
        self.shared.opens.close(ino.0);
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        // Wakes the thread that takes connections.
        let _ = peers::connect(&self.socket.path);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that takes connections panicked");
        }
        for client in self.shared.clients.lock().iter() {
            // Its thread ends.
            let _ = rustix::net::shutdown(&client.socket, rustix::net::Shutdown::Both);
        }
        let _ = fs::remove_file(&self.socket.path);
    }
}

impl Shared {
    fn take_connections(self: &Arc<Self>, listener: &OwnedFd, group: Option<u32>) {
        let mut is_failing = false;
        loop {
            let client = rustix::net::accept_with(listener, SocketFlags::CLOEXEC);
            if self.stopping.load(Ordering::Acquire) {
                return;
            }
            match client {
                Ok(client) => {
                    is_failing = false;
                    // One that is refused sees it closed.
                    if let Some(client) = Peer::of(client, group) {
                        self.start(client);
                    }
                }
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(error) => {
                    // Programs may have taken all descriptors, and take the mount meanwhile.
                    if !std::mem::replace(&mut is_failing, true) {
                        tracing::warn!("direct: no connection can be taken: {error}");
                    }
                    std::thread::sleep(LOOK_AGAIN);
                }
            }
        }
    }

    /// Serves a connection in a thread of its own, if there are not too many.
    fn start(self: &Arc<Self>, client: Peer) {
        let process = client.process;
        if self.clients.lock().len() >= CLIENTS_MAX {
            tracing::debug!("direct: process {process} is refused: there are {CLIENTS_MAX} others");
            return;
        }
        let client = Arc::new(client);
        self.clients.lock().push(Arc::clone(&client));
        let (this, of_thread) = (Arc::clone(self), Arc::clone(&client));
        let serve = move || {
            this.serve(&of_thread.socket, process);
            this.volume.take_back_from(process);
            this.leaves(&of_thread);
        };
        let name = "terrace-client".to_owned();
        if std::thread::Builder::new().name(name).spawn(serve).is_err() {
            self.leaves(&client);
        }
    }

    fn leaves(&self, client: &Arc<Peer>) {
        self.clients.lock().retain(|other| !Arc::ptr_eq(other, client));
    }

    fn serve(&self, client: &OwnedFd, process: u64) {
        let mut bytes = [0; MESSAGE_BYTES + 1];
        loop {
            match rustix::net::recv(client, &mut bytes[..], RecvFlags::empty()) {
                Ok((0, _)) => return,
                Ok((len, _)) => {
                    let request = Request::decode(&bytes[..len]);
                    if self.answer(client, process, request).is_err() {
                        return;
                    }
                }
                Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }

    fn answer(
        &self,
        client: &OwnedFd,
        process: u64,
        request: Option<Request>,
    ) -> rustix::io::Result<()> {
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = SendAncillaryBuffer::new(&mut room);
        let knows_layout = matches!(request, Some(Request::Hello { layout: LAYOUT }));
        let memory = self.volume.loan_memory().filter(|_| knows_layout);
        let shared = memory.as_ref().and_then(|(pm, segment)| {
            let pm = pm.share().inspect_err(|error| tracing::warn!("direct: {error}"));
            Some((pm.ok()?, segment.share()?))
        });
        let descriptors = shared.as_ref().map(|(pm, segment)| [pm.as_fd(), *segment]);
        let answer = match request {
            Some(Request::Hello { .. }) if descriptors.is_some() => Answer::Done,
            Some(Request::Borrow(wanted)) => self.borrow(wanted, process),
            Some(Request::Renew(wanted)) => self.renew(wanted, process),
            Some(Request::GiveBack { ino }) => {
                self.volume.give_back(Ino(ino), process);
                Answer::Done
            }
            Some(Request::LetGo { page, generation }) => {
                self.volume.let_go(process, page as usize, generation);
                Answer::Done
            }
            Some(Request::Hello { .. }) | None => Answer::Unknown,
        };
        if let Some(descriptors) = &descriptors {
            ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let bytes = answer.encode();
        let flags = SendFlags::NOSIGNAL;
        rustix::net::sendmsg(client, &[IoSlice::new(&bytes)], &mut ancillary, flags).map(drop)
    }

    /// The kernel asks for the attributes of a file that has been lent so many times.
    #[cold]
    fn told_to_catch_up(&self, attr: &Attr, loans: u64) -> (Attr, bool) {
        let ino = attr.ino;
        if !self.is_away(ino) {
            // Attributes that were read while it was lent may be old, those read now are not.
            if let Ok(now) = self.volume.getattr(ino)
                && self.opens.catch_up(ino.0, loans)
            {
                return (now, true);
            }
        }
        (*attr, false)
    }

    /// Whether the file is lent, or about to be.
    fn is_away(&self, ino: Ino) -> bool {
        self.volume.is_lent(ino) || self.lending.lock().contains_key(&ino.0)
    }

    /// Whether the kernel has no other open files than the process says it has.
    fn has_all(&self, wanted: Wanted) -> bool {
        wanted.opens > 0 && self.opens.count(wanted.ino) == wanted.opens
    }

    /// Lends a file once the kernel has none of it.
    fn borrow(&self, wanted: Wanted, process: u64) -> Answer {
        // A number that is no inode's touches no memory.
        if self.volume.getattr(Ino(wanted.ino)).is_err() {
            return Answer::NotLent(NotLent::NotAFile);
        }
        self.about_to_lend.fetch_add(1, Ordering::AcqRel);
        let answer = self.try_to_lend(wanted, process);
        self.lending.lock().remove(&wanted.ino);
        self.about_to_lend.fetch_sub(1, Ordering::AcqRel);
        answer
    }

    fn try_to_lend(&self, wanted: Wanted, process: u64) -> Answer {
        let (ino, blocks) = (wanted.ino, wanted.blocks.min(BLOCKS_MAX));
        for _ in 0..TRIES {
            if !self.has_all(wanted) {
                return Answer::NotLent(NotLent::Elsewhere);
            }
            self.lending.lock().insert(ino, false);
            if !self.opens.lend(ino) {
                return Answer::NotLent(NotLent::Off);
            }
            if let Err(error) = self.kernel.drop_pages(ino, 0, 0) {
                tracing::warn!("inode {ino}: the kernel does not drop its pages: {error}");
                return Answer::NotLent(NotLent::Off);
            }
            let lent = match self.volume.lend(Ino(ino), process, blocks) {
                Ok(Ok(lent)) => lent,
                Ok(Err(reason)) => return Answer::NotLent(reason),
                Err(error) => return not_lent(ino, &error),
            };
            if self.has_all(wanted) && self.lending.lock().get(&ino) == Some(&false) {
                let (page, generation) = (lent.page as u64, lent.generation);
                return Answer::Lent { page, generation, log_is_same: false };
            }
            // Another user of it may have brought pages to the kernel's cache.
            let _ = self.volume.take_back(Ino(ino));
        }
        Answer::NotLent(NotLent::Elsewhere)
    }

    /// The kernel has none of a file that is lent.
    fn renew(&self, wanted: Wanted, process: u64) -> Answer {
        let blocks = wanted.blocks.min(BLOCKS_MAX);
        match self.volume.renew_loan(Ino(wanted.ino), process, blocks) {
            Ok(Ok(renewed)) => Answer::Lent {
                page: renewed.lent.page as u64,
                generation: renewed.lent.generation,
                log_is_same: renewed.log_is_same,
            },
            Ok(Err(reason)) => Answer::NotLent(reason),
            Err(error) => not_lent(wanted.ino, &error),
        }
    }
}

/// Damage is logged where it is found, and a process may ask for anything.
fn not_lent(ino: u64, error: &FsError) -> Answer {
    tracing::debug!("inode {ino}: cannot be lent: {error}");
    Answer::NotLent(NotLent::NotAFile)
}
