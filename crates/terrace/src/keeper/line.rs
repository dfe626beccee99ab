//! Messages between a keeper and one of its daemons. The two may be of different versions, so that
//! [`HANDOVER`](super::takeover::HANDOVER) changes with the words.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

/// Longest message, a word and its text; the rest is cut off.
const MESSAGE_BYTES_MAX: usize = 16 << 10;

/// The purpose of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Word {
    /// From a daemon: the mount is served. From the first one come the device and, if a successor
    /// could take the mount up, the connection.
    Serves = b'+',
    /// From the first daemon: the mount is not served, and why.
    Fails = b'-',
    /// From a daemon: it is to be replaced by one of the program that comes; the number of the
    /// upgrade.
    Upgrade = b'u',
    /// From a daemon of another program: it can take the mount over. It waits for [`Word::Go`].
    Ready = b'r',
    /// An upgrade is not possible, and why: from the other program, and from the keeper to the
    /// daemon that asked.
    Refused = b'n',
    /// From the keeper: the daemon before has ended.
    Go = b'g',
    /// From the keeper after an upgrade: it goes on; empty, or why it is still the program before.
    Kept = b'k',
}

impl Word {
    const ALL: [Word; 7] = [
        Word::Serves,
        Word::Fails,
        Word::Upgrade,
        Word::Ready,
        Word::Refused,
        Word::Go,
        Word::Kept,
    ];
}

/// A message that has come.
#[derive(Debug)]
pub struct Told {
    /// Its purpose.
    pub word: Word,
    /// Details, or a reason.
    pub text: String,
    /// A descriptor that came with it.
    pub descriptor: Option<OwnedFd>,
}

/// One end of the line.
#[derive(Debug)]
pub struct Line(OwnedFd);

impl Line {
    /// Both ends of a new one.
    ///
    /// # Errors
    /// The system gives none.
    pub fn pair() -> io::Result<(Line, Line)> {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (one, other) = socketpair(family, kind, SocketFlags::CLOEXEC, None)?;
        Ok((Line(one), Line(other)))
    }

    /// The end with this descriptor.
    pub fn of(end: OwnedFd) -> Line {
        Line(end)
    }

    /// Sends a message.
    ///
    /// # Errors
    /// Nobody is at the other end.
    pub fn tell(
        &self,
        word: Word,
        text: &str,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors: Vec<BorrowedFd<'_>> = descriptor.into_iter().collect();
        if !descriptors.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        }
        let text = &text.as_bytes()[..text.len().min(MESSAGE_BYTES_MAX - 1)];
        let word = [word as u8];
        let message = [IoSlice::new(&word), IoSlice::new(text)];
        loop {
            match sendmsg(&self.0, &message, &mut ancillary, SendFlags::NOSIGNAL) {
                Err(Errno::INTR) => {}
                sent => return sent.map(drop).map_err(io::Error::from),
            }
        }
    }

    /// Waits for a message; `None`: nobody is at the other end any more.
    ///
    /// # Errors
    /// A message that is none.
    pub fn hear(&self) -> io::Result<Option<Told>> {
        let mut bytes = vec![0; MESSAGE_BYTES_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let mut message = [IoSliceMut::new(&mut bytes)];
            match recvmsg(&self.0, &mut message, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => {}
                // It ended with messages unread.
                Err(Errno::CONNRESET) => return Ok(None),
                received => break received?,
            }
        };
        let descriptor = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        let Some((&word, text)) = bytes[..received.bytes].split_first() else {
            return Ok(None);
        };
        let word = Word::ALL.into_iter().find(|known| *known as u8 == word);
        let word = word.ok_or_else(|| io::Error::other("a message that is none"))?;
        Ok(Some(Told { word, text: String::from_utf8_lossy(text).into_owned(), descriptor }))
    }

    /// As [`Self::hear`], but no longer than `limit`.
    ///
    /// # Errors
    /// The same; nothing came.
    pub fn hear_within(&self, limit: Duration) -> io::Result<Option<Told>> {
        match is_ready(&[self.as_fd()], limit)? {
            None => Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time")),
            Some(_) => self.hear(),
        }
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Waits until one of the descriptors has something to read, or has ended: the index of the first
/// one. `None`: none has in this time.
///
/// # Errors
/// The system's.
pub fn is_ready(descriptors: &[BorrowedFd<'_>], limit: Duration) -> io::Result<Option<usize>> {
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    let mut polled: Vec<PollFd<'_>> =
        descriptors.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    loop {
        match poll(&mut polled, Some(&limit)) {
            Err(Errno::INTR) => {}
            Ok(0) => return Ok(None),
            Err(error) => return Err(error.into()),
            Ok(_) => return Ok(polled.iter().position(|fd| !fd.revents().is_empty())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_one_by_one_with_their_descriptors() {
        let (one, other) = Line::pair().unwrap();
        let file = tempfile::tempfile().unwrap();
        one.tell(Word::Upgrade, "17", Some(file.as_fd())).unwrap();
        one.tell(Word::Go, "", None).unwrap();
        let told = other.hear().unwrap().unwrap();
        assert_eq!((told.word, told.text.as_str()), (Word::Upgrade, "17"));
        assert!(told.descriptor.is_some());
        let told = other.hear_within(Duration::from_secs(9)).unwrap().unwrap();
        assert_eq!((told.word, told.text.as_str()), (Word::Go, ""));
        assert!(other.hear_within(Duration::ZERO).is_err());
        other.tell(Word::Kept, "unread", None).unwrap();
        drop(one);
        assert!(other.hear().unwrap().is_none(), "the other end is gone");
        assert!(other.tell(Word::Kept, "", None).is_err());
    }
}
