//! The backend of Terrace: files that the daemon of a mount lends (`terrace-direct`).

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use terrace_direct::{
    DirectFile, Fault, Mount, Mounts, NoMount, NotLent, PIECE_BYTES_MAX, Patient, Piece, identity,
    with_room,
};

use crate::backend::{Attributes, Carried, File, Files, ProgramBytes, Reason, Refusal};
use crate::{memory, opens, raw};

/// The backend.
#[derive(Debug)]
pub(crate) struct Lent;

#[derive(Debug, Default)]
struct Known {
    mounts: Mounts,
    files: HashMap<(u64, u64), &'static OneFile>,
}

static KNOWN: LazyLock<Patient<Known>> = LazyLock::new(|| Patient::new(Known::default()));
/// How long a thread waits for another one that asks for a file, or connects to a mount.
const PATIENCE: Duration = Duration::from_secs(1);

/// One file.
#[derive(Debug)]
struct OneFile(DirectFile);

fn reason(of: terrace_direct::Reason) -> Reason {
    match of {
        terrace_direct::Reason::Ended => Reason::OtherProcess,
        terrace_direct::Reason::Busy => Reason::Abandoned,
        terrace_direct::Reason::Renew => Reason::NoRoom,
        terrace_direct::Reason::NotInPm => Reason::NotInPm,
        terrace_direct::Reason::NotLent(why) => reason_not_lent(why),
        terrace_direct::Reason::Damaged => Reason::Refused,
    }
}

fn reason_not_lent(why: NotLent) -> Reason {
    match why {
        NotLent::Off | NotLent::NotAFile | NotLent::Privileged => Reason::Refused,
        NotLent::Pinned | NotLent::NotInPm | NotLent::Asynchronous => Reason::NotInPm,
        NotLent::NoRoom => Reason::NoRoom,
        NotLent::Moving | NotLent::Elsewhere => Reason::OtherProcess,
    }
}

/// Calls `with` with what is known. `None`: a thread has left in the middle of that.
fn known<T>(with: impl FnOnce(&mut Known) -> T) -> Option<T> {
    KNOWN.with(PATIENCE, with)
}

/// A file, by device and inode number, if it is known.
fn known_file(device: u64, ino: u64) -> Option<Option<&'static OneFile>> {
    known(|known| known.files.get(&(device, ino)).copied())
}

/// How many open files of an inode this process has to itself.
fn own_opens(of: &DirectFile) -> u64 {
    let file = known_file(of.mount().device(), of.ino()).flatten();
    file.map_or(0, |file| opens::of(file))
}

fn refusal(of: terrace_direct::Refusal) -> Refusal {
    match of {
        terrace_direct::Refusal::Errno(errno) => Refusal::Errno(errno),
        terrace_direct::Refusal::Mount(why) => Refusal::Mount(reason(why)),
    }
}

/// Whether a call may go direct: it may need memory.
#[inline(always)]
fn has_memory() -> Carried<()> {
    if memory::is_short() { Err(Refusal::Mount(Reason::NoRoom)) } else { Ok(()) }
}

/// Mounts that are told of opens. None is ever freed.
static TOLD: [AtomicPtr<Mount>; 8] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 8];

fn told() -> impl Iterator<Item = &'static Mount> {
    // SAFETY: what stands there was leaked.
    TOLD.iter().filter_map(|mount| unsafe { mount.load(Ordering::Acquire).as_ref() })
}

/// A mount is told of opens from now on, in place of one whose daemon has gone. If there are many,
/// it is not.
fn tell(mount: &Arc<Mount>) {
    if told().any(|known| std::ptr::eq(known, Arc::as_ptr(mount))) {
        return;
    }
    let is_free = |place: &&AtomicPtr<Mount>| place.load(Ordering::Acquire).is_null();
    // SAFETY: what stands there was leaked.
    let other = |place: &AtomicPtr<Mount>| unsafe { place.load(Ordering::Acquire).as_ref() };
    let is_gone = |place: &&AtomicPtr<Mount>| {
        other(place).is_some_and(|mount| mount.is_alive() == Some(false))
    };
    let place = TOLD.iter().find(is_free).or_else(|| TOLD.iter().find(is_gone));
    if let Some(place) = place {
        place.store(Arc::into_raw(Arc::clone(mount)).cast_mut(), Ordering::Release);
    }
}

/// Device and inode number of a regular file.
fn identity_of(fd: RawFd) -> Option<(u64, u64)> {
    // SAFETY: the program has the descriptor open: it makes a call with it.
    identity(unsafe { BorrowedFd::borrow_raw(fd) })
}

/// The mount of a descriptor. It is told of opens from now on.
fn mount(known: &mut Known, fd: RawFd, device: u64) -> Result<Arc<Mount>, Reason> {
    // SAFETY: the program has the descriptor open: it makes a call with it.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let mount = known.mounts.of(fd, device).map_err(|why| match why {
        NoMount::NotOurs => Reason::NotOurs,
        NoMount::Refused => Reason::Refused,
    })?;
    tell(&mount);
    Ok(mount)
}

/// The file of a descriptor.
fn find(fd: RawFd) -> Result<&'static OneFile, Reason> {
    let (device, ino) = identity_of(fd).ok_or(Reason::NotOurs)?;
    known(|known| {
        let mount = mount(known, fd, device)?;
        if let Some(file) = known.files.get(&(device, ino))
            && Arc::ptr_eq(file.0.mount(), &mount)
        {
            return Ok(*file);
        }
        let file: &'static OneFile =
            Box::leak(Box::new(OneFile(DirectFile::new(mount, ino, own_opens))));
        known.files.insert((device, ino), file);
        Ok(file)
    })
    .unwrap_or(Err(Reason::Refused))
}

impl Files for Lent {
    fn adopt(&self, fd: RawFd) -> Result<&'static dyn File, Reason> {
        if memory::is_still_short() {
            return Err(Reason::NoRoom);
        }
        let file = find(fd)?;
        file.0.take_up();
        Ok(file)
    }

    fn is_of_a_mount(&self, fd: RawFd) -> bool {
        let mounts = |device| known(|known| mount(known, fd, device).is_ok());
        identity_of(fd).and_then(|(device, _)| mounts(device)) == Some(true)
    }

    fn get_to_know(&self, fd: RawFd) {
        if !memory::is_short()
            && let Some((device, _)) = identity_of(fd)
        {
            known(|known| mount(known, fd, device).map(drop));
        }
    }

    #[inline]
    fn announce(&self, thread: u32) -> bool {
        !memory::is_short() && told().filter(|mount| mount.announce(thread)).count() > 0
    }

    #[inline]
    fn withdraw(&self, thread: u32) {
        told().for_each(|mount| mount.withdraw(thread));
    }

    fn is_here(&self, fd: RawFd) -> bool {
        let Some((device, ino)) = identity_of(fd) else { return false };
        let mut mounts = told().filter(|mount| mount.device() == device).peekable();
        if mounts.peek().is_none() {
            return false;
        }
        match known_file(device, ino) {
            Some(Some(file)) if file.0.is_here() => true,
            Some(_) => mounts.any(|mount| mount.find(ino).is_some()),
            // It may be: it is given back then.
            None => true,
        }
    }

    fn has_any(&self) -> bool {
        told().next().is_some()
    }

    fn attributes(&self, device: u64, ino: u64) -> Option<Attributes> {
        told().find(|mount| mount.device() == device)?;
        known_file(device, ino)??.attributes()
    }

    fn hand_back(&self, fd: RawFd) {
        if let Ok(file) = find(fd) {
            file.0.take_up();
            file.leave(fd);
            file.come_back();
        } else if let Some((device, ino)) = identity_of(fd) {
            let mounts = told().filter(|mount| mount.device() == device);
            mounts.for_each(|mount| mount.give_back(ino));
        }
    }
}

impl OneFile {
    /// Writes the program's bytes, which are copied before anything else is done with them.
    fn write(&self, offset: Option<u64>, from: &ProgramBytes<'_>) -> Carried<(u64, usize)> {
        if from.len() > PIECE_BYTES_MAX {
            // It belongs on a disk, and a part of it alone would be a short write.
            return Err(Refusal::Mount(Reason::NotInPm));
        }
        has_memory()?;
        let written = with_room(from.len(), memory::Room::of_kernel, |room| {
            self.write_from(room, offset, from)
        });
        written.unwrap_or(Err(Refusal::Mount(Reason::NoRoom)))
    }

    #[inline(always)]
    fn write_from(
        &self,
        room: &mut [MaybeUninit<u8>],
        offset: Option<u64>,
        from: &ProgramBytes<'_>,
    ) -> Carried<(u64, usize)> {
        let len = from.len();
        // SAFETY: `room` has so many bytes, and nobody else has it.
        unsafe { from.copy_in(0, room.as_mut_ptr().cast(), len) }?;
        // SAFETY: so many bytes were copied just now.
        let data = unsafe { std::slice::from_raw_parts(room.as_ptr().cast(), len) };
        self.0.write_at(offset, data).map(|at| (at, len)).map_err(refusal)
    }
}

impl File for OneFile {
    fn read_at(&self, offset: u64, into: &ProgramBytes<'_>) -> Carried<usize> {
        has_memory()?;
        let mut give = |at: usize, piece: Piece<'_>| {
            // SAFETY: the piece can be read, and all of them are no more bytes than were asked for.
            unsafe { into.copy_out(at, piece.as_ptr(), piece.len()) }.map_err(|_| Fault)
        };
        self.0.read_at(offset, into.len(), &mut give).map_err(refusal)
    }

    fn write_at(&self, offset: u64, from: &ProgramBytes<'_>) -> Carried<usize> {
        self.write(Some(offset), from).map(|(_, len)| len)
    }

    fn append(&self, from: &ProgramBytes<'_>) -> Carried<(u64, usize)> {
        self.write(None, from)
    }

    fn size(&self) -> Carried<u64> {
        has_memory()?;
        self.0.size().map_err(refusal)
    }

    fn attributes(&self) -> Option<Attributes> {
        let (size, blocks_512, mtime_ns) = self.0.attributes()?;
        Some(Attributes { size, blocks_512, mtime_ns })
    }

    fn sync(&self) -> Carried<()> {
        has_memory()?;
        self.0.sync().map_err(refusal)
    }

    fn truncate(&self, size: u64) -> Carried<()> {
        has_memory()?;
        self.0.truncate(size).map_err(refusal)
    }

    fn leave(&self, fd: RawFd) {
        self.0.leave(|| raw::ask_attributes(fd));
    }

    fn come_back(&self) {
        self.0.come_back();
    }
}
