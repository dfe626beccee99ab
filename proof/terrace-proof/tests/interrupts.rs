//! Programs that wait for the daemon and get a signal.
//!
//! The disk of the volume lies on another mount, whose daemon is stopped: what the volume's own
//! threads write back hangs there, the page cache is full, and whoever writes waits. Programs are
//! forks of the test that do nothing but system calls.

use std::fs::{self, File};
use std::os::fd::AsRawFd;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, waitpid};
use terrace_proof::{MIB, TestVolume, VolumeSpec, proof, skip};

/// Nothing takes nearly this long.
const LIMIT: Duration = Duration::from_secs(60);
/// How soon a program that got a signal is back: the disk hangs for much longer. This machine may
/// be busy.
const SOON: Duration = Duration::from_secs(3);

/// A program inherits all open files of this process, which would keep another test's mount busy.
static ALONE: Mutex<()> = Mutex::new(());

/// A volume whose disk hangs. Fields are dropped in this order.
struct Hung {
    disk: HungDisk,
    volume: TestVolume,
    _below: TestVolume,
    _alone: MutexGuard<'static, ()>,
}

/// The daemon under the disk is stopped until this is dropped.
struct HungDisk(Pid);

impl Drop for HungDisk {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

impl Hung {
    fn new(name: &str) -> Result<Hung> {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let below = VolumeSpec::new(&format!("{name}-below")).mount()?;
        ensure!(below.is_mount(), skip("needs a mount, not a directory"));
        // PM takes no data, and what is dirty is written back when half of the cache is.
        let volume = VolumeSpec::new(name)
            .disk_in(below.root())
            .disk_mib(256)
            .options("cache=16M,pm_full=1,writeback=600")
            .mount()?;
        // The tables of free blocks need not be read later.
        for name in ["before", "before-2"] {
            fs::write(volume.join(name), vec![1; MIB as usize])?;
            File::open(volume.join(name))?.sync_all()?;
        }
        let below_is = below.serving()?;
        kill_process(below_is, Signal::STOP)?;
        let disk = HungDisk(below_is);
        fs::write(volume.join("dirty"), vec![1; 10 << 20])?;
        let deadline = Instant::now() + LIMIT;
        while !writes_to_disk(volume.serving()?)? {
            ensure!(Instant::now() < deadline, "nothing is written back");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Hung { disk, volume, _below: below, _alone: alone })
    }
}

/// Whether a thread of the volume's own is in a call that writes.
fn writes_to_disk(daemon: Pid) -> Result<bool> {
    let writing =
        [libc::SYS_pwrite64, libc::SYS_pwritev, libc::SYS_pwritev2, libc::SYS_io_uring_enter];
    let is_writing = |task: &Path| {
        let read = |name: &str| fs::read_to_string(task.join(name)).unwrap_or_default();
        let call = read("syscall").split(' ').next().and_then(|call| call.parse().ok());
        !read("comm").starts_with("terrace-fuse") && call.is_some_and(|c| writing.contains(&c))
    };
    let tasks = format!("/proc/{}/task", daemon.as_raw_nonzero());
    Ok(fs::read_dir(tasks)?.flatten().any(|task| is_writing(&task.path())))
}

/// A program and the test share this.
#[derive(Default)]
struct Progress {
    written_bytes: AtomicU64,
    /// Calls that ended with EINTR.
    interrupted: AtomicU64,
    /// How another call failed.
    errno: AtomicU64,
}

/// A fork of this process that writes to a file, killed when dropped.
struct Program {
    process: Pid,
    progress: &'static Progress,
    is_over: bool,
}

extern "C" fn handler(_: libc::c_int) {}

impl Program {
    /// Writes so many bytes, 64 KiB at a time, and begins anew with what was not written after
    /// EINTR. It handles these signals.
    fn start(file: &File, bytes: u64, handled: &[i32], flags: i32) -> Result<Program> {
        let (rights, kind) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping, at no particular address.
        let shared = unsafe { mmap_anonymous(std::ptr::null_mut(), 4096, rights, kind)? };
        // SAFETY: mapped until the program is dropped, filled with zeros, and all atomic.
        let progress: &'static Progress = unsafe { &*shared.cast::<Progress>() };
        let data = vec![7_u8; 64 << 10];
        // SAFETY: the child makes system calls only, and allocates nothing.
        let process = unsafe { libc::fork() };
        if process == 0 {
            for &signal in handled {
                // SAFETY: any bytes are this structure, and the handler does nothing.
                unsafe {
                    let mut action: libc::sigaction = std::mem::zeroed();
                    action.sa_sigaction = handler as *const () as usize;
                    action.sa_flags = flags;
                    libc::sigaction(signal, &raw const action, std::ptr::null_mut());
                }
            }
            write_all(file.as_raw_fd(), &data, bytes, progress);
        }
        let process = Pid::from_raw(process).filter(|_| process > 0).context("fork")?;
        Ok(Program { process, progress, is_over: false })
    }

    fn written_bytes(&self) -> u64 {
        self.progress.written_bytes.load(Ordering::Acquire)
    }

    fn interrupted(&self) -> u64 {
        self.progress.interrupted.load(Ordering::Acquire)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill_process(self.process, signal)?)
    }

    /// Returns once it writes no more, although it has not ended.
    fn wait_until_it_waits(&self) -> Result<()> {
        let (mut before, mut since) = (self.written_bytes(), Instant::now());
        let deadline = Instant::now() + LIMIT;
        while since.elapsed() < Duration::from_millis(500) {
            ensure!(Instant::now() < deadline, "it writes on and on");
            std::thread::sleep(Duration::from_millis(10));
            let now = self.written_bytes();
            if now != before {
                (before, since) = (now, Instant::now());
            }
        }
        let errno = self.progress.errno.load(Ordering::Acquire);
        ensure!(errno == 0, "a write failed: {}", std::io::Error::from_raw_os_error(errno as i32));
        Ok(())
    }

    fn wait(&mut self, limit: Duration) -> Result<WaitStatus> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some((_, status)) = waitpid(Some(self.process), WaitOptions::NOHANG)? {
                self.is_over = true;
                return Ok(status);
            }
            ensure!(Instant::now() < deadline, "the program has not ended after {limit:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if !self.is_over {
            let _ = kill_process(self.process, Signal::KILL);
            let _ = waitpid(Some(self.process), WaitOptions::empty());
        }
        let memory = std::ptr::from_ref(self.progress).cast_mut().cast();
        // SAFETY: the whole mapping, and nobody has the reference any more.
        let _ = unsafe { munmap(memory, 4096) };
    }
}

/// The life of a program.
fn write_all(file: i32, data: &[u8], bytes: u64, progress: &Progress) -> ! {
    let mut done = 0;
    while done < bytes {
        let len = data.len().min((bytes - done) as usize);
        // SAFETY: the data is that long; and this ends the child of a fork without any cleanup.
        unsafe {
            match libc::write(file, data.as_ptr().cast(), len) {
                written @ 0.. => done += written as u64,
                _ if *libc::__errno_location() == libc::EINTR => {
                    progress.interrupted.fetch_add(1, Ordering::AcqRel);
                }
                _ => {
                    progress.errno.store(*libc::__errno_location() as u64, Ordering::Release);
                    libc::_exit(1)
                }
            }
        }
        progress.written_bytes.store(done, Ordering::Release);
    }
    // SAFETY: as above.
    unsafe { libc::_exit(0) }
}

fn must_hold(path: &Path, bytes: u64) -> Result<()> {
    let contents = fs::read(path)?;
    ensure!(contents.len() as u64 == bytes, "{} bytes instead of {bytes}", contents.len());
    ensure!(contents.iter().all(|&byte| byte == 7), "{}: other contents", path.display());
    Ok(())
}

/// The program is told by this signal that it need not wait, and is told so soon.
fn must_interrupt(program: &Program, signal: Signal, path: &Path) -> Result<()> {
    let (before, interrupted, begun) =
        (program.written_bytes(), program.interrupted(), Instant::now());
    program.signal(signal)?;
    while program.interrupted() == interrupted {
        ensure!(begun.elapsed() < SOON, "{signal:?} does not end the wait");
        std::thread::sleep(Duration::from_millis(1));
    }
    println!("{signal:?} ended the wait after {:?}", begun.elapsed());
    ensure!(program.written_bytes() == before, "EINTR, and data was written");
    ensure!(fs::metadata(path)?.len() == before, "EINTR, and the file has grown");
    Ok(())
}

/// **P-47** A call that waits for room, or for what others do, ends when its program gets a signal
/// that kills it. Where the program handles SIGHUP, SIGINT, SIGQUIT, SIGALRM or SIGTERM, write(2),
/// fallocate(2), truncate(2) and copy_file_range(2) fail with EINTR then, unless they have had an
/// effect. Other calls wait on, and other signals that a program handles end no wait.
#[test]
fn a_signal_ends_the_wait_of_a_program() {
    proof(|| {
        let hung = Hung::new("interrupts")?;
        let volume = &hung.volume;
        let watch = volume.kill_after(2 * LIMIT);
        let file = |name: &str| File::create(volume.join(name));
        // More than there are threads, so that none is left to hear of signals.
        let many =
            (0..10).map(|n| file(&format!("of-{n}"))).collect::<std::io::Result<Vec<_>>>()?;

        let asking = [libc::SIGALRM, libc::SIGINT, libc::SIGTERM];
        // The kernel repeats no call on FUSE.
        let mut asked = Program::start(&file("asked")?, 32 * MIB, &asking, libc::SA_RESTART)?;
        asked.wait_until_it_waits()?;
        ensure!(asked.interrupted() == 0 && asked.written_bytes() < 16 * MIB);
        for signal in [Signal::ALARM, Signal::INT, Signal::TERM] {
            must_interrupt(&asked, signal, &volume.join("asked"))?;
        }

        // Its calls would be repeated by any other file system.
        let others = [libc::SIGCHLD, libc::SIGUSR1, libc::SIGWINCH, libc::SIGPROF];
        let mut told = Program::start(&file("told")?, 4 * MIB, &others, libc::SA_RESTART)?;
        told.wait_until_it_waits()?;
        for _ in 0..20 {
            for signal in [Signal::CHILD, Signal::USR1, Signal::WINCH, Signal::PROF, Signal::STOP] {
                told.signal(signal)?;
            }
            std::thread::sleep(Duration::from_millis(20));
            told.signal(Signal::CONT)?;
        }
        ensure!(told.interrupted() == 0 && told.written_bytes() < 4 * MIB, "it waits on");
        asked.signal(Signal::KILL)?;
        asked.wait(SOON)?;

        let start = |file| Program::start(file, 4 * MIB, &[], 0);
        let mut mortals = many.iter().map(start).collect::<Result<Vec<_>>>()?;
        mortals.iter().try_for_each(Program::wait_until_it_waits)?;
        mortals.iter().try_for_each(|mortal| mortal.signal(Signal::TERM))?;
        for mortal in &mut mortals {
            let status = mortal.wait(SOON)?;
            ensure!(status.terminating_signal() == Some(libc::SIGTERM), "{status:?}");
        }

        drop(hung.disk);
        ensure!(told.wait(LIMIT)?.exit_status() == Some(0), "a write failed");
        ensure!(told.interrupted() == 0, "a call that is repeated elsewhere was not");
        must_hold(&volume.join("told"), 4 * MIB)?;
        must_hold(&volume.join("asked"), asked.written_bytes())?;
        File::open(volume.join("told"))?.sync_all()?;
        ensure!(fs::read(volume.join("dirty"))? == vec![1; 10 << 20], "other contents");
        drop((watch, many));
        let mut volume = hung.volume;
        volume.check()
    });
}

/// A program that waits gets a signal, and the daemon is killed: in any order, and at once. The
/// program has what its calls said, and nothing else.
#[test]
fn a_signal_and_the_death_of_the_daemon_come_at_once() {
    proof(|| {
        for pause_ms in [0, 0, 1, 30] {
            let hung = Hung::new("interrupts-kept")?;
            let volume = &hung.volume;
            if !volume.has_keeper() {
                // Over io_uring nobody takes a mount up.
                return Ok(());
            }
            let watch = volume.kill_after(2 * LIMIT);
            let path = volume.join("asked");
            let file = File::create(&path)?;
            let mut asked = Program::start(&file, 16 * MIB, &[libc::SIGALRM], 0)?;
            asked.wait_until_it_waits()?;
            let daemon = volume.serving()?;
            asked.signal(Signal::ALARM)?;
            std::thread::sleep(Duration::from_millis(pause_ms));
            kill_process(daemon, Signal::KILL)?;
            // A thread that waits for the disk dies when that answers.
            drop(hung.disk);
            ensure!(asked.wait(LIMIT)?.exit_status() == Some(0), "a write failed");
            ensure!(asked.interrupted() <= 1, "one signal");
            println!("{pause_ms} ms: {} calls ended with EINTR", asked.interrupted());
            must_hold(&path, 16 * MIB)?;
            drop((watch, file));
            let mut volume = hung.volume;
            volume.check()?;
        }
        Ok(())
    });
}
