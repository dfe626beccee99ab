//! The way to the kernel over io_uring: a queue for each CPU, answered on the CPU that asked.
//!
//! Each worker is a thread with a ring and one entry: memory that the kernel copies one message
//! into, and one answer out of. A queue does not stand still while some of its workers wait for a
//! disk, a lock or each other, as long as one is left.
//!
//! The kernel (6.14 to 6.18) hands requests that wait in a queue to a worker only when that commits
//! an answer. One that joins a queue in use finds none of them: it idles beside them until another
//! answer is committed, which may never be, if that one waits for them. So all workers of a queue
//! stand before the kernel sends it anything. Only the queue of a CPU that is offline, of which a
//! machine may have hundreds, begins with [`RESERVE`]. Its first message brings in the others, and
//! is answered after that.
//!
//! For the same reason no request may wait because there are too many in the background: the
//! kernel's limit for those must not be reached (see [`init`](crate::init)).
//!
//! Invariants:
//! * As long as requests wait in a queue, none of its workers is idle.
//! * The kernel owns an entry's memory from its registration, or from the commit of an answer,
//!   until the next message is delivered. Between these, the worker and the [`Reply`] own it: the
//!   reply alone writes to the payload, and the worker reads the answer's length once it is given.
//! * Forgets, interrupts and notifications stay on `/dev/fuse`.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::{Builder, Scope};
use std::time::Instant;

use io_uring::{IoUring, cqueue, opcode, squeue, types::Fd};
use zerocopy::{FromBytes, IntoBytes};

use crate::abi::{EntryHeaders, InHeader, OutHeader, UringCommand, WriteIn};
use crate::connection::{Connection, FileSystem};
use crate::cpus::{Cpus, is_online};
use crate::interrupts;
use crate::kind::Message;
use crate::load::{Counted, Load};
use crate::moves::Moves;
use crate::reply::Reply;
use crate::request::{Caller, Malformed, Operation, Request, decode};
use crate::slot::{Answer, Slot};

const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;
/// Where the payload begins in an entry's memory: on a page of its own.
const PAYLOAD_OFFSET: usize = 4096;

/// The first workers of the queue of a CPU that is offline: one takes the first message, another
/// what comes beside it.
const RESERVE: usize = 2;

/// A queue of the kernel.
#[derive(Debug)]
struct Queue {
    id: u16,
    /// Whether it has all its workers, or is about to.
    is_whole: AtomicBool,
}

/// All queues of a connection, and what their workers share.
#[derive(Debug)]
pub(crate) struct Rings<'a, F> {
    connection: &'a Connection,
    file_system: &'a F,
    queues: Vec<Queue>,
    /// Workers of a queue.
    depth: usize,
    cpus: Cpus,
    moves: Moves,
    _counted: Counted,
}

impl<'a, F: FileSystem> Rings<'a, F> {
    /// Workers keep to the CPUs that the calling thread may use, now and later.
    pub(crate) fn new(
        connection: &'a Connection,
        file_system: &'a F,
        depth: usize,
    ) -> io::Result<Self> {
        let cpus = Cpus::of_this_thread()?;
        let queue =
            |id| Ok(Queue { id, is_whole: AtomicBool::new(depth <= RESERVE || is_online(id)?) });
        let queues = (0..cpus.possible()).map(queue).collect::<io::Result<Vec<_>>>()?;
        let counted = connection.load.add(Load { queues: queues.len(), ..Load::default() });
        let moves = Moves::new();
        Ok(Self { connection, file_system, queues, depth, cpus, moves, _counted: counted })
    }

    /// Starts the workers, and waits until they stand.
    ///
    /// The kernel sends requests as soon as each queue has one worker. So that nearly all others
    /// are there by then, too, all get ready before the first one asks for messages.
    pub(crate) fn start<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) -> io::Result<()> {
        let _ = allow_descriptors(self.queues.len() * self.depth);
        let steps = Steps::new();
        let not_yet = steps.go.write().unwrap_or_else(PoisonError::into_inner);
        let mut count = 0;
        for queue in &self.queues {
            let is_whole = queue.is_whole.load(Ordering::Relaxed);
            for number in 0..if is_whole { self.depth } else { RESERVE } {
                self.start_worker(scope, queue, number, &steps)?;
                count += 1;
            }
        }
        steps.done.iter().take(count).collect::<io::Result<()>>()?;
        drop(not_yet);
        steps.done.iter().take(count).collect()
    }

    fn start_worker<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        queue: &'scope Queue,
        number: usize,
        steps: &Steps,
    ) -> io::Result<()> {
        let name = format!("terrace-fuse-{}.{number}", queue.id);
        let (says, go) = (steps.says.clone(), Arc::clone(&steps.go));
        let work = move || self.work(scope, queue, &says, &go);
        Builder::new().name(name).spawn_scoped(scope, work).map(drop)
    }

    /// Brings in the workers that the queue lacks, and waits until they stand.
    #[cold]
    fn complete<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, queue: &'scope Queue) {
        let steps = Steps::new();
        let (mut result, mut count) = (Ok(()), 0);
        for number in RESERVE..self.depth {
            match self.start_worker(scope, queue, number, &steps) {
                Ok(()) => count += 1,
                Err(error) => result = Err(error),
            }
        }
        let ready: io::Result<()> = steps.done.iter().take(count).collect();
        let stand: io::Result<()> = steps.done.iter().take(count).collect();
        if let Err(error) = result.and(ready).and(stand) {
            tracing::warn!("queue {}: fewer workers than it should have: {error}", queue.id);
        }
    }

    /// A worker's life. It says twice how far it is: when it is ready, and when it stands.
    fn work<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        queue: &'scope Queue,
        says: &Sender<io::Result<()>>,
        go: &RwLock<()>,
    ) {
        self.cpus.keep_to(queue.id);
        interrupts::serve(&self.connection.interrupts);
        let (worker, ready) = split(Worker::new(self.connection, queue.id));
        let _ = says.send(ready);
        drop(go.read());
        let (worker, stands) = match worker.map(Worker::register) {
            Some(registered) => split(registered),
            None => (None, Ok(())),
        };
        let _ =
            says.send(stands.or_else(|error| if has_ended(&error) { Ok(()) } else { Err(error) }));
        let ended = worker.map_or(Ok(()), |mut worker| self.serve(scope, queue, &mut worker));
        if let Err(error) = ended {
            // Its entry is lost. The other workers of the queue go on.
            tracing::error!("queue {}: a worker ends: {error}", queue.id);
        }
    }

    /// Answers messages until the connection ends.
    fn serve<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        queue: &'scope Queue,
        worker: &mut Worker,
    ) -> io::Result<()> {
        while worker.wait()? {
            self.cpus.return_to(queue.id);
            if !queue.is_whole.load(Ordering::Relaxed)
                && !queue.is_whole.swap(true, Ordering::Relaxed)
            {
                self.complete(scope, queue);
            }
            let client = worker.message().pid;
            let held_back_until = self.moves.arrives(client, queue.id);
            worker.answer(self.connection, self.file_system);
            if let Some(until) = held_back_until {
                std::thread::sleep(until.saturating_duration_since(Instant::now()));
            }
            self.moves.is_answered(client);
        }
        Ok(())
    }
}

/// What starts workers: what they say, and a lock that holds those back which are ready.
struct Steps {
    says: Sender<io::Result<()>>,
    done: Receiver<io::Result<()>>,
    go: Arc<RwLock<()>>,
}

impl Steps {
    fn new() -> Self {
        let (says, done) = channel();
        Self { says, done, go: Arc::default() }
    }
}

fn split<T>(result: io::Result<T>) -> (Option<T>, io::Result<()>) {
    match result {
        Ok(value) => (Some(value), Ok(())),
        Err(error) => (None, Err(error)),
    }
}

/// Whether the connection has ended: the file system was unmounted, or the kernel told to drop it.
fn has_ended(error: &io::Error) -> bool {
    let ends = [libc::ENOTCONN, libc::ECANCELED, libc::ECONNABORTED, libc::ENODEV];
    error.raw_os_error().is_some_and(|errno| ends.contains(&errno))
}

/// A thread's ring, with its one entry.
struct Worker {
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    device: Arc<OwnedFd>,
    queue: u16,
    memory: EntryMemory,
    slot: Arc<Slot>,
    /// Copies of messages, whose place the answer may take.
    scratch: Vec<u64>,
    /// The first message came with the registration.
    delivered: bool,
    _counted: Counted,
}

impl Worker {
    /// Sets up the ring.
    fn new(connection: &Connection, queue: u16) -> io::Result<Worker> {
        let ring = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(2)?;
        let memory = EntryMemory::new(connection.message_bytes_max)?;
        // SAFETY: the worker drops its memory after its last message was answered, and until then
        // leaves the payload to the reply under way.
        let slot = Arc::new(unsafe { Slot::new(memory.payload, memory.payload_bytes) });
        let device = Arc::clone(&connection.device);
        let buffer_bytes = PAYLOAD_OFFSET + connection.message_bytes_max;
        let share = Load { workers: 1, entries: 1, buffer_bytes, ..Load::default() };
        let _counted = connection.load.add(share);
        let (scratch, delivered) = (Vec::new(), false);
        Ok(Worker { ring, device, queue, memory, slot, scratch, delivered, _counted })
    }

    /// Hands the entry to the kernel.
    fn register(mut self) -> io::Result<Worker> {
        self.push(REGISTER, 0);
        self.ring.submit()?;
        // Most often the kernel keeps the entry until there is a message.
        let done = self.ring.completion().next().map(|done| done.result());
        self.delivered = done == Some(0);
        match done {
            Some(refused) if refused < 0 => Err(io::Error::from_raw_os_error(-refused)),
            _ => Ok(self),
        }
    }

    fn push(&mut self, command: u32, commit_id: u64) {
        let request = UringCommand { flags: 0, commit_id, qid: self.queue, padding: [0; 3] };
        let mut bytes = [0; 80];
        bytes[..size_of::<UringCommand>()].copy_from_slice(request.as_bytes());
        let fd = Fd(self.device.as_raw_fd());
        let iovecs = self.memory.iovecs.as_ptr() as u64;
        let mut entry = opcode::UringCmd80::new(fd, command).cmd(bytes).addr(Some(iovecs)).build();
        // SAFETY: an entry is the kernel's structure of 128 bytes, with the number of iovecs, which
        // the library has no setter for, at byte 24. The iovecs live as long as this worker.
        unsafe { (&raw mut entry).cast::<u8>().add(24).cast::<u32>().write(2) };
        // SAFETY: the entry's memory and its iovecs live as long as the ring.
        unsafe { self.ring.submission().push(&entry) }.expect("one entry at a time");
    }

    /// Waits for the next message; false: the connection has ended.
    fn wait(&mut self) -> io::Result<bool> {
        if std::mem::take(&mut self.delivered) {
            return Ok(true);
        }
        loop {
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            match self.ring.completion().next().map(|done| done.result()) {
                None => {}
                Some(0) => return Ok(true),
                Some(ended) => {
                    let error = io::Error::from_raw_os_error(-ended);
                    return if has_ended(&error) { Ok(false) } else { Err(error) };
                }
            }
        }
    }

    /// The header of the message in the entry.
    fn message(&self) -> InHeader {
        InHeader::read_from_prefix(&self.memory.headers().in_out).expect("long enough").0
    }

    /// Answers the message in the entry, and asks for the next one.
    fn answer(&mut self, connection: &Connection, file_system: &impl FileSystem) {
        let headers = *self.memory.headers();
        let header = self.message();
        interrupts::begin(&header);
        let kind = Message::from_opcode(header.opcode);
        let is_write = kind == Some(Message::Write);
        let reply = Reply::over_ring(Arc::clone(&self.slot), is_write);
        let payload_len = (headers.payload_sz as usize).min(self.memory.payload_bytes);
        let op_len = (header.len as usize).saturating_sub(size_of::<InHeader>() + payload_len);
        let op = &headers.op_in[..op_len.min(headers.op_in.len())];
        let decoded = if is_write {
            self.memory.write_request(&header, op, payload_len)
        } else {
            // The answer may take the payload's place.
            let len = op.len() + payload_len;
            self.scratch.resize(len.div_ceil(8), 0);
            let bytes = &mut self.scratch.as_mut_slice().as_mut_bytes()[..len];
            bytes[..op.len()].copy_from_slice(op);
            bytes[op.len()..].copy_from_slice(&self.memory.payload()[..payload_len]);
            decode(&header, &self.scratch.as_bytes()[..len])
        };
        connection.dispatch(kind, decoded, reply, file_system);
        let answer = self.slot.wait();
        self.memory.store(&header, &answer, is_write);
        self.push(COMMIT_AND_FETCH, headers.commit_id);
    }
}

/// The memory of an entry: headers, then the payload.
struct EntryMemory {
    headers: NonNull<EntryHeaders>,
    payload: NonNull<u8>,
    payload_bytes: usize,
    /// As the kernel is told of them.
    iovecs: Box<[libc::iovec; 2]>,
}

impl EntryMemory {
    fn new(payload_bytes: usize) -> io::Result<Self> {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        let len = PAYLOAD_OFFSET + payload_bytes;
        let flags = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at no particular address.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), len, flags, MapFlags::PRIVATE)? };
        let start = NonNull::new(start.cast::<u8>()).expect("a mapping");
        // SAFETY: within the mapping.
        let payload = unsafe { start.add(PAYLOAD_OFFSET) };
        let part =
            |at: NonNull<u8>, len| libc::iovec { iov_base: at.as_ptr().cast(), iov_len: len };
        let iovecs =
            Box::new([part(start, size_of::<EntryHeaders>()), part(payload, payload_bytes)]);
        Ok(Self { headers: start.cast(), payload, payload_bytes, iovecs })
    }

    fn headers(&self) -> &EntryHeaders {
        // SAFETY: mapped, aligned, and any bytes are headers; the kernel has delivered a message,
        // so it writes there only after the next commit.
        unsafe { self.headers.as_ref() }
    }

    fn payload(&self) -> &[u8] {
        // SAFETY: mapped; a message was delivered, and no answer has been given yet.
        unsafe { std::slice::from_raw_parts(self.payload.as_ptr(), self.payload_bytes) }
    }

    /// A WRITE: its data stays in the payload.
    fn write_request<'a>(
        &'a self,
        header: &InHeader,
        op: &'a [u8],
        payload_len: usize,
    ) -> Result<Request<'a>, Malformed> {
        let malformed = Malformed::Body(Message::Write);
        let (write, _) = WriteIn::ref_from_prefix(op).map_err(|_| malformed)?;
        let data = self.payload()[..payload_len].get(..write.size as usize).ok_or(malformed)?;
        let caller = Caller { uid: header.uid, gid: header.gid, pid: header.pid };
        Ok(Request { ino: header.nodeid, caller, operation: Operation::Write(write, data) })
    }

    /// Stores an answer where the kernel looks for it.
    fn store(&mut self, header: &InHeader, answer: &Answer, is_write: bool) {
        let len = (size_of::<OutHeader>() + answer.len) as u32;
        let out = OutHeader { len, error: answer.error, unique: header.unique };
        // SAFETY: mapped, and nobody else uses the entry: the answer was given, and is not
        // committed yet.
        let (headers, payload) = unsafe {
            let payload = std::slice::from_raw_parts_mut(self.payload.as_ptr(), self.payload_bytes);
            (self.headers.as_mut(), payload)
        };
        headers.in_out[..size_of::<OutHeader>()].copy_from_slice(out.as_bytes());
        headers.payload_sz = answer.len as u32;
        if is_write {
            payload[..answer.len].copy_from_slice(&answer.small[..answer.len]);
        }
    }
}

impl Drop for EntryMemory {
    fn drop(&mut self) {
        let len = PAYLOAD_OFFSET + self.payload_bytes;
        // SAFETY: the whole mapping, which nobody uses any more: the ring is closed, and the reply
        // has been given.
        let unmapped = unsafe { rustix::mm::munmap(self.headers.as_ptr().cast(), len) };
        debug_assert!(unmapped.is_ok());
    }
}

/// Lets the process have so many descriptors beside the first 1000, as far as it may, for rings of
/// so many workers. Returns how many it may have.
pub fn allow_descriptors(count: usize) -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(u64::MAX).min(1000 + count as u64);
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = Some(wanted);
        // Where that fails, so may a ring, and says so.
        let _ = setrlimit(Resource::Nofile, limit);
    }
    let current = getrlimit(Resource::Nofile).current;
    current.map_or(usize::MAX, |current| usize::try_from(current).unwrap_or(usize::MAX))
}

/// Whether this machine can have rings as workers use them.
pub(crate) fn is_possible() -> bool {
    IoUring::<squeue::Entry128, cqueue::Entry>::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(2)
        .is_ok()
}
