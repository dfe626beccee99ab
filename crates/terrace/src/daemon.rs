//! Becoming a daemon, and ending as one.
//!
//! The process forks before it starts any thread. The child does the work with the terminal still
//! attached, so that the progress of recovery is seen; the parent waits on a pipe for one message:
//! [`READY`], or the text of the error. Nothing at all means that the child died.

use std::fs::{self, File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::exit;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, mpsc};

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{geteuid, setsid};
use terrace_media::Pm;
use tracing_subscriber::EnvFilter;

use crate::output::{self, in_a_line};

/// The message of a child that serves.
const READY: &[u8] = b"\0";

/// A log that has grown beyond this is put aside when the next daemon starts.
const LOG_BYTES_MAX: u64 = 16 << 20;

/// What the child calls when it serves.
#[derive(Debug)]
pub struct Ready(Option<PipeWriter>);

impl Ready {
    /// For work in the foreground: nobody waits.
    pub fn nobody() -> Self {
        Ready(None)
    }

    /// Whether a command waits in the terminal.
    pub fn is_awaited(&self) -> bool {
        self.0.is_some()
    }

    /// Leaves the terminal and the working directory behind and lets the parent return.
    ///
    /// # Errors
    /// /dev/null cannot be opened, or the parent is gone.
    pub fn serve(&mut self) -> Result<()> {
        let Some(mut pipe) = self.0.take() else {
            return Ok(());
        };
        leave_terminal()?;
        pipe.write_all(READY).context("the command that started this daemon is gone")
    }
}

/// Leaves the terminal and the working directory behind.
///
/// # Errors
/// /dev/null cannot be opened.
pub fn leave_terminal() -> Result<()> {
    std::env::set_current_dir("/")?;
    setsid().context("cannot start a session")?;
    let null = OpenOptions::new().read(true).write(true).open("/dev/null").context("/dev/null")?;
    for standard in 0..=2 {
        // SAFETY: both are open descriptors of this process; nothing owns the standard ones.
        if unsafe { libc::dup2(null.as_raw_fd(), standard) } < 0 {
            return Err(io::Error::last_os_error())
                .context("cannot redirect standard input and output");
        }
    }
    Ok(())
}

/// Runs `work` in a child process and returns when it says that it serves, or with its error. To be
/// called before any thread is started.
///
/// # Errors
/// What `work` returned; the child died.
pub fn in_background(work: impl FnOnce(&mut Ready) -> Result<()>) -> Result<()> {
    let (reader, writer) = io::pipe().context("cannot make a pipe")?;
    // SAFETY: this process has one thread, so the child may do everything that the parent may.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()).context("cannot fork"),
        0 => {
            drop(reader);
            close_inherited(&writer);
            exit(child(work, writer))
        }
        pid => {
            drop(writer);
            parent(reader, pid)
        }
    }
}

/// Closes what a careless parent left open: a daemon must not hold somebody's lock file or pipe for
/// weeks.
fn close_inherited(keep: &PipeWriter) {
    let keep = keep.as_raw_fd() as libc::c_uint;
    for (first, last) in [(3, keep - 1), (keep + 1, libc::c_uint::MAX)] {
        if first <= last {
            // SAFETY: takes numbers only. Nothing in this process owns a descriptor above the
            // standard ones yet, but for the one kept. Where the call is unknown, they stay open,
            // as they did before.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
    }
}

/// The child's whole life; returns its exit status.
fn child(work: impl FnOnce(&mut Ready) -> Result<()>, writer: PipeWriter) -> i32 {
    let mut ready = Ready(Some(writer));
    let Err(error) = work(&mut ready) else {
        return 0;
    };
    match ready.0 {
        // Nobody reads it if the parent was interrupted; there is nobody else to tell.
        Some(mut pipe) => drop(pipe.write_all(format!("{error:#}").as_bytes())),
        None => tracing::error!("{error:#}"),
    }
    1
}

fn parent(mut reader: PipeReader, pid: libc::pid_t) -> Result<()> {
    let mut message = Vec::new();
    reader.read_to_end(&mut message).context("cannot read from the daemon")?;
    if message == READY {
        return Ok(());
    }
    let mut status = 0;
    // SAFETY: `status` is a valid, writable int; `pid` is a child of this process that nobody else
    // waits for.
    unsafe { libc::waitpid(pid, &mut status, 0) };
    if !message.is_empty() {
        bail!("{}", String::from_utf8_lossy(&message));
    }
    match libc::WIFSIGNALED(status) {
        true => bail!(
            "the daemon was killed by signal {} before it served; see its log",
            libc::WTERMSIG(status)
        ),
        false => bail!("the daemon ended before it served; see its log"),
    }
}

/// Where what is traced goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Log {
    /// Appended to a file.
    File(PathBuf),
    /// To the terminal, for a daemon in the foreground.
    Stderr,
    /// Nowhere: there is no directory to write a file to.
    Nowhere,
}

/// Sends what is traced to the log, and makes a panic of any thread the end of the process: a
/// file system that has lost a thread must not go on as if it had not. To be called once.
///
/// # Errors
/// The file cannot be opened.
pub fn start_log(log: &Log) -> Result<()> {
    let filter = EnvFilter::try_from_env("TERRACE_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false);
    let started = match log {
        Log::File(path) => subscriber.with_writer(Mutex::new(Lines(open_log(path)?))).try_init(),
        Log::Stderr => subscriber.with_writer(Mutex::new(Lines(io::stderr()))).try_init(),
        Log::Nowhere => subscriber.with_writer(io::sink).try_init(),
    };
    started.map_err(|error| anyhow!("cannot start the log: {error}"))?;
    std::panic::set_hook(Box::new(|info| {
        let trace = std::backtrace::Backtrace::force_capture();
        tracing::error!("panic: {info}");
        trace.to_string().lines().for_each(|line| tracing::error!("{line}"));
        eprintln!("terrace: panic: {info}");
        std::process::abort();
    }));
    Ok(())
}

/// A log in which each event, which is written at once, is one line, whatever files are called that
/// it is about.
struct Lines<W>(W);

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let line = in_a_line(text.strip_suffix('\n').unwrap_or(&text));
        self.0.write_all(format!("{line}\n").as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn open_log(path: &Path) -> Result<File> {
    if fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() > LOG_BYTES_MAX) {
        let mut old = path.as_os_str().to_owned();
        old.push(".old");
        // If it cannot be renamed, it grows on.
        let _ = fs::rename(path, old);
    }
    let file = terrace_media::private().append(true).create(true).open(path);
    file.with_context(|| {
        format!("{}: cannot write the log; choose another file with --log", path.display())
    })
}

/// Where the daemon for a mountpoint logs: /var/log/terrace for root, $XDG_STATE_HOME/terrace for
/// other users. `None` where that directory cannot be made: a missing home is no reason not to
/// mount.
pub fn default_log(mountpoint: &Path) -> Option<PathBuf> {
    let variable =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let dir = if geteuid().is_root() {
        PathBuf::from("/var/log")
    } else {
        variable("XDG_STATE_HOME")
            .or_else(|| variable("HOME").map(|home| home.join(".local/state")))?
    };
    let dir = dir.join("terrace");
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir).ok()?;
    let name = mountpoint.to_string_lossy().trim_matches('/').replace('/', "-");
    let path = dir.join(format!("{name}.log"));
    open_log(&path).is_ok().then_some(path)
}

/// The directory for the page cache's files if none was chosen.
pub fn default_cache_dir() -> PathBuf {
    PathBuf::from(format!("/dev/shm/terrace-{}", geteuid().as_raw()))
}

/// The directory for the page cache's file: the one chosen, or the user's own below /dev/shm; made
/// if need be. It outlives the daemon, and /dev/shm is open to everybody: so the user's own must
/// belong to this user and be closed to all others.
///
/// # Errors
/// It cannot be made, or is another's.
pub fn cache_dir(chosen: Option<&Path>) -> Result<PathBuf> {
    let uid = geteuid().as_raw();
    let dir = chosen.map_or_else(default_cache_dir, Path::to_owned);
    let advice = || {
        format!(
            "{}: cannot hold the page cache; choose a directory with -o cache_dir=DIR",
            dir.display()
        )
    };
    match fs::DirBuilder::new().mode(0o700).create(&dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(error).with_context(advice);
        }
        _ => {}
    }
    if chosen.is_some() {
        return Ok(dir);
    }
    let meta = fs::symlink_metadata(&dir).with_context(advice)?;
    if !meta.is_dir() || meta.uid() != uid || meta.mode() & 0o077 != 0 {
        return Err(anyhow!("it is not a directory of user {uid} that is closed to others"))
            .with_context(advice);
    }
    Ok(dir)
}

/// The directory for the socket of a mount that lends files to the members of a group, who can open
/// none of [`cache_dir`]: the user's own below /dev/shm; made if need be.
///
/// # Errors
/// It cannot be made, is another's, or this user may not give it to the group.
pub fn group_dir(name: &str, gid: u32) -> Result<PathBuf> {
    let uid = geteuid().as_raw();
    let dir = PathBuf::from(format!("/dev/shm/terrace-{uid}-group-{gid}"));
    let failed = || format!("lend=group={name}: {}", dir.display());
    match fs::DirBuilder::new().mode(0o700).create(&dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(error).with_context(failed);
        }
        _ => {}
    }
    let meta = fs::symlink_metadata(&dir).with_context(failed)?;
    if !meta.is_dir() || meta.uid() != uid || meta.mode() & 0o027 != 0 {
        bail!("{}: it is no directory of user {uid} that is closed to others", failed());
    }
    if meta.gid() != gid {
        let advice = || format!("{}: root or a member of the group may lend to it", failed());
        std::os::unix::fs::chown(&dir, None, Some(gid)).with_context(advice)?;
    }
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o750)).with_context(failed)?;
    Ok(dir)
}

/// Says so if a daemon that died left pages of the volume on `pm`, which whoever looks at the
/// devices only does not see.
pub fn tell_waiting_pages(pm: &Pm, chosen: Option<&Path>, quiet: bool) {
    let dir = chosen.map_or_else(default_cache_dir, Path::to_owned);
    // Unreadable files are reported when the volume is mounted.
    for (file, pages) in terrace_engine::waiting_pages(pm, &dir).unwrap_or_default() {
        let note = format!(
            "note: {}: {} in {} for a mount without -o ro; this is not looked at here",
            pm.path().display(),
            waiting(pages),
            file.display()
        );
        output::remark(quiet, &note);
    }
}

/// What a daemon that died left, in words.
pub fn waiting(pages: u64) -> String {
    terrace_engine::counted(
        pages,
        "page that was written before the daemon died waits",
        "pages that were written before the daemon died wait",
    )
}

/// The end of the pipe that the signal handler writes to. Set once, before the handler is.
static SIGNAL_PIPE: AtomicI32 = AtomicI32::new(-1);

extern "C" fn on_signal(signal: libc::c_int) {
    let byte = signal as u8;
    // SAFETY: write(2) is async-signal-safe; the descriptor stays open for the life of the process;
    // one byte is read from a live local. The only thing the call can disturb is errno, which is
    // put back.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        libc::write(SIGNAL_PIPE.load(Ordering::Relaxed), (&raw const byte).cast(), 1);
        *errno = before;
    }
}

/// What receives each SIGTERM, SIGINT and SIGHUP from now on, for a command that shows something
/// until one comes.
///
/// # Errors
/// As [`on_termination`].
pub fn terminations() -> Result<mpsc::Receiver<i32>> {
    let (sender, receiver) = mpsc::channel();
    on_termination(move |signal| {
        // A thread that does not listen any more is about to end.
        let _ = sender.send(signal);
    })?;
    Ok(receiver)
}

/// Calls `act` from a thread of its own at each SIGTERM, SIGINT and SIGHUP from now on.
///
/// # Errors
/// No pipe, no thread, or the system refuses a handler.
pub fn on_termination(act: impl Fn(i32) + Send + 'static) -> Result<()> {
    let (mut reader, writer) = io::pipe().context("cannot make a pipe")?;
    SIGNAL_PIPE.store(std::os::fd::IntoRawFd::into_raw_fd(writer), Ordering::Relaxed);
    let listen = move || {
        let mut signal = [0];
        while reader.read_exact(&mut signal).is_ok() {
            act(i32::from(signal[0]));
        }
    };
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(listen)
        .context("cannot start a thread")?;
    handle_signals(TERMINATIONS, on_signal)?;
    // A keeper starts its daemons with these blocked.
    block_signals(TERMINATIONS, false);
    Ok(())
}

/// Signals that ask a process to end.
pub const TERMINATIONS: [libc::c_int; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

/// Has `handler`, which is async-signal-safe, called at these signals.
///
/// # Errors
/// The system refuses a handler.
pub fn handle_signals<const N: usize>(
    signals: [libc::c_int; N],
    handler: extern "C" fn(libc::c_int),
) -> Result<()> {
    for signal in signals {
        // SAFETY: all-zero is a valid sigaction (no flags, empty mask); the handler is
        // async-signal-safe.
        let result = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal, &action, std::ptr::null_mut())
        };
        if result != 0 {
            return Err(io::Error::last_os_error()).context("cannot handle signals");
        }
    }
    Ok(())
}

/// Has signals wait, or come, in this thread and in those that it starts.
pub fn block_signals<const N: usize>(signals: [libc::c_int; N], block: bool) {
    let how = if block { libc::SIG_BLOCK } else { libc::SIG_UNBLOCK };
    // SAFETY: the set is a valid one of this frame, filled before it is used.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in signals {
            libc::sigaddset(&mut set, signal);
        }
        libc::pthread_sigmask(how, &set, std::ptr::null_mut());
    }
}
