//! Messages between a borrower and the daemon: over a socket of the kind that keeps them apart, a
//! request and its answer at a time. All numbers are little-endian.

/// The layout of control pages, and of these messages. A borrower and a daemon that know different
/// ones have nothing to do with each other.
pub const LAYOUT: u32 = 1;

/// Bytes of every message.
pub const MESSAGE_BYTES: usize = 40;

/// The extended attribute of every file of a mount that names the daemon's socket. It is none that
/// is stored, listed, or can be set.
pub const SOCKET_XATTR: &str = "terrace.direct";

/// What a borrower asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// The first message: it knows this layout. The answer brings PM's descriptor and that of the
    /// control pages.
    Hello {
        /// [`LAYOUT`].
        layout: u32,
    },
    /// To lend an inode, with about so many blocks.
    Borrow {
        /// The inode.
        ino: u64,
        /// PM blocks to write to.
        blocks: u64,
    },
    /// The same, for one that it has.
    Renew {
        /// The inode.
        ino: u64,
        /// PM blocks to write to.
        blocks: u64,
    },
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
    /// The loan.
    Lent {
        /// Number of the control page.
        page: u64,
        /// Generation of the loan.
        generation: u32,
        /// The log is as the borrower left it.
        log_is_same: bool,
    },
    /// It is not lent, for the reason with this number.
    NotLent(u32),
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
    let word = |i: usize| {
        u64::from_le_bytes(bytes[8 + 8 * i..16 + 8 * i].try_into().expect("8 bytes"))
    };
    Some((small(0), small(4), [0, 1, 2, 3].map(word)))
}

impl Request {
    /// The request as it is sent.
    pub fn encode(self) -> [u8; MESSAGE_BYTES] {
        match self {
            Request::Hello { layout } => encode(1, layout, [0; 4]),
            Request::Borrow { ino, blocks } => encode(2, 0, [ino, blocks, 0, 0]),
            Request::Renew { ino, blocks } => encode(3, 0, [ino, blocks, 0, 0]),
            Request::GiveBack { ino } => encode(4, 0, [ino, 0, 0, 0]),
            Request::LetGo { page, generation } => encode(5, generation, [page, 0, 0, 0]),
        }
    }

    /// The request that was received, if it is one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, small, [first, second, ..]) = decode(bytes)?;
        Some(match kind {
            1 => Request::Hello { layout: small },
            2 => Request::Borrow { ino: first, blocks: second },
            3 => Request::Renew { ino: first, blocks: second },
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
            Answer::NotLent(reason) => encode(2, reason, [0; 4]),
            Answer::Unknown => encode(3, 0, [0; 4]),
        }
    }

    /// The answer that was received, if it is one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, small, [first, second, ..]) = decode(bytes)?;
        Some(match kind {
            0 => Answer::Done,
            1 => {
                Answer::Lent { page: first, generation: small, log_is_same: second != 0 }
            }
            2 => Answer::NotLent(small),
            3 => Answer::Unknown,
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
            Request::Borrow { ino: u64::MAX, blocks: 7 },
            Request::Renew { ino: 2, blocks: 1 << 40 },
            Request::GiveBack { ino: 3 },
            Request::LetGo { page: 9, generation: u32::MAX },
        ] {
            assert_eq!(Request::decode(&request.encode()), Some(request));
        }
        for answer in [
            Answer::Done,
            Answer::Lent { page: 5, generation: 1 << 29, log_is_same: true },
            Answer::NotLent(4),
            Answer::Unknown,
        ] {
            assert_eq!(Answer::decode(&answer.encode()), Some(answer));
        }
        let mut other = Request::GiveBack { ino: 3 }.encode();
        other[0] = 77;
        assert_eq!((Request::decode(&other), Answer::decode(&other)), (None, None));
        assert_eq!(Request::decode(&other[1..]), None);
    }
}
