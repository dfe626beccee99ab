//! Messages between a borrower and the daemon: over a socket of the kind that keeps them apart, a
//! request and its answer at a time. All numbers are little-endian.

use super::NotLent;

/// The layout of control pages, and of these messages. A borrower and a daemon that know different
/// ones have nothing to do with each other.
pub const LAYOUT: u32 = 2;

/// Bytes of every message.
pub const MESSAGE_BYTES: usize = 40;

/// The extended attribute of every file of a mount that names the daemon's socket. It is none that
/// is stored, listed, or can be set.
pub const SOCKET_XATTR: &str = "terrace.direct";

/// A loan that a borrower asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The inode.
    pub ino: u64,
    /// About so many PM blocks to write to.
    pub blocks: u64,
    /// How many open files of it the borrower knows to be its own. If there are others, it is not
    /// lent.
    pub opens: u64,
}

/// What a borrower asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// The first message: it knows this layout. The answer is [`Answer::Welcome`].
    Hello {
        /// [`LAYOUT`].
        layout: u32,
    },
    /// To lend an inode.
    Borrow(Wanted),
    /// The same, for one that it has.
    Renew(Wanted),
    /// It is done with an inode.
    GiveBack {
        /// The inode.
        ino: u64,
    },
    /// It stores nothing more on account of a loan that was broken.
    LetGo {
        /// Number of the control page.
        page: u64,
        /// Generation of the loan.
        generation: u32,
    },
}

/// What the daemon answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is done.
    Done,
    /// To the first message, with PM's descriptor and that of the control pages.
    Welcome {
        /// The borrower's process, as the daemon knows it: it may have another number for itself.
        process: u32,
    },
    /// The loan.
    Lent {
        /// Number of the control page.
        page: u64,
        /// Generation of the loan.
        generation: u32,
        /// The log is as the borrower left it.
        log_is_same: bool,
    },
    /// It is not lent.
    NotLent(NotLent),
    /// The daemon knows another layout, or does not know the request.
    Unknown,
}

fn encode(kind: u32, small: u32, words: [u64; 4]) -> [u8; MESSAGE_BYTES] {
    let mut bytes = [0; MESSAGE_BYTES];
    bytes[..4].copy_from_slice(&kind.to_le_bytes());
    bytes[4..8].copy_from_slice(&small.to_le_bytes());
    for (at, word) in bytes[8..].chunks_exact_mut(8).zip(words) {
        at.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

fn decode(bytes: &[u8]) -> Option<(u32, u32, [u64; 4])> {
    let bytes: &[u8; MESSAGE_BYTES] = bytes.try_into().ok()?;
    let small = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
    let word =
        |i: usize| u64::from_le_bytes(bytes[8 + 8 * i..16 + 8 * i].try_into().expect("8 bytes"));
    Some((small(0), small(4), [0, 1, 2, 3].map(word)))
}

impl Request {
    /// The request as it is sent.
    pub fn encode(self) -> [u8; MESSAGE_BYTES] {
        match self {
            Request::Hello { layout } => encode(1, layout, [0; 4]),
            Request::Borrow(Wanted { ino, blocks, opens }) => encode(2, 0, [ino, blocks, opens, 0]),
            Request::Renew(Wanted { ino, blocks, opens }) => encode(3, 0, [ino, blocks, opens, 0]),
            Request::GiveBack { ino } => encode(4, 0, [ino, 0, 0, 0]),
            Request::LetGo { page, generation } => encode(5, generation, [page, 0, 0, 0]),
        }
    }

    /// The request that was received, if it is one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, small, [first, second, third, _]) = decode(bytes)?;
        let wanted = Wanted { ino: first, blocks: second, opens: third };
        Some(match kind {
            1 => Request::Hello { layout: small },
            2 => Request::Borrow(wanted),
            3 => Request::Renew(wanted),
            4 => Request::GiveBack { ino: first },
            5 => Request::LetGo { page: first, generation: small },
            _ => return None,
        })
    }
}

impl Answer {
    /// The answer as it is sent.
    pub fn encode(self) -> [u8; MESSAGE_BYTES] {
        match self {
            Answer::Done => encode(0, 0, [0; 4]),
            Answer::Lent { page, generation, log_is_same } => {
                encode(1, generation, [page, log_is_same.into(), 0, 0])
            }
            Answer::NotLent(reason) => encode(2, reason as u32, [0; 4]),
            Answer::Unknown => encode(3, 0, [0; 4]),
            Answer::Welcome { process } => encode(4, process, [0; 4]),
        }
    }

    /// The answer that was received, if it is one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, small, [first, second, ..]) = decode(bytes)?;
        Some(match kind {
            0 => Answer::Done,
            1 => Answer::Lent { page: first, generation: small, log_is_same: second != 0 },
            2 => Answer::NotLent(*NotLent::ALL.get(small as usize)?),
            3 => Answer::Unknown,
            4 => Answer::Welcome { process: small },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        for request in [
            Request::Hello { layout: LAYOUT },
            Request::Borrow(Wanted { ino: u64::MAX, blocks: 7, opens: 1 }),
            Request::Renew(Wanted { ino: 2, blocks: 1 << 40, opens: 2 }),
            Request::GiveBack { ino: 3 },
            Request::LetGo { page: 9, generation: u32::MAX },
        ] {
            assert_eq!(Request::decode(&request.encode()), Some(request));
        }
        for answer in [
            Answer::Done,
            Answer::Welcome { process: u32::MAX },
            Answer::Lent { page: 5, generation: 1 << 29, log_is_same: true },
            Answer::Unknown,
        ]
        .into_iter()
        .chain(NotLent::ALL.map(Answer::NotLent))
        {
            assert_eq!(Answer::decode(&answer.encode()), Some(answer));
        }
        let mut other = Request::GiveBack { ino: 3 }.encode();
        other[0] = 77;
        assert_eq!((Request::decode(&other), Answer::decode(&other)), (None, None));
        assert_eq!(Request::decode(&other[1..]), None);
    }
}
