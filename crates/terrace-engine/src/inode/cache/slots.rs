//! The memory of the page cache: one mapping that holds a header, the slots' metadata and their
//! pages.
//!
//! ```text
//! 0          4 KiB                    page_start (4 KiB aligned)
//! | header   | 64 bytes per slot ...  | 4 KiB per slot ...
//! ```
//!
//! The mapping is anonymous, or a shared file that outlives the process. A process that dies leaves
//! its stores in program order, whatever the processor's caches held: so a page is published by
//! ordinary stores to its data and metadata and then a Release store of its state word (which keeps
//! the compiler from reordering them), and a reader of the file finds published pages whole. A
//! power cut is another matter: the header names the boot, and a file of an earlier boot is not
//! believed.
//!
//! Invariants:
//! * A page is written only by the owner of its blank slot, and never while the slot is published
//!   or pinned.
//! * The header's `magic` is stored last, so a file with it has a complete header.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::{fs, io};

use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use terrace_layout::BLOCK_BYTES;
use terrace_store::error::{FsError, FsResult};
use terrace_store::sync::atomic::Ordering;
use terrace_store::sync::mapped::{AtomicI64, AtomicU32, AtomicU64};

/// Bytes in a page of the cache.
pub(crate) const PAGE_BYTES: usize = BLOCK_BYTES as usize;
/// Number of a slot.
pub(super) type SlotId = u32;

/// State of a slot that holds nothing.
pub(super) const FREE: u32 = 0;
/// State of a slot whose page is on its device too.
pub(super) const CLEAN: u32 = 1;
/// State of a slot that holds the only copy of its page.
pub(super) const DIRTY: u32 = 2;

/// Publications of several pages that can be in progress at the same time.
pub(super) const IN_FLIGHT_MAX: usize = 64;
/// Sequence number of a publication of several pages in progress; 0 is none.
pub(super) type InFlight = AtomicU64;

const MAGIC: u64 = u64::from_le_bytes(*b"TERCACHE");
/// Number of the file's layout: pages that a daemon of another one left are not found.
pub const CACHE_LAYOUT: u32 = 1;
const HEADER_BYTES: usize = 4096;
const META_BYTES: usize = size_of::<SlotMeta>();
/// Slots that get their memory together (2 MiB: a huge page, where there are any). A new file has
/// memory for as many, so that a cache never has less, however full its file system gets.
pub(super) const GROW_SLOTS: u32 = 512;
/// More slots than this (16 TiB) no machine has memory for.
const SLOTS_MAX: u64 = u32::MAX as u64;

/// Whose cache a mapping is. Everything in it must be as expected, or the file is stale.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    version: u32,
    header_bytes: u32,
    uuid: [u8; 40],
    boot: [u8; 40],
}

impl Identity {
    /// The cache of this volume since this boot. `uuid` is part of a file name, hence checked.
    pub fn new(uuid: &str) -> FsResult<Identity> {
        let plain = uuid.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if !plain || uuid.is_empty() || uuid.len() > 40 {
            let message = format!("page cache: {uuid:?} is no volume UUID");
            return Err(FsError::with_message(libc::EINVAL, message));
        }
        // Where /proc is not mounted all boots look the same, which only matters to a file that is
        // not on tmpfs.
        let boot = fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        Ok(Identity {
            version: CACHE_LAYOUT,
            header_bytes: HEADER_BYTES as u32,
            uuid: padded(uuid.as_bytes()),
            boot: padded(&boot),
        })
    }
}

fn padded(bytes: &[u8]) -> [u8; 40] {
    let mut field = [0; 40];
    let len = bytes.len().min(40);
    field[..len].copy_from_slice(&bytes[..len]);
    field
}

/// The start of the mapping.
#[repr(C)]
struct Header {
    magic: AtomicU64,
    /// Slots that follow.
    count: AtomicU64,
    /// State of the volume that the dirty pages belong to.
    epoch: AtomicU64,
    in_flight: [InFlight; IN_FLIGHT_MAX],
    /// Written once, before `magic`.
    identity: Identity,
}

/// What a slot holds. Written by the slot's owner before the state is; only `size` and `state`
/// change later.
#[repr(C)]
#[derive(Default)]
pub(super) struct SlotMeta {
    pub state: AtomicU32,
    pub generation: AtomicU32,
    pub ino: AtomicU64,
    /// File block.
    pub block: AtomicU64,
    /// File size in bytes as of the write; a truncate lowers it.
    pub size: AtomicU64,
    pub mtime_ns: AtomicI64,
    /// Number of the write among all writes to the cache.
    pub seq: AtomicU64,
    reserved: [AtomicU64; 2],
}

const _: () = assert!(META_BYTES == 64 && size_of::<Header>() <= HEADER_BYTES);

/// The mapping.
pub(super) struct Slots {
    base: NonNull<u8>,
    len_bytes: usize,
    count: u32,
    /// The file behind it; `None`: anonymous.
    file: Option<OwnedFd>,
}

// SAFETY: the mapping belongs to this value; its words are atomics, and a page is reached through a
// raw pointer only, by whoever owns the slot (see the invariants above).
unsafe impl Send for Slots {}
// SAFETY: as for Send.
unsafe impl Sync for Slots {}

/// Bytes before the first page.
fn page_start(count: u32) -> usize {
    (HEADER_BYTES + count as usize * META_BYTES).next_multiple_of(PAGE_BYTES)
}

fn mapping_len(count: u32) -> usize {
    page_start(count) + count as usize * PAGE_BYTES
}

impl Slots {
    /// Slots that `budget_bytes` pay for.
    pub fn count_for(budget_bytes: u64) -> u32 {
        (budget_bytes / BLOCK_BYTES).min(SLOTS_MAX) as u32
    }

    /// Slots in anonymous memory, which is zeroed and comes when it is touched.
    pub fn anonymous(count: u32) -> FsResult<Slots> {
        let len_bytes = mapping_len(count);
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in
        // use.
        let base = unsafe {
            rustix::mm::mmap_anonymous(
                ptr::null_mut(),
                len_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                flags,
            )
        }
        .map_err(|errno| no_memory(len_bytes, errno))?;
        // Pages lie anywhere in it: with huge pages the processor finds them sooner. A kernel that
        // has none will do. SAFETY: the mapping was made just now, and the advice changes nothing
        // that is in it.
        let _ = unsafe { rustix::mm::madvise(base, len_bytes, rustix::mm::Advice::LinuxHugepage) };
        let base = NonNull::new(base.cast()).expect("a mapping is not at address 0");
        Ok(Slots { base, len_bytes, count, file: None })
    }

    /// Slots in a new file, as many of `wanted` as there is room to describe; `None` if there is no
    /// room for the fewest.
    pub fn create_with_room(
        path: &Path,
        wanted: u32,
        identity: &Identity,
        epoch: u64,
    ) -> FsResult<Option<Slots>> {
        let mut count = wanted;
        loop {
            match Slots::create(path, count, identity, epoch) {
                Err(error)
                    if [libc::ENOSPC, libc::ENOMEM, libc::EDQUOT].contains(&error.errno()) =>
                {
                    if count <= GROW_SLOTS {
                        return Ok(None);
                    }
                    count = (count / 2).max(GROW_SLOTS);
                }
                made => return made.map(Some),
            }
        }
    }

    /// Slots in a new file, which must not exist. It has memory for the first [`GROW_SLOTS`], and
    /// is sparse beyond: see [`Slots::back`].
    pub fn create(path: &Path, count: u32, identity: &Identity, epoch: u64) -> FsResult<Slots> {
        let failed = |errno: Errno| {
            let message = format!(
                "page cache: cannot create {}: {}; give the cache a directory in memory (such as \
                 /dev/shm) with room for it, or a smaller budget",
                path.display(),
                io::Error::from(errno)
            );
            FsError::with_message(errno.raw_os_error(), message)
        };
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
        let made = rustix::fs::ftruncate(&file, mapping_len(count) as u64)
            .and_then(|()| {
                allocate(&file, 0, page_start(count) + count.min(GROW_SLOTS) as usize * PAGE_BYTES)
            })
            .map_err(failed)
            .and_then(|()| Slots::map(file, count, ProtFlags::READ | ProtFlags::WRITE));
        let slots = made.inspect_err(|_| {
            // The error worth telling is the first one.
            let _ = rustix::fs::unlink(path);
        })?;
        let header = slots.header();
        header.count.store(count.into(), Ordering::Relaxed);
        slots.set_epoch(epoch);
        // SAFETY: the header lies in the mapping, which nobody else has yet; no reference to the
        // field exists.
        unsafe { (&raw const header.identity).cast_mut().write(*identity) };
        header.magic.store(MAGIC, Ordering::Release);
        Ok(slots)
    }

    /// Opens a file that a process left, read-only; `None` if it is stale: another volume, epoch or
    /// boot, or damaged.
    pub fn open(path: &Path, identity: &Identity, epoch: u64) -> FsResult<Option<Slots>> {
        let failed = |errno: Errno| {
            let message = format!(
                "page cache: cannot read {}: {}; it may hold data that a crashed mount had not \
                 written to its disks: make it readable, or remove it to give them up",
                path.display(),
                io::Error::from(errno)
            );
            FsError::with_message(errno.raw_os_error(), message)
        };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?;
        let stat = rustix::fs::fstat(&file).map_err(failed)?;
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            let message = format!(
                "page cache: {} belongs to user {}: mount as that user, or have the file removed",
                path.display(),
                stat.st_uid
            );
            return Err(FsError::with_message(libc::EPERM, message));
        }
        // The header before the mapping: only a file that is as long as it says can be mapped
        // safely.
        let mut head = [0; 16];
        let read = rustix::io::pread(&file, &mut head, 0).map_err(failed)?;
        let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("8 bytes"));
        let count = match u32::try_from(word(8)) {
            Ok(count) if read == head.len() && word(0) == MAGIC => count,
            _ => return Ok(None),
        };
        if u64::try_from(stat.st_size).ok() != Some(mapping_len(count) as u64) {
            return Ok(None);
        }
        let slots = Slots::map(file, count, ProtFlags::READ)?;
        let header = slots.header();
        let ours = header.identity == *identity && header.epoch.load(Ordering::Relaxed) == epoch;
        Ok(ours.then_some(slots))
    }

    fn map(file: OwnedFd, count: u32, prot: ProtFlags) -> FsResult<Slots> {
        let len_bytes = mapping_len(count);
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in
        // use.
        let base = unsafe {
            rustix::mm::mmap(ptr::null_mut(), len_bytes, prot, MapFlags::SHARED, &file, 0)
        }
        .map_err(|errno| no_memory(len_bytes, errno))?;
        let base = NonNull::new(base.cast()).expect("a mapping is not at address 0");
        Ok(Slots { base, len_bytes, count, file: Some(file) })
    }

    /// Number of slots.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Gives slots memory: storing to a page that the file system has no room for would kill the
    /// process.
    pub fn back(&self, first: SlotId, slots: u32) -> io::Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let start = page_start(self.count) + first as usize * PAGE_BYTES;
        Ok(allocate(file, start, slots as usize * PAGE_BYTES)?)
    }

    fn header(&self) -> &Header {
        // SAFETY: the mapping is at least a header long and page-aligned; a header is made of
        // atomics and of an identity that is written before anyone else can see the mapping.
        unsafe { self.base.cast().as_ref() }
    }

    /// Sets the epoch that the pages belong to.
    pub fn set_epoch(&self, epoch: u64) {
        self.header().epoch.store(epoch, Ordering::Release);
    }

    /// The sequence numbers of the publications in progress.
    pub fn in_flight(&self) -> &[InFlight; IN_FLIGHT_MAX] {
        &self.header().in_flight
    }

    /// A slot's metadata.
    pub fn meta(&self, slot: SlotId) -> &SlotMeta {
        assert!(slot < self.count, "slot {slot} of {}", self.count);
        // SAFETY: the slot exists (checked), its metadata lie within the mapping, 64-byte aligned,
        // and are atomics.
        unsafe { self.base.add(HEADER_BYTES + slot as usize * META_BYTES).cast().as_ref() }
    }

    /// The place of a slot's page. A thread dereferences it only if it owns the slot, or knows it
    /// to be immutable.
    pub fn page(&self, slot: SlotId) -> NonNull<[u8; PAGE_BYTES]> {
        assert!(slot < self.count, "slot {slot} of {}", self.count);
        // SAFETY: the slot exists (checked), so its page lies within the mapping.
        unsafe { self.base.add(page_start(self.count) + slot as usize * PAGE_BYTES).cast() }
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length, and whoever uses it holds a reference to
        // this value.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len_bytes) };
        debug_assert!(unmapped.is_ok());
    }
}

/// Allocates a part of a file; where the file system cannot, the file stays sparse there.
fn allocate(file: &OwnedFd, offset: usize, len: usize) -> rustix::io::Result<()> {
    if len == 0 {
        return Ok(());
    }
    loop {
        let flags = FallocateFlags::empty();
        match rustix::fs::fallocate(file, flags, offset as u64, len as u64) {
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
            result => return result,
        }
    }
}

fn no_memory(len_bytes: usize, errno: Errno) -> FsError {
    let message = format!(
        "page cache: cannot map {} MiB: {}; give it a smaller budget",
        len_bytes >> 20,
        io::Error::from(errno)
    );
    FsError::with_message(errno.raw_os_error(), message)
}
