//! Contents that a daemon stores in the kernel's cache (FUSE_NOTIFY_STORE) overtake writes: the
//! reason why the front end stores nothing. `docs/FUSE.md` says what it would gain.
//!
//! The test itself is the daemon, of one file, so that it decides what comes first.

mod common;

use std::fs::OpenOptions;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

use common::{can_mount, is_root, skip};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags};
use tempfile::TempDir;
use terrace_fuse::terms::{absent, attributes, entry};
use terrace_transport::abi::{Attr, InitFlags, OutHeader, WriteOut};
use terrace_transport::{Operation, Request, Session, Terms, decode, split};
use zerocopy::IntoBytes;

const PAGE: usize = 4096;
const ROOT: u64 = 1;
const FILE: u64 = 2;
const NOTIFY_STORE: i32 = 4;

/// A message that changes the file, not answered yet.
struct Write {
    unique: u64,
    data: Vec<u8>,
}

/// A program, and the word to read.
struct Program {
    thread: JoinHandle<Vec<u8>>,
    read: Sender<()>,
}

struct Daemon {
    directory: TempDir,
    device: OwnedFd,
    contents: Vec<u8>,
    buffer: Vec<u64>,
}

impl Daemon {
    /// `None` if this machine or user cannot mount.
    fn new(test: &str) -> Option<Daemon> {
        if !can_mount(test) {
            return None;
        }
        if !is_root() {
            skip(test, "only root mounts without a helper");
            return None;
        }
        let directory = TempDir::new().expect("a directory to mount on");
        let device = rustix::fs::open("/dev/fuse", OFlags::RDWR, Mode::empty()).expect("/dev/fuse");
        let fd = device.as_raw_fd();
        let options = format!("fd={fd},rootmode=40000,user_id=0,group_id=0\0");
        let options = std::ffi::CStr::from_bytes_with_nul(options.as_bytes()).unwrap();
        rustix::mount::mount("test", directory.path(), "fuse", MountFlags::empty(), options)
            .expect("mounting");
        let terms = Terms {
            required: InitFlags::NO_OPEN_SUPPORT
                | InitFlags::BIG_WRITES
                | InitFlags::EXPLICIT_INVAL_DATA
                | InitFlags::HANDLE_KILLPRIV_V2,
            wanted: InitFlags::empty(),
            message_bytes_max: 1 << 20,
            background_max: 16,
            congested: 12,
        };
        let same = device.try_clone().expect("a descriptor");
        Session::begin(same, &terms, None).expect("INIT");
        Some(Daemon { directory, device, contents: Vec::new(), buffer: vec![0; (1 << 17) + 512] })
    }

    /// Opens the file, writes each of these at its beginning, and reads it when it is told to.
    fn program(&self, writes: &'static [(u8, usize)]) -> Program {
        let path: PathBuf = self.directory.path().join("file");
        let (read, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let file = OpenOptions::new().read(true).write(true).open(path).expect("the file");
            for &(byte, len_bytes) in writes {
                file.write_all_at(&vec![byte; len_bytes], 0).expect("a write");
            }
            told.recv().expect("the test goes on");
            let mut seen = vec![0; writes[0].1];
            file.read_exact_at(&mut seen, 0).expect("a read");
            seen
        });
        Program { thread, read }
    }

    fn attr(&self, ino: u64) -> Attr {
        let (kind, size) = match ino {
            ROOT => (libc::S_IFDIR, 0),
            _ => (libc::S_IFREG, self.contents.len() as u64),
        };
        Attr { ino, size, mode: kind | 0o755, nlink: 1, blksize: PAGE as u32, ..Attr::default() }
    }

    /// Whether there is a message within 10 ms.
    fn has_message(&self) -> bool {
        let mut polled = [PollFd::new(&self.device, PollFlags::IN)];
        let wait = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
        poll(&mut polled, Some(&wait)).expect("poll") > 0
    }

    /// Takes a message. Answers it, unless it is a WRITE.
    fn take(&mut self) -> Option<Write> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let len = rustix::io::read(&self.device, buffer.as_mut_slice().as_mut_bytes()).unwrap();
        let (header, body) = split(&buffer.as_bytes()[..len]).expect("a message");
        let request = decode(header, body).expect("a known message");
        let write = match request.operation {
            Operation::Write(_, data) => Some(Write { unique: header.unique, data: data.to_vec() }),
            _ => {
                self.answer_other(header.unique, &request);
                None
            }
        };
        self.buffer = buffer;
        write
    }

    fn answer_other(&self, unique: u64, request: &Request<'_>) {
        match request.operation {
            Operation::Lookup { name: b"file" } => {
                self.answer(unique, 0, entry(self.attr(FILE), 0).as_bytes())
            }
            Operation::Lookup { .. } => self.answer(unique, 0, absent().as_bytes()),
            Operation::Getattr => {
                self.answer(unique, 0, attributes(self.attr(request.ino)).as_bytes())
            }
            Operation::Read(_) => self.answer(unique, 0, &self.contents),
            Operation::Getxattr { .. } => self.answer(unique, libc::ENODATA, &[]),
            Operation::Forget { .. } | Operation::BatchForget(_) => {}
            _ => self.answer(unique, libc::ENOSYS, &[]),
        }
    }

    fn answer(&self, unique: u64, errno: i32, body: &[u8]) {
        send(&self.device, -errno, unique, body);
    }

    /// Serves until a WRITE comes, and puts its data in the file.
    fn next_write(&mut self) -> Write {
        loop {
            if let Some(write) = self.take() {
                let len = write.data.len();
                self.contents.resize(self.contents.len().max(len), 0);
                self.contents[..len].copy_from_slice(&write.data);
                return write;
            }
        }
    }

    fn answer_write(&self, write: &Write) {
        let out = WriteOut { size: write.data.len() as u32, padding: 0 };
        self.answer(write.unique, 0, out.as_bytes());
    }

    /// What the program reads.
    fn seen(&mut self, program: Program) -> Vec<u8> {
        program.read.send(()).expect("the program waits");
        while !program.thread.is_finished() {
            if self.has_message() {
                assert!(self.take().is_none(), "all writes were answered");
            }
        }
        program.thread.join().expect("the program")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.directory.path(), UnmountFlags::DETACH);
    }
}

fn send(device: impl AsFd, error: i32, unique: u64, body: &[u8]) {
    let len = (size_of::<OutHeader>() + body.len()) as u32;
    let message = [OutHeader { len, error, unique }.as_bytes(), body].concat();
    rustix::io::write(device, &message).expect("the kernel takes it");
}

/// Stores the beginning of the file in the kernel's cache.
fn store(device: impl AsFd, data: &[u8]) {
    // nodeid, offset, size, padding.
    let head = [FILE, 0, data.len() as u64];
    send(device, NOTIFY_STORE, 0, &[head.as_bytes(), data].concat());
}

/// The kernel knows the whole page: the store replaces what the program has written, before the
/// daemon has got it.
#[test]
fn a_store_replaces_a_write_that_the_daemon_has_not_taken() {
    let name = "a_store_replaces_a_write_that_the_daemon_has_not_taken";
    let Some(mut daemon) = Daemon::new(name) else {
        return;
    };
    let program = daemon.program(&[(1, PAGE), (1, PAGE), (2, PAGE)]);
    for _ in 0..2 {
        let write = daemon.next_write();
        daemon.answer_write(&write);
    }
    // The first write has asked for capabilities, and none has asked for attributes since. So the
    // next message is the third write.
    while !daemon.has_message() {}
    store(&daemon.device, &[1; PAGE]);
    let write = daemon.next_write();
    daemon.answer_write(&write);
    assert!(write.data == [1; PAGE], "the program wrote twos: stores may be safe by now");
    assert!(daemon.seen(program) == [1; PAGE], "and nobody sees them");
}

/// The kernel knows a part of the page: the store waits for the write, and then puts the older
/// contents in its place, for good.
#[test]
fn a_store_that_waits_for_a_write_replaces_it() {
    const LEN: usize = 100;
    let Some(mut daemon) = Daemon::new("a_store_that_waits_for_a_write_replaces_it") else {
        return;
    };
    let program = daemon.program(&[(1, LEN), (2, LEN)]);
    let write = daemon.next_write();
    daemon.answer_write(&write);
    let old = daemon.contents.clone();
    let write = daemon.next_write();
    let device = daemon.device.try_clone().expect("a descriptor");
    let storing = std::thread::spawn(move || store(&device, &old));
    daemon.answer_write(&write);
    storing.join().expect("the store");
    assert!(daemon.contents == [2; LEN]);
    assert!(daemon.seen(program) == [1; LEN], "a reader sees twos: stores may be safe by now");
}
