//! Messages of the kernel, and answers to them.

use std::mem::size_of;

use anyhow::{Context, Result, ensure};
use terrace_transport::Message;
use terrace_transport::abi::{Dirent, EntryOut, InHeader};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A message of the kernel: its kind, its inode, and what follows the header.
#[derive(Clone, Debug)]
pub struct Sent {
    pub kind: Message,
    pub ino: u64,
    pub body: Vec<u8>,
}

impl Sent {
    /// A message of these parts.
    pub fn new(kind: Message, ino: u64, parts: &[&[u8]]) -> Self {
        Sent { kind, ino, body: parts.concat() }
    }

    /// LOOKUP.
    pub fn lookup(dir: u64, name: &[u8]) -> Self {
        Sent::new(Message::Lookup, dir, &[name, &[0]])
    }
}

/// What a daemon said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// 0, or an errno.
    pub errno: i32,
    pub bytes: Vec<u8>,
}

impl Answer {
    /// The structure at the beginning of a good answer.
    pub fn value<T: FromBytes + KnownLayout + Immutable>(&self) -> Result<&T> {
        ensure!(self.errno == 0, "errno {}", self.errno);
        T::ref_from_prefix(&self.bytes).map(|(value, _)| value).ok().context("a short answer")
    }
}

/// The bytes of a message with this number.
pub fn message(unique: u64, sent: &Sent) -> Vec<u8> {
    let len = (size_of::<InHeader>() + sent.body.len()) as u32;
    let (opcode, nodeid) = (sent.kind.opcode(), sent.ino);
    let header = InHeader { len, opcode, unique, nodeid, ..InHeader::default() };
    [header.as_bytes(), &sent.body].concat()
}

/// The names in an answer to READDIR.
pub fn listed(bytes: &[u8]) -> Result<Vec<(Dirent, Vec<u8>)>> {
    let mut rest = bytes;
    let mut all = Vec::new();
    while !rest.is_empty() {
        let (dirent, name) = Dirent::read_from_prefix(rest).ok().context("a short listing")?;
        let len = dirent.namelen as usize;
        all.push((dirent, name.get(..len).context("a short name")?.to_vec()));
        rest = &rest[(size_of::<Dirent>() + len).next_multiple_of(8)..];
    }
    Ok(all)
}

/// The same of READDIRPLUS.
pub fn listed_plus(bytes: &[u8]) -> Result<Vec<(EntryOut, Vec<u8>)>> {
    let mut rest = bytes;
    let mut all = Vec::new();
    while !rest.is_empty() {
        let (entry, after) = EntryOut::read_from_prefix(rest).ok().context("a short listing")?;
        let (dirent, name) = Dirent::read_from_prefix(after).ok().context("a short listing")?;
        let len = dirent.namelen as usize;
        all.push((entry, name.get(..len).context("a short name")?.to_vec()));
        let whole = size_of::<EntryOut>() + size_of::<Dirent>() + len;
        rest = &rest[whole.next_multiple_of(8)..];
    }
    Ok(all)
}
