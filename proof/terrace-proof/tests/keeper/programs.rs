//! Programs that notice a request that is lost or carried out twice.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FlockOperation, Mode, OFlags, RenameFlags, XattrFlags,
};
use rustix::io::Errno;
use terrace_proof::Rng;

/// A program, step by step.
pub trait Program {
    /// Does something and compares what came of it.
    fn step(&mut self, rng: &mut Rng) -> Result<()>;

    /// The last comparison.
    fn end(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Starts a program in a directory, which it shares with another one: client 0 or 1.
pub type Start = fn(&Path, u64) -> Result<Box<dyn Program>>;

/// All kinds.
pub const PROGRAMS: [(&str, Start); 9] = [
    ("exclusive", |dir, client| Ok(Box::new(Exclusive(Names::new(dir, client))))),
    ("renames", |dir, client| Ok(Box::new(Renames(Names::new(dir, client))))),
    ("appends", |dir, client| Appends::start(dir, client)),
    ("open", |dir, client| Ok(Box::new(Open(Names::new(dir, client))))),
    ("directories", |dir, client| Ok(Box::new(Directories(Names::new(dir, client))))),
    ("links", |dir, client| Ok(Box::new(Links(Names::new(dir, client))))),
    ("attributes", |dir, client| Attributes::start(dir, client)),
    ("contents", |dir, client| Contents::start(dir, client)),
    ("mapped", |dir, client| Mapped::start(dir, client)),
];

/// Names that nobody else has.
struct Names {
    dir: PathBuf,
    client: u64,
    last: u64,
}

impl Names {
    fn new(dir: &Path, client: u64) -> Self {
        Self { dir: dir.to_owned(), client, last: 0 }
    }

    fn next(&mut self) -> PathBuf {
        self.last += 1;
        self.dir.join(format!("{}-{}", self.client, self.last))
    }
}

/// That a call fails in one particular way.
fn fails<T>(result: Result<T, impl Into<std::io::Error>>, errno: Errno, what: &str) -> Result<()> {
    match result.map_err(Into::into) {
        Ok(_) => bail!("{what} succeeds"),
        Err(error) if error.raw_os_error() == Some(errno.raw_os_error()) => Ok(()),
        Err(error) => Err(error).context(format!("{what}, in place of {errno:?}")),
    }
}

fn is_absent(path: &Path) -> Result<()> {
    // The kernel's cache must not answer.
    fails(File::create_new(path.join("x")), Errno::NOENT, "a name below a name that is gone")?;
    fails(fs::symlink_metadata(path), Errno::NOENT, "stat of a name that is gone")
}

/// O_EXCL: creating succeeds once, so does removing.
struct Exclusive(Names);

impl Program for Exclusive {
    fn step(&mut self, rng: &mut Rng) -> Result<()> {
        let path = self.0.next();
        let mut file = File::create_new(&path).context("create")?;
        fails(File::create_new(&path), Errno::EXIST, "a second exclusive create")?;
        let text = format!("{}", rng.next_u64());
        file.write_all(text.as_bytes()).context("write")?;
        ensure!(fs::read_to_string(&path)? == text, "contents");
        fs::remove_file(&path).context("unlink")?;
        is_absent(&path)?;
        fails(fs::remove_file(&path), Errno::NOENT, "a second unlink")?;
        let fifo = self.0.next();
        rustix::fs::mknodat(CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RUSR, 0)
            .context("mknod")?;
        fs::remove_file(&fifo).context("unlink of a FIFO")
    }
}

/// Renames happen once: to a free name, over a file, exchanging two, leaving a whiteout.
struct Renames(Names);

impl Program for Renames {
    fn step(&mut self, _: &mut Rng) -> Result<()> {
        let [a, b, c] = std::array::from_fn(|_| self.0.next());
        let ino = |path: &Path| Ok::<_, std::io::Error>(fs::symlink_metadata(path)?.ino());
        fs::write(&a, "first")?;
        let first = ino(&a)?;
        fs::rename(&a, &b).context("rename")?;
        is_absent(&a)?;
        ensure!(ino(&b)? == first, "the file has moved");
        fs::write(&c, "second")?;
        let second = ino(&c)?;
        rustix::fs::renameat_with(CWD, &b, CWD, &c, RenameFlags::EXCHANGE).context("exchange")?;
        ensure!((ino(&b)?, ino(&c)?) == (second, first), "the files were exchanged once");
        fails(
            rustix::fs::renameat_with(CWD, &b, CWD, &c, RenameFlags::NOREPLACE),
            Errno::EXIST,
            "a rename that may not replace",
        )?;
        let moved = self.0.next();
        rustix::fs::renameat_with(CWD, &c, CWD, &moved, RenameFlags::WHITEOUT)
            .context("rename with whiteout")?;
        ensure!(fs::symlink_metadata(&c)?.rdev() == 0 && ino(&moved)? == first, "whiteout");
        fs::remove_file(&c)?;
        fs::rename(&moved, &b).context("rename over a file")?;
        ensure!(ino(&b)? == first, "the file was replaced");
        ensure!(fs::read_to_string(&b)? == "first", "contents");
        fs::remove_file(&b).context("unlink")
    }
}

/// A log that grows by O_APPEND has each record once.
struct Appends {
    path: PathBuf,
    file: File,
    expected: Vec<u8>,
}

impl Appends {
    fn start(dir: &Path, client: u64) -> Result<Box<dyn Program>> {
        let path = dir.join(format!("log-{client}"));
        let file = OpenOptions::new().append(true).create(true).open(&path)?;
        Ok(Box::new(Self { path, file, expected: Vec::new() }))
    }
}

impl Program for Appends {
    fn step(&mut self, rng: &mut Rng) -> Result<()> {
        // Now and then more than what the page cache takes at once.
        let len = if rng.one_in(50) { 1 << 20 } else { 1 + rng.below(6000) };
        let byte = rng.next_u64() as u8;
        let record = vec![byte; len as usize];
        self.file.write_all(&record).context("append")?;
        self.expected.extend_from_slice(&record);
        let len = self.expected.len() as u64;
        let statx = rustix::fs::statx(
            &self.file,
            "",
            AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC,
            rustix::fs::StatxFlags::SIZE,
        )?;
        ensure!(statx.stx_size == len, "the log has {} bytes, not {len}", statx.stx_size);
        if rng.one_in(20) || len > 4 << 20 {
            self.end()?;
            self.file.set_len(0).context("truncate")?;
            self.expected.clear();
        }
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        ensure!(fs::read(&self.path)? == self.expected, "the log's records");
        Ok(())
    }
}

/// Files that have no name any more, or none yet, stay as long as they are open.
struct Open(Names);

impl Program for Open {
    fn step(&mut self, rng: &mut Rng) -> Result<()> {
        let path = self.0.next();
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        let text = vec![rng.next_u64() as u8; rng.below(20_000) as usize];
        file.write_all_at(&text, 0)?;
        fs::remove_file(&path).context("unlink")?;
        let linked = self.0.next();
        let flags = OFlags::TMPFILE | OFlags::RDWR;
        let unnamed = rustix::fs::openat(CWD, &self.0.dir, flags, Mode::RUSR | Mode::WUSR);
        let unnamed = File::from(unnamed.context("O_TMPFILE")?);
        unnamed.write_all_at(b"named late", 0)?;
        for _ in 0..rng.below(20) {
            file.write_all_at(b"more", text.len() as u64)?;
            let mut read = vec![0; text.len() + 4];
            file.read_exact_at(&mut read, 0).context("read of an unlinked file")?;
            ensure!(read[..text.len()] == text && read.ends_with(b"more"), "unlinked contents");
        }
        ensure!(file.metadata()?.nlink() == 0, "links of an unlinked file");
        let from = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&unnamed));
        rustix::fs::linkat(CWD, from, CWD, &linked, AtFlags::SYMLINK_FOLLOW).context("link")?;
        ensure!(fs::read(&linked)? == b"named late", "contents of a file named late");
        fs::remove_file(&linked).context("unlink of a file named late")
    }
}

/// Directories are made, listed, moved and removed once.
struct Directories(Names);

impl Program for Directories {
    fn step(&mut self, rng: &mut Rng) -> Result<()> {
        let dir = self.0.next();
        fs::create_dir(&dir).context("mkdir")?;
        fails(fs::create_dir(&dir), Errno::EXIST, "a second mkdir")?;
        let mut names = BTreeSet::new();
        for number in 0..rng.below(30) {
            let name = format!("entry-{number}");
            match number % 3 {
                0 => drop(File::create_new(dir.join(&name)).context("create")?),
                1 => fs::create_dir(dir.join(&name)).context("mkdir in it")?,
                _ => symlink(&name, dir.join(&name)).context("symlink")?,
            }
            names.insert(OsString::from(name));
        }
        let listed = fs::read_dir(&dir)?.map(|entry| Ok(entry?.file_name()));
        ensure!(listed.collect::<std::io::Result<BTreeSet<_>>>()? == names, "a listing");
        let moved = self.0.next();
        fs::rename(&dir, &moved).context("rename of a directory")?;
        is_absent(&dir)?;
        for name in names {
            let path = moved.join(&name);
            if fs::symlink_metadata(&path)?.is_symlink() {
                ensure!(fs::read_link(&path)? == Path::new(&name), "a link's target");
            }
            match fs::symlink_metadata(&path)?.is_dir() {
                true => fs::remove_dir(&path).context("rmdir in it")?,
                false => fs::remove_file(&path).context("unlink in it")?,
            }
        }
        fs::remove_dir(&moved).context("rmdir")?;
        fails(fs::remove_dir(&moved), Errno::NOENT, "a second rmdir")
    }
}

/// Links are counted.
struct Links(Names);

impl Program for Links {
    fn step(&mut self, rng: &mut Rng) -> Result<()> {
        let path = self.0.next();
        fs::write(&path, "linked")?;
        let others: Vec<PathBuf> = (0..rng.below(8)).map(|_| self.0.next()).collect();
        for (number, other) in others.iter().enumerate() {
            fs::hard_link(&path, other).context("link")?;
            fails(fs::hard_link(&path, other), Errno::EXIST, "a second link")?;
            let links = fs::metadata(&path)?.nlink();
            ensure!(links == number as u64 + 2, "{links} links after {} were made", number + 1);
        }
        fs::remove_file(&path).context("unlink")?;
        for (number, other) in others.iter().enumerate() {
            let links = fs::metadata(other)?.nlink();
            ensure!(links == (others.len() - number) as u64, "{links} links");
            ensure!(fs::read_to_string(other)? == "linked", "contents");
            fs::remove_file(other).context("unlink of a link")?;
        }
        Ok(())
    }
}

/// Attributes are made and removed once.
struct Attributes {
    path: PathBuf,
}

impl Attributes {
    fn start(dir: &Path, client: u64) -> Result<Box<dyn Program>> {
        let path = dir.join(format!("file-{client}"));
        File::create_new(&path)?;
        Ok(Box::new(Self { path }))
    }
}

impl Program for Attributes {
    fn step(&mut self, rng: &mut Rng) -> Result<()> {
        let (path, name) = (&self.path, "user.step");
        let value = vec![rng.next_u64() as u8; 1 + rng.below(3000) as usize];
        let set = |flags| rustix::fs::setxattr(path, name, &value, flags);
        fails(set(XattrFlags::REPLACE), Errno::NODATA, "replacing an attribute that is not there")?;
        set(XattrFlags::CREATE).context("setxattr")?;
        fails(set(XattrFlags::CREATE), Errno::EXIST, "a second setxattr that creates")?;
        set(XattrFlags::REPLACE).context("setxattr that replaces")?;
        let mut read = vec![0; 4000];
        let len = rustix::fs::getxattr(path, name, read.as_mut_slice())?;
        ensure!(read[..len] == value, "an attribute's value");
        rustix::fs::removexattr(path, name).context("removexattr")?;
        fails(rustix::fs::removexattr(path, name), Errno::NODATA, "a second removexattr")?;
        let mode = rng.below(0o1000) as u32 | 0o600;
        fs::set_permissions(path, PermissionsExt::from_mode(mode)).context("chmod")?;
        ensure!(fs::metadata(path)?.permissions().mode() & 0o7777 == mode, "a mode");
        Ok(())
    }
}

/// Bytes of a file, and a model of them; somebody holds a lock.
struct Contents {
    file: File,
    direct: File,
    locked: File,
    path: PathBuf,
    model: Vec<u8>,
}

const CONTENTS_BYTES: u64 = 1 << 20;

impl Contents {
    fn start(dir: &Path, client: u64) -> Result<Box<dyn Program>> {
        let path = dir.join(format!("file-{client}"));
        let open = |flags: i32| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).custom_flags(flags);
            options.open(&path)
        };
        let (file, direct, locked) = (open(0)?, open(libc::O_DIRECT)?, open(0)?);
        rustix::fs::flock(&locked, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Box::new(Self { file, direct, locked, path, model: Vec::new() }))
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        let end = at as usize + bytes.len();
        self.model.resize(self.model.len().max(end), 0);
        self.model[at as usize..end].copy_from_slice(bytes);
    }
}

impl Program for Contents {
    fn step(&mut self, rng: &mut Rng) -> Result<()> {
        let at = rng.below(CONTENTS_BYTES);
        let len = 1 + rng.below(64 << 10);
        let byte = rng.next_u64() as u8;
        match rng.below(8) {
            0 => {
                self.file.set_len(at).context("truncate")?;
                self.model.resize(at as usize, 0);
            }
            1 => {
                let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                rustix::fs::fallocate(&self.file, hole, at, len).context("fallocate")?;
                let end = (at + len).min(self.model.len() as u64);
                self.model.get_mut(at as usize..end as usize).into_iter().for_each(|b| b.fill(0));
            }
            2 => {
                let from = rng.below(CONTENTS_BYTES);
                let to = CONTENTS_BYTES + at;
                let mut from_offset = from;
                let mut to_offset = to;
                let copied = rustix::fs::copy_file_range(
                    &self.file,
                    Some(&mut from_offset),
                    &self.file,
                    Some(&mut to_offset),
                    len.min(CONTENTS_BYTES - from.max(at)) as usize,
                );
                let copied = copied.context("copy_file_range")?;
                let bytes: Vec<u8> =
                    self.model.iter().skip(from as usize).take(copied).copied().collect();
                if copied > 0 {
                    self.write(to, &bytes);
                }
            }
            3 => {
                let block = &mut vec![0_u8; 3 * 4096];
                let start = block.as_ptr().align_offset(4096);
                let block = &mut block[start..start + 4096];
                block.fill(byte);
                let at = at & !4095;
                self.direct.write_all_at(block, at).context("direct write")?;
                let block = block.to_vec();
                self.write(at, &block);
            }
            4 => self.file.sync_all().context("fsync")?,
            _ => {
                let bytes = vec![byte; len as usize];
                self.file.write_all_at(&bytes, at).context("write")?;
                self.write(at, &bytes);
            }
        }
        if rng.one_in(8) {
            self.end()?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        let other = File::open(&self.path)?;
        let taken = rustix::fs::flock(&other, FlockOperation::NonBlockingLockShared);
        fails(taken, Errno::WOULDBLOCK, "a second lock")?;
        let mut read = Vec::new();
        (&other).read_to_end(&mut read)?;
        ensure!(read.len() == self.model.len(), "{} bytes, not {}", read.len(), self.model.len());
        let wrong = read.iter().zip(&self.model).position(|(a, b)| a != b);
        ensure!(wrong.is_none(), "byte {wrong:?} is wrong");
        let _still_locked = &self.locked;
        Ok(())
    }
}

/// A shared mapping stays.
struct Mapped {
    path: PathBuf,
    memory: *mut u8,
    model: Vec<u8>,
}

// SAFETY: the mapping is used by the thread that has this only.
unsafe impl Send for Mapped {}

const MAPPED_BYTES: usize = 256 << 10;

impl Mapped {
    fn start(dir: &Path, client: u64) -> Result<Box<dyn Program>> {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        let path = dir.join(format!("file-{client}"));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        file.set_len(MAPPED_BYTES as u64)?;
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at no particular address.
        let memory = unsafe {
            mmap(std::ptr::null_mut(), MAPPED_BYTES, rights, MapFlags::SHARED, &file, 0)?
        };
        Ok(Box::new(Self { path, memory: memory.cast(), model: vec![0; MAPPED_BYTES] }))
    }
}

impl Program for Mapped {
    fn step(&mut self, rng: &mut Rng) -> Result<()> {
        for _ in 0..8 {
            let (at, byte) = (rng.below(MAPPED_BYTES as u64) as usize, rng.next_u64() as u8);
            self.model[at] = byte;
            // SAFETY: within the mapping, of a file that nobody truncates.
            unsafe { self.memory.add(at).write_volatile(byte) };
        }
        if rng.one_in(4) {
            self.end()?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        // SAFETY: the whole mapping.
        unsafe {
            rustix::mm::msync(self.memory.cast(), MAPPED_BYTES, rustix::mm::MsyncFlags::SYNC)
        }
        .context("msync")?;
        // Past the kernel's pages.
        let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&self.path)?;
        let mut read = vec![0; MAPPED_BYTES + 4096];
        let start = read.as_ptr().align_offset(4096);
        file.read_exact_at(&mut read[start..start + MAPPED_BYTES], 0)?;
        ensure!(read[start..start + MAPPED_BYTES] == self.model[..], "what was mapped");
        Ok(())
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the whole mapping, which nobody uses any more.
        let _ = unsafe { rustix::mm::munmap(self.memory.cast(), MAPPED_BYTES) };
    }
}
