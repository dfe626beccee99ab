//! The way to the kernel over `/dev/fuse`: one queue for all threads, or one for each.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::abi::InHeader;
use crate::connection::{Connection, FileSystem};
use crate::interrupts;
use crate::kind::Message;
use crate::ledger::{Ledger, MESSAGE_AT};
use crate::load::Load;
use crate::planted::{Step, step};
use crate::reply::Reply;
use crate::request::{decode, split};

/// How long a thread that serves in batches rests: so much later at most it reads an INTERRUPT.
const REST: Duration = Duration::from_millis(5);

/// When a thread that has served all messages asks for the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    AtOnce,
    /// After a rest, for messages that nobody waits for. A thread that waits is woken by whoever
    /// causes the next message, most often on an idle CPU, which costs a virtual machine 20 to
    /// 40 µs. Nobody wakes a thread that rests, and it finds several messages in one batch.
    InBatches,
}

/// Serves the connection with so many threads until it ends. With `own_queues` each has a
/// descriptor and a queue of its own.
///
/// # Errors
/// The connection is broken, or the system gives no thread or descriptor. The threads that run
/// serve on until it ends.
pub(crate) fn serve_all(
    connection: &Connection,
    file_system: &impl FileSystem,
    count: usize,
    own_queues: bool,
) -> io::Result<()> {
    std::thread::scope(|scope| {
        let start = |number: usize| {
            let device = match own_queues && number > 0 {
                true => Arc::new(clone_queue(&connection.device)?),
                false => Arc::clone(&connection.device),
            };
            let serve = move || serve(connection, &device, file_system, number, Pace::AtOnce);
            std::thread::Builder::new()
                .name(format!("terrace-fuse-{number}"))
                .spawn_scoped(scope, serve)
        };
        let mut started = Vec::new();
        let mut result = Ok(());
        for number in 0..count {
            match start(number) {
                Ok(thread) => started.push(thread),
                Err(error) => result = result.and(Err(error)),
            }
        }
        for thread in started {
            result = result.and(thread.join().unwrap_or_else(|p| std::panic::resume_unwind(p)));
        }
        result
    })
}

/// Takes and answers messages until the connection ends, as the thread with this number.
pub(crate) fn serve(
    connection: &Connection,
    device: &Arc<OwnedFd>,
    file_system: &impl FileSystem,
    number: usize,
    pace: Pace,
) -> io::Result<()> {
    let mut buffer = match connection.ledger {
        Some(ledger) => MessageBuffer::kept(ledger, number, connection.message_bytes_max)?,
        None => MessageBuffer::own(connection.message_bytes_max),
    };
    interrupts::serve(&connection.interrupts);
    let buffer_bytes = buffer.space().len();
    let _counted = connection.load.add(Load { threads: 1, buffer_bytes, ..Load::default() });
    loop {
        if let Some(ledger) = connection.ledger {
            // Whoever looks into the buffer of a dead thread finds no message that was served.
            buffer.space()[..size_of::<InHeader>()].fill(0);
            ledger.next_message();
        }
        match rustix::io::read(device, buffer.space()) {
            Ok(len) => {
                step(Step::Taken);
                take(connection, device, buffer.message(len), file_system)?;
                if pace == Pace::InBatches && !has_message(device)? {
                    // A mount that nobody uses rests once, and then waits.
                    std::thread::sleep(REST);
                }
            }
            // The request was interrupted before it was read.
            Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => {}
            Err(Errno::NODEV) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether a message waits, or the connection has ended.
pub(crate) fn has_message(device: &impl AsFd) -> io::Result<bool> {
    let mut waiting = [PollFd::new(device, PollFlags::IN)];
    match poll(&mut waiting, Some(&Timespec::default())) {
        Ok(count) => Ok(count > 0),
        Err(Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

fn take(
    connection: &Connection,
    device: &Arc<OwnedFd>,
    message: &[u8],
    file_system: &impl FileSystem,
) -> io::Result<()> {
    let (header, body) = split(message)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "a malformed FUSE message"))?;
    let kind = Message::from_opcode(header.opcode);
    interrupts::begin(header);
    if !kind.is_none_or(Message::is_answered) {
        connection.dispatch(kind, decode(header, body), Reply::none(), file_system);
        return Ok(());
    }
    let ledger = connection.ledger;
    let under_way = ledger.and_then(|ledger| ledger.enter(header.unique, header.opcode));
    let reply = Reply::new(header.unique, Arc::clone(device), under_way);
    connection.carry_out(header, decode(header, body), (reply, under_way), file_system);
    Ok(())
}

/// Where a message is read into. The data of a WRITE begins on a page, so that a disk can take it
/// without another copy.
struct MessageBuffer {
    bytes: Bytes,
    start: usize,
}

enum Bytes {
    Own(Vec<u8>),
    /// Of the ledger.
    Kept(&'static mut [u8]),
}

impl MessageBuffer {
    const PAGE: usize = 4096;

    fn own(message_bytes_max: usize) -> Self {
        let bytes = vec![0; message_bytes_max + 2 * Self::PAGE];
        let start = bytes.as_ptr().align_offset(Self::PAGE) + MESSAGE_AT;
        Self { bytes: Bytes::Own(bytes), start }
    }

    /// The one of the thread with this number.
    fn kept(ledger: &Ledger, number: usize, message_bytes_max: usize) -> io::Result<Self> {
        let bytes = ledger.sit_down_to_read(number, message_bytes_max + Self::PAGE)?;
        Ok(Self { bytes: Bytes::Kept(bytes), start: MESSAGE_AT })
    }

    fn space(&mut self) -> &mut [u8] {
        match &mut self.bytes {
            Bytes::Own(bytes) => &mut bytes[self.start..],
            Bytes::Kept(bytes) => &mut bytes[self.start..],
        }
    }

    fn message(&self, len: usize) -> &[u8] {
        let bytes = match &self.bytes {
            Bytes::Own(bytes) => bytes.as_slice(),
            Bytes::Kept(bytes) => bytes,
        };
        &bytes[self.start..self.start + len]
    }
}

/// Another descriptor of the connection, with a queue of its own.
fn clone_queue(device: &OwnedFd) -> io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    // _IOR(229, 0, u32)
    const FUSE_DEV_IOC_CLONE: libc::c_ulong = 0x8004_e500;
    let queue = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let original = device.as_raw_fd().cast_unsigned();
    // SAFETY: the ioctl reads one u32, which lives until it returns.
    let done = unsafe { libc::ioctl(queue.as_raw_fd(), FUSE_DEV_IOC_CLONE, &raw const original) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(queue) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_or_the_end_is_seen_before_it_is_read() {
        let (device, kernel) = io::pipe().unwrap();
        assert!(!has_message(&device).unwrap());
        rustix::io::write(&kernel, b"message").unwrap();
        assert!(has_message(&device).unwrap());
        rustix::io::read(&device, &mut [0; 7]).unwrap();
        assert!(!has_message(&device).unwrap());
        drop(kernel);
        assert!(has_message(&device).unwrap(), "the end of the connection is no reason to rest");
    }
}
