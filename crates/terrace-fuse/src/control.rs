//! How `terrace` commands talk to the daemon of a mount: ioctls on any open file or directory of
//! it.
//!
//! An answer is a JSON text. It is fetched in pages, because an ioctl carries less than 16 KiB:
//! each request asks for the page at an offset, each reply brings that page and the length of the
//! whole. The first request of an answer makes the daemon keep it, under a number that the
//! following requests repeat, so that pages of two different answers never mix. The daemon keeps
//! only a few, and none for long; a reader whose answer is gone starts again. Answers are therefore
//! short, and what may be of any length, the map of a file, is asked for in parts, of which the
//! daemon keeps nothing: each says where the next begins.
//!
//! What a command needs to know stands, as JSON, behind the header of the request that starts an
//! answer.
//!
//! Everybody who can open a file may ask: what he gets changes no volume. A file's map, and what
//! put its data there, are only told to those who have that file open. Scrubs, recordings, devices,
//! upgrades and names of files are for root and the daemon's own user.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use rustix::ioctl::opcode;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use terrace_engine::{
    FileMoved, FileRanking, FsResult, PIN_XATTR, Recorded, Recording, ScrubOptions, Volume,
    pin_value,
};

mod direct;
mod place;
pub mod server;
mod upgrade;
mod wire;

pub use self::direct::{DirectProcess, DirectStatus};
use self::place::{NotPermitted, explain, open};
pub use self::upgrade::{DaemonStatus, Upgrade, Upgraded, Upgrader, upgrade};
use self::wire::{DATA_BYTES, HEADER_BYTES, Header, PAGE_BYTES};

/// How often a reader starts again before it gives up on a daemon that forgets its answer each
/// time.
const TRIES_MAX: usize = 8;

/// What can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// The state of the volume: [`terrace_engine::Status`].
    Status,
    /// How full the volume is, and what it has done: [`terrace_engine::Stats`].
    Stats,
    /// Everything dirty to its device; answers `null`.
    Sync,
    /// Where the data of the open file lies: the part of its [`terrace_engine::FileMap`] for the
    /// [`terrace_engine::MapFrom`] of the request, the first if it has none.
    FileMap,
    /// Start a scrub as the [`terrace_engine::ScrubOptions`] of the request say; answers `null`.
    StartScrub,
    /// All about the last scrub: [`terrace_engine::ScrubReport`].
    ScrubReport,
    /// Stop the scrub that runs; answers `null`.
    CancelScrub,
    /// The policy's thresholds: an object of names and values.
    Thresholds,
    /// Change the thresholds that the request names, an object of names and values; answers `null`.
    SetThreshold,
    /// Move the first stretch of a part of the open file to a tier as the request's [`MoveRange`]
    /// says: [`terrace_engine::FileMoved`].
    MoveRange,
    /// Begin to record what the volume is asked to do: [`terrace_engine::Recording`].
    StartRecording,
    /// What was recorded since the last time, for the [`TakeRecorded`] of the request: how many
    /// operations were lost (u64, little-endian), then a block of the trace, empty if there is
    /// nothing now.
    TakeRecorded,
    /// Add the disk of the request's [`AddDisk`]: its index or, in words, why not.
    AddDisk,
    /// Begin to remove the disk of the request's [`RemoveDisk`]: `null` or, in words, why not.
    StartRemoval,
    /// Stop the removal that runs: `null` or, in words, why not.
    CancelRemoval,
    /// The files that are used most and least: [`terrace_engine::FileRanking`].
    FileRanking,
    /// Why the data of the open file lies where it does: [`terrace_engine::FileWhy`].
    FileWhy,
    /// Replace the daemon by one of the program of the request's [`Upgrade`]: [`Upgraded`] or, in
    /// words, why not.
    Upgrade,
}

/// What [`add_disk`] asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddDisk {
    /// Its path, absolute.
    pub path: PathBuf,
    /// Its tier, 1 and up; 1 if it is not said.
    pub tier: Option<u8>,
    /// Its contents are overwritten.
    pub force: bool,
}

/// What [`start_removal`] asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveDisk {
    /// Index of the disk.
    pub device: u16,
    /// Index of the disk that gets what it can hold of it.
    pub successor: Option<u16>,
}

/// Opens the disk of an [`AddDisk`] and adds it; returns its index. The front end knows nothing of
/// devices.
pub type DiskAdder = dyn Fn(&Volume, &AddDisk) -> FsResult<u16> + Send + Sync;

/// What [`Command::TakeRecorded`] needs to know.
#[derive(Debug, Serialize, Deserialize)]
struct TakeRecorded {
    token: u64,
    stop: bool,
}

impl Command {
    const ALL: [Command; 18] = [
        Command::Status,
        Command::Stats,
        Command::Sync,
        Command::FileMap,
        Command::StartScrub,
        Command::ScrubReport,
        Command::CancelScrub,
        Command::Thresholds,
        Command::SetThreshold,
        Command::MoveRange,
        Command::StartRecording,
        Command::TakeRecorded,
        Command::AddDisk,
        Command::StartRemoval,
        Command::CancelRemoval,
        Command::FileRanking,
        Command::FileWhy,
        Command::Upgrade,
    ];

    const fn number(self) -> u8 {
        match self {
            Command::Status => 1,
            Command::Sync => 2,
            Command::FileMap => 3,
            Command::StartScrub => 4,
            Command::ScrubReport => 5,
            Command::CancelScrub => 6,
            Command::Thresholds => 8,
            Command::SetThreshold => 9,
            Command::MoveRange => 10,
            Command::Stats => 7,
            Command::StartRecording => 11,
            Command::TakeRecorded => 12,
            Command::AddDisk => 13,
            Command::StartRemoval => 14,
            Command::CancelRemoval => 15,
            Command::FileRanking => 16,
            Command::Upgrade => 17,
            Command::FileWhy => 18,
        }
    }

    /// The ioctl's code: `_IOWR('T', number, page)`.
    const fn opcode(self) -> u32 {
        opcode::read_write::<[u8; PAGE_BYTES]>(b'T', self.number()) as u32
    }

    pub(crate) fn from_opcode(opcode: u32) -> Option<Command> {
        Command::ALL.into_iter().find(|command| command.opcode() == opcode)
    }
}

/// The codes of all commands' ioctls, for who tries what a daemon bears.
#[must_use]
pub fn opcodes() -> Vec<u32> {
    Command::ALL.map(Command::opcode).to_vec()
}

/// The page that asks for the part of an answer at an offset; 0 is the answer that it starts. For
/// who tries what a daemon bears.
///
/// # Panics
/// If `arguments` are longer than a page.
#[must_use]
pub fn request(answer: u64, offset_bytes: u64, arguments: &[u8]) -> Vec<u8> {
    let mut page = vec![0; PAGE_BYTES];
    Header { answer, offset_bytes, total_bytes: arguments.len() as u64 }.encode(&mut page);
    page[HEADER_BYTES..][..arguments.len()].copy_from_slice(arguments);
    page
}

/// The state of the volume mounted at or above `mountpoint`, as the JSON of
/// [`terrace_engine::Status`].
///
/// # Errors
/// If `mountpoint` cannot be opened or is not on a live Terrace mount.
pub fn status(mountpoint: &Path) -> Result<String> {
    ask(&open(mountpoint)?, mountpoint, Command::Status, "")
}

/// How full the volume mounted at or above `mountpoint` is and what it has done, as the JSON of
/// [`terrace_engine::Stats`].
///
/// # Errors
/// As [`status`].
pub fn stats(mountpoint: &Path) -> Result<String> {
    ask(&open(mountpoint)?, mountpoint, Command::Stats, "")
}

/// The files of the volume mounted at or above `mountpoint` that are used most and least.
///
/// # Errors
/// As [`status`]; the caller is neither root nor the daemon's user, who alone may see all names.
pub fn file_ranking(mountpoint: &Path) -> Result<FileRanking> {
    Ok(serde_json::from_str(&ask(&open(mountpoint)?, mountpoint, Command::FileRanking, "")?)?)
}

/// Makes everything written so far durable: what the kernel holds of mappings, then what the daemon
/// holds.
///
/// # Errors
/// As [`status`]; or what kept data from its device.
pub fn sync(mountpoint: &Path) -> Result<()> {
    let file = open(mountpoint)?;
    rustix::fs::syncfs(&file)
        .with_context(|| format!("{}: writing back mapped pages", mountpoint.display()))?;
    ask(&file, mountpoint, Command::Sync, "").map(drop)
}

/// Where the data of the file at `path` lies, as the JSON object of a [`terrace_engine::FileMap`].
/// Its parts are of different moments, if somebody changes the file meanwhile.
///
/// # Errors
/// If `path` is not a regular file or directory that can be read, or is not on a live Terrace
/// mount.
pub fn file_map(path: &Path) -> Result<Map<String, Value>> {
    let file = open(path)?;
    let part = |from: &str| -> Result<Map<String, Value>> {
        let no_map = || format!("{}: the daemon answered no map", path.display());
        serde_json::from_str(&ask(&file, path, Command::FileMap, from)?).with_context(no_map)
    };
    let mut map = part("")?;
    while let Some(more @ Value::Object(_)) = map.remove("more") {
        let mut next = part(&more.to_string())?;
        for list in ["extents", "dirty"] {
            if let (Some(Value::Array(known)), Some(Value::Array(new))) =
                (map.get_mut(list), next.get_mut(list))
            {
                known.append(new);
            }
        }
        map.extend(next.remove("more").map(|more| ("more".to_owned(), more)));
    }
    Ok(map)
}

/// Why the data of the file at `path` lies where it does, and what would move it, as the JSON
/// object of a [`terrace_engine::FileWhy`].
///
/// # Errors
/// If `path` is not a regular file that can be read, or is not on a live Terrace mount.
pub fn file_why(path: &Path) -> Result<Map<String, Value>> {
    let file = open(path)?;
    if file.metadata()?.is_dir() {
        bail!(
            "{} is a directory: it has names, and no data that moves; name files in it",
            path.display()
        );
    }
    serde_json::from_str(&ask(&file, path, Command::FileWhy, "")?)
        .with_context(|| format!("{}: the daemon gave no reasons", path.display()))
}

/// Starts a scrub of the volume mounted at or above `mountpoint`.
///
/// # Errors
/// As [`status`]; one runs already; the caller is neither root nor the daemon's user.
pub fn start_scrub(mountpoint: &Path, options: &ScrubOptions) -> Result<()> {
    ask(&open(mountpoint)?, mountpoint, Command::StartScrub, &serde_json::to_string(options)?)
        .map(drop)
}

/// The last scrub of the volume mounted at or above `mountpoint`, as the JSON of
/// [`terrace_engine::ScrubReport`].
///
/// # Errors
/// As [`status`].
pub fn scrub_report(mountpoint: &Path) -> Result<String> {
    ask(&open(mountpoint)?, mountpoint, Command::ScrubReport, "")
}

/// Stops the scrub of the volume mounted at or above `mountpoint`. It ends soon, not at once.
///
/// # Errors
/// As [`status`]; none runs; the caller is neither root nor the daemon's user.
pub fn cancel_scrub(mountpoint: &Path) -> Result<()> {
    ask(&open(mountpoint)?, mountpoint, Command::CancelScrub, "").map(drop)
}

/// A part of a file, and the tier that it is to move to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveRange {
    /// 0 is PM.
    pub tier: u8,
    /// First byte.
    pub offset_bytes: u64,
    /// Bytes.
    pub len_bytes: u64,
}

/// The policy's thresholds of the volume mounted at or above `mountpoint`, by name.
///
/// # Errors
/// As [`status`].
pub fn thresholds(mountpoint: &Path) -> Result<BTreeMap<String, u64>> {
    Ok(serde_json::from_str(&ask(&open(mountpoint)?, mountpoint, Command::Thresholds, "")?)?)
}

/// Changes thresholds of the volume mounted at or above `mountpoint`, until it is unmounted: all of
/// them or none.
///
/// # Errors
/// As [`status`]; a name that the daemon does not know, or a value outside its range; the caller is
/// neither root nor the daemon's user.
pub fn set_thresholds(mountpoint: &Path, values: &BTreeMap<String, u64>) -> Result<()> {
    ask(&open(mountpoint)?, mountpoint, Command::SetThreshold, &serde_json::to_string(values)?)
        .map(drop)
}

/// Moves a stretch of a part of the file at `path` to another tier; the answer says where to go on.
///
/// # Errors
/// As [`file_map`]; a tier that there is not; the file is pinned to another; what kept data from
/// moving; the caller is neither root nor the daemon's user.
pub fn move_range(path: &Path, range: MoveRange) -> Result<FileMoved> {
    let answer = ask(&open(path)?, path, Command::MoveRange, &serde_json::to_string(&range)?)?;
    Ok(serde_json::from_str(&answer)?)
}

/// Pins the file or directory at `path` to a tier, 0 for PM, or to none. That is an extended
/// attribute, as `setfattr` sets it.
///
/// # Errors
/// As [`file_map`]; a tier that there is not; the caller may not write to the file.
pub fn set_pin(path: &Path, tier: Option<u8>) -> Result<()> {
    let file = open(path)?;
    let set = match tier {
        Some(tier) => {
            rustix::fs::fsetxattr(&file, PIN_XATTR, pin_value(tier).as_bytes(), XattrFlags::empty())
        }
        None => rustix::fs::fremovexattr(&file, PIN_XATTR),
    };
    match set {
        Err(Errno::NODATA) => Ok(()),
        // The daemon's log names those that there are.
        Err(Errno::INVAL) => bail!(
            "{}: the volume has no such tier; `terrace status` shows its tiers",
            path.display()
        ),
        other => other.with_context(|| format!("{}: changing its pin", path.display())),
    }
}

/// Begins to record what the volume mounted at or above `mountpoint` is asked to do. The client
/// that began it asks for the records several times a second, and loses the recording after ten
/// seconds of silence.
///
/// # Errors
/// As [`status`]; somebody records already; the caller is neither root nor the daemon's user.
pub fn start_recording(mountpoint: &Path) -> Result<Recording> {
    let answer = ask(&open(mountpoint)?, mountpoint, Command::StartRecording, "")?;
    Ok(serde_json::from_str(&answer)?)
}

/// What was recorded since the last time: a block of the trace, short enough for one page. With
/// `stop` nothing more is recorded, and an empty block ends the recording.
///
/// # Errors
/// As [`start_recording`]; the recording is over.
pub fn take_recorded(mountpoint: &Path, token: u64, stop: bool) -> Result<Recorded> {
    let arguments = serde_json::to_string(&TakeRecorded { token, stop })?;
    let answer = ask_bytes(&open(mountpoint)?, mountpoint, Command::TakeRecorded, &arguments)?;
    let (lost, block) = answer
        .split_first_chunk()
        .with_context(|| format!("{}: answer of the daemon", mountpoint.display()))?;
    Ok(Recorded { lost: u64::from_le_bytes(*lost), block: block.to_vec() })
}

/// Adds a disk to the volume mounted at or above `mountpoint`; returns its index or, in words, why
/// it was not added.
///
/// # Errors
/// As [`status`]. Whether the disk has been added is not known then.
pub fn add_disk(mountpoint: &Path, disk: &AddDisk) -> Result<Result<u16, String>> {
    match ask(&open(mountpoint)?, mountpoint, Command::AddDisk, &serde_json::to_string(disk)?) {
        Err(error) if error.is::<NotPermitted>() => Ok(Err(error.to_string())),
        answer => Ok(serde_json::from_str(&answer?)?),
    }
}

/// Begins to remove a disk from the volume mounted at or above `mountpoint`; [`status`] tells how
/// far that is.
///
/// # Errors
/// As [`status`]; there is no room for what is on it; the caller is neither root nor the daemon's
/// user.
pub fn start_removal(mountpoint: &Path, disk: RemoveDisk) -> Result<()> {
    answered(&ask(
        &open(mountpoint)?,
        mountpoint,
        Command::StartRemoval,
        &serde_json::to_string(&disk)?,
    )?)
}

/// Stops the removal of a disk. It ends soon, not at once.
///
/// # Errors
/// As [`status`]; none runs; the caller is neither root nor the daemon's user.
pub fn cancel_removal(mountpoint: &Path) -> Result<()> {
    answered(&ask(&open(mountpoint)?, mountpoint, Command::CancelRemoval, "")?)
}

/// What a command came to that says in words why it failed.
fn answered<T: DeserializeOwned>(answer: &str) -> Result<T> {
    serde_json::from_str::<Result<T, String>>(answer)?.map_err(anyhow::Error::msg)
}

/// Fetches the whole answer to a command that needs to know `arguments`.
fn ask(file: &File, path: &Path, command: Command, arguments: &str) -> Result<String> {
    let answer = ask_bytes(file, path, command, arguments)?;
    String::from_utf8(answer).with_context(|| format!("{}: answer of the daemon", path.display()))
}

/// As [`ask`], for an answer that is no text.
fn ask_bytes(file: &File, path: &Path, command: Command, arguments: &str) -> Result<Vec<u8>> {
    for _ in 0..TRIES_MAX {
        if let Some(answer) = fetch(file, path, command, arguments)? {
            return Ok(answer);
        }
    }
    bail!("{}: too many commands ask this daemon at the same time; try again", path.display())
}

/// `None` if the daemon forgot the answer before its last page was read.
fn fetch(file: &File, path: &Path, command: Command, arguments: &str) -> Result<Option<Vec<u8>>> {
    let mut page = [0; PAGE_BYTES];
    let mut answer = Vec::new();
    let mut request = Header { total_bytes: arguments.len() as u64, ..Header::default() };
    page[HEADER_BYTES..][..arguments.len()].copy_from_slice(arguments.as_bytes());
    loop {
        request.encode(&mut page);
        match exchange(file, command, &mut page) {
            Err(error) if error.raw_os_error() == Some(libc::ESTALE) => return Ok(None),
            result => result.map_err(|error| explain(error, path))?,
        }
        let reply = Header::decode(&page)
            .filter(|reply| reply.offset_bytes == request.offset_bytes)
            .with_context(|| format!("{} is not on a Terrace mount", path.display()))?;
        let rest = usize::try_from(reply.total_bytes)?.saturating_sub(answer.len());
        answer.extend_from_slice(&page[HEADER_BYTES..][..rest.min(DATA_BYTES)]);
        if rest <= DATA_BYTES {
            return Ok(Some(answer));
        }
        request =
            Header { answer: reply.answer, offset_bytes: answer.len() as u64, total_bytes: 0 };
    }
}

/// One request and its reply, in the same page.
fn exchange(file: &File, command: Command, page: &mut [u8; PAGE_BYTES]) -> io::Result<()> {
    // SAFETY: the code says that the argument points to PAGE_BYTES bytes to read and write, which
    // `page` is, exclusively ours until the call returns; no Linux file system uses these codes for
    // anything else.
    let result =
        unsafe { libc::ioctl(file.as_raw_fd(), command.opcode().into(), page.as_mut_ptr()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_the_wire_and_foreign_pages_are_refused() {
        let mut page = [0; PAGE_BYTES];
        assert_eq!(Header::decode(&page), None);
        let header = Header { answer: 7, offset_bytes: 1 << 40, total_bytes: u64::MAX };
        header.encode(&mut page);
        assert_eq!(Header::decode(&page), Some(header));
        assert_eq!(Header::decode(&page[..HEADER_BYTES - 1]), None);
    }

    #[test]
    fn commands_have_distinct_codes_that_carry_a_page_both_ways() {
        for command in Command::ALL {
            assert_eq!(Command::from_opcode(command.opcode()), Some(command));
            assert_eq!((command.opcode() >> 16) as usize & 0x3fff, PAGE_BYTES);
        }
        assert_eq!(Command::from_opcode(libc::TCGETS as u32), None);
    }

    #[test]
    fn other_file_systems_are_named_as_such() {
        let error = status(Path::new("/proc/self/status")).unwrap_err();
        assert_eq!(error.to_string(), "/proc/self/status is not on a Terrace mount");
        let error = file_map(Path::new("/dev/null")).unwrap_err();
        assert_eq!(error.to_string(), "/dev/null is a device file: it has no data on a volume");
    }
}
