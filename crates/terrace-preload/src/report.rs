//! The report at exit: which calls went direct and which took the mount, file by file, and why.
//!
//! Nothing is counted unless `TERRACE_REPORT` asks for it.

use std::fmt::Write as _;
use std::os::fd::RawFd;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};

use crate::backend::Reason;
use crate::environment::variable;
use crate::{patterns, raw, room};

/// Calls and the bytes that they moved.
#[derive(Debug)]
struct Count {
    calls: AtomicU64,
    bytes: AtomicU64,
}

impl Count {
    fn add(&self, result: isize) {
        self.calls.fetch_add(1, Relaxed);
        self.bytes.fetch_add(u64::try_from(result).unwrap_or(0), Relaxed);
    }

    fn get(&self) -> (u64, u64) {
        (self.calls.load(Relaxed), self.bytes.load(Relaxed))
    }
}

/// What is counted for one path.
#[derive(Debug)]
pub(crate) struct Line {
    path: [u8; 240],
    len: usize,
    /// Whether the backend has given the file, or a reason why it does not.
    known: AtomicBool,
    direct: Count,
    mount: [Count; Reason::ALL.len()],
    next: *mut Line,
}

static ASKED: AtomicBool = AtomicBool::new(false);
static LINES: AtomicPtr<Line> = AtomicPtr::new(std::ptr::null_mut());
/// The file that the report goes to; null: standard error.
static FILE: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());

/// Whether anybody wants the report.
#[inline(always)]
pub(crate) fn asked() -> bool {
    ASKED.load(Relaxed)
}

/// Looks whether anybody wants it.
pub(crate) fn start() {
    let Some(value) = variable(c"TERRACE_REPORT").filter(|value| !value.is_empty()) else {
        return;
    };
    if value == b"0" {
        return;
    }
    if value != b"1" {
        let Some(at) = room::map(value.len() + 1) else { return };
        // SAFETY: The mapping is new, one byte longer than the value, and zero behind it.
        unsafe { at.copy_from_nonoverlapping(value.as_ptr(), value.len()) };
        FILE.store(at, Relaxed);
    }
    ASKED.store(true, Relaxed);
}

/// Gives the file of a number its line.
pub(crate) fn name(fd: RawFd, place: &AtomicPtr<Line>) {
    if !asked() || !place.load(Relaxed).is_null() {
        return;
    }
    let mut buffer = [0; 4096];
    let Some(path) = patterns::path(fd, &mut buffer) else { return };
    if let Some(line) = line_of(path) {
        place.store(line, Relaxed);
    }
}

/// The backend knows the file of a number.
pub(crate) fn known(place: &AtomicPtr<Line>) {
    // SAFETY: As in `lines`.
    if let Some(line) = unsafe { place.load(Relaxed).as_ref() } {
        line.known.store(true, Relaxed);
    }
}

fn line_of(path: &[u8]) -> Option<*mut Line> {
    // The end of a long path tells more than its beginning.
    let path = &path[path.len().saturating_sub(240)..];
    loop {
        let first = LINES.load(Acquire);
        if let Some(line) = lines(first).find(|line| &line.path[..line.len] == path) {
            return Some(std::ptr::from_ref(line).cast_mut());
        }
        let fresh: *mut Line = room::take()?;
        // SAFETY: The memory is new and zero, which is a line, and nobody else knows it yet.
        let line = unsafe { &mut *fresh };
        line.path[..path.len()].copy_from_slice(path);
        line.len = path.len();
        line.next = first;
        if LINES.compare_exchange(first, fresh, AcqRel, Relaxed).is_ok() {
            return Some(fresh);
        }
    }
}

fn lines(first: *mut Line) -> impl Iterator<Item = &'static Line> {
    // SAFETY: Lines are never given back, and `next` does not change once others see a line.
    std::iter::successors(unsafe { first.as_ref() }, |line| unsafe { line.next.as_ref() })
}

/// Counts a call, if anybody wants to know.
#[inline(always)]
pub(crate) fn count(place: &AtomicPtr<Line>, why: Result<(), Reason>, result: isize) {
    if asked() {
        count_it(place, why, result);
    }
}

#[cold]
fn count_it(place: &AtomicPtr<Line>, why: Result<(), Reason>, result: isize) {
    // SAFETY: As in `lines`.
    if let Some(line) = unsafe { place.load(Relaxed).as_ref() } {
        match why {
            Ok(()) => line.direct.add(result),
            Err(reason) => line.mount[reason as usize].add(result),
        }
    }
}

/// Forgets all counts: they are the parent's.
pub(crate) fn clear() {
    for line in lines(LINES.load(Acquire)) {
        for count in line.mount.iter().chain([&line.direct]) {
            count.calls.store(0, Relaxed);
            count.bytes.store(0, Relaxed);
        }
        line.known.store(false, Relaxed);
    }
}

/// Prints the report, and begins a new one. A process that used no file of a mount says nothing.
pub(crate) fn print() {
    if !asked() {
        return;
    }
    let file = FILE.load(Relaxed);
    let mut out = Out { fd: libc::STDERR_FILENO, text: [0; 512], len: 0 };
    let mut begun = false;
    for line in lines(LINES.load(Acquire)).filter(|line| line.known.load(Relaxed)) {
        if !begun {
            begun = true;
            if !file.is_null() {
                out.fd = open(file);
            }
            let process = std::process::id();
            let _ = writeln!(out, "Terrace's direct path, process {process}: calls and bytes");
        }
        let _ = print_line(&mut out, line);
    }
    out.flush();
    if begun && !file.is_null() {
        // SAFETY: The number is this function's.
        unsafe { raw::call(libc::SYS_close, [out.fd as usize, 0, 0, 0, 0, 0]) };
    }
    clear();
}

fn open(file: *mut u8) -> RawFd {
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | libc::O_CLOEXEC;
    let at = libc::AT_FDCWD as usize;
    // SAFETY: The name ends with a zero.
    let fd =
        unsafe { raw::call(libc::SYS_openat, [at, file as usize, flags as usize, 0o644, 0, 0]) };
    RawFd::try_from(fd).unwrap_or(-1)
}

fn print_line(out: &mut Out, line: &Line) -> std::fmt::Result {
    let (calls, bytes) = line.direct.get();
    write!(out, "{calls:>10} {bytes:>14} direct")?;
    for reason in Reason::ALL {
        let (calls, bytes) = line.mount[reason as usize].get();
        if calls > 0 {
            write!(out, ", {calls} {bytes} mount ({})", reason.name())?;
        }
    }
    write!(out, "  ")?;
    out.bytes(&line.path[..line.len]);
    writeln!(out)
}

/// A small buffer before a descriptor: nothing here may allocate.
struct Out {
    fd: RawFd,
    text: [u8; 512],
    len: usize,
}

impl Out {
    fn bytes(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(self.text.len()) {
            if self.len + part.len() > self.text.len() {
                self.flush();
            }
            self.text[self.len..][..part.len()].copy_from_slice(part);
            self.len += part.len();
        }
    }

    fn flush(&mut self) {
        raw::write(self.fd, &self.text[..self.len]);
        self.len = 0;
    }
}

impl std::fmt::Write for Out {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.bytes(text.as_bytes());
        Ok(())
    }
}
