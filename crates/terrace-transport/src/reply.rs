//! Answers to the kernel.

use std::cell::RefCell;
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use zerocopy::{Immutable, IntoBytes};

use crate::abi::{Dirent, OutHeader};
use crate::ledger::{Past, UnderWay};
use crate::mapped::Mapped;
use crate::planted::{Step, step};
use crate::slot::{Answer, Slot};

/// Largest errno that the kernel accepts in an answer; beyond it, it refuses the answer and the
/// caller hangs.
const ERRNO_MAX: i32 = 511;

/// The answer to one message, to be given once, from any thread. Dropped, it answers EIO: no caller
/// hangs.
#[derive(Debug)]
pub struct Reply {
    /// `None`: it was given, or the kernel waits for none.
    to: Option<To>,
    /// What the ledger has of the request.
    under_way: Option<UnderWay>,
}

/// Where an answer goes.
#[derive(Debug)]
enum To {
    /// To the message with this number, on this connection.
    Device(u64, Arc<OwnedFd>),
    /// To the worker that has the message in its entry.
    Ring(Arc<Slot>),
    /// The same, of a WRITE: its data still lies where answers go.
    RingOfWrite(Arc<Slot>),
}

impl Reply {
    /// To the message with this number, on this connection.
    pub(crate) fn new(unique: u64, device: Arc<OwnedFd>, under_way: Option<UnderWay>) -> Self {
        Self { to: Some(To::Device(unique, device)), under_way }
    }

    /// To the message in a worker's entry.
    pub(crate) fn over_ring(slot: Arc<Slot>, is_write: bool, under_way: Option<UnderWay>) -> Self {
        let to = if is_write { To::RingOfWrite(slot) } else { To::Ring(slot) };
        Self { to: Some(to), under_way }
    }

    /// For a message that is not answered.
    pub(crate) fn none() -> Self {
        Self { to: None, under_way: None }
    }

    /// What was noted of the message, if a daemon before this one took it, too.
    pub fn past(&self) -> Option<Past> {
        self.under_way.as_ref().and_then(UnderWay::past)
    }

    /// Notes what came of the message, for a daemon that takes it again.
    pub fn note_outcome(&self, outcome: u64) {
        if let Some(request) = &self.under_way {
            request.set_outcome(outcome);
        }
    }

    /// It failed.
    pub fn error(mut self, errno: i32) {
        let errno = if (1..=ERRNO_MAX).contains(&errno) { errno } else { libc::EIO };
        self.send(-errno, &[]);
    }

    /// It is done, and there is nothing to say.
    pub fn ok(mut self) {
        self.send(0, &[]);
    }

    /// A structure of [`abi`](crate::abi).
    pub fn value(mut self, value: &(impl IntoBytes + Immutable)) {
        self.send(0, &[IoSlice::new(value.as_bytes())]);
    }

    /// Two structures, one behind the other; or a structure and data.
    pub fn values(
        mut self,
        first: &(impl IntoBytes + Immutable),
        second: &(impl IntoBytes + Immutable + ?Sized),
    ) {
        self.send(0, &[IoSlice::new(first.as_bytes()), IoSlice::new(second.as_bytes())]);
    }

    /// Data.
    pub fn bytes(mut self, bytes: &[u8]) {
        self.send(0, &[IoSlice::new(bytes)]);
    }

    /// Data, of which there are at most `len_bytes`: `fill` stores it and says how much it is. It
    /// finds anything in the buffer. An error is an errno.
    pub fn fill(mut self, len_bytes: usize, fill: impl FnOnce(&mut [u8]) -> Result<usize, i32>) {
        if let Some(To::Ring(slot)) = &self.to {
            let slot = Arc::clone(slot);
            // SAFETY: this is the one reply of a message that is no WRITE.
            let payload = unsafe { slot.payload() };
            return match fill(&mut payload[..len_bytes]) {
                Ok(len) => {
                    self.to = None;
                    slot.give(Answer { error: 0, len, small: [0; 16] });
                }
                Err(errno) => self.error(errno),
            };
        }
        with_buffer(len_bytes, |buffer| match fill(buffer) {
            Ok(len) => self.send(0, &[IoSlice::new(&buffer[..len])]),
            Err(errno) => self.error(errno),
        });
    }

    fn send(&mut self, error: i32, parts: &[IoSlice<'_>]) {
        match self.to.take() {
            None => {}
            Some(To::Device(unique, device)) => {
                self.under_way.iter().for_each(UnderWay::will_be_answered);
                step(Step::Answer);
                send_to_device(&device, unique, error, parts);
                self.under_way.take().into_iter().for_each(UnderWay::is_answered);
            }
            Some(To::Ring(slot)) => {
                // SAFETY: this is the one reply of a message that is no WRITE.
                let len = gather(parts, unsafe { slot.payload() });
                slot.give(Answer { error, len, small: [0; 16] });
            }
            Some(To::RingOfWrite(slot)) => {
                let mut small = [0; 16];
                let len = gather(parts, &mut small);
                slot.give(Answer { error, len, small });
            }
        }
    }
}

/// Puts parts of an answer together; returns their length.
///
/// # Panics
/// If they are longer than the kernel's buffers, or, of a WRITE, than its answers.
fn gather(parts: &[IoSlice<'_>], buffer: &mut [u8]) -> usize {
    let mut len = 0;
    for part in parts {
        buffer[len..len + part.len()].copy_from_slice(part);
        len += part.len();
    }
    len
}

fn send_to_device(device: &OwnedFd, unique: u64, error: i32, parts: &[IoSlice<'_>]) {
    let len = parts.iter().fold(size_of::<OutHeader>(), |len, part| len + part.len());
    let len = u32::try_from(len).expect("answers are shorter than the kernel's buffers");
    let header = OutHeader { len, error, unique };
    let mut all = [IoSlice::new(header.as_bytes()), IoSlice::new(&[]), IoSlice::new(&[])];
    all[1..=parts.len()].copy_from_slice(parts);
    match rustix::io::writev(device, &all[..=parts.len()]) {
        // The caller was killed meanwhile, or the file system was unmounted.
        Ok(_) | Err(Errno::NOENT | Errno::NODEV) => {}
        Err(error) => tracing::error!("the kernel refuses an answer: {error}"),
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.send(-libc::EIO, &[]);
    }
}

/// Runs `use_it` on a buffer of `len_bytes` that the thread keeps from one answer to the next.
fn with_buffer<T>(len_bytes: usize, use_it: impl FnOnce(&mut [u8]) -> T) -> T {
    thread_local! {
        static BUFFER: RefCell<Mapped> = const { RefCell::new(Mapped::none()) };
    }
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.bytes().len() < len_bytes {
            *buffer = Mapped::new(len_bytes);
        }
        use_it(&mut buffer.bytes()[..len_bytes])
    })
}

/// Names of a directory, as answers to READDIR and READDIRPLUS hold them.
#[derive(Debug)]
pub struct Listing<'a> {
    buffer: &'a mut [u8],
    len: usize,
}

impl<'a> Listing<'a> {
    /// An empty one, in a buffer of [`Reply::fill`].
    pub fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, len: 0 }
    }

    /// Adds a name; before it comes `entry`, if the message was READDIRPLUS. `dirent.namelen` is
    /// set here. Says whether there was room.
    pub fn add(
        &mut self,
        entry: Option<&crate::abi::EntryOut>,
        dirent: &Dirent,
        name: &[u8],
    ) -> bool {
        let entry = entry.map_or(&[][..], IntoBytes::as_bytes);
        let namelen = u32::try_from(name.len()).expect("a name");
        let dirent = Dirent { namelen, ..*dirent };
        let unpadded = entry.len() + size_of::<Dirent>() + name.len();
        let Some(place) = self.buffer[self.len..].get_mut(..unpadded.next_multiple_of(8)) else {
            return false;
        };
        let (to_entry, rest) = place.split_at_mut(entry.len());
        let (to_dirent, rest) = rest.split_at_mut(size_of::<Dirent>());
        let (to_name, padding) = rest.split_at_mut(name.len());
        to_entry.copy_from_slice(entry);
        to_dirent.copy_from_slice(dirent.as_bytes());
        to_name.copy_from_slice(name);
        padding.fill(0);
        self.len += unpadded.next_multiple_of(8);
        true
    }

    /// Bytes of the buffer in use.
    pub fn len_bytes(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::EntryOut;

    #[test]
    fn names_are_padded_and_end_where_the_buffer_does() {
        let mut buffer = [0xff; 72];
        let mut listing = Listing::new(&mut buffer);
        let dirent = Dirent { ino: 7, off: 9, type_: 8, namelen: 0 };
        assert!(listing.add(None, &dirent, b"abc"));
        assert!(listing.add(None, &dirent, b"12345678"));
        assert_eq!(listing.len_bytes(), 64);
        assert!(!listing.add(None, &dirent, b""), "24 bytes do not fit into 8");
        assert_eq!(buffer[24..32], *b"abc\0\0\0\0\0");
        assert_eq!(buffer[48..52], 8_u32.to_ne_bytes());
        assert_eq!(buffer[56..64], *b"12345678");
        assert_eq!(buffer[64..], [0xff; 8]);
    }

    #[test]
    fn entries_come_before_their_names() {
        let mut buffer = [0; 160];
        let mut listing = Listing::new(&mut buffer);
        let entry = EntryOut { nodeid: 0x0102, ..EntryOut::default() };
        assert!(listing.add(Some(&entry), &Dirent::default(), b"x"));
        assert_eq!(listing.len_bytes(), 160);
        assert_eq!(buffer[..8], 0x0102_u64.to_ne_bytes());
        assert_eq!(buffer[152], b'x');
    }

    #[test]
    fn buffers_begin_on_a_page() {
        for len in [0, 1, 4096, 1 << 20] {
            with_buffer(len, |buffer| {
                assert_eq!(buffer.len(), len);
                assert_eq!(buffer.as_ptr().align_offset(4096), 0);
            });
        }
    }
}
