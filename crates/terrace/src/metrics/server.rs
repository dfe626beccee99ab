//! Serving metrics from a thread of the daemon.
//!
//! Invariants:
//! * Nobody who connects can cost more than [`CONNECTIONS_MAX`] connections, each with a few KiB
//!   and an answer, and each ends after [`EXCHANGE_MAX`], whatever the other side does.
//! * Nobody waits for another: the thread never waits for one connection alone, and one that comes
//!   while there are as many as there may be takes the place of the oldest.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, bind, listen, shutdown,
    socket_with,
};

use super::{Address, http};

/// How long one connection may last.
const EXCHANGE_MAX: Duration = Duration::from_secs(2);
/// How many connections may wait for their turn.
const WAITING_MAX: i32 = 128;
/// Connections that are served at the same time.
const CONNECTIONS_MAX: usize = 16;
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
        Self::start_with(address, EXCHANGE_MAX, text)
    }

    /// As [`Self::start`], with connections that last no longer than this.
    fn start_with(
        address: &Address,
        exchange_max: Duration,
        text: impl Fn() -> String + Send + 'static,
    ) -> Result<Server> {
        let advice = || format!("mount option metrics={address}: cannot be served there");
        let (listener, socket) = match address {
            Address::Socket(path) => {
                bind_socket(path).map(|(it, file)| (Listener::Unix(it), Some(file)))
            }
            Address::Tcp(address) => TcpListener::bind(address)
                .map(|listener| (Listener::Tcp(listener), None))
                .map_err(Into::into),
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
        let work = move || serve(&listener, &stopped, exchange_max, &text);
        let thread = std::thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(work)
            .context("cannot start a thread")?;
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
        if fs::symlink_metadata(&self.path)
            .is_ok_and(|meta| (meta.dev(), meta.ino()) == self.identity)
        {
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

impl Listener {
    fn accept(&self) -> io::Result<Box<dyn Stream>> {
        match self {
            Listener::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok(Box::new(stream))
            }
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok(Box::new(stream))
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Unix(listener) => listener.as_fd(),
            Listener::Tcp(listener) => listener.as_fd(),
        }
    }
}

/// The thread: serves connections until the other end of `stopped` is closed.
fn serve(
    listener: &Listener,
    stopped: &PipeReader,
    exchange_max: Duration,
    text: &dyn Fn() -> String,
) {
    let stops = || PollFd::new(stopped, PollFlags::empty());
    let mut exchanges: VecDeque<Exchange> = VecDeque::new();
    loop {
        let mut events = vec![stops(), PollFd::new(listener, PollFlags::IN)];
        events.extend(
            exchanges.iter().map(|exchange| PollFd::new(&exchange.stream, exchange.waits_for())),
        );
        // They end in the order in which they have come.
        let left = exchanges
            .front()
            .map(|oldest| oldest.deadline.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut events, left.as_ref()) {
            Ok(_) if !events[0].revents().is_empty() => return,
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return tracing::error!("metrics are not served any more: {error}"),
        }
        let somebody_connects = !events[1].revents().is_empty();
        let mut ready = events[2..]
            .iter()
            .map(|event| !event.revents().is_empty())
            .collect::<Vec<_>>()
            .into_iter();
        let now = Instant::now();
        // The failure of one client is its own affair.
        exchanges.retain_mut(|exchange| {
            let goes_on =
                !ready.next().unwrap_or_default() || exchange.go_on(text).unwrap_or_default();
            goes_on && now < exchange.deadline
        });
        if !somebody_connects {
            continue;
        }
        match listener.accept() {
            Ok(stream) => {
                if exchanges.len() == CONNECTIONS_MAX {
                    exchanges.pop_front();
                }
                exchanges.push_back(Exchange::new(stream, now + exchange_max));
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionAborted) => {
            }
            Err(error) => {
                tracing::warn!("a connection for metrics was not taken: {error}");
                let _ = poll(&mut [stops()], Some(&ACCEPT_PAUSE));
            }
        }
    }
}

/// A connection that does not block.
trait Stream: Read + Write + AsFd {}

impl<S: Read + Write + AsFd> Stream for S {}

/// One connection: a request is read, then an answer written, then the rest of what comes is passed
/// over until the other side has done: a connection that is closed while something unread is left
/// in it may take the answer along.
struct Exchange {
    stream: Box<dyn Stream>,
    deadline: Instant,
    received: Vec<u8>,
    /// Once the request is complete.
    answer: Option<Vec<u8>>,
    sent: usize,
}

impl Exchange {
    fn new(stream: Box<dyn Stream>, deadline: Instant) -> Exchange {
        Exchange { stream, deadline, received: Vec::new(), answer: None, sent: 0 }
    }

    fn waits_for(&self) -> PollFlags {
        if self.unsent().is_empty() { PollFlags::IN } else { PollFlags::OUT }
    }

    fn unsent(&self) -> &[u8] {
        self.answer.as_ref().map_or(&[], |answer| &answer[self.sent..])
    }

    /// Does what can be done without waiting; whether more is to come.
    fn go_on(&mut self, text: &dyn Fn() -> String) -> io::Result<bool> {
        let went = if self.unsent().is_empty() { self.receive(text) } else { self.send() };
        match went {
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                Ok(true)
            }
            went => went,
        }
    }

    fn receive(&mut self, text: &dyn Fn() -> String) -> io::Result<bool> {
        let mut buf = [0; 1024];
        let n = self.stream.read(&mut buf)?;
        if n > 0 && self.answer.is_none() {
            self.received.extend_from_slice(&buf[..n]);
            self.answer = http::answer(&self.received, text);
        }
        Ok(n > 0)
    }

    fn send(&mut self) -> io::Result<bool> {
        let answer = self.answer.as_deref().unwrap_or_default();
        self.sent += self.stream.write(&answer[self.sent..])?;
        if self.unsent().is_empty() {
            shutdown(&self.stream, Shutdown::Write)?;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, SocketAddr, TcpStream};

    /// Asks until there is an answer: on a machine where nothing has its turn for [`EXCHANGE_MAX`],
    /// there is none at first.
    fn get<S: Read + Write>(connect: impl Fn() -> io::Result<S>, request: &str) -> String {
        let begun = Instant::now();
        loop {
            let (mut stream, mut answer) = (connect().unwrap(), String::new());
            let told = stream
                .write_all(request.as_bytes())
                .and_then(|()| stream.read_to_string(&mut answer));
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
        let body = format!(
            "POST /metrics HTTP/1.1\r\nContent-Length: 100000\r\n\r\n{}",
            "x".repeat(100_000)
        );
        assert!(get(|| TcpStream::connect(address), &body).starts_with("HTTP/1.1 405 "));
        drop(silent);
        drop(server);
        assert!(TcpStream::connect(address).is_err());
    }

    const HOUR: Duration = Duration::from_secs(3600);

    /// Clients that send half a request, or nothing, or do not read, or will not end, keep nobody
    /// else out, however many there are. They may stay for an hour: an answer does not come from
    /// their end.
    #[test]
    fn nobody_waits_for_another() {
        let any_port = Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let server =
            Server::start_with(&any_port, HOUR, || "terrace_x 1\n".repeat(1 << 18)).unwrap();
        let connect = || TcpStream::connect(server.address.unwrap()).unwrap();
        let mut others = Vec::new();
        for said in ["", "G", &GET[..10], &GET[..GET.len() - 1], GET] {
            others.extend((0..2 * CONNECTIONS_MAX).map(|_| {
                let mut stream = connect();
                stream.write_all(said.as_bytes()).unwrap();
                stream
            }));
            let mut asks = connect();
            asks.write_all(GET.as_bytes()).unwrap();
            let mut answer = String::new();
            asks.read_to_string(&mut answer).unwrap();
            assert!(
                answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("terrace_x 1\n"),
                "beside {said:?}"
            );
            // Its place is free again while it waits for our end.
            others.push(asks);
        }
        drop(server);
    }

    #[test]
    fn connections_end_in_time_and_make_room() {
        let any_port = Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let short = Duration::from_millis(10);
        let server = Server::start_with(&any_port, short, || "terrace_x 1\n".to_owned()).unwrap();
        let connect = || TcpStream::connect(server.address.unwrap()).unwrap();
        for said in ["", &GET[..10]] {
            let mut stream = connect();
            stream.write_all(said.as_bytes()).unwrap();
            let ended = stream.read(&mut [0; 16]);
            assert!(ended.as_ref().is_ok_and(|&n| n == 0) || ended.is_err(), "{ended:?}");
        }
        // With an hour for each, the oldest make room for the youngest.
        let server = Server::start_with(&any_port, HOUR, || "terrace_x 1\n".to_owned()).unwrap();
        let connect = || TcpStream::connect(server.address.unwrap()).unwrap();
        let mut oldest = connect();
        let _younger: Vec<TcpStream> = (0..CONNECTIONS_MAX).map(|_| connect()).collect();
        let ended = oldest.read(&mut [0; 16]);
        assert!(ended.as_ref().is_ok_and(|&n| n == 0) || ended.is_err(), "{ended:?}");
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
