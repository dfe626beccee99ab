//! Serving metrics from a thread of the daemon.
//!
//! Invariant: nobody who connects can cost more than one connection at a time, [`EXCHANGE_MAX`] of the thread's time and
//! a few KiB: connections are served one after the other, and each ends by then, whatever the other side does.

use std::fs;
use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, bind, listen, shutdown, socket_with,
};

use super::{Address, http};

/// How long one connection may last.
const EXCHANGE_MAX: Duration = Duration::from_secs(2);
/// How many connections may wait for their turn.
const WAITING_MAX: i32 = 128;
/// How long to wait when the system has no descriptor for a connection.
const ACCEPT_PAUSE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Serves metrics until it is dropped; then its socket is gone, too.
#[derive(Debug)]
pub struct Server {
    /// Its end wakes the thread.
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
    socket: Option<SocketFile>,
    #[cfg(test)]
    address: Option<std::net::SocketAddr>,
}

#[derive(Debug)]
enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Server {
    /// Begins to serve what `text` makes for each request.
    ///
    /// # Errors
    /// The address is in use or not to be had; there is no thread.
    pub fn start(address: &Address, text: impl Fn() -> String + Send + 'static) -> Result<Server> {
        let advice = || format!("mount option metrics={address}: cannot be served there");
        let (listener, socket) = match address {
            Address::Socket(path) => bind_socket(path).map(|(it, file)| (Listener::Unix(it), Some(file))),
            Address::Tcp(address) => {
                TcpListener::bind(address).map(|listener| (Listener::Tcp(listener), None)).map_err(Into::into)
            }
        }
        .with_context(advice)?;
        #[cfg(test)]
        let address = match &listener {
            Listener::Tcp(listener) => listener.local_addr().ok(),
            Listener::Unix(_) => None,
        };
        match &listener {
            Listener::Unix(listener) => listener.set_nonblocking(true)?,
            Listener::Tcp(listener) => listener.set_nonblocking(true)?,
        }
        let (stopped, stop) = io::pipe().context("cannot make a pipe")?;
        let work = move || serve(&listener, &stopped, &text);
        let thread =
            std::thread::Builder::new().name("metrics".to_owned()).spawn(work).context("cannot start a thread")?;
        Ok(Server {
            stop: Some(stop),
            thread: Some(thread),
            socket,
            #[cfg(test)]
            address,
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A panic in it has ended the process.
        let _ = self.thread.take().map(JoinHandle::join);
        drop(self.socket.take());
    }
}

/// The file of a UNIX socket, which goes when it is dropped, unless another has taken its place.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|meta| (meta.dev(), meta.ino()) == self.identity) {
            // Should it stay, the next mount replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Binds a UNIX socket for this user alone; one that a dead daemon has left is replaced.
fn bind_socket(path: &Path) -> Result<(UnixListener, SocketFile)> {
    if let Ok(meta) = fs::symlink_metadata(path) {
        if !meta.file_type().is_socket() {
            bail!("{}: exists and is no socket; choose another name", path.display());
        }
        match UnixStream::connect(path) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path)?,
            _ => bail!("{}: a socket that somebody serves; choose another name", path.display()),
        }
    }
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // The file gets the mode that the socket has when it is bound.
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, WAITING_MAX)?;
    let listener = UnixListener::from(socket);
    let meta = fs::symlink_metadata(path)?;
    Ok((listener, SocketFile { path: path.to_owned(), identity: (meta.dev(), meta.ino()) }))
}

/// The thread: takes connections until the other end of `stopped` is closed.
fn serve(listener: &Listener, stopped: &PipeReader, text: &dyn Fn() -> String) {
    let connects = || match listener {
        Listener::Unix(listener) => listener.as_fd(),
        Listener::Tcp(listener) => listener.as_fd(),
    };
    let stops = || PollFd::new(stopped, PollFlags::empty());
    loop {
        let mut events = [stops(), PollFd::from_borrowed_fd(connects(), PollFlags::IN)];
        match poll(&mut events, None) {
            Ok(_) if !events[0].revents().is_empty() => return,
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return tracing::error!("metrics are not served any more: {error}"),
        }
        let exchanged = match listener {
            Listener::Unix(listener) => listener.accept().map(|(stream, _)| exchange(stream, text)),
            Listener::Tcp(listener) => listener.accept().map(|(stream, _)| exchange(stream, text)),
        };
        match exchanged {
            // What became of one client is its own affair.
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionAborted) => {}
            Err(error) => {
                tracing::warn!("a connection for metrics was not taken: {error}");
                let _ = poll(&mut [stops()], Some(&ACCEPT_PAUSE));
            }
        }
    }
}

/// Reads one request and answers it.
fn exchange(mut stream: impl Read + Write + AsFd, text: &dyn Fn() -> String) -> io::Result<()> {
    let deadline = Instant::now() + EXCHANGE_MAX;
    let mut received = Vec::new();
    let answer = loop {
        if let Some(answer) = http::answer(&received, text) {
            break answer;
        }
        let mut buf = [0; 1024];
        match read_until(&mut stream, &mut buf, deadline)? {
            0 => return Ok(()),
            n => received.extend_from_slice(&buf[..n]),
        }
    };
    let mut rest = &answer[..];
    while !rest.is_empty() {
        set_socket_timeout(&stream, Timeout::Send, Some(left_until(deadline)?))?;
        rest = &rest[stream.write(rest)?..];
    }
    // A connection that is closed while something unread is left in it may take the answer along.
    shutdown(&stream, Shutdown::Write)?;
    let mut buf = [0; 1024];
    while read_until(&mut stream, &mut buf, deadline)? > 0 {}
    Ok(())
}

/// Reads what there is, or waits for something until the deadline.
fn read_until(stream: &mut (impl Read + AsFd), buf: &mut [u8], deadline: Instant) -> io::Result<usize> {
    set_socket_timeout(&*stream, Timeout::Recv, Some(left_until(deadline)?))?;
    stream.read(buf)
}

fn left_until(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, SocketAddr, TcpStream};

    /// Asks until there is an answer: where nothing has its turn for [`EXCHANGE_MAX`], there is none at first.
    fn get<S: Read + Write>(connect: impl Fn() -> io::Result<S>, request: &str) -> String {
        let begun = Instant::now();
        loop {
            let (mut stream, mut answer) = (connect().unwrap(), String::new());
            let told = stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_string(&mut answer));
            if told.is_ok_and(|len| len > 0) {
                return answer;
            }
            assert!(begun.elapsed().as_secs() < 60, "nobody answers");
        }
    }

    const GET: &str = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";

    #[test]
    fn clients_are_served_over_tcp_also_after_one_that_says_nothing() {
        let any_port = Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let server = Server::start(&any_port, || "terrace_x 1\n".to_owned()).unwrap();
        let address = server.address.unwrap();
        let taken = Server::start(&Address::Tcp(address), String::new).unwrap_err();
        assert!(format!("{taken:#}").contains(&format!("metrics={address}")), "{taken:#}");
        let silent = TcpStream::connect(address).unwrap();
        let mut half = TcpStream::connect(address).unwrap();
        half.write_all(&GET.as_bytes()[..10]).unwrap();
        drop(half);
        assert!(get(|| TcpStream::connect(address), GET).ends_with("\r\n\r\nterrace_x 1\n"));
        let body = format!("POST /metrics HTTP/1.1\r\nContent-Length: 100000\r\n\r\n{}", "x".repeat(100_000));
        assert!(get(|| TcpStream::connect(address), &body).starts_with("HTTP/1.1 405 "));
        drop(silent);
        drop(server);
        assert!(TcpStream::connect(address).is_err());
    }

    #[test]
    fn a_socket_is_removed_in_the_end_and_a_dead_one_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let start = || Server::start(&Address::Socket(path.clone()), || "terrace_x 1\n".to_owned());
        // What a daemon that was killed leaves.
        drop(UnixListener::bind(&path).unwrap());
        let server = start().unwrap();
        assert!(get(|| UnixStream::connect(&path), GET).ends_with("\r\n\r\nterrace_x 1\n"));
        assert!(format!("{:#}", start().unwrap_err()).contains("somebody serves"));
        drop(server);
        assert!(!path.exists());

        fs::write(&path, "a file").unwrap();
        assert!(format!("{:#}", start().unwrap_err()).contains("is no socket"));
        fs::remove_file(&path).unwrap();
        let server = start().unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "another's").unwrap();
        drop(server);
        assert!(path.exists(), "what took its place is not its own");
    }
}
