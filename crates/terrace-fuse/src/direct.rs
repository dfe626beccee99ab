//! The daemon's side of the direct path: a socket on which processes ask for files, and what the
//! kernel may cache of these meanwhile.
//!
//! Invariants:
//! * While a file is lent, or about to be, the kernel caches neither its attributes nor its pages.
//!   A loan begins after the kernel has dropped all pages, and only if no message since then can
//!   have brought new ones. Every READ and WRITE takes the file back, in the engine.
//! * Pages are dropped by the threads here, never by one that takes messages: those that the kernel
//!   waits for are answered meanwhile.
//! * A process that has ended, or has closed its connection, has nothing lent.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use terrace_engine::{Ino, NotLent, Volume};
use terrace_store::delegation::message::{Answer, LAYOUT, MESSAGE_BYTES, Request};

use crate::kernel_cache::KernelCache;

/// Processes that are connected at a time.
const CLIENTS_MAX: usize = 256;
/// How often a file is tried that others are using at the moment.
const TRIES: usize = 3;
/// A loan has no more blocks than this.
const BLOCKS_MAX: u64 = 16_384;

/// See the module.
#[derive(Debug)]
pub(crate) struct Direct {
    path: PathBuf,
    shared: Arc<Shared>,
    /// Takes connections; `None` only while this is dropped.
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    volume: Arc<Volume>,
    kernel: KernelCache,
    files: Mutex<Files>,
    /// Whether `files` has any that are about to be lent: what keeps other messages from its lock.
    lending: AtomicUsize,
    /// Whether any file has ever been lent.
    has_lent: AtomicBool,
    /// Their connections.
    clients: Mutex<Vec<Arc<OwnedFd>>>,
    stopping: AtomicBool,
}

#[derive(Debug, Default)]
struct Files {
    /// About to be lent, and whether a message since may have brought pages to the kernel's cache.
    lending: HashMap<u64, bool>,
    /// Have been lent: the kernel may have an old idea of their size.
    lent: HashSet<u64>,
}

impl Direct {
    /// Takes connections at `path`, of this user's and root's processes.
    ///
    /// # Errors
    /// The system gives no socket there, or no thread.
    pub(crate) fn new(volume: Arc<Volume>, kernel: KernelCache, path: &Path) -> io::Result<Self> {
        let listener = listen(path)?;
        let shared = Arc::new(Shared {
            volume,
            kernel,
            files: Mutex::default(),
            lending: AtomicUsize::new(0),
            has_lent: AtomicBool::new(false),
            clients: Mutex::default(),
            stopping: AtomicBool::new(false),
        });
        let of_thread = Arc::clone(&shared);
        let run = move || of_thread.take_connections(&listener);
        let thread = std::thread::Builder::new().name("terrace-direct".to_owned()).spawn(run)?;
        Ok(Self { path: path.to_owned(), shared, thread: Some(thread) })
    }

    /// The socket.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Before the engine serves a READ or WRITE. True: it is going to take the file back, of whose
    /// size the kernel has an old idea.
    #[inline]
    pub(crate) fn touches(&self, ino: u64) -> bool {
        if self.shared.lending.load(Ordering::Acquire) > 0
            && let Some(touched) = self.shared.files.lock().lending.get_mut(&ino)
        {
            *touched = true;
        }
        self.shared.volume.is_lent(Ino(ino))
    }

    /// A message has taken the file back.
    pub(crate) fn has_come_back(&self, ino: u64) {
        if let Ok(attr) = self.shared.volume.getattr(Ino(ino)) {
            self.shared.kernel.grow(ino, attr.size);
        }
    }

    /// Whether the kernel must not cache the attributes that it is told of this file.
    #[inline]
    pub(crate) fn is_away(&self, ino: u64) -> bool {
        self.shared.volume.is_lent(Ino(ino))
            || self.shared.lending.load(Ordering::Acquire) > 0
                && self.shared.files.lock().lending.contains_key(&ino)
    }

    /// Whether the kernel may have an old idea of the file's size.
    #[inline]
    pub(crate) fn was_lent(&self, ino: u64) -> bool {
        self.shared.has_lent.load(Ordering::Acquire) && self.shared.files.lock().lent.contains(&ino)
    }

    /// The kernel has forgotten the file.
    pub(crate) fn forget(&self, ino: u64) {
        if self.shared.has_lent.load(Ordering::Acquire) {
            self.shared.files.lock().lent.remove(&ino);
        }
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        // Wakes the thread that takes connections.
        let _ = connect(&self.path);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that takes connections panicked");
        }
        for client in self.shared.clients.lock().iter() {
            // Its thread ends.
            let _ = rustix::net::shutdown(client, rustix::net::Shutdown::Both);
        }
        let _ = fs::remove_file(&self.path);
    }
}

fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

fn connect(path: &Path) -> io::Result<OwnedFd> {
    let socket = socket()?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// A socket at `path`, in place of one that a daemon has left there.
fn listen(path: &Path) -> io::Result<OwnedFd> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let socket = socket()?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    rustix::net::listen(&socket, 64)?;
    Ok(socket)
}

impl Shared {
    fn take_connections(self: &Arc<Self>, listener: &OwnedFd) {
        loop {
            let client = rustix::net::accept_with(listener, SocketFlags::CLOEXEC);
            if self.stopping.load(Ordering::Acquire) {
                return;
            }
            match client {
                Ok(client) => self.start(client),
                Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNABORTED) => {}
                Err(error) => {
                    tracing::warn!("direct: no connection can be taken: {error}");
                    std::thread::sleep(std::time::Duration::from_millis(100));
                }
            }
        }
    }

    /// Serves a connection in a thread of its own. One that is refused sees it closed.
    fn start(self: &Arc<Self>, client: OwnedFd) {
        let Ok(peer) = rustix::net::sockopt::socket_peercred(&client) else { return };
        let process = peer.pid.as_raw_nonzero().get();
        let is_allowed = peer.uid.is_root() || peer.uid == rustix::process::geteuid();
        if !is_allowed || self.clients.lock().len() >= CLIENTS_MAX {
            tracing::warn!("direct: process {process} of user {} is refused", peer.uid.as_raw());
            return;
        }
        let client = Arc::new(client);
        self.clients.lock().push(Arc::clone(&client));
        let (this, of_thread) = (Arc::clone(self), Arc::clone(&client));
        let serve = move || {
            this.serve(&of_thread, process as u64);
            this.volume.take_back_from(process as u64);
            this.leaves(&of_thread);
        };
        let name = "terrace-client".to_owned();
        if std::thread::Builder::new().name(name).spawn(serve).is_err() {
            self.leaves(&client);
        }
    }

    fn leaves(&self, client: &Arc<OwnedFd>) {
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
                Err(rustix::io::Errno::INTR) => {}
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
        let shared = match request {
            Some(Request::Hello { layout: LAYOUT }) => self.volume.share_memory().ok(),
            _ => None,
        };
        let descriptors = shared.as_ref().map(|(pm, segment)| [pm.as_fd(), segment.as_fd()]);
        let answer = match request {
            Some(Request::Hello { .. }) if descriptors.is_some() => Answer::Done,
            Some(Request::Borrow { ino, blocks }) => self.borrow(ino, process, blocks),
            Some(Request::Renew { ino, blocks }) => self.renew(ino, process, blocks),
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

    /// Lends a file once the kernel has none of it.
    fn borrow(&self, ino: u64, process: u64, blocks: u64) -> Answer {
        self.lending.fetch_add(1, Ordering::AcqRel);
        self.has_lent.store(true, Ordering::Release);
        let answer = self.try_to_lend(ino, process, blocks.min(BLOCKS_MAX));
        self.files.lock().lending.remove(&ino);
        self.lending.fetch_sub(1, Ordering::AcqRel);
        answer
    }

    fn try_to_lend(&self, ino: u64, process: u64, blocks: u64) -> Answer {
        for _ in 0..TRIES {
            self.files.lock().lending.insert(ino, false);
            if let Err(error) = self.kernel.drop_pages(ino, 0, 0) {
                tracing::warn!("inode {ino}: the kernel does not drop its pages: {error}");
                return not_lent(NotLent::Off);
            }
            let lent = match self.volume.lend(Ino(ino), process, blocks) {
                Ok(Ok(lent)) => lent,
                Ok(Err(reason)) => return not_lent(reason),
                Err(error) => {
                    tracing::warn!("inode {ino}: cannot be lent: {error}");
                    return not_lent(NotLent::NotAFile);
                }
            };
            let mut files = self.files.lock();
            files.lent.insert(ino);
            if files.lending.get(&ino) == Some(&false) {
                let (page, generation) = (lent.page as u64, lent.generation);
                return Answer::Lent { page, generation, log_is_same: false };
            }
            drop(files);
            // Whoever uses it may have brought pages to the kernel's cache.
            let _ = self.volume.take_back(Ino(ino));
        }
        not_lent(NotLent::Elsewhere)
    }

    /// The kernel has none of a file that is lent.
    fn renew(&self, ino: u64, process: u64, blocks: u64) -> Answer {
        match self.volume.renew_loan(Ino(ino), process, blocks.min(BLOCKS_MAX)) {
            Ok(Ok(renewed)) => Answer::Lent {
                page: renewed.lent.page as u64,
                generation: renewed.lent.generation,
                log_is_same: renewed.log_is_same,
            },
            Ok(Err(reason)) => not_lent(reason),
            Err(error) => {
                tracing::warn!("inode {ino}: cannot be lent again: {error}");
                not_lent(NotLent::NotAFile)
            }
        }
    }
}

fn not_lent(reason: NotLent) -> Answer {
    Answer::NotLent(reason as u32)
}
