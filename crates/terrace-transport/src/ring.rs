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
//! Nor does a successor's worker find the requests that wait. Another process asks the mount for
//! something, once for each worker: then each has committed an answer, or no request waits.
//!
//! Invariants:
//! * As long as requests wait in a queue, none of its workers is idle.
//! * Forgets, interrupts and notifications stay on `/dev/fuse`.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::{Builder, Scope};
use std::time::Instant;

use crate::connection::{Connection, FileSystem};
use crate::cpus::{Cpus, is_online};
use crate::interrupts;
use crate::load::{Counted, Load};
use crate::moves::Moves;
use crate::place::{Place, Reads};
use crate::worker::{Worker, has_ended};

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
    reads: Reads,
    /// Whether a daemon before this one has left a message without an answer.
    is_message_left: AtomicBool,
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
        let was_whole =
            |id: u16| connection.ledger.is_some_and(|ledger| ledger.is_whole(seat(id, depth, 0)));
        let queue = |id| -> io::Result<Queue> {
            let is_whole = depth <= RESERVE || was_whole(id) || is_online(id)?;
            Ok(Queue { id, is_whole: is_whole.into() })
        };
        let queues = (0..cpus.possible()).map(queue).collect::<io::Result<Vec<_>>>()?;
        let _counted = connection.load.add(Load { queues: queues.len(), ..Load::default() });
        Ok(Self {
            connection,
            file_system,
            queues,
            depth,
            cpus,
            moves: Moves::new(),
            reads: Reads::default(),
            is_message_left: AtomicBool::new(false),
            _counted,
        })
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
            if is_whole {
                self.note_whole(queue);
            }
            for number in 0..if is_whole { self.depth } else { RESERVE } {
                self.start_worker(scope, queue, number, &steps)?;
                count += 1;
            }
        }
        steps.wait_for(count)?;
        if let Some(ledger) = self.connection.ledger
            && !self.is_message_left.load(Ordering::Relaxed)
        {
            // A daemon that has nothing to answer is as good as one that answered.
            ledger.note_answer();
        }
        drop(not_yet);
        steps.wait_for(count)
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
        let work = move || self.work(scope, queue, number, &says, &go);
        Builder::new().name(name).spawn_scoped(scope, work).map(drop)
    }

    /// A successor looks at what all workers of the queue left, also when its CPU is gone.
    fn note_whole(&self, queue: &Queue) {
        if let Some(ledger) = self.connection.ledger {
            ledger.set_whole(seat(queue.id, self.depth, 0));
        }
    }

    /// Brings in the workers that the queue lacks, and waits until they stand.
    #[cold]
    fn complete<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, queue: &'scope Queue) {
        self.note_whole(queue);
        let steps = Steps::new();
        let (mut result, mut count) = (Ok(()), 0);
        for number in RESERVE..self.depth {
            match self.start_worker(scope, queue, number, &steps) {
                Ok(()) => count += 1,
                Err(error) => result = Err(error),
            }
        }
        let ready = steps.wait_for(count);
        let stand = steps.wait_for(count);
        if let Err(error) = result.and(ready).and(stand) {
            tracing::warn!("queue {}: fewer workers than it should have: {error}", queue.id);
        }
    }

    /// A worker's life. It says twice how far it is: when it is ready, and when it stands.
    fn work<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        queue: &'scope Queue,
        number: usize,
        says: &Sender<io::Result<()>>,
        go: &RwLock<()>,
    ) {
        let mut place = Place::on(&self.cpus, queue.id);
        interrupts::serve(&self.connection.interrupts);
        let (worker, ready) = split(self.prepare(queue, number));
        let _ = says.send(ready);
        drop(go.read());
        let (worker, stands) = match worker.map(Worker::stand) {
            Some(registered) => split(registered),
            None => (None, Ok(())),
        };
        let _ =
            says.send(stands.or_else(|error| if has_ended(&error) { Ok(()) } else { Err(error) }));
        let ended = match worker {
            Some(mut worker) => self.serve(scope, queue, &mut worker, &mut place),
            None => Ok(()),
        };
        if let Err(error) = ended {
            // Its entry is lost. The other workers of the queue go on.
            tracing::error!("queue {}: a worker ends: {error}", queue.id);
        }
    }

    fn prepare(&self, queue: &Queue, number: usize) -> io::Result<Worker> {
        let worker = Worker::new(self.connection, queue.id, seat(queue.id, self.depth, number))?;
        if worker.has_left_message() {
            self.is_message_left.store(true, Ordering::Relaxed);
        }
        Ok(worker)
    }

    /// Answers messages until the connection ends.
    fn serve<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        queue: &'scope Queue,
        worker: &mut Worker,
        place: &mut Place<'_>,
    ) -> io::Result<()> {
        while worker.wait()? {
            let read = worker.read().map(|read| self.reads.begin(&read));
            match read {
                Some((true, _)) => place.leave(),
                _ => place.return_to(),
            }
            if !queue.is_whole.load(Ordering::Relaxed)
                && !queue.is_whole.swap(true, Ordering::Relaxed)
            {
                self.complete(scope, queue);
            }
            let client = worker.client();
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

/// The seat of a queue's worker in the ledger. The first seat is that of the thread on `/dev/fuse`.
fn seat(queue: u16, depth: usize, number: usize) -> usize {
    1 + usize::from(queue) * depth + number
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

    /// Waits until so many workers have said something.
    fn wait_for(&self, count: usize) -> io::Result<()> {
        self.done.iter().take(count).collect()
    }
}

fn split<T>(result: io::Result<T>) -> (Option<T>, io::Result<()>) {
    match result {
        Ok(value) => (Some(value), Ok(())),
        Err(error) => (None, Err(error)),
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
