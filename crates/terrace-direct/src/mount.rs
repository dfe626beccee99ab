//! A mount whose daemon lends files, as this process knows it: the connection, PM, the control
//! pages.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use terrace_media::Pm;
use terrace_store::delegation::Segment;
use terrace_store::delegation::message::{Answer, LAYOUT, MESSAGE_BYTES, Request, SOCKET_XATTR};

use crate::patient::Patient;

/// How long a thread waits for another one's request.
const PATIENCE: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub struct Mount {
    /// Device number of its files.
    device: u64,
    path: PathBuf,
    /// `None`: the daemon has gone. Its successor is connected to with the next request, if it has
    /// the same control pages.
    connection: Patient<Option<Connection>>,
    /// Loans that this process has let go, which the daemon does not know yet: control page and
    /// generation.
    let_go: Patient<Vec<(u64, u32)>>,
    pm: Arc<Pm>,
    segment: Arc<Segment>,
    /// The file of the control pages.
    memory: (u64, u64),
    process: u32,
    /// The daemon and this process have the same numbers for processes and threads.
    announces: bool,
}

#[derive(Debug)]
struct Connection {
    socket: OwnedFd,
    /// Device and inode number of that socket.
    number: (u64, u64),
    /// This process, as the daemon knows it.
    process: u32,
}

impl Connection {
    /// A program may close descriptors that are not its own, and get the number for another.
    fn is_ours(&self) -> bool {
        inode_of(self.socket.as_fd()).is_ok_and(|now| now == self.number)
    }

    /// Whether the other end is open.
    fn is_alive(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        rustix::net::recv(&self.socket, &mut [0; 1][..], flags) == Err(Errno::AGAIN)
    }
}

/// Why there is no connection to a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoMount {
    /// The file is on no Terrace mount that lends files.
    NotOurs,
    /// The daemon does not answer, refuses this process, or is of another version.
    Refused,
}

/// The socket of the mount that a file is on.
fn socket_path(fd: BorrowedFd<'_>) -> Result<PathBuf, NoMount> {
    let mut bytes = [0; 256];
    match rustix::fs::fgetxattr(fd, SOCKET_XATTR, &mut bytes[..]) {
        Ok(len) if len > 0 => Ok(Path::new(std::ffi::OsStr::from_bytes(&bytes[..len])).to_owned()),
        _ => Err(NoMount::NotOurs),
    }
}

fn connect(path: &Path) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    // A program may close the low numbers as its own.
    let high = rustix::io::fcntl_dupfd_cloexec(&socket, 512).unwrap_or(socket);
    rustix::net::connect(&high, &SocketAddrUnix::new(path)?)?;
    Ok(high)
}

/// Sends a request and waits for its answer, with the descriptors that come along.
fn ask(connection: &OwnedFd, request: Request) -> io::Result<(Answer, Vec<OwnedFd>)> {
    let sent = request.encode();
    while let Err(error) = rustix::net::send(connection, &sent, SendFlags::NOSIGNAL) {
        if error != Errno::INTR {
            return Err(error.into());
        }
    }
    let mut bytes = [0; MESSAGE_BYTES];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    loop {
        let mut ancillary = RecvAncillaryBuffer::new(&mut room);
        let mut slices = [IoSliceMut::new(&mut bytes)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = rustix::net::recvmsg(connection, &mut slices, &mut ancillary, flags);
        let len = match received {
            Err(Errno::INTR) => continue,
            received => received?.bytes,
        };
        let descriptors = ancillary.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect(),
            _ => Vec::new(),
        });
        let descriptors = descriptors.collect();
        let unknown = || io::Error::from(io::ErrorKind::InvalidData);
        return Ok((Answer::decode(&bytes[..len]).ok_or_else(unknown)?, descriptors));
    }
}

/// Which file a descriptor is of.
fn inode_of(fd: BorrowedFd<'_>) -> io::Result<(u64, u64)> {
    let stat = rustix::fs::fstat(fd)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// A connection to the daemon, and the descriptors of PM and of the control pages.
fn greet(path: &Path) -> io::Result<(Connection, [OwnedFd; 2])> {
    let socket = connect(path)?;
    let (answer, descriptors) = ask(&socket, Request::Hello { layout: LAYOUT })?;
    let descriptors = <[OwnedFd; 2]>::try_from(descriptors);
    let (Answer::Welcome { process }, Ok(descriptors)) = (answer, descriptors) else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    let number = inode_of(socket.as_fd())?;
    Ok((Connection { socket, number, process }, descriptors))
}

impl Mount {
    /// Connects to the daemon of the mount that the open file is on, whose device number is
    /// `device`.
    ///
    /// # Errors
    /// See [`NoMount`].
    pub fn of(fd: BorrowedFd<'_>, device: u64) -> Result<Self, NoMount> {
        let path = socket_path(fd)?;
        let open = || -> io::Result<Self> {
            let (connection, [pm, segment]) = greet(&path)?;
            let memory = inode_of(segment.as_fd())?;
            let pm = Pm::of_shared(File::from(pm)).map_err(io::Error::other)?;
            let segment = Arc::new(Segment::of_shared(File::from(segment))?);
            let process = std::process::id();
            let announces = connection.process == process;
            let connection = Patient::new(Some(connection));
            let let_go = Patient::new(Vec::new());
            let path = path.clone();
            Ok(Self { device, path, connection, let_go, pm, segment, memory, process, announces })
        };
        open().map_err(|_| NoMount::Refused)
    }

    /// Device number of its files.
    pub fn device(&self) -> u64 {
        self.device
    }

    /// Whether an open file is on this mount, as far as its socket tells.
    pub fn has(&self, fd: BorrowedFd<'_>) -> bool {
        socket_path(fd).is_ok_and(|path| path == self.path)
    }

    /// Whether the daemon is there. Then the mount is, and the device number is no other's. `None`:
    /// another thread keeps this one from looking.
    pub fn is_alive(&self) -> Option<bool> {
        self.connection.with(PATIENCE, |connection| {
            connection.as_ref().is_some_and(|open| open.is_ours() && open.is_alive())
        })
    }

    /// Whether another mount has taken its place: its daemon answers, and has other control pages.
    /// One without a daemon waits for a successor.
    pub(crate) fn is_replaced(&self) -> bool {
        let look = |connection: &mut _| self.look_for_another(connection);
        self.connection.with(PATIENCE, look) == Some(true)
    }

    fn look_for_another(&self, connection: &mut Option<Connection>) -> bool {
        match connection.as_ref() {
            Some(open) if open.is_ours() && open.is_alive() => return false,
            lost => Self::lose(lost.is_some_and(Connection::is_ours), connection),
        }
        match self.connect_again() {
            Ok(again) => {
                *connection = again;
                connection.is_none()
            }
            Err(_) => false,
        }
    }

    /// This thread is about to open a file, perhaps on this mount. False: that need not be said.
    /// After the open, [`Self::withdraw`] follows. A file that is lent to this process then stays
    /// lent, and one that is made may be lent at once: [`DirectFile::take_up`] takes it.
    ///
    /// [`DirectFile::take_up`]: crate::DirectFile::take_up
    #[inline]
    pub fn announce(&self, thread: u32) -> bool {
        if self.announces {
            self.segment.announce(thread, self.process);
        }
        self.announces
    }

    /// The thread has opened the file, or has failed to.
    #[inline]
    pub fn withdraw(&self, thread: u32) {
        if self.announces {
            self.segment.withdraw(thread, self.process);
        }
    }

    /// A loan of this inode that the daemon has begun by itself.
    pub fn find(&self, ino: u64) -> Option<(usize, u32)> {
        self.segment.find(ino, self.process)
    }

    pub(crate) fn pm(&self) -> &Arc<Pm> {
        &self.pm
    }

    pub(crate) fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    pub(crate) fn process(&self) -> u32 {
        self.process
    }

    /// The daemon's answer. `None`: it has gone, and no successor answers yet; or another thread
    /// has the connection for long, or this one in the middle of a call.
    pub(crate) fn ask(&self, request: Request) -> Option<Answer> {
        self.connection.with(PATIENCE, |connection| self.ask_by(connection, request))?
    }

    /// Gives a file back that this process may have borrowed. If the daemon cannot be told, it
    /// takes the file back with the first message.
    pub fn give_back(&self, ino: u64) {
        self.ask(Request::GiveBack { ino });
    }

    /// Says that this process stores nothing more to what a broken loan has left. If the daemon
    /// cannot be told now, it hears of it before the next request.
    pub(crate) fn let_go(&self, page: u64, generation: u32) {
        self.let_go.with(PATIENCE, |pages| pages.push((page, generation)));
        self.connection.with(PATIENCE, |connection| self.tell_what_was_let_go(connection));
    }

    fn tell_what_was_let_go(&self, connection: &mut Option<Connection>) {
        while let Some((page, generation)) = self.let_go.with(PATIENCE, Vec::pop).flatten() {
            if self.send(connection, Request::LetGo { page, generation }).is_none() {
                self.let_go.with(PATIENCE, |pages| pages.push((page, generation)));
                return;
            }
        }
    }

    fn ask_by(&self, connection: &mut Option<Connection>, request: Request) -> Option<Answer> {
        self.tell_what_was_let_go(connection);
        self.send(connection, request)
    }

    fn send(&self, connection: &mut Option<Connection>, request: Request) -> Option<Answer> {
        if connection.is_none() {
            *connection = self.connect_again().ok()?;
        }
        let open = connection.as_ref()?;
        match open.is_ours().then(|| ask(&open.socket, request)) {
            Some(Ok((answer, _))) => Some(answer),
            lost => {
                Self::lose(lost.is_some(), connection);
                None
            }
        }
    }

    /// There is no connection any more. `is_ours`: its number is still its own.
    fn lose(is_ours: bool, connection: &mut Option<Connection>) {
        let closed = connection.take();
        if !is_ours {
            // The number is the program's.
            std::mem::forget(closed);
        }
    }

    /// A connection to a successor of the daemon, on the same memory. `None`: the daemon that
    /// answers has other memory.
    fn connect_again(&self) -> io::Result<Option<Connection>> {
        let (connection, [_, segment]) = greet(&self.path)?;
        Ok((inode_of(segment.as_fd())? == self.memory).then_some(connection))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use rustix::net::socketpair;

    use super::*;

    /// A mount whose daemon has the other end of a socket.
    fn mount() -> (Mount, OwnedFd) {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (socket, daemon) = socketpair(AddressFamily::UNIX, kind, flags, None).unwrap();
        let number = inode_of(socket.as_fd()).unwrap();
        let mount = Mount {
            device: 0,
            path: PathBuf::new(),
            connection: Patient::new(Some(Connection { socket, number, process: 1 })),
            let_go: Patient::new(Vec::new()),
            pm: Pm::anonymous(4096),
            segment: Arc::new(Segment::new(1).unwrap()),
            memory: (0, 0),
            process: 1,
            announces: false,
        };
        (mount, daemon)
    }

    /// The requests that a daemon gets, each of which it answers.
    fn serve(daemon: &OwnedFd, count: usize) -> Vec<Request> {
        let one = |_| {
            let mut bytes = [0; MESSAGE_BYTES];
            rustix::net::recv(daemon, &mut bytes[..], RecvFlags::empty()).unwrap();
            rustix::net::send(daemon, &Answer::Done.encode(), SendFlags::NOSIGNAL).unwrap();
            Request::decode(&bytes).unwrap()
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn the_daemon_hears_later_of_a_loan_that_was_let_go_while_it_was_busy() {
        let (mount, daemon) = mount();
        let ((held, is_held), (release, released)) = (channel(), channel());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                mount.connection.with(PATIENCE, move |_| {
                    held.send(()).unwrap();
                    released.recv().unwrap();
                })
            });
            is_held.recv().unwrap();
            mount.let_go(7, 3);
            assert_eq!(mount.is_alive(), None, "another thread has the connection");
            release.send(()).unwrap();
        });
        let served = std::thread::scope(|scope| {
            let served = scope.spawn(|| serve(&daemon, 2));
            mount.give_back(5);
            served.join().unwrap()
        });
        let let_go = Request::LetGo { page: 7, generation: 3 };
        assert_eq!(served, [let_go, Request::GiveBack { ino: 5 }]);
        assert_eq!(mount.is_alive(), Some(true));
        drop(daemon);
        // Nobody hears of this one, and it is not forgotten.
        mount.let_go(8, 4);
        assert_eq!(mount.let_go.with(PATIENCE, |pages| pages.clone()), Some(vec![(8, 4)]));
        assert_eq!(mount.is_alive(), Some(false));
    }
}
