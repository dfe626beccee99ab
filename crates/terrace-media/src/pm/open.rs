//! Creating, finding out about and mapping what a PM region stands on.

use std::ffi::c_void;
use std::fs::{File, OpenOptions};

use std::ops::Range;

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use rustix::fs::{StatFs, fstatfs};
use rustix::io::Errno;
use rustix::mm::{
    Advice, MapFlags, MsyncFlags, ProtFlags, madvise, mmap, mmap_anonymous, msync, munmap,
};

use super::msync::GroupSync;
use super::poison::Poison;
use super::{Pm, PmKind};
use crate::error::{MediaError, errno_of};
use crate::file;
use crate::length::{dax_device_len, dax_device_number};
use crate::model::{DeviceModel, Throttle};

/// How to open a PM region; by default writable, taken exclusively and at its own speed.
#[derive(Clone, Copy, Debug)]
pub struct PmOpenOptions {
    /// Stores are programmer errors (unless `private`), and the file needs to be readable only.
    pub read_only: bool,
    /// Stores stay in DRAM and are gone when the region is closed: a volume can be recovered and
    /// read without changing its media. The file needs to be readable only.
    pub private: bool,
    /// Take the device exclusively; fail if somebody else has.
    pub lock: bool,
    /// Make the region as slow as this: reads, bulk stores and flushes, that is; single words and
    /// cached stores cost what the CPU takes.
    pub model: Option<DeviceModel>,
}

impl Default for PmOpenOptions {
    fn default() -> Self {
        PmOpenOptions { read_only: false, private: false, lock: true, model: None }
    }
}

/// What the length of a PM file is a multiple of.
pub(super) const PAGE_BYTES: u64 = 4096;

impl Pm {
    /// Creates a file for a PM region, all of it allocated and zero.
    ///
    /// # Errors
    /// The file exists already, its length is not a multiple of 4 KiB (of the huge page on
    /// hugetlbfs), or the space or, on tmpfs and hugetlbfs, the memory is not there. Nothing is
    /// left behind then.
    pub fn create_file(path: &Path, len_bytes: u64) -> Result<(), MediaError> {
        if len_bytes == 0 || !len_bytes.is_multiple_of(PAGE_BYTES) {
            return Err(MediaError::BadLength {
                path: path.to_owned(),
                len_bytes,
                multiple_bytes: PAGE_BYTES,
            });
        }
        file::create_with(path, len_bytes, |file| {
            let statfs = fstatfs(file).map_err(|errno| MediaError::open(path, "examine", errno))?;
            if let Some(memory) = MemoryFs::of(&statfs) {
                memory.check_room(path, len_bytes, &statfs)?;
            }
            file::allocate(file, len_bytes).map_err(|errno| MediaError::Create {
                path: path.to_owned(),
                len_bytes,
                errno,
            })?;
            if matches!(MemoryFs::of(&statfs), Some(MemoryFs::Tmpfs)) {
                gather_huge_pages(file, len_bytes);
            }
            Ok(())
        })
    }

    /// Opens and maps a PM file or a device-DAX device, and finds out its kind.
    ///
    /// # Errors
    /// The path is a block device, a directory or another thing that cannot be PM; it is in use
    /// (with `lock`); its length is not a multiple of 4 KiB; or the system refuses to open or map
    /// it.
    pub fn open(path: &Path, options: &PmOpenOptions) -> Result<Arc<Pm>, MediaError> {
        let writable = !options.read_only && !options.private;
        let len_bytes = region_len(path)?;
        let opened = OpenOptions::new().read(true).write(writable).open(path);
        let file = opened.map_err(|error| MediaError::open(path, "open", error))?;
        if options.lock {
            file::lock(path, &file)?;
        }
        Pm::of_file(path, file, len_bytes, options)
    }

    pub(super) fn of_file(
        path: &Path,
        file: File,
        len_bytes: u64,
        options: &PmOpenOptions,
    ) -> Result<Arc<Pm>, MediaError> {
        let writable = !options.read_only && !options.private;
        let (mapping, kind) = Mapping::of_file(file, len_bytes, options)
            .map_err(|errno| MediaError::Map { path: path.to_owned(), len_bytes, errno })?;
        let mut pm = Pm::over(mapping, path.to_owned(), kind);
        pm.throttle = options.model.map(Throttle::new);
        if kind == PmKind::Msync && writable {
            pm.group_sync = Some(GroupSync::default());
        }
        Ok(Arc::new(pm))
    }
}

/// The length of what can be a PM region; an error for what cannot. Asked before opening, since
/// opening some things (a FIFO, a tape) has effects.
fn region_len(path: &Path) -> Result<u64, MediaError> {
    let metadata =
        std::fs::metadata(path).map_err(|error| MediaError::open(path, "open", error))?;
    let found = metadata.file_type();
    let unsuitable =
        |found, expected| Err(MediaError::Unsuitable { path: path.to_owned(), found, expected });
    let len_bytes = if found.is_file() {
        metadata.len()
    } else if found.is_char_device() {
        match dax_device_len(metadata.rdev()) {
            Some(len_bytes) => len_bytes,
            None => {
                return unsuitable(
                    "a character device other than /dev/daxX.Y",
                    "give a PM file or a dax device",
                );
            }
        }
    } else if found.is_block_device() {
        return unsuitable(
            "a block device",
            "give a file on a DAX file system made on it, or use it as a disk",
        );
    } else if found.is_dir() {
        return unsuitable("a directory", "give a PM file or a dax device");
    } else {
        return unsuitable("neither a file nor a device", "give a PM file or a dax device");
    };
    if len_bytes == 0 || !len_bytes.is_multiple_of(PAGE_BYTES) {
        return Err(MediaError::BadLength {
            path: path.to_owned(),
            len_bytes,
            multiple_bytes: PAGE_BYTES,
        });
    }
    Ok(len_bytes)
}

/// The size of the system's pages (bytes).
fn system_page_bytes() -> u64 {
    // SAFETY: sysconf only answers a question.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(page_bytes).unwrap_or(PAGE_BYTES).max(PAGE_BYTES)
}

/// A file system that keeps its files in memory.
#[derive(Clone, Copy)]
enum MemoryFs {
    Tmpfs,
    Hugetlbfs,
}

impl MemoryFs {
    fn of(statfs: &StatFs) -> Option<Self> {
        const TMPFS_MAGIC: u64 = 0x0102_1994;
        const HUGETLBFS_MAGIC: u64 = 0x9584_58f6;
        // The type of f_type differs between architectures; the magic numbers are 32 bits wide.
        match statfs.f_type as u64 & 0xffff_ffff {
            TMPFS_MAGIC => Some(MemoryFs::Tmpfs),
            HUGETLBFS_MAGIC => Some(MemoryFs::Hugetlbfs),
            _ => None,
        }
    }

    /// Allocating more memory than there is would get programs killed instead of an error.
    fn check_room(self, path: &Path, need_bytes: u64, statfs: &StatFs) -> Result<(), MediaError> {
        let block_bytes = u64::try_from(statfs.f_bsize).unwrap_or(PAGE_BYTES);
        let (memory, memory_bytes) = match self {
            MemoryFs::Tmpfs => ("the machine's available RAM", meminfo_bytes("MemAvailable")),
            MemoryFs::Hugetlbfs => {
                if !need_bytes.is_multiple_of(block_bytes) {
                    let multiple_bytes = block_bytes;
                    return Err(MediaError::BadLength {
                        path: path.to_owned(),
                        len_bytes: need_bytes,
                        multiple_bytes,
                    });
                }
                ("the pool of huge pages", free_huge_page_bytes(block_bytes))
            }
        };
        // A file system without a limit of its own reports 0 blocks in all, or the largest number.
        let limited = statfs.f_blocks != 0 && statfs.f_blocks != u64::MAX;
        let fs_bytes = limited.then(|| statfs.f_bavail.saturating_mul(block_bytes));
        for (resource, available_bytes) in
            [("the file system's size limit", fs_bytes), (memory, memory_bytes)]
        {
            if let Some(available_bytes) =
                available_bytes.filter(|&available| available < need_bytes)
            {
                return Err(MediaError::NotEnoughMemory {
                    path: path.to_owned(),
                    need_bytes,
                    available_bytes,
                    resource,
                });
            }
        }
        Ok(())
    }
}

/// A line of /proc/meminfo, in bytes; None where there is none to ask.
fn meminfo_bytes(key: &str) -> Option<u64> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn free_huge_page_bytes(page_bytes: u64) -> Option<u64> {
    let free = format!("/sys/kernel/mm/hugepages/hugepages-{}kB/free_hugepages", page_bytes / 1024);
    std::fs::read_to_string(free).ok()?.trim().parse::<u64>().ok()?.checked_mul(page_bytes)
}

/// A mapping and the file it maps, if any: the file holds the lock and serves fdatasync.
#[derive(Debug)]
pub(super) struct Mapping {
    base: *mut u8,
    len: usize,
    writable: bool,
    file: Option<File>,
    poison: Arc<Poison>,
}

impl Mapping {
    pub(super) fn anonymous(len_bytes: u64) -> Self {
        let len = usize::try_from(len_bytes).expect("a region of memory fits the address space");
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, wherever the kernel finds room.
        let base = unsafe { mmap_anonymous(ptr::null_mut(), len, protection, MapFlags::PRIVATE) };
        let base =
            base.unwrap_or_else(|errno| panic!("cannot map {len_bytes} bytes of memory: {errno}"));
        // Memory of the process cannot go bad without ending it: nobody needs to watch.
        let poison = Arc::new(Poison::new(base.cast(), len_bytes, PAGE_BYTES, true));
        Mapping { base: base.cast(), len, writable: true, file: None, poison }
    }

    fn of_file(
        file: File,
        len_bytes: u64,
        options: &PmOpenOptions,
    ) -> Result<(Self, PmKind), Errno> {
        let len = usize::try_from(len_bytes).map_err(|_| Errno::NOMEM)?;
        let protection =
            if options.read_only { ProtFlags::READ } else { ProtFlags::READ | ProtFlags::WRITE };
        let metadata = file.metadata().map_err(|error| errno_of(&error))?;
        let dax_device = metadata.file_type().is_char_device();
        let statfs = fstatfs(&file)?;
        let memory_fs = MemoryFs::of(&statfs);
        let page_bytes = match memory_fs {
            _ if dax_device => {
                dax_device_number(metadata.rdev(), "align").unwrap_or(system_page_bytes())
            }
            Some(MemoryFs::Hugetlbfs) => u64::try_from(statfs.f_bsize).unwrap_or(PAGE_BYTES),
            _ => system_page_bytes(),
        };
        let kind = if dax_device {
            PmKind::Dax
        } else if memory_fs.is_some() {
            PmKind::Emulated
        } else if maps_synchronously(&file)? {
            PmKind::Dax
        } else {
            PmKind::Msync
        };
        let (protection, flags) = match kind {
            _ if options.private => (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE),
            PmKind::Dax if !dax_device => (protection, MapFlags::SHARED_VALIDATE | MapFlags::SYNC),
            _ => (protection, MapFlags::SHARED),
        };
        let base = map_aligned(len, protection, flags, &file)?;
        let writable = protection.contains(ProtFlags::WRITE);
        let poison = Arc::new(Poison::new(base.cast(), len_bytes, page_bytes, !options.private));
        let mapping = Mapping { base: base.cast(), len, writable, file: Some(file), poison };
        Poison::watch(&mapping.poison)?;
        Ok((mapping, kind))
    }

    pub(super) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// The mapping alone, which holds the file's locks, too.
    pub(super) fn close_file(&mut self) {
        self.file = None;
    }

    pub(super) fn poison(&self) -> &Arc<Poison> {
        &self.poison
    }

    pub(super) fn base(&self) -> *mut u8 {
        self.base
    }

    pub(super) fn len(&self) -> u64 {
        self.len as u64
    }

    pub(super) fn writable(&self) -> bool {
        self.writable
    }

    /// Makes the pages of a range durable.
    pub(super) fn sync_range(&self, pages: &Range<u64>) -> Result<(), Errno> {
        // A system page may be larger than ours.
        let page_bytes = system_page_bytes();
        let start = pages.start / page_bytes * page_bytes;
        let end = pages.end.min(self.len());
        // SAFETY: start <= end <= len, so the range lies within the mapping; msync changes no
        // memory.
        unsafe {
            msync(self.base.add(start as usize).cast(), (end - start) as usize, MsyncFlags::SYNC)
        }
    }

    /// Makes all pages durable.
    pub(super) fn sync_all(&self) -> Result<(), Errno> {
        self.file.as_ref().map_or(Ok(()), |file| file.sync_data().map_err(|error| errno_of(&error)))
    }
}

/// A huge page of the CPU: a mapping aligned to it can use them, and random accesses to a large
/// region then miss the TLB far less often.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Maps a file at an address aligned to huge pages.
fn map_aligned(
    len: usize,
    protection: ProtFlags,
    flags: MapFlags,
    file: &File,
) -> Result<*mut c_void, Errno> {
    let span = len.checked_add(HUGE_PAGE_BYTES).ok_or(Errno::NOMEM)?;
    // SAFETY: a new mapping, wherever the kernel finds room; nothing may access it.
    let reserved =
        unsafe { mmap_anonymous(ptr::null_mut(), span, ProtFlags::empty(), MapFlags::PRIVATE) }?;
    let lead = reserved.align_offset(HUGE_PAGE_BYTES);
    // SAFETY: replaces a part of the range just reserved, which nobody else knows: lead + len <=
    // span.
    let base =
        unsafe { mmap(reserved.byte_add(lead), len, protection, flags | MapFlags::FIXED, file, 0) };
    let base = base.inspect_err(|_| {
        // SAFETY: the range just reserved.
        let _ = unsafe { munmap(reserved, span) };
    })?;
    let end = lead + len.next_multiple_of(PAGE_BYTES as usize);
    // SAFETY: what of the reserved range lies before and behind the file's mapping, in whole pages.
    unsafe {
        if lead > 0 {
            munmap(reserved, lead)?;
        }
        if end < span {
            munmap(reserved.byte_add(end), span - end)?;
        }
        // A fork with the mapping would hold the file's lock as long as it lives.
        madvise(base, len, Advice::LinuxDontFork)?;
    }
    Ok(base)
}

/// Asks the kernel to back a file on tmpfs by huge pages. It may refuse: that costs speed, nothing
/// else.
fn gather_huge_pages(file: &File, len_bytes: u64) {
    let Ok(len) = usize::try_from(len_bytes) else {
        return;
    };
    let Ok(base) = map_aligned(len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file)
    else {
        return;
    };
    // SAFETY: the mapping just made, which nobody else knows; the advice changes no contents.
    unsafe {
        libc::madvise(base, len, libc::MADV_COLLAPSE);
        let _ = munmap(base, len);
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.poison.unwatch();
        // SAFETY: base and len are those of the mapping, and no access outlives the region that
        // owns it. Unmapping a whole mapping cannot fail.
        let _ = unsafe { munmap(self.base.cast(), self.len) };
    }
}

/// Whether a file can be mapped so that CPU instructions alone make stores durable.
fn maps_synchronously(file: &File) -> Result<bool, Errno> {
    let flags = MapFlags::SHARED_VALIDATE | MapFlags::SYNC;
    let len = PAGE_BYTES as usize;
    // SAFETY: a new mapping, wherever the kernel finds room.
    match unsafe { mmap(ptr::null_mut(), len, ProtFlags::READ, flags, file, 0) } {
        Ok(base) => {
            // SAFETY: the mapping just made, which nobody else knows.
            unsafe { munmap(base, len) }?;
            Ok(true)
        }
        Err(Errno::OPNOTSUPP | Errno::INVAL) => Ok(false),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_read_in_bytes() {
        let total = meminfo_bytes("MemTotal").unwrap();
        assert!(total > 16 << 20 && total.is_multiple_of(1024));
        assert_eq!(meminfo_bytes("NoSuchLine"), None);
    }
}
