//! The daemon's side of the direct path: a socket on which processes ask for files, and what the
//! kernel may do with these meanwhile.
//!
//! Invariants:
//! * A file is lent to a process that has all of its open files. So nobody else reads it through
//!   the kernel's cache, has it mapped, or appends to it. An open takes the file back, unless it is
//!   the borrower's own and announced (`terrace_store::delegation::Segment::announce`): the
//!   borrower has the kernel ask for the size before it uses that.
//! * While a file is lent, or about to be, the kernel caches neither its attributes nor its pages.
//!   A loan begins after the kernel has dropped all pages, and only if no message since then can
//!   have brought new ones. Every READ and WRITE takes the file back, in the engine.
//! * A file that was lent before may be lent again before its OPEN is answered. So the kernel
//!   caches no attributes of it until a READ or WRITE brings pages ([`opens`]).
//! * The kernel does not know the size of a file that has been lent. It asks for it when the file
//!   is opened next ([`opens`]).
//! * Pages are dropped by the threads here, never by one that takes messages: those that the kernel
//!   waits for are answered meanwhile. A file that was just made has none.
//! * Few files are lent that nobody has open.
//! * A process that has ended, or has closed its connection, has nothing lent.

mod opens;
mod peers;

use std::collections::{HashMap, VecDeque};
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
use terrace_store::delegation::message::{Answer, LAYOUT, MESSAGE_BYTES, Request, Wanted};
use terrace_store::delegation::{NotLent, Segment};
use terrace_transport::Ledger;
use terrace_transport::abi::{OpenFlags, OpenOut};
use terrace_transport::planted::{Bug, planted};

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
/// A file is lent with so many when it is made or opened: most are short, or are renewed soon.
const BLOCKS_OF_OPENED: u64 = 32;
/// A file that was lent before is lent again with so many.
const BLOCKS_AGAIN: u64 = 256;
/// Lent files that nobody has open.
const CLOSED_MAX: usize = 8;
/// Threads whose open was refused and has not come again; some never come.
const REFUSED_MAX: usize = 4096;

/// See the module.
#[derive(Debug)]
pub(crate) struct Direct {
    socket: LoanSocket,
    shared: Arc<Shared>,
    /// Takes connections; `None` only while this is dropped.
    thread: Option<JoinHandle<()>>,
}

/// What the kernel may have of a file that is about to be lent.
#[derive(Clone, Copy, Debug)]
enum Kernel {
    MayHavePages,
    HasNone,
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
    /// Control pages, and announcements of opens.
    segment: Option<Arc<Segment>>,
    /// Lent files that were closed; the last one comes last. Some may be open again, or not lent.
    closed: Mutex<VecDeque<u64>>,
    /// By thread: the file that it is about to open again, because its open was refused.
    refused: Mutex<HashMap<u32, u64>>,
    /// Processes that are connected.
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
            segment: volume.loan_memory().map(|(_, segment)| segment),
            closed: Mutex::default(),
            refused: Mutex::default(),
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
        // In this order: a loan that misses the use has set the mark before.
        self.shared.opens.may_have_pages(ino.0);
    }

    /// Whether the kernel's idea of the file's size may be old.
    pub(crate) fn is_behind(&self, ino: Ino) -> bool {
        self.shared.opens.behind(ino.0).is_some()
    }

    /// The attributes that the kernel is told, and whether it may keep them: not of a file that
    /// another process changes, or will change once it has opened it.
    #[inline]
    pub(crate) fn told(&self, attr: &Attr) -> (Attr, bool) {
        match self.shared.opens.behind(attr.ino.0) {
            // It may be lent again when it is opened.
            None => (*attr, !self.shared.opens.knows_no_pages(attr.ino.0)),
            Some(loans) => self.shared.told_to_catch_up(attr, loans),
        }
    }

    /// This thread opens a file that was just made. It is lent at once to a process that would ask
    /// for it with its next call.
    pub(crate) fn created(&self, ino: Ino, flags: i32, thread: u32) -> OpenOut {
        self.shared.opens.open(ino.0);
        if let Some(process) = self.shared.announced_by(thread) {
            // If it is not lent, the mount has it.
            self.shared.lend_opened(ino, process);
        }
        opened_by(Opens::way_of_use(flags))
    }

    /// This thread opens a file. A file that another process has comes back first.
    ///
    /// # Errors
    /// `ESTALE`: the kernel is to look the name up again, which it does by itself.
    pub(crate) fn open(&self, ino: Ino, flags: i32, thread: u32) -> Result<OpenOut, i32> {
        let Shared { volume, opens, .. } = &*self.shared;
        // Before anything else: a loan that begins meanwhile finds it.
        opens.open(ino.0);
        let announced = self.shared.announced_by(thread);
        let borrower = opens.behind(ino.0).and_then(|_| volume.borrower(ino));
        let is_own = match (borrower, announced) {
            (Some(borrower), Some(process)) if borrower == process => true,
            (Some(_), _) => {
                // A file that is gone or damaged is lent to nobody, and calls will say what it is.
                let _ = volume.take_back(ino);
                false
            }
            // It was lent before, perhaps to this process.
            (None, Some(process)) => {
                opens.knows_no_pages(ino.0) && self.shared.lend_opened(ino, process)
            }
            (None, None) => false,
        };
        let is_again = self.shared.opens_again(thread, ino.0);
        let way = if is_own { Opens::way_of_use(flags) } else { opens.way(ino.0, flags) };
        // At the second time the file was lent once more after the kernel had looked up its name.
        if way == Way::AskAgain && !is_again {
            opens.close(ino.0);
            self.shared.will_open_again(thread, ino.0);
            return Err(libc::ESTALE);
        }
        Ok(opened_by(way))
    }

    /// Makes a change that brings none of a file's data to the kernel. A process that has the file
    /// has it again afterwards: it finds the new loan when it finds the end of the old one.
    pub(crate) fn change<T>(&self, ino: Ino, change: impl FnOnce() -> T) -> T {
        let Shared { volume, opens, .. } = &*self.shared;
        if opens.behind(ino.0).is_none() || !volume.is_lent(ino) {
            return change();
        }
        self.shared.watch(ino.0, || {
            // A message from before the watch has taken it back.
            let borrower = volume.borrower(ino);
            let result = change();
            borrower.into_iter().for_each(|process| self.shared.lend_again(ino.0, process));
            result
        })
    }

    /// The kernel has closed a file.
    pub(crate) fn closed(&self, ino: Ino) {
        let Shared { volume, opens, .. } = &*self.shared;
        opens.close(ino.0);
        if opens.behind(ino.0).is_some() && opens.count(ino.0) == 0 && volume.is_lent(ino) {
            self.shared.note_closed(ino.0);
        }
    }
}

/// As [`opened`]; past the kernel's cache, unless the way is the usual one.
fn opened_by(way: Way) -> OpenOut {
    let open = opened();
    let more = if way == Way::Cached { OpenFlags::empty() } else { OpenFlags::DIRECT_IO };
    OpenOut { open_flags: open.open_flags | more.bits(), ..open }
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
        if let (Some(_), Some(directory)) = (self.socket.group, self.socket.path.parent()) {
            // It is for sockets alone. Other mounts may have theirs there.
            let _ = fs::remove_dir(directory);
        }
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
            Some(Request::Hello { .. }) if descriptors.is_some() => {
                Answer::Welcome { process: process as u32 }
            }
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
                return (now, !self.opens.knows_no_pages(ino.0));
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

    /// The process that has announced an open by this thread, if it is connected.
    fn announced_by(&self, thread: u32) -> Option<u64> {
        let process = u64::from(self.segment.as_ref()?.take_announced(thread)?);
        self.clients.lock().iter().any(|client| client.process == process).then_some(process)
    }

    /// The kernel opens a file twice, in the same thread, if the first open is refused with ESTALE.
    /// A second refusal would reach the program.
    fn will_open_again(&self, thread: u32, ino: u64) {
        let mut refused = self.refused.lock();
        if refused.len() >= REFUSED_MAX {
            refused.clear();
        }
        refused.insert(thread, ino);
    }

    /// Whether this open is the second one.
    fn opens_again(&self, thread: u32, ino: u64) -> bool {
        self.refused.lock().remove(&thread) == Some(ino)
    }

    /// A lent file is open nowhere. It stays lent, because it may be opened again soon, until
    /// several others have been closed.
    fn note_closed(&self, ino: u64) {
        let mut closed = self.closed.lock();
        closed.retain(|&other| other != ino);
        closed.push_back(ino);
        let oldest = if closed.len() > CLOSED_MAX { closed.pop_front() } else { None };
        drop(closed);
        if let Some(oldest) = oldest.filter(|&oldest| self.opens.count(oldest) == 0) {
            // One that is gone is lent to nobody.
            let _ = self.volume.take_back(Ino(oldest));
        }
    }

    /// Lends a file once the kernel has none of it.
    fn borrow(&self, wanted: Wanted, process: u64) -> Answer {
        // A number that is no inode's touches no memory.
        if self.volume.getattr(Ino(wanted.ino)).is_err() {
            return Answer::NotLent(NotLent::NotAFile);
        }
        self.lend(wanted, process, Kernel::MayHavePages)
    }

    /// Lends a file to a process that is opening it, if nobody else has it open. The kernel has no
    /// pages of it.
    fn lend_opened(&self, ino: Ino, process: u64) -> bool {
        let wanted = Wanted { ino: ino.0, blocks: BLOCKS_OF_OPENED, opens: 1 };
        matches!(self.lend(wanted, process, Kernel::HasNone), Answer::Lent { .. })
    }

    fn lend(&self, wanted: Wanted, process: u64, kernel: Kernel) -> Answer {
        self.watch(wanted.ino, || self.try_to_lend(wanted, process, kernel))
    }

    /// Notes, as long as this runs, messages that may bring pages of a file to the kernel's cache.
    fn watch<T>(&self, ino: u64, run: impl FnOnce() -> T) -> T {
        self.about_to_lend.fetch_add(1, Ordering::AcqRel);
        self.lending.lock().insert(ino, false);
        let result = run();
        self.lending.lock().remove(&ino);
        self.about_to_lend.fetch_sub(1, Ordering::AcqRel);
        result
    }

    fn try_to_lend(&self, wanted: Wanted, process: u64, kernel: Kernel) -> Answer {
        let ino = wanted.ino;
        for _ in 0..TRIES {
            if !self.has_all(wanted) {
                return Answer::NotLent(NotLent::Elsewhere);
            }
            // The kernel keeps what it has of a file that cannot be lent.
            if let (Kernel::MayHavePages, Some(reason)) = (kernel, self.volume.obstacle(Ino(ino))) {
                return Answer::NotLent(reason);
            }
            self.lending.lock().insert(ino, false);
            if !self.opens.lend(ino) {
                return Answer::NotLent(NotLent::Off);
            }
            if let Kernel::MayHavePages = kernel
                && !planted(Bug::PagesNotDropped)
                && let Err(error) = self.kernel.drop_pages(ino, 0, 0)
            {
                tracing::warn!("inode {ino}: the kernel does not drop its pages: {error}");
                return Answer::NotLent(NotLent::Off);
            }
            match (self.lend_watched(wanted, process), kernel) {
                (Some(answer), _) => return answer,
                (None, Kernel::MayHavePages) => {}
                // It may have some now.
                (None, Kernel::HasNone) => break,
            }
        }
        Answer::NotLent(NotLent::Elsewhere)
    }

    /// Lends a file of which the kernel had no pages when the watch began. `None`: another user may
    /// have brought some since then.
    fn lend_watched(&self, wanted: Wanted, process: u64) -> Option<Answer> {
        let ino = wanted.ino;
        // Before the last look at the watch: a message that it misses takes the mark away.
        self.opens.has_no_pages(ino);
        let answer = match self.volume.lend(Ino(ino), process, wanted.blocks.min(BLOCKS_MAX)) {
            Ok(Ok(lent)) if self.is_unused(wanted) => {
                let (page, generation) = (lent.page as u64, lent.generation);
                return Some(Answer::Lent { page, generation, log_is_same: false });
            }
            Ok(Ok(_)) => {
                let _ = self.volume.take_back(Ino(ino));
                None
            }
            Ok(Err(reason)) => Some(Answer::NotLent(reason)),
            Err(error) => Some(not_lent(ino, &error)),
        };
        self.opens.may_have_pages(ino);
        answer
    }

    /// Whether nobody else has opened or used a file since the watch began.
    fn is_unused(&self, wanted: Wanted) -> bool {
        self.has_all(wanted) && self.lending.lock().get(&wanted.ino) == Some(&false)
    }

    /// Lends a file again that a process had when the watch began. The process has all of its open
    /// files, since it would have lost it otherwise.
    fn lend_again(&self, ino: u64, process: u64) {
        let wanted = Wanted { ino, blocks: BLOCKS_AGAIN, opens: self.opens.count(ino) };
        if self.opens.lend(ino) {
            self.lend_watched(wanted, process);
        }
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
