//! Clients that change their CPU with each message, and the pauses that make them stay.
//!
//! A worker's answer wakes its client. The scheduler prefers an idle CPU to the one on which the
//! worker still runs. So the client may go on on another CPU, whose worker answers its next
//! message; by then the first CPU is idle, and the client moves back. A virtual machine pays 20 to
//! 50 µs to wake an idle CPU, which is several times as long as a message takes on one CPU. Such a
//! client can move with each message for as long as it runs.
//!
//! A CPU that has been idle for longer is not preferred: a client that stays goes on staying, for
//! hundreds or thousands of messages. To get there, the client's CPUs have to be idle for some
//! milliseconds, a few times. So when a client has lost [`LOSS_MIN`] by moves, its answers are held
//! back for [`PAUSE`] after each further move, until it stays or a series of [`SERIES`] is over. A
//! client that stays gets such a pause when it moves nevertheless, as long as that pays.
//!
//! Each client shows by itself what pays: how much longer it takes from an answer to its next
//! message after a move, how many messages it sends between two moves without pauses, and how many
//! after a pause. There are no pauses if waking a CPU is cheap, or if clients move for other
//! reasons, and series become rare if they do not help.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, TryLockError};
use std::time::{Duration, Instant};

/// How long an answer is held back.
const PAUSE: Duration = Duration::from_millis(1);

/// A client that did something else for so long was not waiting for answers in a row.
const GAP_MAX: Duration = Duration::from_micros(200);
/// A move that costs less is not worth a pause.
const COST_MIN: u64 = 10_000;
/// A client loses so many nanoseconds by moves before its first series of pauses.
const LOSS_MIN: u64 = 15_000_000;
/// The longest series of pauses.
const SERIES: u32 = 40;
/// A client that sends so many messages after a pause stays.
const RUN_GOOD: u64 = 64;
/// A client that sends so many without pauses is left alone.
const RUN_FREE_MAX: u64 = 16;
/// Longer runs say no more.
const RUN_MAX: u64 = 1024;
/// A series that fails doubles the loss that has to come before the next one, up to so many times.
const FAILURES_MAX: u32 = 10;

/// The last CPU of each client. Clients share a place if there are more than places: then the older
/// one is forgotten.
#[derive(Debug)]
pub(crate) struct Moves {
    places: Box<[Place]>,
    failures: Failures,
}

/// Series of pauses in a row that did not help.
#[derive(Debug, Default)]
struct Failures(AtomicU32);

impl Failures {
    fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self) {
        self.0.store((self.get() + 1).min(FAILURES_MAX), Ordering::Relaxed);
    }

    fn forget(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// A place in cache lines of its own: only the worker that serves the client looks at it.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Place(Mutex<Client>);

const PLACES: usize = 256;

impl Moves {
    pub(crate) fn new() -> Self {
        Self {
            places: (0..PLACES).map(|_| Place::default()).collect(),
            failures: Failures::default(),
        }
    }

    /// Notes that a client's message came to a queue. Returns until when its answer is to be held
    /// back.
    pub(crate) fn arrives(&self, thread: u32, queue: u16) -> Option<Instant> {
        // Messages that no program waits for have the number 0.
        if thread == 0 {
            return None;
        }
        let now = Instant::now();
        let is_to_pause =
            self.with(thread, |client| client.arrives(thread, queue, now, &self.failures));
        is_to_pause.unwrap_or(false).then(|| now + PAUSE)
    }

    /// Notes that a client is about to get its answer.
    pub(crate) fn is_answered(&self, thread: u32) {
        let now = Instant::now();
        self.with(thread, |client| client.is_answered(thread, now));
    }

    /// None: another worker looks at the place.
    fn with<T>(&self, thread: u32, look: impl FnOnce(&mut Client) -> T) -> Option<T> {
        match self.places[thread as usize % PLACES].0.try_lock() {
            Ok(mut client) => Some(look(&mut client)),
            Err(TryLockError::Poisoned(poisoned)) => Some(look(&mut poisoned.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// A thread of a program, and what its messages have shown.
#[derive(Debug, Default)]
struct Client {
    thread: u32,
    queue: u16,
    answered: Option<Instant>,
    /// Messages since the one that came after the last move.
    run: u64,
    /// Nanoseconds from an answer to the next message, on the same CPU and on another one.
    gap_here: Average,
    gap_moved: Average,
    /// Messages between two moves, without pauses.
    run_free: Average,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Moves as it likes, and has lost so many nanoseconds by that.
    Free { lost: u64 },
    /// Pauses at each move. So many pauses are left before that is given up.
    Settling { left: u32 },
    /// Stays, and pauses when it has moved nevertheless.
    Settled { run: Average },
}

impl Default for State {
    fn default() -> Self {
        State::Free { lost: 0 }
    }
}

impl Client {
    /// A message comes. Returns whether its answer is to be held back.
    fn arrives(&mut self, thread: u32, queue: u16, now: Instant, failures: &Failures) -> bool {
        if thread != self.thread {
            *self = Self { thread, queue, ..Self::default() };
            return false;
        }
        let gap = self.answered.take().map(|answered| now.saturating_duration_since(answered));
        let gap = gap.filter(|gap| *gap <= GAP_MAX).map(|gap| gap.as_nanos() as u64);
        if queue == self.queue {
            self.gap_here.note(gap, 8);
            self.run = (self.run + 1).min(RUN_MAX);
            return false;
        }
        self.queue = queue;
        self.gap_moved.note(gap, 8);
        let run = std::mem::take(&mut self.run);
        self.state = self.moved(run, gap.is_some(), failures);
        !matches!(self.state, State::Free { .. })
    }

    fn is_answered(&mut self, thread: u32, now: Instant) {
        if thread == self.thread {
            self.answered = Some(now);
        }
    }

    /// The state after a move that ended a run.
    fn moved(&mut self, run: u64, in_a_row: bool, failures: &Failures) -> State {
        match self.state {
            State::Free { mut lost } => {
                self.run_free.note(Some(run), 8);
                let cost = self.cost();
                if in_a_row && cost >= COST_MIN {
                    lost += cost;
                }
                if lost >= LOSS_MIN << failures.get() && self.run_free.get() < RUN_FREE_MAX {
                    return State::Settling { left: SERIES };
                }
                State::Free { lost }
            }
            State::Settling { .. } if run >= RUN_GOOD => {
                failures.forget();
                State::Settled { run: Average(Some(run)) }
            }
            State::Settling { left: 0 } => {
                failures.add();
                State::Free { lost: 0 }
            }
            State::Settling { left } => State::Settling { left: left - 1 },
            State::Settled { run: mut average } => {
                average.note(Some(run), 16);
                if self.pays(average.get()) {
                    State::Settled { run: average }
                } else {
                    State::Free { lost: 0 }
                }
            }
        }
    }

    /// The cost of a move, in nanoseconds.
    fn cost(&self) -> u64 {
        self.gap_moved.get().saturating_sub(self.gap_here.get())
    }

    /// Whether pauses cost less for each message than moves alone do, if there are so many messages
    /// after a pause.
    fn pays(&self, paused: u64) -> bool {
        let (cost, free) = (self.cost(), self.run_free.get());
        (cost + PAUSE.as_nanos() as u64) * (free + 1) < cost * (paused + 1)
    }
}

/// An average in which each new value counts for one part of so many.
#[derive(Clone, Copy, Debug, Default)]
struct Average(Option<u64>);

impl Average {
    fn get(self) -> u64 {
        self.0.unwrap_or(0)
    }

    fn note(&mut self, value: Option<u64>, parts: u64) {
        let Some(value) = value else { return };
        let mix = |average| (average * (parts - 1) + value + parts / 2) / parts;
        self.0 = Some(self.0.map_or(value, mix));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client and the machine that it runs on. Each message costs 5 µs of its own.
    struct World {
        client: Client,
        failures: Failures,
        now: Instant,
        queue: u16,
        pauses: u32,
        messages: u32,
    }

    impl World {
        fn new() -> Self {
            let (client, failures, now) = (Client::default(), Failures::default(), Instant::now());
            Self { client, failures, now, queue: 0, pauses: 0, messages: 0 }
        }

        /// A message, after a move or not. Returns whether a pause followed.
        fn send(&mut self, moves: bool, wake: Duration) -> bool {
            self.queue ^= u16::from(moves);
            self.messages += 1;
            self.now += Duration::from_micros(5) + if moves { wake } else { Duration::ZERO };
            let is_paused = self.client.arrives(7, self.queue, self.now, &self.failures);
            if is_paused {
                self.pauses += 1;
                self.now += PAUSE;
            }
            self.client.is_answered(7, self.now);
            is_paused
        }

        /// Time beyond that of the messages themselves.
        fn lost(&self, since: Instant) -> Duration {
            (self.now - since) - Duration::from_micros(5) * self.messages
        }
    }

    const DEAR: Duration = Duration::from_micros(40);
    const CHEAP: Duration = Duration::from_micros(3);

    #[test]
    fn a_client_that_stays_is_never_paused() {
        let mut world = World::new();
        assert!((0..100_000).all(|_| !world.send(false, DEAR)));
    }

    #[test]
    fn a_client_that_moves_is_paused_until_it_stays() {
        let mut world = World::new();
        let first = (1..).find(|_| world.send(true, DEAR)).expect("a pause");
        // Moves of 45 µs, of which nothing is known but that.
        assert_eq!(first, LOSS_MIN.div_ceil(45_000) + 1, "messages before the first pause");
        for _ in 0..20 {
            assert!(world.send(true, DEAR), "the series goes on");
        }
        for _ in 0..100 {
            assert!(!world.send(false, DEAR), "it stays");
        }
        assert!(world.send(true, DEAR), "a pause, so that it stays again");
        assert!(matches!(world.client.state, State::Settled { .. }));
    }

    #[test]
    fn short_lived_clients_are_left_alone() {
        for _ in 0..1000 {
            let mut world = World::new();
            assert!((0..300).all(|_| !world.send(true, DEAR)));
        }
    }

    #[test]
    fn cheap_moves_are_never_paused() {
        let mut world = World::new();
        assert!((0..1_000_000).all(|_| !world.send(true, CHEAP)));
    }

    #[test]
    fn a_client_that_computes_between_cheap_moves_is_left_alone_once_that_is_known() {
        let mut world = World::new();
        for number in 0..1_000_000 {
            // Each message comes 30 µs after the last answer.
            world.now += Duration::from_micros(25);
            world.send(number % 50 != 0, CHEAP);
        }
        assert_eq!(world.pauses, 0);
    }

    #[test]
    fn a_client_that_moves_for_other_reasons_is_left_alone() {
        let mut world = World::new();
        assert!((0..1_000_000).all(|number| !world.send(number % 40 == 0, DEAR)));
    }

    #[test]
    fn pauses_that_do_not_help_become_rare() {
        let mut world = World::new();
        let start = world.now;
        for _ in 0..2_000_000 {
            world.send(true, DEAR);
        }
        let paused = PAUSE * world.pauses;
        assert!(world.pauses > 2 * SERIES, "it was tried again");
        assert!(paused * 100 < world.lost(start), "{paused:?} of pauses");
        assert!(world.failures.get() > 3);
    }

    #[test]
    fn a_client_that_settles_no_longer_is_set_free() {
        let mut world = World::new();
        while !world.send(true, DEAR) {}
        for _ in 0..100 {
            world.send(false, DEAR);
        }
        let settled = world.pauses;
        let until_free = (0..).find(|_| !world.send(true, DEAR)).expect("free");
        assert!(until_free < 64, "{until_free} pauses of no use, {settled} before");
    }

    #[test]
    fn a_long_wait_between_messages_says_nothing_about_moves() {
        let mut world = World::new();
        for _ in 0..100_000 {
            assert!(!world.send(true, Duration::from_millis(1)));
        }
    }

    #[test]
    fn threads_that_share_a_place_forget_each_other() {
        let moves = Moves::new();
        let (one, other) = (3, 3 + PLACES as u32);
        for number in 0..10_000_u32 {
            let thread = if number % 2 == 0 { one } else { other };
            assert_eq!(moves.arrives(thread, (number / 2 % 2) as u16), None);
            moves.is_answered(thread);
        }
    }

    #[test]
    fn messages_of_no_program_are_never_held_back() {
        let moves = Moves::new();
        for number in 0..100_000_u32 {
            assert_eq!(moves.arrives(0, (number % 2) as u16), None);
            moves.is_answered(0);
        }
    }
}
