//! A program that does on files what its standard input says, a line for a call, and answers each
//! with a line: `ok` and numbers, or `error` and the errno. Tests of several processes on one file
//! run it. It makes all calls by the C library, as unmodified programs do.
//!
//! | line | call | numbers of the answer |
//! |---|---|---|
//! | `open NAME LETTERS` | open: read, write, append, create, truncate, exclusive (x), direct | |
//! | `unlink NAME` | unlink | |
//! | `stat NAME` | stat | the size |
//! | `attributes NAME` | stat | size, pieces of 512 bytes, mode, links, owner, mtime, ctime (ns) |
//! | `rename NAME NAME` | rename | |
//! | `limit memory BYTES`, `limit files COUNT` | setrlimit: so much more than there is | |
//! | `forks` | signal: SIGUSR1 makes the program fork, from the handler | |
//! | `buffered NAME` | fopen, fread of all of it, fclose | as for `read` |
//! | `close` | close | |
//! | `write LEN SEED`, `pwrite OFFSET LEN SEED` | write, pwrite | how many bytes |
//! | `append LEN SEED` | pwritev2 with RWF_APPEND | how many bytes |
//! | `appends LEN SEED` | the same, in pieces of a byte each | how many bytes |
//! | `read LEN`, `pread OFFSET LEN` | read, pread | how many bytes, and their checksum |
//! | `seek OFFSET`, `end` | lseek from the beginning, to the end | the position |
//! | `truncate LEN`, `sync`, `size` | ftruncate, fdatasync, fstat | of `size`: the size |
//! | `allocate OFFSET LEN`, `reserve OFFSET LEN` | fallocate; that keeps the size | |
//! | `mode MODE` | fchmod | |
//! | `attributes` | fstat | as for `attributes NAME` |
//! | `map` | mmap of all of it, as fstat says, read and unmapped | as for `read` |
//! | `copy NAME` | copy_file_range of all of it to the end of a file | how many bytes |
//! | `sendfile NAME` | sendfile of all of it to the end of a file | how many bytes |
//! | `relay M LEN` | pread of all of it in pieces, each of which is written to M | how many bytes |
//! | `fork LEN FIRST STEP COUNT` | write, so many records, beside forks | how many |
//! | `readers THREADS COUNT` | so many preads of the first 4096 bytes by each | how many differ |
//! | `dup` | dup, and the first number is closed | |
//! | `twin` | dup | the new handle |
//! | `at` | lseek, by nothing | the position |
//!
//! All but the first eight name the handle first, as `open` numbers them: `N write 100 7`. Handles
//! go from process to process, too:
//!
//! | line | call | numbers of the answer |
//! |---|---|---|
//! | `inbox PATH` | bind: messages to this process come there | |
//! | `pass PATH N...` | sendmsg, one message for all these handles | |
//! | `passes PATH N...` | sendmmsg, a message for each | |
//! | `amid PATH N M LEN COUNT AFTER` | sendmsg of N, while a thread writes to M | how many writes |
//! | `receive`, `receives COUNT` | recvmsg, recvmmsg | the new handles |
//!
//! The thread of `amid` writes so many records by pwrite, one behind the other, from the beginning;
//! the message is sent after so many of them. Files are used by io_uring, too:
//!
//! | line | call | numbers of the answer |
//! |---|---|---|
//! | `ring DEPTH` | io_uring_setup, and a buffer is registered | |
//! | `ring register N` | io_uring_register: the file of this handle | |
//! | `ring write T AT LEN SEED` | a request to write | how many bytes |
//! | `ring read T AT LEN` | a request to read | how many bytes, and their checksum |
//! | `ring sync T` | a request for durability | |
//! | `ring beside T AT LEN COUNT M` | so many requests at once, and so many pwrites to M | |
//!
//! T is a handle, or `-` for the registered file and buffer. The records of `ring beside` lie one
//! behind the other from AT on, of which every other one is the ring's.

use std::ffi::CString;
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, BufRead, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_proof::{checked, pattern};

mod handlers;
mod limits;
mod messages;
mod ring;

use self::messages::{Inbox, Outbox};
use self::ring::{Ring, Target};

fn main() -> ExitCode {
    let (mut handles, mut inbox, mut ring) = (Handles::default(), None, None);
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { return ExitCode::FAILURE };
        let words: Vec<&str> = line.split(' ').collect();
        let answer = match words.as_slice() {
            ["ring", words @ ..] => by_ring(&handles, &mut ring, words),
            _ => carry_out(&mut handles, &mut inbox, &words),
        };
        let answer = match answer {
            Ok(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
                format!("ok {}", numbers.join(" "))
            }
            Err(error) => format!("error {}", error.raw_os_error().unwrap_or(-1)),
        };
        println!("{}", answer.trim_end());
    }
    ExitCode::SUCCESS
}

fn wrong(line: &[&str]) -> io::Error {
    io::Error::other(format!("what is {line:?}?"))
}

/// Open files, by their handles.
#[derive(Debug, Default)]
struct Handles(Vec<Option<File>>);

impl Handles {
    /// Keeps a file, and tells its handle.
    fn keep(&mut self, file: File) -> u64 {
        let free = self.0.iter().position(Option::is_none).unwrap_or(self.0.len());
        self.0.resize_with(self.0.len().max(free + 1), || None);
        self.0[free] = Some(file);
        free as u64
    }

    fn slot(&mut self, word: &str) -> Option<&mut Option<File>> {
        self.0.get_mut(word.parse::<usize>().ok()?)
    }

    fn get(&self, word: &str) -> io::Result<&File> {
        let number = word.parse::<usize>().ok();
        let file = number.and_then(|number| self.0.get(number)?.as_ref());
        file.ok_or_else(|| wrong(&[word]))
    }

    fn all(&self, words: &[&str]) -> io::Result<Vec<&File>> {
        words.iter().map(|word| self.get(word)).collect()
    }
}

fn carry_out(
    handles: &mut Handles,
    inbox: &mut Option<Inbox>,
    words: &[&str],
) -> io::Result<Vec<u64>> {
    if let ["open", name, letters] = words {
        let has = |letter| letters.contains(letter);
        let file = OpenOptions::new()
            .read(has('r'))
            .write(has('w') && !has('a'))
            .append(has('a'))
            .create(has('c'))
            .truncate(has('t'))
            .create_new(has('x'))
            .custom_flags(if has('d') { libc::O_DIRECT } else { 0 })
            .open(name)?;
        return Ok(vec![handles.keep(file)]);
    }
    match words {
        ["unlink", name] => return std::fs::remove_file(name).map(|()| Vec::new()),
        ["rename", from, to] => return std::fs::rename(from, to).map(|()| Vec::new()),
        ["limit", resource, more] => {
            let more = more.parse().map_err(|_| wrong(words))?;
            let set = if *resource == "memory" { limits::memory } else { limits::files };
            return set(more).map(|()| Vec::new());
        }
        ["forks"] => return handlers::forks().map(|()| Vec::new()),
        ["stat", name] => return Ok(vec![std::fs::metadata(name)?.len()]),
        ["attributes", name] => return attributes(&std::fs::metadata(name)?),
        ["buffered", name] => return buffered(name).map(|bytes| checked(&bytes)),
        ["inbox" | "pass" | "passes" | "amid" | "receive" | "receives", ..] => {
            return pass(handles, inbox, words);
        }
        _ => {}
    }
    let [handle, rest @ ..] = words else { return Err(wrong(words)) };
    if let ["relay", other, len] = rest {
        let len = len.parse().map_err(|_| wrong(words))?;
        return relay(handles.get(handle)?, handles.get(other)?, len).map(|len| vec![len]);
    }
    let slot = handles.slot(handle).ok_or_else(|| wrong(words))?;
    if rest == ["close"] {
        *slot = None;
        return Ok(Vec::new());
    }
    let file = slot.as_mut().ok_or_else(|| wrong(words))?;
    match rest {
        ["dup"] => {
            *file = file.try_clone()?;
            Ok(Vec::new())
        }
        ["twin"] => {
            let twin = file.try_clone()?;
            Ok(vec![handles.keep(twin)])
        }
        _ => call(file, rest),
    }
}

/// A line about the ring, without its first word.
fn by_ring(handles: &Handles, ring: &mut Option<Ring>, words: &[&str]) -> io::Result<Vec<u64>> {
    if let [depth] = words {
        *ring = Some(Ring::new(depth.parse().map_err(|_| wrong(words))?)?);
        return Ok(Vec::new());
    }
    let (ring, [name, target, rest @ ..]) = (ring.as_mut().ok_or_else(|| wrong(words))?, words)
    else {
        return Err(wrong(words));
    };
    let target = match *target {
        "-" => Target::Registered,
        handle => Target::Descriptor(handles.get(handle)?),
    };
    let numbers: Vec<u64> = rest.iter().filter_map(|word| word.parse().ok()).collect();
    match (*name, target, numbers.as_slice()) {
        ("register", Target::Descriptor(file), []) => ring.register(file).map(|()| Vec::new()),
        ("write", _, &[at, len, seed]) => {
            Ok(vec![ring.write(target, at, &pattern(seed, len as usize))? as u64])
        }
        ("read", _, &[at, len]) => ring.read(target, at, len as usize).map(|bytes| checked(&bytes)),
        ("sync", _, []) => ring.sync(target).map(|()| Vec::new()),
        ("beside", _, &[at, len, count, _]) => {
            let other = handles.get(rest[3])?;
            ring.beside(target, other, [at, len, count]).map(|()| Vec::new())
        }
        _ => Err(wrong(words)),
    }
}

/// A line by which handles go to another process, or come.
fn pass(handles: &mut Handles, inbox: &mut Option<Inbox>, words: &[&str]) -> io::Result<Vec<u64>> {
    match words {
        ["inbox", path] => {
            *inbox = Some(Inbox::new(path)?);
            Ok(Vec::new())
        }
        ["pass", path, numbers @ ..] => {
            Outbox::new(path)?.send(&handles.all(numbers)?).map(|()| Vec::new())
        }
        ["passes", path, numbers @ ..] => {
            Outbox::new(path)?.send_each(&handles.all(numbers)?).map(|()| Vec::new())
        }
        ["amid", path, passed, written, numbers @ ..] => {
            let (passed, written) = (handles.get(passed)?, handles.get(written)?);
            let numbers: Vec<u64> = numbers.iter().filter_map(|word| word.parse().ok()).collect();
            let numbers = <[u64; 3]>::try_from(numbers).map_err(|_| wrong(words))?;
            pass_amid_writes(path, passed, written, numbers).map(|()| vec![numbers[1]])
        }
        ["receive"] => {
            let files = inbox.as_ref().ok_or_else(|| wrong(words))?.receive()?;
            Ok(files.into_iter().map(|file| handles.keep(file)).collect())
        }
        ["receives", count] => {
            let count = count.parse().map_err(|_| wrong(words))?;
            let files = inbox.as_ref().ok_or_else(|| wrong(words))?.receive_each(count)?;
            Ok(files.into_iter().map(|file| handles.keep(file)).collect())
        }
        _ => Err(wrong(words)),
    }
}

/// Passes a file while another thread writes records.
fn pass_amid_writes(
    path: &str,
    passed: &File,
    written: &File,
    [len, count, after]: [u64; 3],
) -> io::Result<()> {
    let (outbox, done) = (Outbox::new(path)?, AtomicU64::new(0));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            (0..count).try_for_each(|seed| {
                done.store(seed, Ordering::Relaxed);
                written.write_all_at(&pattern(seed, len as usize), seed * len)
            })
        });
        while done.load(Ordering::Relaxed) < after && !writer.is_finished() {
            std::hint::spin_loop();
        }
        let passed = outbox.send(&[passed]);
        writer.join().expect("no panic").and(passed)
    })
}

fn call(file: &mut File, words: &[&str]) -> io::Result<Vec<u64>> {
    let [name, arguments @ ..] = words else { return Err(wrong(words)) };
    if let ("copy" | "sendfile", [target]) = (*name, arguments) {
        let target = OpenOptions::new().write(true).create(true).truncate(false).open(target)?;
        let copied = if *name == "copy" { copy(file, &target) } else { send(file, &target) };
        return copied.map(|len| vec![len]);
    }
    let numbers: Vec<u64> = arguments.iter().filter_map(|word| word.parse().ok()).collect();
    match (*name, numbers.as_slice()) {
        ("write", &[len, seed]) => Ok(vec![file.write(&pattern(seed, len as usize))? as u64]),
        ("pwrite", &[at, len, seed]) => {
            Ok(vec![file.write_at(&pattern(seed, len as usize), at)? as u64])
        }
        ("append", &[len, seed]) => append(file, &[&pattern(seed, len as usize)]),
        // In pieces of a byte each.
        ("appends", &[len, seed]) => {
            let bytes = pattern(seed, len as usize);
            append(file, &bytes.chunks(1).collect::<Vec<_>>())
        }
        ("fork", &[len, first, step, count]) => {
            let records = (0..count).map(|n| pattern(first + n * step, len as usize));
            write_beside_forks(file, records.collect()).map(|()| vec![count])
        }
        ("readers", &[threads, count]) => read_by_threads(file, threads, count),
        ("read", &[len]) => {
            let mut bytes = vec![0; len as usize];
            let read = file.read(&mut bytes)?;
            Ok(checked(&bytes[..read]))
        }
        ("pread", &[at, len]) => {
            let mut bytes = vec![0; len as usize];
            let read = file.read_at(&mut bytes, at)?;
            Ok(checked(&bytes[..read]))
        }
        ("seek", &[at]) => Ok(vec![file.seek(SeekFrom::Start(at))?]),
        ("at", []) => Ok(vec![file.stream_position()?]),
        ("end", []) => Ok(vec![file.seek(SeekFrom::End(0))?]),
        ("truncate", &[len]) => file.set_len(len).map(|()| Vec::new()),
        ("sync", []) => file.sync_data().map(|()| Vec::new()),
        ("allocate", &[at, len]) => allocate(file, 0, at, len),
        ("reserve", &[at, len]) => allocate(file, libc::FALLOC_FL_KEEP_SIZE, at, len),
        ("mode", &[mode]) => {
            file.set_permissions(Permissions::from_mode(mode as u32)).map(|()| Vec::new())
        }
        ("attributes", []) => attributes(&file.metadata()?),
        ("size", []) => Ok(vec![file.metadata()?.len()]),
        ("map", []) => map(file).map(|bytes| checked(&bytes)),
        _ => Err(wrong(words)),
    }
}

fn append(file: &File, pieces: &[&[u8]]) -> io::Result<Vec<u64>> {
    let piece = |bytes: &&[u8]| libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let pieces: Vec<libc::iovec> = pieces.iter().map(piece).collect();
    let (fd, count) = (file.as_raw_fd(), pieces.len() as i32);
    // SAFETY: the pieces are those of slices, which are only read.
    let written = unsafe { libc::pwritev2(fd, pieces.as_ptr(), count, 0, libc::RWF_APPEND) };
    if written < 0 { Err(io::Error::last_os_error()) } else { Ok(vec![written as u64]) }
}

fn attributes(of: &Metadata) -> io::Result<Vec<u64>> {
    let time = |seconds: i64, nanoseconds: i64| (seconds * 1_000_000_000 + nanoseconds) as u64;
    let (mtime, ctime) = (time(of.mtime(), of.mtime_nsec()), time(of.ctime(), of.ctime_nsec()));
    let (mode, links, owner) = (of.mode().into(), of.nlink(), of.uid().into());
    Ok(vec![of.len(), of.blocks(), mode, links, owner, mtime, ctime])
}

/// Reads the same bytes by several threads, again and again.
fn read_by_threads(file: &File, threads: u64, count: u64) -> io::Result<Vec<u64>> {
    let read = || -> io::Result<[u8; 4096]> {
        let mut bytes = [0; 4096];
        file.read_exact_at(&mut bytes, 0).map(|()| bytes)
    };
    let first = read()?;
    let differ = || (0..count).filter(|_| !read().is_ok_and(|bytes| bytes == first)).count();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(differ)).collect();
        Ok(vec![threads.into_iter().map(|thread| thread.join().expect("no panic") as u64).sum()])
    })
}

/// Writes records while another thread has children, which end at once.
fn write_beside_forks(file: &mut File, records: Vec<Vec<u8>>) -> io::Result<()> {
    std::thread::scope(|scope| {
        let writer =
            scope.spawn(move || records.iter().try_for_each(|record| file.write_all(record)));
        while !writer.is_finished() {
            // SAFETY: the child does nothing but end.
            match unsafe { libc::fork() } {
                // SAFETY: it ends this process.
                0 => unsafe { libc::_exit(0) },
                // SAFETY: no status is asked for.
                child => unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) },
            };
        }
        writer.join().expect("no panic")
    })
}

fn allocate(file: &File, mode: i32, at: u64, len: u64) -> io::Result<Vec<u64>> {
    let (at, len) = (at.cast_signed(), len.cast_signed());
    // SAFETY: no memory is involved.
    match unsafe { libc::fallocate(file.as_raw_fd(), mode, at, len) } {
        0 => Ok(Vec::new()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// All of a file, as the C library's buffered files read it.
fn buffered(name: &str) -> io::Result<Vec<u8>> {
    let path = CString::new(name)?;
    // SAFETY: both texts end with a zero.
    let file = unsafe { libc::fopen(path.as_ptr(), c"r".as_ptr()) };
    if file.is_null() {
        return Err(io::Error::last_os_error());
    }
    let (mut bytes, mut piece) = (Vec::new(), [0_u8; 3000]);
    loop {
        // SAFETY: the file is open, and `piece` has as many bytes.
        let read = unsafe { libc::fread(piece.as_mut_ptr().cast(), 1, piece.len(), file) };
        if read == 0 {
            break;
        }
        bytes.extend_from_slice(&piece[..read]);
    }
    // SAFETY: it is open, and is not used any more.
    unsafe { libc::fclose(file) };
    Ok(bytes)
}

/// All of a file, by a mapping.
fn map(file: &File) -> io::Result<Vec<u8>> {
    let len = file.metadata()?.len() as usize;
    if len == 0 {
        return Ok(Vec::new());
    }
    let (rights, fd) = (libc::PROT_READ, file.as_raw_fd());
    // SAFETY: a new mapping, wherever the kernel finds room.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), len, rights, libc::MAP_SHARED, fd, 0) };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping is as long as the file was just now, and no test shortens it meanwhile.
    let bytes = unsafe { std::slice::from_raw_parts(at.cast::<u8>(), len) }.to_vec();
    // SAFETY: the mapping just made, of which nothing is used any more.
    unsafe { libc::munmap(at, len) };
    Ok(bytes)
}

fn copy(from: &File, to: &File) -> io::Result<u64> {
    let (mut at, mut to_at, mut copied) = (0, to.metadata()?.len().cast_signed(), 0);
    loop {
        let (from, to) = (from.as_raw_fd(), to.as_raw_fd());
        // SAFETY: the offsets are this frame's.
        match unsafe { libc::copy_file_range(from, &mut at, to, &mut to_at, 1 << 20, 0) } {
            ..0 => return Err(io::Error::last_os_error()),
            0 => return Ok(copied),
            len => copied += len as u64,
        }
    }
}

/// Sends all of a file to the end of another one, as the kernel does it.
fn send(from: &File, mut to: &File) -> io::Result<u64> {
    to.seek(SeekFrom::End(0))?;
    let (mut at, len) = (0, from.metadata()?.len());
    loop {
        // SAFETY: the offset is this frame's.
        match unsafe { libc::sendfile(to.as_raw_fd(), from.as_raw_fd(), &mut at, 1 << 20) } {
            ..0 => return Err(io::Error::last_os_error()),
            0 => return Ok(at.cast_unsigned()),
            _ if at.cast_unsigned() == len => return Ok(len),
            _ => {}
        }
    }
}

/// Writes all of a file to another one, in pieces.
fn relay(from: &File, mut to: &File, piece: usize) -> io::Result<u64> {
    let (mut bytes, mut at) = (vec![0; piece], 0);
    loop {
        match from.read_at(&mut bytes, at)? {
            0 => return Ok(at),
            len => {
                to.write_all(&bytes[..len])?;
                at += len as u64;
            }
        }
    }
}
