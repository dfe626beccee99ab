//! One call that moves data: it goes direct if it may, or takes the mount.

use std::ffi::c_int;
use std::os::fd::RawFd;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::backend::{File, ProgramBytes, Reason, Refusal};
use crate::description::{APPEND, Description, READABLE, SYNC, WRITABLE};
use crate::state::Outside;
use crate::table::Entry;
use crate::thread::{self, Inside};
use crate::word::Word;
use crate::{raw, real, report, state, switch};

/// The kernel moves no more bytes by one call.
const MOST: usize = 0x7fff_f000;

/// A call that moves data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) fd: RawFd,
    pub(crate) write: bool,
    pub(crate) bytes: ProgramBytes<'a>,
    /// The offset that the program gives. `None`: the position of the descriptor.
    pub(crate) at: Option<i64>,
    /// Writes are durable before the call returns.
    pub(crate) sync: bool,
    /// It appends, whatever the offset.
    pub(crate) append: bool,
}

/// Carries a call out. `real(None)` is the system call as the program made it, `real(Some(at))` the
/// same at an offset.
#[inline(always)]
pub(crate) fn carry(call: &Call, real: impl Fn(Option<i64>) -> isize) -> isize {
    // A function that has something to clean up can be left at its calls only, not at any
    // instruction. This one has nothing.
    if thread::is_asynchronous() {
        return real(None);
    }
    carry_out(call, real)
}

#[inline(never)]
fn carry_out(call: &Call, real: impl Fn(Option<i64>) -> isize) -> isize {
    let Some(entry) = state::entry(call.fd) else { return real(None) };
    let word = entry.cell.load();
    // A call that would wait for ever in the kernel can be cancelled, so one that is carried can.
    if word.description().is_some() {
        real::testcancel();
    }
    let mut word = word;
    loop {
        let result = direct(call, entry, word, &real).or_else(|| mount(call, entry, &real));
        match result {
            Some(result) => return result,
            None => word = entry.cell.load(),
        }
    }
}

/// Goes direct. `None`: the call takes the mount, in which a thread is outside of the library.
#[inline(always)]
fn direct(
    call: &Call,
    entry: &'static Entry,
    mut word: Word,
    real: &impl Fn(Option<i64>) -> isize,
) -> Option<isize> {
    let Some(mut inside) = thread::enter() else { return nested(call, entry, real) };
    if !switch::on() {
        state::in_child();
        return None;
    }
    loop {
        let Some(address) = word.description() else {
            if !word.due() {
                return None;
            }
            state::adopt(call.fd, entry, None);
            let now = entry.cell.load();
            now.description()?;
            word = now;
            continue;
        };
        thread::be_reached();
        let description = Description::at(address);
        if !description.state.load().is_direct() {
            state::adopt(call.fd, entry, Some(description));
            if !description.state.load().is_direct() {
                return None;
            }
        }
        let result = match call.at {
            Some(at) => at_offset(call, entry, word, description, at, &mut inside),
            None => at_position(call, entry, word, description, &mut inside, real),
        };
        match result {
            Ok(result) => {
                report::count(&entry.line, Ok(()), result);
                return Some(result);
            }
            Err(Kept::Mount(reason, Some(result))) => {
                report::count(&entry.line, Err(reason), result);
                return Some(result);
            }
            Err(Kept::Mount(reason, None)) => {
                let _outside = Outside::of(call.fd, description);
                drop(inside);
                let result = real(None);
                report::count(&entry.line, Err(reason), result);
                return Some(result);
            }
            // The number means something else meanwhile.
            Err(Kept::Changed) => word = entry.cell.load(),
        }
    }
}

/// Why a call did not go direct.
enum Kept {
    /// It takes the mount, or has done so with a result.
    Mount(Reason, Option<isize>),
    /// The state was not as it was thought.
    Changed,
}

/// A call with an offset. It takes no lock.
#[inline(always)]
fn at_offset(
    call: &Call,
    entry: &Entry,
    word: Word,
    description: &Description,
    at: i64,
    inside: &mut Inside,
) -> Result<isize, Kept> {
    let inode = description.inode();
    let append = call.append || description.has(APPEND);
    let rules = Rules::of(call, description);
    // The description had its inode for this number all the time, if the number's word is the same.
    if entry.cell.load() != word {
        return Err(Kept::Changed);
    }
    let Some(inode) = inode else { return Err(Kept::Mount(Reason::Arguments, None)) };
    let moved = by_file(call, rules, inode.file, at, inside, || match (call.write, append) {
        (false, _) => inode.file.read_at(at as u64, &call.bytes).map(|len| (0, len)),
        (true, false) => inode.file.write_at(at as u64, &call.bytes).map(|len| (0, len)),
        (true, true) => inode.file.append(&call.bytes),
    });
    moved.map(|(_, len)| len).map_err(|reason| Kept::Mount(reason, None))
}

/// A call at the position of the descriptor, which its lock protects.
#[inline(always)]
fn at_position(
    call: &Call,
    entry: &Entry,
    word: Word,
    description: &Description,
    inside: &mut Inside,
    real: &impl Fn(Option<i64>) -> isize,
) -> Result<isize, Kept> {
    let Some(_locked) = description.lock() else {
        state::leave(call.fd, description, Reason::Abandoned);
        return Err(Kept::Changed);
    };
    let Some(inode) = description.inode() else { return Err(Kept::Changed) };
    let state = description.state.load();
    if entry.cell.load() != word || !state.is_direct() {
        return Err(Kept::Changed);
    }
    let append = call.append || description.has(APPEND);
    if call.write && append {
        return append_at_end(call, description, inode.file, inside, real);
    }
    let position = description.position.load(Relaxed);
    // From here on the position stands behind this call. A handler that comes in the middle goes on
    // from there, and no call that comes later must wait for a thread that never returns.
    let most = call.bytes.len().min(MOST);
    let behind = position.wrapping_add(most as u64);
    if description.position.compare_exchange(position, behind, SeqCst, Relaxed).is_err() {
        // A handler has moved it.
        return Err(Kept::Changed);
    }
    if description.state.load() != state {
        // A handler has put the descriptor back. If it came behind the step, the kernel's position
        // stands behind this call, too.
        if description.told.load(Relaxed) != behind {
            return Err(Kept::Changed);
        }
        let result = real(Some(position as i64));
        inside.keep_errno();
        return Err(Kept::Mount(Reason::Shared, Some(result)));
    }
    let result = moved_at(call, description, inode.file, position, inside, real);
    let (Ok(moved) | Err(Kept::Mount(_, Some(moved)))) = result else { return result };
    if moved != most as isize {
        let end = position + u64::try_from(moved).unwrap_or(0);
        let _ = description.position.compare_exchange(behind, end, Relaxed, Relaxed);
    }
    result
}

/// Reads or writes at a position that is the call's own.
#[inline(always)]
fn moved_at(
    call: &Call,
    description: &Description,
    file: &dyn File,
    position: u64,
    inside: &mut Inside,
    real: &impl Fn(Option<i64>) -> isize,
) -> Result<isize, Kept> {
    let rules = Rules::of(call, description);
    let moved = by_file(call, rules, file, position as i64, inside, || match call.write {
        false => file.read_at(position, &call.bytes).map(|len| (position, len)),
        true => file.write_at(position, &call.bytes).map(|len| (position, len)),
    });
    match moved {
        Ok((_, len)) => Ok(len),
        Err(reason) => {
            let _outside = Outside::of(call.fd, description);
            let result = real(Some(position as i64));
            inside.keep_errno();
            Err(Kept::Mount(reason, Some(result)))
        }
    }
}

/// Appends. The position is behind the bytes then.
fn append_at_end(
    call: &Call,
    description: &Description,
    file: &dyn File,
    inside: &mut Inside,
    real: &impl Fn(Option<i64>) -> isize,
) -> Result<isize, Kept> {
    let before = description.position.load(Relaxed);
    let rules = Rules::of(call, description);
    let reason = match by_file(call, rules, file, 0, inside, || file.append(&call.bytes)) {
        Ok((at, len)) => {
            if len > 0 {
                stand_behind(call.fd, description, before, at + len as u64);
            }
            return Ok(len);
        }
        Err(reason) => reason,
    };
    let _outside = Outside::of(call.fd, description);
    let result = real(None);
    inside.keep_errno();
    // The kernel knows where the end was.
    if result > 0
        && let Ok(position) = u64::try_from(raw::lseek(call.fd, 0, libc::SEEK_CUR))
    {
        description.appended(before, position);
    }
    Err(Kept::Mount(reason, Some(result)))
}

/// The position is behind bytes that were appended, up to `end`. It was `before`.
#[inline(always)]
fn stand_behind(fd: RawFd, description: &Description, before: u64, end: u64) {
    description.appended(before, end);
    // A handler may have put the descriptor back.
    if !description.state.load().is_direct() && (raw::lseek(fd, 0, libc::SEEK_CUR) as u64) < end {
        raw::lseek(fd, end as i64, libc::SEEK_SET);
    }
}

/// What the descriptor of a call says of it.
#[derive(Clone, Copy)]
struct Rules {
    /// It was opened for such a call.
    may: bool,
    /// Writes are durable before the call returns.
    sync: bool,
}

impl Rules {
    #[inline(always)]
    fn of(call: &Call, description: &Description) -> Self {
        let may = description.has(if call.write { WRITABLE } else { READABLE });
        Self { may, sync: call.sync || description.has(SYNC) }
    }
}

/// Has the file carry a call: where the bytes are, and the result of the call. An error is the
/// reason for which the kernel must.
#[inline(always)]
fn by_file(
    call: &Call,
    rules: Rules,
    file: &dyn File,
    at: i64,
    inside: &mut Inside,
    moved: impl FnOnce() -> Result<(u64, usize), Refusal>,
) -> Result<(u64, isize), Reason> {
    if !rules.may || !fits(call, at) {
        return Err(Reason::Arguments);
    }
    match moved().and_then(|(at, len)| Ok((at, synced(call, file, rules.sync, len)?))) {
        Ok((at, len)) => Ok((at, len as isize)),
        Err(refusal) => refused(refusal, inside).map(|failed| (0, failed)),
    }
}

/// Whether the kernel would take the offset and the length as they are.
#[inline(always)]
fn fits(call: &Call, at: i64) -> bool {
    let len = call.bytes.len();
    at >= 0 && len > 0 && len <= MOST && at.checked_add(len as i64).is_some()
}

/// Makes durable what a call has written, if it must be.
#[inline(always)]
fn synced(call: &Call, file: &dyn File, sync: bool, len: usize) -> Result<usize, Refusal> {
    if sync && call.write && len > 0 {
        // A refusal here must not repeat the write. The mount's own sync is as good.
        match file.sync() {
            Ok(()) => {}
            Err(Refusal::Errno(errno)) => return Err(Refusal::Errno(errno)),
            Err(Refusal::Mount(_)) => {
                // SAFETY: No memory is involved.
                let failed = unsafe { real::fdatasync(call.fd) } != 0;
                if failed {
                    return Err(Refusal::Errno(thread::errno()));
                }
            }
        }
    }
    Ok(len)
}

/// The result of a call that the backend refused: an error of the call, or else a system call is
/// needed, for this reason.
#[cold]
pub(crate) fn refused(refusal: Refusal, inside: &mut Inside) -> Result<isize, Reason> {
    match refusal {
        // The kernel says what becomes of the good part of a buffer.
        Refusal::Errno(libc::EFAULT) => Err(Reason::BadBuffer),
        Refusal::Errno(errno) => Ok(inside.fail(errno)),
        Refusal::Mount(reason) => Err(reason),
    }
}

/// A call in the middle of another one of the same thread. It takes no lock: the call around it may
/// have it. The position stands behind that call already.
#[cold]
fn nested(call: &Call, entry: &Entry, real: &impl Fn(Option<i64>) -> isize) -> Option<isize> {
    let description = Description::at(entry.cell.load().description()?);
    if call.at.is_some() || !description.state.load().is_direct() {
        return None;
    }
    let append = call.write && (call.append || description.has(APPEND));
    let result = if append {
        // The file may be the call's around it, but the kernel can know its size.
        raw::ask_attributes(call.fd);
        let before = description.position.load(Relaxed);
        let result = real(None);
        if result > 0
            && let Ok(position) = u64::try_from(raw::lseek(call.fd, 0, libc::SEEK_CUR))
        {
            description.appended(before, position);
        }
        result
    } else {
        // Another call may come in the middle of this one, and goes on behind it.
        let len = call.bytes.len().min(MOST) as u64;
        let position = description.position.fetch_add(len, SeqCst);
        // Another thread may have put it back before that.
        if !description.state.load().is_direct() {
            return None;
        }
        let result = real(Some(position as i64));
        let end = position + u64::try_from(result).unwrap_or(0);
        let behind = position.wrapping_add(len);
        let _ = description.position.compare_exchange(behind, end, Relaxed, Relaxed);
        result
    };
    report::count(&entry.line, Err(Reason::Nested), result);
    Some(result)
}

/// Takes the mount, and counts the call: after some the backend is asked. `None`: the descriptor
/// goes direct meanwhile, so the kernel's position is none.
#[inline(never)]
fn mount(
    call: &Call,
    entry: &'static Entry,
    real: &impl Fn(Option<i64>) -> isize,
) -> Option<isize> {
    let passing = call.at.is_none().then(|| entry.pass());
    let word = entry.cell.load();
    let cell = word.description().map_or(&entry.cell, |at| &Description::at(at).state);
    let weight = if call.write { 4 } else { 1 };
    let way = cell.count(weight, passing.is_some());
    if passing.is_some() && way.is_none() && !cell.load().stays() {
        return None;
    }
    state::report(call.fd, entry, cell.load());
    let reason = cell.load().reason().unwrap_or(Reason::Few);
    if reason == Reason::Few {
        state::count_few(call.fd, weight);
    }
    // Another descriptor of the file may go direct.
    let description = word.description().map(Description::at);
    let outside = description.and_then(|description| Outside::of(call.fd, description));
    let result = real(None);
    drop((outside, way, passing));
    report::count(&entry.line, Err(reason), result);
    Some(result)
}

/// An operation on the file itself, such as a sync: `None` if the mount must do it.
pub(crate) fn on_file(
    fd: RawFd,
    flag: u32,
    operation: impl FnOnce(&dyn File) -> Result<(), Refusal>,
) -> Option<c_int> {
    let description = state::direct(fd)?;
    let mut inside = thread::enter()?;
    if !switch::on() {
        state::in_child();
        return None;
    }
    let inode = description.inode()?;
    // Another thread may have closed the number and its description may serve another one.
    let same = state::direct(fd).is_some_and(|now| std::ptr::eq(now, description));
    if !same || flag != 0 && !description.has(flag) {
        return None;
    }
    match operation(inode.file) {
        Ok(()) => Some(0),
        Err(refusal) => refused(refusal, &mut inside).ok().map(|failed| failed as c_int),
    }
}
