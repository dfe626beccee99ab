//! The daemon's side of [`control`](super).
//!
//! Invariants:
//! * A page is only ever cut from an answer to the same command on the same inode, so nobody reads
//!   the map of a file that he does not have open.
//! * Answers kept for readers take no more than [`KEPT_BYTES_MAX`] or, if that is longer, one
//!   answer: the youngest. An answer goes with its last page, and is forgotten by the first request
//!   that comes `KEPT_FOR` after it.
//! * No answer grows with a file: a map is answered in parts of `MAP_ITEMS`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use terrace_engine::{FsError, FsResult, Ino, MapFrom, Recorded, Status, Volume};
use terrace_policy::Param;
use terrace_transport::Caller;

use super::{
    AddDisk, Command, DATA_BYTES, DaemonStatus, DirectStatus, DiskAdder, HEADER_BYTES, Header,
    MoveRange, PAGE_BYTES, RemoveDisk, TakeRecorded, Upgraded, Upgrader,
};
use crate::caller::is_as_powerful;
use crate::transport::{Serving, TransportStatus};

/// Answers kept for readers that have not read their last page; older ones give way.
const KEPT_MAX: usize = 8;
/// What they may take together.
pub const KEPT_BYTES_MAX: usize = 4 << 20;
/// How long a reader may take from one page to the next.
const KEPT_FOR: Duration = Duration::from_secs(10);
/// Extents, and stretches that wait in memory, of one part of a map: most often they fit a page.
const MAP_ITEMS: usize = 48;

/// Tells what is lent.
type DirectTeller = dyn Fn() -> DirectStatus + Send + Sync;

/// Answers the commands of a mount.
#[derive(Default)]
pub struct ControlServer {
    kept: Mutex<Kept>,
    /// `None`: disks are not added here.
    add_disk: Option<Arc<DiskAdder>>,
    /// `None`: nothing replaces this daemon.
    upgrade: Option<Arc<Upgrader>>,
    /// `None`: no kernel sends the messages.
    serving: Option<Serving>,
    /// `None`: nothing is lent.
    direct: Option<Box<DirectTeller>>,
}

impl std::fmt::Debug for ControlServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControlServer").field("kept", &self.kept).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Kept {
    /// Number of the youngest answer.
    last: u64,
    answers: VecDeque<Answer>,
}

#[derive(Clone, Debug)]
struct Answer {
    number: u64,
    command: Command,
    ino: Ino,
    text: Arc<[u8]>,
    /// When it was asked for last.
    used: Instant,
}

impl Kept {
    /// Forgets what nobody has asked for in time.
    fn forget_old(&mut self, now: Instant) {
        self.answers.retain(|answer| now.saturating_duration_since(answer.used) < KEPT_FOR);
    }

    /// Keeps an answer; older ones make room.
    fn keep(&mut self, answer: Answer) {
        let bytes = |answers: &VecDeque<Answer>| {
            answers.iter().map(|answer| answer.text.len()).sum::<usize>()
        };
        while self.answers.len() == KEPT_MAX
            || bytes(&self.answers) + answer.text.len() > KEPT_BYTES_MAX
        {
            if self.answers.pop_front().is_none() {
                break;
            }
        }
        self.answers.push_back(answer);
    }
}

impl ControlServer {
    /// Of a mount that adds disks so and is upgraded so, or not at all.
    #[must_use]
    pub fn new(add_disk: Option<Arc<DiskAdder>>, upgrade: Option<Arc<Upgrader>>) -> Self {
        Self { add_disk, upgrade, ..Self::default() }
    }

    /// Of a mount that is served so, and lends files so.
    #[must_use]
    pub(crate) fn served(self, serving: Serving, direct: Option<Box<DirectTeller>>) -> Self {
        Self { serving: Some(serving), direct, ..self }
    }

    /// The page that `input`, from this caller, asks for.
    ///
    /// # Errors
    /// `ENOTTY`: no command of ours. `EINVAL`: no page of ours. `ESTALE`: the answer is no longer
    /// kept. `EPERM`: not this user's to command. Else what the engine says.
    pub fn answer(
        &self,
        volume: &Volume,
        ino: Ino,
        caller: Caller,
        command: u32,
        input: &[u8],
    ) -> FsResult<Vec<u8>> {
        let command = Command::from_opcode(command).ok_or(FsError::new(libc::ENOTTY))?;
        // Before anything: pages of answers that are kept are for the same users.
        if !may_ask(command, caller.uid) {
            return Err(FsError::new(libc::EPERM));
        }
        let request = Header::decode(input).ok_or(FsError::new(libc::EINVAL))?;
        self.kept.lock().forget_old(Instant::now());
        let answer = match request.answer {
            0 => {
                let known = usize::try_from(request.total_bytes).unwrap_or(usize::MAX);
                let arguments =
                    input[HEADER_BYTES..].get(..known).ok_or(FsError::new(libc::EINVAL))?;
                self.keep(command, ino, self.compute(volume, ino, caller, command, arguments)?)
            }
            number => self
                .recall(command, ino, number, request.offset_bytes)
                .ok_or(FsError::new(libc::ESTALE))?,
        };
        Ok(cut(&answer, request.offset_bytes))
    }

    fn compute(
        &self,
        volume: &Volume,
        ino: Ino,
        caller: Caller,
        command: Command,
        arguments: &[u8],
    ) -> FsResult<Vec<u8>> {
        match command {
            Command::Status => json(&self.status(volume)),
            Command::Stats => json(&volume.stats()),
            Command::FileRanking => json(&volume.file_ranking()),
            Command::StartRecording => json(&volume.start_recording()?),
            Command::TakeRecorded => {
                let TakeRecorded { token, stop } = parse(arguments)?;
                // One page: what is taken is gone, so its reader must not have to come back for the
                // rest.
                let Recorded { lost, block } =
                    volume.take_recorded(token, stop, DATA_BYTES - size_of::<u64>())?;
                Ok([&lost.to_le_bytes()[..], &block].concat())
            }
            Command::Sync => json(&volume.sync()?),
            Command::FileMap => {
                let from =
                    if arguments.is_empty() { MapFrom::default() } else { parse(arguments)? };
                json(&volume.file_map_part(ino, from, MAP_ITEMS)?)
            }
            Command::FileWhy => json(&volume.file_why(ino)?),
            Command::StartScrub => json(&volume.start_scrub(parse(arguments)?)?),
            Command::ScrubReport => json(&volume.scrub_report()),
            Command::CancelScrub => json(&volume.cancel_scrub()?),
            Command::Thresholds => json(&thresholds(volume)),
            Command::SetThreshold => json(&set_thresholds(volume, &parse(arguments)?)?),
            Command::MoveRange => {
                let range: MoveRange = parse(arguments)?;
                // A move to where the file is pinned would come anyway.
                if !is_in_charge(caller.uid) && volume.pin_of(ino)? != Some(range.tier) {
                    return Err(FsError::new(libc::EPERM));
                }
                let moved = volume.move_some(ino, range.tier, range.offset_bytes, range.len_bytes);
                // Requests that make no sense look as if they came from a stranger, and what is
                // pinned as if the caller might not ask.
                json(&moved.map_err(|error| match error.errno() {
                    libc::EINVAL => FsError::new(libc::ENXIO),
                    libc::EPERM => FsError::new(libc::EXDEV),
                    _ => error,
                })?)
            }
            Command::AddDisk => {
                let wanted = parse(arguments)?;
                json(&in_words(self.add_disk(volume, &wanted)))
            }
            Command::StartRemoval => {
                let RemoveDisk { device, successor } = parse(arguments)?;
                json(&in_words(volume.start_removal(device, successor)))
            }
            Command::Upgrade => json(&self.upgrade(arguments, caller)?),
            Command::CancelRemoval => {
                json(&in_words(volume.cancel_removal().map_err(|error| match error.errno() {
                    libc::ESRCH => FsError::with_message(libc::ESRCH, "no disk is being removed"),
                    _ => error,
                })))
            }
        }
    }

    fn add_disk(&self, volume: &Volume, wanted: &AddDisk) -> FsResult<u16> {
        let cannot = || FsError::with_message(libc::EOPNOTSUPP, "this mount cannot open disks");
        self.add_disk.as_deref().ok_or_else(cannot)?(volume, wanted)
    }

    fn upgrade(&self, arguments: &[u8], caller: Caller) -> FsResult<Result<Upgraded, String>> {
        let wanted = parse(arguments)?;
        if !is_as_powerful(caller) {
            return Ok(Err(NOT_AS_POWERFUL.to_owned()));
        }
        let cannot = || Err("the daemon of this mount cannot be replaced".to_owned());
        Ok(self.upgrade.as_deref().map_or_else(cannot, |upgrade| upgrade(&wanted)))
    }

    fn status(&self, volume: &Volume) -> MountStatus {
        MountStatus {
            volume: volume.status(),
            daemon: self.serving.as_ref().map(|_| DaemonStatus::here()),
            transport: self.serving.as_ref().map(Serving::status),
            direct: self.direct.as_ref().map(|tell| tell()),
        }
    }

    /// What is kept for readers, in bytes.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.kept.lock().answers.iter().map(|answer| answer.text.len()).sum()
    }

    fn keep(&self, command: Command, ino: Ino, text: Vec<u8>) -> Answer {
        let mut kept = self.kept.lock();
        kept.last += 1;
        let answer =
            Answer { number: kept.last, command, ino, text: text.into(), used: Instant::now() };
        if answer.text.len() > DATA_BYTES {
            kept.keep(answer.clone());
        }
        answer
    }

    /// The answer of which the page at `offset_bytes` is asked for; with its last page it goes.
    fn recall(&self, command: Command, ino: Ino, number: u64, offset_bytes: u64) -> Option<Answer> {
        let wanted =
            |answer: &Answer| (answer.number, answer.command, answer.ino) == (number, command, ino);
        let mut kept = self.kept.lock();
        let at = kept.answers.iter().position(wanted)?;
        let answer = &mut kept.answers[at];
        answer.used = Instant::now();
        let is_last = offset_bytes.saturating_add(DATA_BYTES as u64) >= answer.text.len() as u64;
        if is_last { kept.answers.remove(at) } else { Some(answer.clone()) }
    }
}

/// The state of a volume that is mounted.
#[derive(Serialize)]
struct MountStatus {
    #[serde(flatten)]
    volume: Status,
    /// `None`: no kernel sends the messages.
    daemon: Option<DaemonStatus>,
    transport: Option<TransportStatus>,
    /// `None`: nothing is lent.
    direct: Option<DirectStatus>,
}

/// Why a caller may not choose the program that runs with the daemon's rights.
const NOT_AS_POWERFUL: &str = "a program that has all capabilities of the daemon, and is in its \
                               namespaces of mounts and users, may replace it, and no other: run \
                               the command as the user that mounted the volume, outside of \
                               containers";

/// Whether a user may give a command. Commands that move a single file are checked more closely
/// where they run.
fn may_ask(command: Command, uid: u32) -> bool {
    let is_for_all = matches!(
        command,
        Command::Status
            | Command::Stats
            | Command::Sync
            | Command::FileMap
            | Command::FileWhy
            | Command::ScrubReport
            | Command::Thresholds
            | Command::MoveRange
    );
    is_for_all || is_in_charge(uid)
}

/// Root, and whose daemon it is.
fn is_in_charge(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

/// Errors that a person has to act on, whole.
fn in_words<T>(result: FsResult<T>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

fn parse<T: DeserializeOwned>(arguments: &[u8]) -> FsResult<T> {
    serde_json::from_slice(arguments).map_err(|_| FsError::new(libc::EINVAL))
}

fn thresholds(volume: &Volume) -> BTreeMap<&'static str, u64> {
    let params = volume.params();
    Param::ALL.iter().map(|&param| (param.tunable().name, params.get(param))).collect()
}

/// All or none.
fn set_thresholds(volume: &Volume, values: &BTreeMap<String, u64>) -> FsResult<()> {
    let param = |name: &str| Param::from_name(name).ok_or(FsError::new(libc::EINVAL));
    let values = values
        .iter()
        .map(|(name, &value)| Ok((param(name)?, value)))
        .collect::<FsResult<Vec<_>>>()?;
    if values.iter().any(|&(param, value)| param.tunable().check(value).is_err()) {
        return Err(FsError::new(libc::EINVAL));
    }
    values.iter().try_for_each(|&(param, value)| volume.tune(param, value))
}

fn json(value: &impl Serialize) -> FsResult<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| {
        FsError::with_message(libc::EIO, format!("answer to a terrace command: {error}"))
    })
}

/// The page of `answer` at `offset_bytes`, without the part of it that would be empty.
fn cut(answer: &Answer, offset_bytes: u64) -> Vec<u8> {
    let total = answer.text.len();
    let start = usize::try_from(offset_bytes).unwrap_or(total).min(total);
    let data = &answer.text[start..total.min(start + DATA_BYTES)];
    let mut page = Vec::with_capacity(PAGE_BYTES);
    page.resize(HEADER_BYTES, 0);
    Header { answer: answer.number, offset_bytes, total_bytes: total as u64 }.encode(&mut page);
    page.extend_from_slice(data);
    page
}

#[cfg(test)]
mod tests {
    use terrace_engine::{FileKind, FormatOptions, NewInode, OpenOptions, WriteOptions};

    use super::*;

    fn read_all(server: &ControlServer, first: &Answer) -> Vec<u8> {
        let mut text = Vec::new();
        while text.len() < first.text.len() {
            let at = text.len() as u64;
            let answer =
                server.recall(first.command, first.ino, first.number, at).expect("still kept");
            let page = cut(&answer, at);
            assert!(page.len() <= PAGE_BYTES);
            assert_eq!(
                Header::decode(&page).map(|header| header.total_bytes),
                Some(first.text.len() as u64)
            );
            text.extend_from_slice(&page[HEADER_BYTES..]);
        }
        text
    }

    #[test]
    fn strangers_ask_and_do_not_command() {
        let stranger = rustix::process::geteuid().as_raw() + 1;
        let for_all = [
            Command::Status,
            Command::Stats,
            Command::FileMap,
            Command::FileWhy,
            Command::Thresholds,
            Command::Sync,
        ];
        assert!(for_all.into_iter().all(|command| may_ask(command, stranger)));
        let not_for_all = [
            Command::FileRanking,
            Command::SetThreshold,
            Command::StartRecording,
            Command::CancelScrub,
            Command::Upgrade,
        ];
        assert!(!not_for_all.into_iter().any(|command| may_ask(command, stranger)));
        assert!(not_for_all.into_iter().all(|command| may_ask(command, 0)));
    }

    #[test]
    fn pages_add_up_to_the_answer() {
        let server = ControlServer::default();
        let text: Vec<u8> = (0..3 * DATA_BYTES + 17).map(|at| (at % 251) as u8).collect();
        let first = server.keep(Command::FileMap, Ino(5), text.clone());
        // An answer given in between does not get mixed in.
        server.keep(Command::FileMap, Ino(5), vec![0; 4 * DATA_BYTES]);
        assert_eq!(read_all(&server, &first), text);
        assert!(
            server.recall(first.command, first.ino, first.number, 0).is_none(),
            "it went with its last page"
        );
    }

    /// However many extents a file has, whoever asks for its map gets short answers, and the daemon
    /// keeps none of them.
    #[test]
    fn a_map_of_any_length_comes_in_short_parts() {
        const PIECES: u64 = 2000;
        let (pm, disks) =
            (terrace_media::Pm::anonymous(32 << 20), vec![terrace_media::memory_disk(16 << 20)]);
        terrace_engine::format(&pm, &disks, &FormatOptions::default()).unwrap();
        let options =
            OpenOptions { cache_bytes: 16 << 20, workers: false, ..OpenOptions::default() };
        let volume = Volume::open(pm, disks, options, &|_, _, _| {}).unwrap();
        let new =
            NewInode { kind: FileKind::Regular, mode: 0o600, umask: 0, uid: 0, gid: 0, rdev: 0 };
        let ino = volume.create(Ino::ROOT, b"file", &new).unwrap().ino;
        for piece in 0..PIECES {
            volume.write(ino, piece * 8192, &[1; 4096], WriteOptions::default()).unwrap();
        }
        let server = ControlServer::default();
        let root = Caller { uid: 0, gid: 0, pid: 0 };
        let (mut from, mut extents) = (String::new(), Vec::new());
        loop {
            let page = crate::control::request(0, 0, from.as_bytes());
            let answer = server.answer(&volume, ino, root, Command::FileMap.opcode(), &page);
            let answer = answer.unwrap();
            assert!(
                Header::decode(&answer).unwrap().total_bytes <= DATA_BYTES as u64,
                "it fits a page"
            );
            let part: serde_json::Value = serde_json::from_slice(&answer[HEADER_BYTES..]).unwrap();
            extents.extend(part["extents"].as_array().unwrap().clone());
            match &part["more"] {
                serde_json::Value::Null => break,
                more => from = more.to_string(),
            }
        }
        assert_eq!(extents.len() as u64, PIECES);
        assert_eq!(
            serde_json::to_value(volume.file_map(ino).unwrap()).unwrap()["extents"],
            serde_json::Value::from(extents)
        );
        assert_eq!(server.kept_bytes(), 0);
        volume.close().unwrap();
    }

    #[test]
    fn what_is_kept_is_bounded_in_bytes_and_in_time() {
        let server = ControlServer::default();
        let bytes = || server.kept_bytes();
        for len in (0..40).map(|i| DATA_BYTES + 1 + i * 200_000) {
            let answer = server.keep(Command::ScrubReport, Ino(1), vec![b' '; len]);
            assert!(bytes() <= KEPT_BYTES_MAX.max(len), "{} bytes", bytes());
            let page = server.recall(Command::ScrubReport, Ino(1), answer.number, 0);
            assert!(page.is_some(), "{len} bytes: the youngest is kept, however long it is");
        }
        let used = server.kept.lock().answers.back().unwrap().used;
        server.kept.lock().forget_old(used + KEPT_FOR / 2);
        assert!(bytes() > 0);
        server.kept.lock().forget_old(used + KEPT_FOR);
        assert_eq!(bytes(), 0);
    }

    #[test]
    fn answers_are_for_one_file_and_one_command_and_few_are_kept() {
        let server = ControlServer::default();
        let long = || vec![b' '; DATA_BYTES + 1];
        let first = server.keep(Command::FileMap, Ino(5), long());
        assert!(server.recall(Command::FileMap, Ino(5), first.number, 0).is_some());
        assert!(server.recall(Command::FileMap, Ino(6), first.number, 0).is_none());
        assert!(server.recall(Command::Status, Ino(5), first.number, 0).is_none());
        for _ in 0..KEPT_MAX {
            server.keep(Command::Status, Ino(1), long());
        }
        assert!(server.recall(Command::FileMap, Ino(5), first.number, 0).is_none());
        // A short answer fits its first page and need not be kept.
        let short = server.keep(Command::Status, Ino(1), b"{}".to_vec());
        assert!(server.recall(Command::Status, Ino(1), short.number, 0).is_none());
        assert_eq!(&cut(&short, 0)[HEADER_BYTES..], b"{}");
        assert_eq!(cut(&short, u64::MAX).len(), HEADER_BYTES);
    }
}
