//! Open files that go from process to process in messages, by the C library's functions.

use std::ffi::c_uint;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::net::UnixDatagram;

use libc::{cmsghdr, iovec, mmsghdr, msghdr};

/// Descriptors that a message may have.
const MOST: usize = 8;

/// A message of one byte, with room for descriptors.
#[repr(C, align(16))]
struct Message {
    control: [u8; 128],
    byte: u8,
    piece: iovec,
}

impl Message {
    fn new() -> Box<Self> {
        let piece = iovec { iov_base: std::ptr::null_mut(), iov_len: 1 };
        let mut message = Box::new(Self { control: [0; 128], byte: 0, piece });
        message.piece.iov_base = (&raw mut message.byte).cast();
        message
    }

    /// Its header: it stays where it is as long as that is used.
    fn header(&mut self, descriptors: usize) -> msghdr {
        // SAFETY: all zero is a header.
        let mut header: msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = &raw mut self.piece;
        header.msg_iovlen = 1;
        header.msg_control = self.control.as_mut_ptr().cast();
        let bytes = (descriptors * size_of::<RawFd>()) as c_uint;
        // SAFETY: it only computes.
        header.msg_controllen = unsafe { libc::CMSG_SPACE(bytes) } as usize;
        header
    }

    /// Its header, with these descriptors.
    fn with(&mut self, files: &[&File]) -> msghdr {
        assert!(files.len() <= MOST, "a message has no room for so many descriptors");
        let header = self.header(files.len());
        let bytes = files.len() * size_of::<RawFd>();
        // SAFETY: the control bytes have room for a part with `MOST` descriptors.
        unsafe {
            let part: *mut cmsghdr = libc::CMSG_FIRSTHDR(&raw const header);
            (*part).cmsg_level = libc::SOL_SOCKET;
            (*part).cmsg_type = libc::SCM_RIGHTS;
            (*part).cmsg_len = libc::CMSG_LEN(bytes as c_uint) as usize;
            let numbers = libc::CMSG_DATA(part).cast::<RawFd>();
            for (at, file) in files.iter().enumerate() {
                numbers.add(at).write_unaligned(file.as_raw_fd());
            }
        }
        header
    }
}

/// The files that came with a message.
fn files_of(header: &msghdr) -> Vec<File> {
    let mut files = Vec::new();
    // SAFETY: the kernel has filled in the header and the parts, and the descriptors are new.
    unsafe {
        let part = libc::CMSG_FIRSTHDR(header);
        if part.is_null() || (*part).cmsg_type != libc::SCM_RIGHTS {
            return files;
        }
        let bytes = (*part).cmsg_len - libc::CMSG_LEN(0) as usize;
        let numbers = libc::CMSG_DATA(part).cast::<RawFd>();
        for at in 0..bytes / size_of::<RawFd>() {
            files.push(File::from_raw_fd(numbers.add(at).read_unaligned()));
        }
    }
    files
}

/// A way to the inbox of another process.
pub struct Outbox(UnixDatagram);

impl Outbox {
    /// The one to a path.
    pub fn new(path: &str) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        Ok(Self(socket))
    }

    /// Sends open files, in one message.
    pub fn send(&self, files: &[&File]) -> io::Result<()> {
        let mut message = Message::new();
        let header = message.with(files);
        // SAFETY: the header and all that it leads to live during the call.
        match unsafe { libc::sendmsg(self.0.as_raw_fd(), &raw const header, 0) } {
            1 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Sends open files, in a message for each, by one call.
    pub fn send_each(&self, files: &[&File]) -> io::Result<()> {
        let mut messages: Vec<_> = files.iter().map(|_| Message::new()).collect();
        let with = |(message, file): (&mut Box<Message>, &&File)| message.with(&[file]);
        let mut headers: Vec<mmsghdr> = messages
            .iter_mut()
            .zip(files)
            .map(|both| mmsghdr { msg_hdr: with(both), msg_len: 0 })
            .collect();
        let (socket, count) = (self.0.as_raw_fd(), headers.len() as c_uint);
        // SAFETY: as above.
        let sent = unsafe { libc::sendmmsg(socket, headers.as_mut_ptr(), count, 0) };
        match c_uint::try_from(sent) {
            Ok(sent) if sent == count => Ok(()),
            Ok(_) => Err(io::ErrorKind::WriteZero.into()),
            Err(_) => Err(io::Error::last_os_error()),
        }
    }
}

/// Messages to this process.
#[derive(Debug)]
pub struct Inbox(UnixDatagram);

impl Inbox {
    /// One at a path.
    pub fn new(path: &str) -> io::Result<Self> {
        UnixDatagram::bind(path).map(Self)
    }

    /// The open files of the next message.
    pub fn receive(&self) -> io::Result<Vec<File>> {
        let mut message = Message::new();
        let mut header = message.header(MOST);
        // SAFETY: the header and all that it leads to live during the call.
        match unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut header, 0) } {
            1 => Ok(files_of(&header)),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The open files of the next messages, by one call.
    pub fn receive_each(&self, count: usize) -> io::Result<Vec<File>> {
        let mut messages: Vec<_> = (0..count).map(|_| Message::new()).collect();
        let mut headers: Vec<mmsghdr> = messages
            .iter_mut()
            .map(|message| mmsghdr { msg_hdr: message.header(MOST), msg_len: 0 })
            .collect();
        let (socket, none) = (self.0.as_raw_fd(), std::ptr::null_mut());
        // SAFETY: as above.
        let came =
            unsafe { libc::recvmmsg(socket, headers.as_mut_ptr(), count as c_uint, 0, none) };
        let came = usize::try_from(came).map_err(|_| io::Error::last_os_error())?;
        Ok(headers[..came].iter().flat_map(|header| files_of(&header.msg_hdr)).collect())
    }
}
