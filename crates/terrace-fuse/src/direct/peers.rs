//! The socket on which processes ask for files, and which of them may.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::config::LoanSocket;
use crate::control::DirectProcess;

/// A process that has connected.
#[derive(Debug)]
pub(super) struct Peer {
    pub socket: OwnedFd,
    /// Its number. It is known here, so its end can be seen.
    pub process: u64,
    pub user: u32,
}

fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Connects to a socket.
///
/// # Errors
/// Nobody listens there.
pub(super) fn connect(path: &Path) -> io::Result<OwnedFd> {
    let socket = socket()?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Listens there, in place of a daemon that has died.
///
/// # Errors
/// The path is no place for a socket, or the group cannot be given to it.
pub(super) fn listen(LoanSocket { path, group }: &LoanSocket) -> io::Result<OwnedFd> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let socket = socket()?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    // Nobody connects before it listens, below.
    if group.is_some() {
        std::os::unix::fs::chown(path, None, *group)?;
    }
    let mode = if group.is_some() { 0o660 } else { 0o600 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    rustix::net::listen(&socket, 64)?;
    Ok(socket)
}

/// An option of a socket that is an array; returns how many of its items are known.
fn option<T: Copy>(socket: &OwnedFd, option: i32, into: &mut [T]) -> io::Result<usize> {
    let mut len = size_of_val(into) as libc::socklen_t;
    let to = into.as_mut_ptr().cast();
    // SAFETY: the descriptor is open, and `into` has as many bytes as `len` says. The kernel fills
    // them with numbers, of which any bytes are some.
    match unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, to, &mut len) } {
        0 => Ok(len as usize / size_of::<T>()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether the process at the other end was in a group when it connected.
fn is_in_group(socket: &OwnedFd, primary: u32, group: u32) -> bool {
    // A process can be in so many groups.
    let mut groups = vec![0_u32; 1 << 16];
    let known = option(socket, libc::SO_PEERGROUPS, &mut groups).unwrap_or(0);
    primary == group || groups[..known].contains(&group)
}

impl Peer {
    /// The process at the other end; `None`: it may not borrow files.
    pub fn of(socket: OwnedFd, group: Option<u32>) -> Option<Self> {
        let mut peer = [libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX }];
        option(&socket, libc::SO_PEERCRED, &mut peer).ok()?;
        let [libc::ucred { pid, uid: user, gid }] = peer;
        // A process of another namespace has no number here: nobody could tell that it has ended.
        let process = u64::try_from(pid).ok().filter(|&process| process != 0);
        let is_trusted = user == 0
            || user == rustix::process::geteuid().as_raw()
            || group.is_some_and(|group| is_in_group(&socket, gid, group));
        let process = process.filter(|_| is_trusted);
        if process.is_none() {
            tracing::debug!("direct: process {pid} of user {user} is refused");
        }
        Some(Self { socket, process: process?, user })
    }

    /// As `terrace status` tells it, without its files.
    pub fn told(&self) -> DirectProcess {
        let Self { process, user, .. } = *self;
        let name = fs::read(format!("/proc/{process}/comm")).unwrap_or_default();
        let name = String::from_utf8_lossy(&name).trim_end().to_owned();
        DirectProcess { process, user, name, inodes: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_processes_may_borrow_and_their_groups_are_known() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let gid = rustix::process::getegid().as_raw();
        let listener = listen(&LoanSocket { path: path.clone(), group: Some(gid) }).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o660);
        let _client = connect(&path).unwrap();
        let socket = rustix::net::accept(&listener).unwrap();
        assert!(is_in_group(&socket, u32::MAX - 1, gid) || !groups_of_self().contains(&gid));
        assert!(is_in_group(&socket, gid, gid) && !is_in_group(&socket, gid, u32::MAX - 1));
        let peer = Peer::of(socket, None).unwrap();
        let user = rustix::process::geteuid().as_raw();
        assert_eq!((peer.process, peer.user), (std::process::id().into(), user));
    }

    fn groups_of_self() -> Vec<u32> {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap();
        line.split_whitespace().map(|group| group.parse().unwrap()).collect()
    }
}
