//! How a descriptor changes its way: what is thought of a number, and why.

use std::ffi::c_int;
use std::os::fd::RawFd;
use std::sync::atomic::{
    AtomicU32,
    Ordering::{Relaxed, SeqCst},
};

use crate::backend::Reason;
use crate::description::{APPEND, Description, READABLE, SYNC, WRITABLE};
use crate::holds::{self, Hold, Taking, Why};
use crate::inode::Inode;
use crate::provider::files;
use crate::table::{self, Entry, Passing};
use crate::word::{Cell, UnderWay, Word};
use crate::{patterns, raw, report, switch, thread};

/// The C library's buffered files use these numbers without asking.
const STDERR: RawFd = libc::STDERR_FILENO;

/// Opens a file by a call that gives its number, or -1.
#[inline]
pub(crate) fn open(call: impl FnOnce() -> c_int) -> c_int {
    // What a signal handler opens in the middle of a call, or the backend for itself, stays on the
    // mount. Where the user chooses files, most that are made stay there, too.
    let may_go_direct = switch::on() && !thread::is_inside();
    let announced =
        may_go_direct && thread::may_enter() && !patterns::any() && files().announce(thread::id());
    thread::set_announced(announced);
    let fd = call();
    withdraw();
    if fd >= 0 {
        match may_go_direct && fd > STDERR {
            true => opened(fd),
            false => forget(fd, Reason::Foreign),
        }
        if announced {
            meet(fd);
        }
    }
    fd
}

/// What this thread opens next is not announced. It may have left an open by a jump.
#[inline]
pub(crate) fn withdraw() {
    if thread::set_announced(false) && switch::on() {
        files().withdraw(thread::id());
    }
}

/// Calls on files that have had few each: reads, and four for a write.
static FEW: AtomicU32 = AtomicU32::new(0);
/// After so many, that is 16 writes of new files, say, the backend gets to know one of the files.
const FEW_MAX: u32 = 64;

/// Counts a call on a file that has had few. A program such as a mail server writes each of many
/// files by one call: none of them would ever be asked for.
#[inline]
pub(crate) fn count_few(fd: RawFd, weight: u16) {
    let weight = u32::from(weight);
    let before = FEW.fetch_add(weight, Relaxed);
    if before % FEW_MAX + weight >= FEW_MAX
        && let Some(_inside) = thread::enter()
        && switch::on()
        && !patterns::any()
    {
        files().get_to_know(fd);
    }
}

fn opened(fd: RawFd) {
    if let Some(entry) = table::make(fd) {
        set(entry, |word| word.then_mount(Reason::Few));
    }
}

/// A file that was opened may be with this process already: then it goes direct at once, or is
/// handed back.
fn meet(fd: RawFd) {
    let Some(_inside) = thread::enter() else { return };
    if !files().is_here(fd) {
        return;
    }
    if let Some(entry) = table::entry(fd)
        && !entry.cell.load().stays()
    {
        take(fd, entry, None, entry.cell.load());
    }
    if direct(fd).is_none() {
        files().hand_back(fd);
    }
}

/// A number means something else from now on, or nothing; it stays on the mount.
#[inline]
pub(crate) fn forget(fd: RawFd, reason: Reason) {
    if let Some(entry) = table::entry(fd)
        && (entry.cell.load() != Word::default() || !entry.line.load(Relaxed).is_null())
    {
        set(entry, |word| word.then_mount(reason));
    }
}

/// Numbers are about to mean something else, or nothing. The call that does this may fail, so the
/// kernel gets their positions.
pub(crate) fn forget_from(first: RawFd, last: RawFd) {
    let gone = first..=last;
    for (fd, _) in table::all().filter(|(fd, _)| gone.contains(fd)) {
        put_back(fd, Reason::Few);
        forget(fd, Reason::Foreign);
    }
}

/// `new`, which is open, is about to become another number of `old` by a call, which may fail.
/// Other threads may use `new` all the time: until it is known what it means, all calls of both
/// numbers take the mount, from the kernel's positions.
pub(crate) fn replace(old: RawFd, new: RawFd, call: impl FnOnce() -> c_int) -> c_int {
    let _held = Hold::begin(Why::Changing);
    put_back(old, Reason::Few);
    put_back(new, Reason::Few);
    // Nobody counts system calls of a number that stays on the mount.
    let is_counted = may_go_direct(new);
    let result = call();
    if result >= 0 {
        duplicated(old, new);
        let entry = table::entry(new);
        if !is_counted || entry.is_some_and(|entry| !entry.turn()) {
            put_back(new, Reason::Abandoned);
        }
    }
    result
}

/// Changes an entry, and lets go of the description that it referred to. The number may mean
/// another file as soon as this returns, so this waits for a thread that is telling the kernel the
/// position.
fn set(entry: &Entry, new: impl Fn(Word) -> Word) {
    entry.line.store(std::ptr::null_mut(), Relaxed);
    let before = entry.cell.load().description().map(Description::at);
    // A thread in the middle of a call of its own must not wait for itself.
    let inside = before.and_then(|_| thread::enter());
    let locked = inside.as_ref().and(before).and_then(Description::lock);
    let old = entry.cell.change(new).description();
    drop(locked);
    old.into_iter().for_each(|address| Description::at(address).release());
}

/// A call has made `new` another number of `old`.
pub(crate) fn duplicated(old: RawFd, new: RawFd) {
    let Some(entry) = table::entry(old) else { return forget(new, Reason::Foreign) };
    if new <= STDERR {
        put_back(old, Reason::Stdio);
    }
    let Some(description) = description(entry) else {
        let reason = entry.cell.load().reason().filter(|reason| reason.patience().is_none());
        return forget(new, reason.unwrap_or(Reason::Foreign));
    };
    let line = entry.line.load(Relaxed);
    match table::make(new).filter(|_| description.share()) {
        Some(entry) => {
            set(entry, |word| word.then_description(description.address()));
            entry.line.store(line, Relaxed);
        }
        None => put_back(old, Reason::Foreign),
    }
}

/// The description of an entry, made if it has none. `None` if it stays on the mount anyway.
fn description(entry: &Entry) -> Option<&'static Description> {
    loop {
        let word = entry.cell.load();
        if let Some(address) = word.description() {
            return Some(Description::at(address));
        }
        if word.stays() {
            return None;
        }
        let made = Description::take()?;
        made.state.change(|state| state.then_mount(word.reason().unwrap_or(Reason::Foreign)));
        if entry.cell.replace(word, word.then_description(made.address())) {
            return Some(made);
        }
        made.release();
    }
}

/// Asks the backend for the file of a descriptor, whose state is in a cell: that of the entry, or
/// of the description. Does nothing if a call changes the state meanwhile; a later call asks again.
#[cold]
pub(crate) fn adopt(fd: RawFd, entry: &Entry, shared: Option<&'static Description>) {
    let seen = shared.map_or(&entry.cell, |description| &description.state).load();
    if seen.due() {
        take(fd, entry, shared, seen);
    }
}

/// Lets a descriptor go direct, if the backend gives its file, and nothing has changed its state.
fn take(fd: RawFd, entry: &Entry, shared: Option<&'static Description>, seen: Word) {
    let _taking = Taking::begin();
    if holds::held().is_some() {
        return;
    }
    try_to_take(fd, entry, shared, seen);
    // A thread that forks, say, may have waited for this in vain.
    if let (Some(reason), Some(description)) = (holds::held(), direct(fd)) {
        let _locked = description.lock();
        leave(fd, description, reason);
    }
}

fn try_to_take(fd: RawFd, entry: &Entry, shared: Option<&'static Description>, seen: Word) {
    let cell = shared.map_or(&entry.cell, |description| &description.state);
    report::name(fd, &entry.line);
    let refuse = |reason| {
        cell.replace(seen, seen.refused(reason));
    };
    let (inode, flags, position) = match look(fd) {
        Ok(found) => found,
        Err(reason) => {
            let is_ours = match reason {
                Reason::NotOurs => false,
                // Nobody has asked the backend.
                Reason::Excluded | Reason::Flags => report::asked() && files().is_of_a_mount(fd),
                _ => true,
            };
            if is_ours {
                report::known(&entry.line);
            }
            return refuse(reason);
        }
    };
    report::known(&entry.line);
    let Some(description) = shared.or_else(Description::take) else {
        return refuse(Reason::NoRoom);
    };
    // Two threads that adopt one description must not mix.
    if let Some(_locked) = description.try_lock() {
        let fresh = |cell: &Cell, seen: Word, new: Word| {
            description.set_inode(inode);
            description.flags.store(flags, Relaxed);
            description.position.store(position, Relaxed);
            cell.replace(seen, new)
        };
        if shared.is_some() {
            if cell.load() == seen {
                fresh(cell, seen, seen.then_direct());
            }
            return;
        }
        description.state.change(Word::then_direct);
        if fresh(cell, seen, seen.then_description(description.address())) {
            return;
        }
    }
    if shared.is_none() {
        description.release();
    }
}

/// Looks at a descriptor: its file, flags and position.
fn look(fd: RawFd) -> Result<(&'static Inode, u32, u64), Reason> {
    let flags = c_int::try_from(raw::flags(fd)).map_err(|_| Reason::NotOurs)?;
    if flags < 0 {
        return Err(Reason::NotOurs);
    }
    if flags & libc::O_PATH != 0 {
        return Err(Reason::Flags);
    }
    if patterns::excluded(fd) {
        return Err(Reason::Excluded);
    }
    let inode = Inode::of(files().adopt(fd)?).ok_or(Reason::NoRoom)?;
    if let Some(reason) = inode.kept_off() {
        return Err(reason);
    }
    let position = u64::try_from(raw::lseek(fd, 0, libc::SEEK_CUR)).map_err(|_| Reason::NotOurs)?;
    Ok((inode, own_flags(flags), position))
}

/// The flags of a description, from those of the kernel.
pub(crate) fn own_flags(flags: c_int) -> u32 {
    let access = match flags & libc::O_ACCMODE {
        libc::O_RDONLY => READABLE,
        libc::O_WRONLY => WRITABLE,
        _ => READABLE | WRITABLE,
    };
    let append = if flags & libc::O_APPEND != 0 { APPEND } else { 0 };
    let sync = if flags & libc::O_DSYNC != 0 { SYNC } else { 0 };
    access | append | sync
}

/// The entry of a number. If calls are counted, one that was not opened here gets one, too.
#[inline(always)]
pub(crate) fn entry(fd: RawFd) -> Option<&'static Entry> {
    table::entry(fd).or_else(|| if report::asked() { table::make(fd) } else { None })
}

/// A call of a number takes the mount, as this word says: its file gets a line in the report. One
/// that nobody asks the backend for belongs there if it lies on a mount.
#[inline]
pub(crate) fn report(fd: RawFd, entry: &Entry, word: Word) {
    if !report::asked() || !entry.line.load(Relaxed).is_null() {
        return;
    }
    report::name(fd, &entry.line);
    if word.stays()
        && let Some(_inside) = thread::enter()
        && files().is_of_a_mount(fd)
    {
        report::known(&entry.line);
    }
}

/// Whether calls of a number take the mount, and nobody wants to know. Most descriptors of most
/// programs are so: this comes before anything else.
#[inline(always)]
pub(crate) fn on_mount(fd: RawFd) -> bool {
    table::entry(fd).is_none_or(|entry| entry.cell.load().stays()) && !report::asked()
}

/// Whether a number goes direct, or may do so later.
#[inline]
pub(crate) fn may_go_direct(fd: RawFd) -> bool {
    table::entry(fd).is_some_and(|entry| !entry.cell.load().stays())
}

/// A call that uses the kernel's position is about to begin: as long as the result lives, the
/// number does not go direct. `None`: it does already.
pub(crate) fn positioned(fd: RawFd) -> Option<(Option<Passing>, Option<UnderWay<'static>>)> {
    let Some(entry) = table::entry(fd) else { return Some((None, None)) };
    let passing = entry.pass();
    let word = entry.cell.load();
    let cell = word.description().map_or(&entry.cell, |at| &Description::at(at).state);
    let way = cell.count(0, true);
    // A number that stays on the mount needs no count.
    (way.is_some() || cell.load().stays()).then_some((Some(passing), way))
}

/// The description of a number that goes direct.
#[inline]
pub(crate) fn direct(fd: RawFd) -> Option<&'static Description> {
    let word = table::entry(fd)?.cell.load();
    let description = Description::at(word.description()?);
    description.state.load().is_direct().then_some(description)
}

/// Lets a descriptor take the mount from now on. The kernel gets the position first.
pub(crate) fn put_back(fd: RawFd, reason: Reason) {
    let Some(entry) = table::entry(fd) else { return };
    let (word, address) = loop {
        let word = entry.cell.load();
        if let Some(address) = word.description() {
            break (word, address);
        }
        // It did not go direct yet, and a reason that passes is none to ask later.
        if reason.patience().is_some() {
            return;
        }
        entry.cell.keep_off(reason);
        // Another thread may have let it go direct just before.
        if entry.cell.load().description().is_none() {
            return;
        }
    };
    let description = Description::at(address);
    // A thread in the middle of a call of its own must not wait for itself.
    let inside = thread::enter();
    let _locked = inside.as_ref().and_then(|_| description.lock());
    // Another thread may have closed the number, and opened another file.
    if entry.cell.load() == word {
        leave(fd, description, reason);
    }
}

/// The same, without the lock: its holder may be gone.
pub(crate) fn leave(fd: RawFd, description: &Description, reason: Reason) {
    let state = description.state.load();
    if state.is_direct() {
        // Until the state says so, a thread's call could take the file again, and would count this
        // open file among those that are the process's own.
        let _outside = Outside::of(fd, description);
        let _undisturbed = raw::Undisturbed::begin();
        // A signal handler may have put it back before.
        if description.state.load() != state {
            return;
        }
        tell_position(fd, description);
        description.state.replace(state, state.then_mount(reason));
        // The handler of another thread may have moved it before the state said so.
        while description.told.load(Relaxed) != description.position.load(SeqCst) {
            tell_position(fd, description);
        }
    } else if reason.patience().is_none() {
        description.state.keep_off(reason);
    }
}

/// The same, and the file stays on the mount during the system call that follows.
pub(crate) fn give_back(fd: RawFd, reason: Reason) -> Option<Outside> {
    let outside = direct(fd).and_then(|description| {
        if reason == Reason::Mapped {
            description.inode().into_iter().for_each(|inode| inode.keep_off(reason));
        }
        Outside::of(fd, description)
    });
    put_back(fd, reason);
    outside
}

/// A system call on a file that calls may take, as long as this lives.
#[derive(Debug)]
pub(crate) struct Outside(&'static Inode);

impl Outside {
    /// `None`: no call can take the file.
    pub(crate) fn of(fd: RawFd, description: &Description) -> Option<Self> {
        // A child has its parent's descriptors, not its files.
        let inode = description.inode().filter(|_| switch::on())?;
        inode.file.leave(fd);
        Some(Self(inode))
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        self.0.file.come_back();
    }
}

/// Lets the kernel know the position of a description.
fn tell_position(fd: RawFd, description: &Description) {
    let position = description.position.load(SeqCst);
    description.told.store(position, Relaxed);
    raw::lseek(fd, position as i64, libc::SEEK_SET);
}

/// Lets the kernel know the position. The descriptor stays where it is.
pub(crate) fn tell(fd: RawFd) {
    if let Some(description) = direct(fd) {
        let inside = thread::enter();
        let _locked = inside.as_ref().and_then(|_| description.lock());
        let _undisturbed = raw::Undisturbed::begin();
        if direct(fd).is_some_and(|now| std::ptr::eq(now, description)) {
            tell_position(fd, description);
        }
    }
}

/// Another program is about to have this process's descriptors.
pub(crate) fn leave_all() {
    for (fd, _) in table::all() {
        tell(fd);
        drop(direct(fd).and_then(|description| Outside::of(fd, description)));
    }
}

/// Another process is about to get descriptors: all, or those that survive an `exec`.
fn share_all(only_inherited: bool) {
    for (fd, entry) in table::all() {
        let word = entry.cell.load();
        if word.stays() {
            continue;
        }
        if !only_inherited || !raw::closes_on_exec(fd) {
            put_back(fd, Reason::Shared);
        }
    }
}

/// The same, for a call that makes a process: no descriptor becomes direct as long as the result
/// lives.
pub(crate) fn sharing(only_inherited: bool) -> Hold {
    let hold = Hold::begin(Why::Sharing);
    share_all(only_inherited);
    hold
}

/// Puts all descriptors back. They may become direct again when the result has gone.
pub(crate) fn hold_all() -> Hold {
    let hold = Hold::begin(Why::Changing);
    table::all().for_each(|(fd, _)| put_back(fd, Reason::Few));
    hold
}

/// This process is about to fork: the kernel gets all positions. The descriptors that the child
/// has, too, stay on the mount.
pub(crate) fn before_fork() {
    std::mem::forget(sharing(false));
}

/// It has, or has failed to. In the child, threads that were forking are none.
pub(crate) fn after_fork(is_child: bool) {
    if is_child {
        holds::in_child();
        turn_off(|_, _| {});
    } else {
        Hold::end(Why::Sharing);
    }
}

/// Turns everything off in a child that got the parent's memory by a fork that the library did not
/// see: positions are known here alone.
#[cold]
pub(crate) fn in_child() {
    turn_off(|fd, position| {
        raw::lseek(fd, position, libc::SEEK_SET);
    });
}

/// The kernel's positions are the parent's, too: they may be moved only if nobody else knows them.
fn turn_off(tell: impl Fn(RawFd, i64)) {
    if switch::fresh_child() {
        for (fd, entry) in table::all() {
            if let Some(address) = entry.cell.load().description() {
                let description = Description::at(address);
                let state = description.state.load();
                if state.is_direct() {
                    tell(fd, description.position.load(Relaxed) as i64);
                }
                description.state.replace(state, state.then_mount(Reason::Shared));
            }
        }
        report::clear();
    }
}
