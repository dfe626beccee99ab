//! What commands, and everybody else, may tell a daemon: any ioctl, any bytes, from any user, of
//! any file.

use std::sync::Arc;

use parking_lot::Mutex;
use terrace_engine::{
    CheckOptions, FileKind, FormatOptions, FsError, Ino, NewInode, OpenOptions, Volume,
    WriteOptions, check, format, read_disk_label,
};
use terrace_fuse::control::server::{ControlServer, KEPT_BYTES_MAX};
use terrace_fuse::control::{AddDisk, opcodes, request};
use terrace_media::{Disk, Pm, memory_disk};
use terrace_policy::Param;
use terrace_transport::Caller;

const PM_BYTES: u64 = 4 << 20;
const DISK_BYTES: u64 = 4 << 20;
/// Disks that are added at most: more than a volume can have would be no other case.
const ADDED_MAX: usize = 3;
/// Commands that are taken of one input.
const COMMANDS_MAX: usize = 32;
/// Blocks of the file that is asked about, each an extent of its own.
const PIECES: u64 = 200;

/// The place of each command that takes arguments among [`opcodes`], and of those that are for all
/// users.
const FILE_MAP: usize = 3;
const START_SCRUB: usize = 4;
const SET_THRESHOLD: usize = 8;
const MOVE_RANGE: usize = 9;
const TAKE_RECORDED: usize = 11;
const ADD_DISK: usize = 12;
const START_REMOVAL: usize = 13;
const FILE_WHY: usize = 16;
const FOR_ALL: [usize; 8] = [0, 1, 2, FILE_MAP, 5, 7, MOVE_RANGE, FILE_WHY];

/// One ioctl.
#[derive(Clone, Debug)]
pub struct Command {
    /// Who: any number, to be taken modulo those that there are.
    pub who: u8,
    /// Of which file: the same.
    pub file: u8,
    /// Its code.
    pub opcode: u32,
    /// What comes with it.
    pub page: Vec<u8>,
}

/// Whether everybody may give the command with this code, as far as it is one.
pub fn is_for_all(opcode: u32) -> bool {
    opcodes().iter().position(|&known| known == opcode).is_none_or(|at| FOR_ALL.contains(&at))
}

/// The bytes of an input, one after the other.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn take(&mut self, n: usize) -> &[u8] {
        let (taken, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or_default()
    }

    /// A small number, one at which something ends, or any.
    fn number(&mut self) -> u64 {
        let how = self.byte();
        match how % 4 {
            0 => u64::from(self.byte()),
            1 => (1u64 << (how >> 2)).wrapping_add(u64::from(self.byte() % 3)).wrapping_sub(1),
            2 => u64::from(self.byte()) * 4096,
            _ => self.take(8).iter().fold(0, |number, &byte| number << 8 | u64::from(byte)),
        }
    }
}

/// The commands that an input means.
pub fn commands(data: &[u8]) -> Vec<Command> {
    let (mut bytes, mut found) = (Bytes(data), Vec::new());
    while !bytes.0.is_empty() && found.len() < COMMANDS_MAX {
        found.push(command(&mut bytes));
    }
    found
}

fn command(bytes: &mut Bytes<'_>) -> Command {
    let (how, who, file) = (bytes.byte(), bytes.byte(), bytes.byte());
    let known = opcodes();
    let at = usize::from(bytes.byte()) % known.len();
    let opcode = if how.is_multiple_of(16) { bytes.number() as u32 } else { known[at] };
    let page = match how >> 4 {
        0 => {
            let len = bytes.byte().into();
            bytes.take(len).to_vec()
        }
        1 | 2 => request(bytes.number(), bytes.number(), b""),
        3 => request(0, 0, arguments(bytes.byte().into(), bytes).as_bytes()),
        _ => request(0, 0, arguments(at, bytes).as_bytes()),
    };
    Command { who, file, opcode, page }
}

/// What a command needs to know, in its form.
fn arguments(of: usize, bytes: &mut Bytes<'_>) -> String {
    let mut number = || bytes.number();
    match of {
        FILE_MAP => format!("{{\"extents_bytes\":{},\"dirty_bytes\":{}}}", number(), number()),
        START_SCRUB => format!("{{\"bytes_per_second\":{}}}", number()),
        SET_THRESHOLD => {
            let param = Param::ALL[number() as usize % Param::ALL.len()].tunable().name;
            format!("{{\"{param}\":{}}}", number())
        }
        MOVE_RANGE => {
            format!(
                "{{\"tier\":{},\"offset_bytes\":{},\"len_bytes\":{}}}",
                number() % 4,
                number(),
                number()
            )
        }
        TAKE_RECORDED => format!("{{\"token\":{},\"stop\":{}}}", number(), number() % 2 == 0),
        ADD_DISK => format!(
            "{{\"path\":\"/nowhere/{}\",\"tier\":{},\"force\":true}}",
            number(),
            number() % 20
        ),
        START_REMOVAL => format!("{{\"device\":{},\"successor\":null}}", number() % 4),
        _ => String::new(),
    }
}

/// A volume, and what is in its files.
struct World {
    pm: Arc<Pm>,
    disk: Arc<dyn Disk>,
    added: Arc<Mutex<Vec<Arc<dyn Disk>>>>,
    volume: Arc<Volume>,
    pieces: Ino,
}

impl World {
    fn new() -> World {
        let (pm, disk) = (Pm::anonymous(PM_BYTES), memory_disk(DISK_BYTES));
        let options = FormatOptions { shards: Some(1), ..FormatOptions::default() };
        format(&pm, std::slice::from_ref(&disk), &options).expect("formatting");
        let options =
            OpenOptions { cache_bytes: 2 << 20, workers: false, ..OpenOptions::default() };
        let volume =
            Volume::open(pm.clone(), vec![disk.clone()], options, &|_, _, _| {}).expect("opening");
        let new =
            NewInode { kind: FileKind::Regular, mode: 0o600, umask: 0, uid: 0, gid: 0, rdev: 0 };
        let pieces = volume.create(Ino::ROOT, b"pieces", &new).expect("a file").ino;
        for piece in 0..PIECES {
            let at = piece * 2 * 4096;
            volume
                .write(pieces, at, &[piece as u8 | 1; 4096], WriteOptions::default())
                .expect("room");
        }
        World { pm, disk, added: Arc::default(), volume, pieces }
    }

    /// Users who may only ask have changed nothing, and those who may command have lost nothing.
    fn must_be_whole(self) {
        for piece in 0..PIECES {
            let mut found = [0; 4096];
            self.volume.read(self.pieces, piece * 2 * 4096, &mut found).expect("what was written");
            assert!(found == [piece as u8 | 1; 4096], "piece {piece}");
        }
        let status = self.volume.status();
        assert_eq!(status.read_only, None);
        self.volume.close().expect("closing");
        drop(self.volume);
        let added = std::mem::take(&mut *self.added.lock());
        let mut disks: Vec<Arc<dyn Disk>> = std::iter::once(self.disk).chain(added).collect();
        disks.retain(|disk| read_disk_label(disk.as_ref()).is_ok_and(|label| label.is_some()));
        let found =
            check(&self.pm, &disks, &CheckOptions::default(), &|_, _, _| {}).expect("a volume");
        assert!(found.problems.is_empty(), "{:?}", found.problems);
    }
}

/// Gives a daemon's server all commands of an input.
pub fn control(data: &[u8]) {
    let world = World::new();
    let added = world.added.clone();
    let add = move |volume: &Volume, wanted: &AddDisk| {
        if added.lock().len() == ADDED_MAX {
            return Err(FsError::new(libc::ENOENT));
        }
        let disk = memory_disk(DISK_BYTES);
        let index = volume.add_disk(wanted.tier, &|_| Ok(disk.clone()))?;
        added.lock().push(disk);
        Ok(index)
    };
    let server = ControlServer::new(Some(Arc::new(add)), None);
    let me = nobody_else();
    for Command { who, file, opcode, page } in commands(data) {
        let uid = [0, me + 1, me][usize::from(who) % 3];
        let ino = [Ino::ROOT, world.pieces, world.pieces, Ino(77)][usize::from(file) % 4];
        let caller = Caller { uid, gid: 0, pid: 0 };
        let answer = server.answer(&world.volume, ino, caller, opcode, &page);
        assert!(answer.as_ref().map_or(0, Vec::len) < 1 << 14, "it fits an ioctl");
        assert!(server.kept_bytes() <= KEPT_BYTES_MAX);
        if uid == me + 1 && !is_for_all(opcode) {
            assert_eq!(answer.unwrap_err().errno(), libc::EPERM);
        }
    }
    world.volume.wait_for_removal();
    world.must_be_whole();
}

/// The user of this process.
fn nobody_else() -> u32 {
    // SAFETY: geteuid(2) has no preconditions and cannot fail.
    unsafe { libc::geteuid() }
}

/// Each command, from its owner, with arguments in its form.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let one = |at: u8| vec![0x41, 0, 1, at, 0, 1, 0, 2, 3, 0, 0, 0, 0, 0, 0, 0x10, 0];
    let each: Vec<Vec<u8>> = (0..opcodes().len() as u8).map(one).collect();
    // Pages of an answer that is kept, or is not.
    let pages = vec![0x11, 0, 1, 5, 0, 1, 2, 4];
    each.iter().cloned().chain([each.concat(), pages]).collect()
}
