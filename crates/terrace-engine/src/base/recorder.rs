//! Recording what a volume is asked to do, for `terrace record`.
//!
//! Invariants: an operation never waits for the recording. While nobody records it costs one
//! relaxed load; else its record goes to whichever of a few buffers is free, and is counted as lost
//! if none is. At most one recording runs; one whose owner has not asked for records for [`LEASE`]
//! counts as abandoned, and may be replaced.

use std::cell::Cell;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use terrace_store::error::{FsResult, fail};
use terrace_store::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use terrace_store::sync::{HashMap, Mutex, thread_local};
use terrace_trace::{BlockEncoder, Facts, Operation, Record};

use crate::base::types::{Ino, Time};

const BUFFERS: usize = 16;
/// Together 12 MiB.
const BUFFER_RECORDS_MAX: usize = 16 << 10;
/// Buffers that a record tries.
const TRIES: usize = 4;
/// How long an owner may be silent.
const LEASE: Duration = Duration::from_secs(10);

/// A recording that has begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recording {
    /// Names it towards [`Volume::take_recorded`](crate::Volume::take_recorded).
    pub token: u64,
    /// The volume as it is now: the trace begins with this.
    pub facts: Facts,
}

/// A part of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Operations that were not recorded, so far.
    pub lost: u64,
    /// The next block of the trace; empty if there is nothing now.
    pub block: Vec<u8>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Recorder {
    is_on: AtomicBool,
    epoch: Instant,
    buffers: [Mutex<Vec<Noted>>; BUFFERS],
    lost: AtomicU64,
    session: Mutex<Option<Session>>,
}

/// A record without its time, and when the operation ended, in nanoseconds after the recorder's
/// epoch: in a microsecond one thread may do two things, whose order counts.
type Noted = (u64, Record);

thread_local! {
    static CALLER: Cell<u32> = const { Cell::new(0) };
}

/// From now on, the calling thread serves this thread of a program; 0: nobody in particular.
pub fn serve(thread_id: u32) {
    CALLER.with(|caller| caller.set(thread_id));
}

/// When an operation began, in nanoseconds after the recorder's epoch, and who asked for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    begun_ns: u64,
    caller: u32,
}

/// When an operation ended, and how long it took, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    ended_ns: u64,
    took_ns: u64,
    caller: u32,
}

impl Span {
    /// Of a part of an operation whose other part has the time of both.
    pub fn untimed(self) -> Self {
        Self { took_ns: 0, ..self }
    }
}

#[derive(Debug)]
struct Session {
    token: u64,
    /// When it began, in nanoseconds after the recorder's epoch.
    started_ns: u64,
    last_asked: Instant,
    encoder: BlockEncoder,
    /// Taken from the buffers, in the order of their times.
    waiting: VecDeque<Record>,
    /// The numbers of threads of programs in this trace.
    callers: HashMap<u64, u64>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            is_on: AtomicBool::new(false),
            epoch: Instant::now(),
            buffers: std::array::from_fn(|_| Mutex::default()),
            lost: AtomicU64::new(0),
            session: Mutex::default(),
        }
    }
}

impl Recorder {
    /// Whether anybody records.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// As [`Self::is_on`], for those who come seldom: a recorder that was killed ends by this.
    pub fn is_in_use(&self) -> bool {
        if self.is_on() {
            self.end_if_abandoned();
        }
        self.is_on()
    }

    /// An operation begins. `None` if nobody records: then it is never noted, even if somebody does
    /// when it ends.
    #[inline]
    pub fn begin(&self) -> Option<Begun> {
        let begun = || Begun { begun_ns: self.now_ns(), caller: CALLER.with(Cell::get) };
        self.is_on().then(begun)
    }

    /// The operation that began then has ended.
    #[inline]
    pub fn end(&self, begun: Option<Begun>) -> Option<Span> {
        begun.map(|Begun { begun_ns, caller }| {
            let ended_ns = self.now_ns();
            Span { ended_ns, took_ns: ended_ns.saturating_sub(begun_ns), caller }
        })
    }

    /// An operation was done, from an offset on, of a length, in bytes; 0 where it has none.
    #[inline]
    pub fn note(
        &self,
        span: Option<Span>,
        operation: Operation,
        ino: Ino,
        (offset, len): (u64, u64),
        durable: bool,
    ) {
        if let Some(Span { ended_ns, took_ns, caller }) = span {
            let (ino, caller) = (ino.0, caller.into());
            let record =
                Record { time_us: 0, took_ns, caller, operation, durable, ino, offset, len };
            self.keep(ended_ns, record);
        }
    }

    /// Something happened to a file in an operation that is not recorded.
    pub fn note_moment(&self, operation: Operation, ino: Ino) {
        let span = self.end(self.begin()).map(Span::untimed);
        self.note(span, operation, ino, (0, 0), false);
    }

    #[cold]
    fn keep(&self, ended_ns: u64, record: Record) {
        let first = record.ino.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        for at in 0..TRIES {
            let buffer = &self.buffers[(first as usize + at) % BUFFERS];
            if let Some(mut records) =
                buffer.try_lock().filter(|records| records.len() < BUFFER_RECORDS_MAX)
            {
                records.push((ended_ns, record));
                return;
            }
        }
        self.lost.fetch_add(1, Ordering::Relaxed);
        // Buffers that stay full belong to somebody who was killed.
        self.end_if_abandoned();
    }

    fn end_if_abandoned(&self) {
        let is_abandoned = |session: &Option<Session>| {
            session.as_ref().is_none_or(|s| s.last_asked.elapsed() > LEASE)
        };
        if self.session.try_lock().is_some_and(|session| is_abandoned(&session)) {
            self.is_on.store(false, Ordering::Relaxed);
        }
    }

    fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    pub fn start(&self) -> FsResult<u64> {
        let mut session = self.session.lock();
        if session.as_ref().is_some_and(|session| session.last_asked.elapsed() <= LEASE) {
            return fail(libc::EALREADY);
        }
        self.buffers.iter().for_each(|buffer| buffer.lock().clear());
        self.lost.store(0, Ordering::Relaxed);
        // No token of another recording or of another daemon.
        let token = Time::now().0 as u64;
        *session = Some(Session {
            token,
            started_ns: self.now_ns(),
            last_asked: Instant::now(),
            encoder: BlockEncoder::new(0),
            waiting: VecDeque::new(),
            callers: HashMap::default(),
        });
        self.is_on.store(true, Ordering::Relaxed);
        Ok(token)
    }

    pub fn take(&self, token: u64, stop: bool, block_bytes: usize) -> FsResult<Recorded> {
        let mut guard = self.session.lock();
        let Some(session) = guard.as_mut().filter(|session| session.token == token) else {
            return fail(libc::ECANCELED);
        };
        session.last_asked = Instant::now();
        if stop {
            self.is_on.store(false, Ordering::Relaxed);
        }
        if session.waiting.is_empty() {
            session.collect(&self.buffers);
        }
        session.encoder.limit(block_bytes);
        while let Some(record) = session.waiting.front() {
            if !session.encoder.push(record) {
                break;
            }
            session.waiting.pop_front();
        }
        let lost = self.lost.load(Ordering::Relaxed);
        let block =
            if session.encoder.is_empty() { Vec::new() } else { session.encoder.finish(lost) };
        if stop && block.is_empty() {
            *guard = None;
        }
        Ok(Recorded { lost, block })
    }
}

impl Session {
    /// Records of one buffer are in the order in which their operations ended; the sort keeps it
    /// among equal times.
    fn collect(&mut self, buffers: &[Mutex<Vec<Noted>>]) {
        let mut all = Vec::new();
        for buffer in buffers {
            all.append(&mut buffer.lock());
        }
        // Operations left over from the recording before ended earlier.
        all.retain(|(time_ns, _)| *time_ns >= self.started_ns);
        all.sort_by_key(|(time_ns, _)| *time_ns);
        for (ended_ns, record) in all {
            let time_us = (ended_ns - self.started_ns) / 1000;
            let caller = self.number_of(record.caller);
            self.waiting.push_back(Record { time_us, caller, ..record });
        }
    }

    /// The trace tells threads apart, and does not name them.
    fn number_of(&mut self, thread_id: u64) -> u64 {
        let next = self.callers.len() as u64 + 1;
        if thread_id == 0 { 0 } else { *self.callers.entry(thread_id).or_insert(next) }
    }
}

#[cfg(test)]
mod tests {
    use terrace_trace::{Ending, Reader, Writer};

    use super::*;

    fn note(recorder: &Recorder, ino: u64, offset: u64) {
        let span = recorder.end(recorder.begin());
        recorder.note(span, Operation::Write, Ino(ino), (offset, 10), false);
    }

    /// All that is recorded now, and how many operations are lost.
    fn take_all(recorder: &Recorder, token: u64, stop: bool) -> (Vec<Record>, u64) {
        let mut writer = Writer::new(Vec::new(), &Facts::default()).unwrap();
        // Later blocks carry on with their numbers: a writer takes them from the first.
        loop {
            let recorded = recorder.take(token, stop, 16 << 10).unwrap();
            if recorded.block.is_empty() {
                let trace = writer.finish(Ending::Asked, recorded.lost).unwrap();
                let mut reader = Reader::new(&trace[..]).unwrap();
                let (mut all, mut block) = (Vec::new(), Vec::new());
                while reader.next_block(&mut block).unwrap() {
                    all.append(&mut block);
                }
                return (all, recorded.lost);
            }
            assert!(recorded.block.len() <= 16 << 10);
            writer.append_block(&recorded.block).unwrap();
        }
    }

    #[test]
    fn what_is_done_between_start_and_stop_is_recorded_in_its_order() {
        let recorder = Recorder::default();
        note(&recorder, 1, 1);
        let token = recorder.start().unwrap();
        for at in 0..10_000 {
            note(&recorder, at % 50, at);
        }
        let (records, lost) = take_all(&recorder, token, true);
        note(&recorder, 1, 1);
        assert_eq!((records.len(), lost), (10_000, 0));
        assert!(records.is_sorted_by_key(|record| record.time_us));
        for ino in 0..50 {
            let of_file: Vec<u64> =
                records.iter().filter(|r| r.ino == ino).map(|r| r.offset).collect();
            assert!(of_file.len() == 200 && of_file.is_sorted(), "{ino}");
        }
        let over = recorder.take(token, true, 16 << 10).unwrap_err();
        assert_eq!(over.errno(), libc::ECANCELED);
    }

    #[test]
    fn operations_have_their_time_and_parts_of_one_have_it_once() {
        let recorder = Recorder::default();
        let before = recorder.begin();
        assert!(before.is_none(), "nobody records");
        let token = recorder.start().unwrap();
        recorder.note(recorder.end(before), Operation::Read, Ino(1), (0, 1), false);
        let begun = recorder.begin();
        while recorder.now_ns() < begun.unwrap().begun_ns + 3_000_000 {}
        let span = recorder.end(begun);
        recorder.note(span.map(Span::untimed), Operation::Read, Ino(1), (0, 1), false);
        recorder.note(span, Operation::Write, Ino(1), (0, 1), false);
        recorder.note_moment(Operation::Remove, Ino(1));
        let (records, _) = take_all(&recorder, token, true);
        let took: Vec<_> = records.iter().map(|r| (r.operation, r.took_ns >= 3_000_000)).collect();
        let expected =
            [(Operation::Read, false), (Operation::Write, true), (Operation::Remove, false)];
        assert_eq!(took, expected, "what began before the recording is not in it");
        let began_us = records[1].time_us - records[1].took_ns / 1000;
        assert!(
            records[0].took_ns == 0 && began_us < records[0].time_us,
            "the time is that of the end"
        );
    }

    #[test]
    fn threads_of_programs_are_told_apart_and_not_named() {
        let recorder = Recorder::default();
        let token = recorder.start().unwrap();
        for thread_id in [4711, 17, 4711, 0] {
            serve(thread_id);
            note(&recorder, 1, 0);
        }
        let (records, _) = take_all(&recorder, token, true);
        let callers: Vec<u64> = records.iter().map(|record| record.caller).collect();
        assert_eq!(callers, [1, 2, 1, 0]);
    }

    #[test]
    fn a_second_recorder_is_refused_until_the_first_is_done() {
        let recorder = Recorder::default();
        let first = recorder.start().unwrap();
        assert_eq!(recorder.start().unwrap_err().errno(), libc::EALREADY);
        assert_eq!(recorder.take(first + 1, true, 100).unwrap_err().errno(), libc::ECANCELED);
        assert!(recorder.is_on(), "whose token is wrong stops nothing");
        assert_eq!(take_all(&recorder, first, true).0.len(), 0);
        let second = recorder.start().unwrap();
        note(&recorder, 2, 0);
        assert_eq!(take_all(&recorder, second, true).0.len(), 1);
    }

    #[test]
    fn what_does_not_fit_is_counted_and_nothing_waits() {
        let recorder = Recorder::default();
        let token = recorder.start().unwrap();
        let many = (TRIES * BUFFER_RECORDS_MAX) as u64;
        for at in 0..many + 7 {
            note(&recorder, 3, at);
        }
        // Another's lock on a buffer is passed by, too.
        let held: Vec<_> = recorder.buffers.iter().map(|buffer| buffer.lock()).collect();
        note(&recorder, 4, 0);
        drop(held);
        let (records, lost) = take_all(&recorder, token, true);
        assert_eq!((records.len() as u64, lost), (many, 8));
    }

    #[test]
    fn threads_lose_nothing_but_what_is_counted() {
        let recorder = Recorder::default();
        let token = recorder.start().unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let recorder = &recorder;
                scope
                    .spawn(move || (0..5000).for_each(|at| note(recorder, thread * 5000 + at, at)));
            }
        });
        let (records, lost) = take_all(&recorder, token, true);
        assert_eq!(records.len() as u64 + lost, 20_000);
        let mut inos: Vec<u64> = records.iter().map(|record| record.ino).collect();
        inos.sort_unstable();
        inos.dedup();
        assert_eq!(inos.len(), records.len(), "none twice");
    }

    #[test]
    fn a_recorder_that_was_killed_is_in_use_no_longer_than_its_lease() {
        let recorder = Recorder::default();
        assert!(!recorder.is_in_use());
        recorder.start().unwrap();
        assert!(recorder.is_in_use());
        let long_ago = Instant::now().checked_sub(LEASE + Duration::from_secs(1)).unwrap();
        recorder.session.lock().as_mut().unwrap().last_asked = long_ago;
        assert!(recorder.is_on() && !recorder.is_in_use() && !recorder.is_on());
    }
}
