//! Operations on file data through system calls, on whatever file system a directory belongs to.
//! Names are opened relative to the directory, so that no side pays for a longer path.

use std::ffi::{CString, c_int};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{Advice, AtFlags, CWD, Mode, OFlags, fadvise, openat, unlinkat};

use crate::workload::{
    BLOCK_BYTES, FILLING, RECORD_BYTES, RandomOffsets, Sizes, Workload, shuffled_offsets,
    write_aged,
};

/// Makes a workload in a directory.
pub type OnFiles = fn(&Path, Sizes) -> Result<Box<dyn Workload>>;

/// The file that is worked on.
pub const NAME: &str = "file";
const SMALL_FILE_BYTES: usize = 64 << 10;
const CREATE: OFlags = OFlags::RDWR.union(OFlags::CREATE).union(OFlags::CLOEXEC);

/// Opens a directory to name files in it.
pub fn open_directory(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::empty()).with_context(|| format!("opening {}", path.display()))
}

/// Opens a file, creating it if it is missing.
pub fn create(directory: &OwnedFd, name: &str, flags: OFlags) -> Result<File> {
    open_at(directory, name, CREATE | flags)
}

/// Opens a file of a directory by the C library's function, as programs do: `terrace run` sees
/// those only.
pub fn open_at(directory: &OwnedFd, name: &str, flags: OFlags) -> Result<File> {
    let path = CString::new(name)?;
    let mode = (Mode::RUSR | Mode::WUSR).bits();
    // SAFETY: the path ends with a zero byte, and lives until the call returns.
    let fd =
        unsafe { libc::openat(directory.as_raw_fd(), path.as_ptr(), flags.bits() as c_int, mode) };
    if fd < 0 {
        return Err(io::Error::last_os_error()).with_context(|| format!("opening {name}"));
    }
    // SAFETY: the descriptor is new, and nobody else has it.
    Ok(unsafe { File::from_raw_fd(fd) })
}

fn aged_file(directory: &Path, sizes: Sizes) -> Result<File> {
    let file = create(&open_directory(directory)?, NAME, OFlags::EXCL)?;
    write_aged(sizes, |offset, data| Ok(file.write_all_at(data, offset)?))
        .with_context(|| format!("filling {}", directory.join(NAME).display()))?;
    Ok(file)
}

/// pwrite of a block at a random offset.
pub fn overwrite(directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    Ok(Box::new(Overwrite {
        file: aged_file(directory, sizes)?,
        offsets: RandomOffsets::new(sizes),
        fsync: false,
    }))
}

/// The same, each followed by fsync.
pub fn overwrite_fsync(directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    Ok(Box::new(Overwrite {
        file: aged_file(directory, sizes)?,
        offsets: RandomOffsets::new(sizes),
        fsync: true,
    }))
}

struct Overwrite {
    file: File,
    offsets: RandomOffsets,
    fsync: bool,
}

impl Workload for Overwrite {
    fn run(&mut self, ops: u64) -> Result<()> {
        for _ in 0..ops {
            self.file.write_all_at(&FILLING[..BLOCK_BYTES], self.offsets.next())?;
            if self.fsync {
                self.file.sync_all()?;
            }
        }
        Ok(())
    }
}

/// fsync, each after a pwrite of a block at a random offset, whose time does not count.
pub fn fsync(directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    Ok(Box::new(Fsync { file: aged_file(directory, sizes)?, offsets: RandomOffsets::new(sizes) }))
}

struct Fsync {
    file: File,
    offsets: RandomOffsets,
}

impl Workload for Fsync {
    fn batch_ops(&self) -> u64 {
        1
    }

    fn prepare(&mut self, _ops: u64) -> Result<()> {
        Ok(self.file.write_all_at(&FILLING[..BLOCK_BYTES], self.offsets.next())?)
    }

    fn run(&mut self, _ops: u64) -> Result<()> {
        Ok(self.file.sync_all()?)
    }
}

/// pread of a block at a random offset, of a file that has just been written and read whole.
pub fn read(directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    let file = aged_file(directory, sizes)?;
    let mut piece = vec![0; 1 << 20];
    for offset in (0..sizes.file_bytes).step_by(piece.len()) {
        file.read_exact_at(&mut piece, offset)?;
    }
    Ok(Box::new(Read { file, offsets: RandomOffsets::new(sizes) }))
}

struct Read {
    file: File,
    offsets: RandomOffsets,
}

impl Workload for Read {
    fn run(&mut self, ops: u64) -> Result<()> {
        let mut block = [0; BLOCK_BYTES];
        for _ in 0..ops {
            self.file.read_exact_at(&mut block, self.offsets.next())?;
        }
        Ok(())
    }
}

/// pread of a block that the kernel has not cached, at offsets in random order.
pub fn cold_read(directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    let file = aged_file(directory, sizes)?;
    // No read-ahead: what is read is the block asked for and no other.
    fadvise(&file, 0, None, Advice::Random)?;
    let order = shuffled_offsets(sizes);
    Ok(Box::new(ColdRead { file, next: order.len(), order }))
}

struct ColdRead {
    file: File,
    /// Every block once: no block is read twice before the cache is dropped again.
    order: Vec<u64>,
    next: usize,
}

impl Workload for ColdRead {
    fn prepare(&mut self, ops: u64) -> Result<()> {
        if self.next + ops as usize > self.order.len() {
            fadvise(&self.file, 0, None, Advice::DontNeed)?;
            self.next = 0;
        }
        Ok(())
    }

    fn run(&mut self, ops: u64) -> Result<()> {
        let mut block = [0; BLOCK_BYTES];
        for &offset in &self.order[self.next..self.next + ops as usize] {
            self.file.read_exact_at(&mut block, offset)?;
        }
        self.next += ops as usize;
        Ok(())
    }
}

/// write of a small record to a file opened with O_APPEND.
pub fn append(directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    let directory = open_directory(directory)?;
    let file = create(&directory, NAME, OFlags::EXCL | OFlags::APPEND)?;
    Ok(Box::new(Append { directory, file, len_bytes: 0, len_bytes_max: sizes.appended_bytes_max }))
}

struct Append {
    directory: OwnedFd,
    file: File,
    len_bytes: u64,
    len_bytes_max: u64,
}

impl Workload for Append {
    fn prepare(&mut self, ops: u64) -> Result<()> {
        if self.len_bytes + ops * RECORD_BYTES as u64 > self.len_bytes_max {
            unlinkat(&self.directory, NAME, AtFlags::empty())?;
            self.file = create(&self.directory, NAME, OFlags::EXCL | OFlags::APPEND)?;
            self.len_bytes = 0;
        }
        Ok(())
    }

    fn run(&mut self, ops: u64) -> Result<()> {
        for _ in 0..ops {
            let written = rustix::io::write(&self.file, &FILLING[..RECORD_BYTES])?;
            ensure!(written == RECORD_BYTES, "a write of {RECORD_BYTES} bytes wrote {written}");
        }
        self.len_bytes += ops * RECORD_BYTES as u64;
        Ok(())
    }
}

/// open, pread of 64 KiB, close.
pub fn open_read_close(directory: &Path, _sizes: Sizes) -> Result<Box<dyn Workload>> {
    let directory = open_directory(directory)?;
    create(&directory, NAME, OFlags::EXCL)?.write_all_at(&FILLING[..SMALL_FILE_BYTES], 0)?;
    let mut workload = OpenReadClose { directory, buffer: vec![0; SMALL_FILE_BYTES] };
    // What the kernel asks only the first time.
    workload.run(1)?;
    Ok(Box::new(workload))
}

struct OpenReadClose {
    directory: OwnedFd,
    buffer: Vec<u8>,
}

impl Workload for OpenReadClose {
    fn run(&mut self, ops: u64) -> Result<()> {
        for _ in 0..ops {
            let file =
                openat(&self.directory, NAME, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
            let len_bytes = rustix::io::pread(&file, &mut self.buffer, 0)?;
            if len_bytes != self.buffer.len() {
                bail!("{NAME} has {} bytes, but a read got {len_bytes}", self.buffer.len());
            }
        }
        Ok(())
    }
}
