//! The kernel's requests: bytes of a message as checked values.
//!
//! A message is a header, the structure of its kind, and a tail: names, data. The two are taken
//! apart here by length, and nothing is copied.
//!
//! Invariant: a decoded message refers to bytes of the message only, and all that it names lies
//! within them. Names have at least one byte, and no zero or slash among them. A request may still
//! be nonsense (any inode, offset, length): the file system checks that.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::abi::{
    AccessIn, BatchForgetIn, BmapIn, CopyFileRangeIn, CreateIn, FallocateIn, FlushIn, ForgetIn,
    ForgetOne, FsyncIn, GetattrIn, GetxattrIn, InHeader, InitIn, InterruptIn, IoctlIn, LinkIn,
    LockIn, LseekIn, MkdirIn, MknodIn, NotifyRetrieveIn, OpenIn, PollIn, ReadIn, ReleaseIn,
    Rename2In, RenameIn, SetattrIn, SetxattrIn, StatxIn, SyncfsIn, WriteIn,
};
use crate::kind::Message;

/// A message of the kernel, decoded.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Number of the inode that it is about; of the directory where names are made and removed.
    pub ino: u64,
    /// Who asks.
    pub caller: Caller,
    /// For what.
    pub operation: Operation<'a>,
}

/// The process that made the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its thread; 0 if that cannot be seen from the daemon's PID namespace.
    pub pid: u32,
}

/// The operation that is asked for. Structures are described with the protocol's names in
/// [`abi`](crate::abi).
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "variants and fields have the protocol's names")]
pub enum Operation<'a> {
    Lookup {
        name: &'a [u8],
    },
    Forget {
        lookups: u64,
    },
    BatchForget(&'a [ForgetOne]),
    Getattr,
    Statx,
    Setattr(&'a SetattrIn),
    Readlink,
    Symlink {
        name: &'a [u8],
        target: &'a [u8],
    },
    Mknod {
        name: &'a [u8],
        mode: u32,
        umask: u32,
        rdev: u32,
    },
    Mkdir {
        name: &'a [u8],
        mode: u32,
        umask: u32,
    },
    Unlink {
        name: &'a [u8],
    },
    Rmdir {
        name: &'a [u8],
    },
    Rename {
        name: &'a [u8],
        new_parent: u64,
        new_name: &'a [u8],
        flags: u32,
    },
    Link {
        ino: u64,
        name: &'a [u8],
    },
    Open(&'a OpenIn),
    Read(&'a ReadIn),
    Write(&'a WriteIn, &'a [u8]),
    Statfs,
    Release(&'a ReleaseIn),
    Fsync {
        data_only: bool,
    },
    Setxattr {
        name: &'a [u8],
        value: &'a [u8],
        flags: u32,
    },
    Getxattr {
        name: &'a [u8],
        size: u32,
    },
    Listxattr {
        size: u32,
    },
    Removexattr {
        name: &'a [u8],
    },
    Flush,
    Opendir(&'a OpenIn),
    Readdir(&'a ReadIn),
    Readdirplus(&'a ReadIn),
    Releasedir(&'a ReleaseIn),
    Fsyncdir {
        data_only: bool,
    },
    Getlk(&'a LockIn),
    Setlk(&'a LockIn),
    Setlkw(&'a LockIn),
    Access {
        mask: u32,
    },
    Create {
        name: &'a [u8],
        mode: u32,
        umask: u32,
        flags: u32,
    },
    Tmpfile {
        mode: u32,
        umask: u32,
        flags: u32,
    },
    Bmap(&'a BmapIn),
    Ioctl(&'a IoctlIn, &'a [u8]),
    Poll(&'a PollIn),
    Fallocate(&'a FallocateIn),
    Lseek {
        offset: i64,
        whence: u32,
    },
    CopyFileRange {
        copy: &'a CopyFileRangeIn,
        answer_64: bool,
    },
    Syncfs,
    /// The connection ends; what it leads to is closed when the session has ended.
    Destroy,
    /// The program of this request was sent a signal and waits no longer than it must.
    Interrupt {
        unique: u64,
    },
    /// INIT is answered before a session begins, so this one comes too late.
    Init(&'a InitIn),
    NotifyReply(&'a NotifyRetrieveIn),
    /// A message for DAX windows, which no file system on this transport offers.
    Mapping,
}

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// It has no whole header, or not the length that its header says.
    Header,
    /// A kind that this crate does not know.
    Unknown(u32),
    /// Too short, or with a name that cannot be one.
    Body(Message),
}

/// Takes a message as it comes from `/dev/fuse` apart: header, and all that follows it.
pub fn split(message: &[u8]) -> Result<(&InHeader, &[u8]), Malformed> {
    let (header, body) = InHeader::ref_from_prefix(message).map_err(|_| Malformed::Header)?;
    let extensions = usize::from(header.total_extlen) * 8;
    match body.len().checked_sub(extensions) {
        Some(len) if header.len as usize == message.len() => Ok((header, &body[..len])),
        _ => Err(Malformed::Header),
    }
}

/// Decodes a message from its header and what follows.
///
/// # Errors
/// It is none.
pub fn decode<'a>(header: &InHeader, body: &'a [u8]) -> Result<Request<'a>, Malformed> {
    let kind = Message::from_opcode(header.opcode).ok_or(Malformed::Unknown(header.opcode))?;
    let operation = operation(kind, Body(body)).ok_or(Malformed::Body(kind))?;
    let caller = Caller { uid: header.uid, gid: header.gid, pid: header.pid };
    Ok(Request { ino: header.nodeid, caller, operation })
}

fn operation(kind: Message, mut body: Body<'_>) -> Option<Operation<'_>> {
    let body = &mut body;
    Some(match kind {
        Message::Lookup => Operation::Lookup { name: body.name()? },
        Message::Forget => Operation::Forget { lookups: body.take::<ForgetIn>()?.nlookup },
        Message::BatchForget => {
            let count = body.take::<BatchForgetIn>()?.count as usize;
            Operation::BatchForget(<[ForgetOne]>::ref_from_prefix_with_elems(body.0, count).ok()?.0)
        }
        Message::Getattr => body.take::<GetattrIn>().map(|_| Operation::Getattr)?,
        Message::Statx => body.take::<StatxIn>().map(|_| Operation::Statx)?,
        Message::Setattr => Operation::Setattr(body.take()?),
        Message::Readlink => Operation::Readlink,
        Message::Symlink => Operation::Symlink { name: body.name()?, target: body.text()? },
        Message::Mknod => {
            let &MknodIn { mode, rdev, umask, .. } = body.take()?;
            Operation::Mknod { name: body.name()?, mode, umask, rdev }
        }
        Message::Mkdir => {
            let &MkdirIn { mode, umask } = body.take()?;
            Operation::Mkdir { name: body.name()?, mode, umask }
        }
        Message::Unlink => Operation::Unlink { name: body.name()? },
        Message::Rmdir => Operation::Rmdir { name: body.name()? },
        Message::Rename => {
            let new_parent = body.take::<RenameIn>()?.newdir;
            body.rename(new_parent, 0)?
        }
        Message::Rename2 => {
            let &Rename2In { newdir, flags, .. } = body.take()?;
            body.rename(newdir, flags)?
        }
        Message::Link => {
            let ino = body.take::<LinkIn>()?.oldnodeid;
            Operation::Link { ino, name: body.name()? }
        }
        Message::Open => Operation::Open(body.take()?),
        Message::Read => Operation::Read(body.take()?),
        Message::Write => {
            let write: &WriteIn = body.take()?;
            Operation::Write(write, body.bytes(write.size)?)
        }
        Message::Statfs => Operation::Statfs,
        Message::Release => Operation::Release(body.take()?),
        Message::Fsync => Operation::Fsync { data_only: body.take::<FsyncIn>()?.is_data_only() },
        Message::Setxattr => {
            let &SetxattrIn { size, flags } = body.take()?;
            Operation::Setxattr { name: body.text()?, value: body.bytes(size)?, flags }
        }
        Message::Getxattr => {
            let size = body.take::<GetxattrIn>()?.size;
            Operation::Getxattr { name: body.text()?, size }
        }
        Message::Listxattr => Operation::Listxattr { size: body.take::<GetxattrIn>()?.size },
        Message::Removexattr => Operation::Removexattr { name: body.text()? },
        _ => rare_operation(kind, body)?,
    })
}

fn rare_operation<'a>(kind: Message, body: &mut Body<'a>) -> Option<Operation<'a>> {
    Some(match kind {
        Message::Flush => body.take::<FlushIn>().map(|_| Operation::Flush)?,
        Message::Opendir => Operation::Opendir(body.take()?),
        Message::Readdir => Operation::Readdir(body.take()?),
        Message::Readdirplus => Operation::Readdirplus(body.take()?),
        Message::Releasedir => Operation::Releasedir(body.take()?),
        Message::Fsyncdir => {
            Operation::Fsyncdir { data_only: body.take::<FsyncIn>()?.is_data_only() }
        }
        Message::Getlk => Operation::Getlk(body.take()?),
        Message::Setlk => Operation::Setlk(body.take()?),
        Message::Setlkw => Operation::Setlkw(body.take()?),
        Message::Access => Operation::Access { mask: body.take::<AccessIn>()?.mask },
        Message::Create => {
            let &CreateIn { flags, mode, umask, .. } = body.take()?;
            Operation::Create { name: body.name()?, mode, umask, flags }
        }
        Message::Tmpfile => {
            let &CreateIn { flags, mode, umask, .. } = body.take()?;
            Operation::Tmpfile { mode, umask, flags }
        }
        Message::Bmap => Operation::Bmap(body.take()?),
        Message::Ioctl => {
            let ioctl: &IoctlIn = body.take()?;
            Operation::Ioctl(ioctl, body.bytes(ioctl.in_size)?)
        }
        Message::Poll => Operation::Poll(body.take()?),
        Message::Fallocate => Operation::Fallocate(body.take()?),
        Message::Lseek => {
            let &LseekIn { offset, whence, .. } = body.take()?;
            Operation::Lseek { offset: offset.cast_signed(), whence }
        }
        Message::CopyFileRange | Message::CopyFileRange64 => Operation::CopyFileRange {
            copy: body.take()?,
            answer_64: kind == Message::CopyFileRange64,
        },
        Message::Syncfs => body.take::<SyncfsIn>().map(|_| Operation::Syncfs)?,
        Message::Destroy => Operation::Destroy,
        Message::Interrupt => Operation::Interrupt { unique: body.take::<InterruptIn>()?.unique },
        Message::Init => Operation::Init(body.take()?),
        Message::NotifyReply => Operation::NotifyReply(body.take()?),
        Message::Setupmapping | Message::Removemapping => Operation::Mapping,
        _ => return None,
    })
}

impl FsyncIn {
    fn is_data_only(&self) -> bool {
        self.fsync_flags & 1 != 0
    }
}

/// The rest of a message.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    /// The next structure.
    fn take<T: FromBytes + KnownLayout + Immutable>(&mut self) -> Option<&'a T> {
        let (value, rest) = T::ref_from_prefix(self.0).ok()?;
        self.0 = rest;
        Some(value)
    }

    /// The next bytes.
    fn bytes(&mut self, len: u32) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len as usize)?;
        self.0 = rest;
        Some(bytes)
    }

    /// The next text, without the zero that ends it.
    fn text(&mut self) -> Option<&'a [u8]> {
        let len = self.0.iter().position(|&byte| byte == 0)?;
        let text = &self.0[..len];
        self.0 = &self.0[len + 1..];
        Some(text)
    }

    /// The next name.
    fn name(&mut self) -> Option<&'a [u8]> {
        self.text().filter(|name| !name.is_empty() && !name.contains(&b'/'))
    }

    fn rename(&mut self, new_parent: u64, flags: u32) -> Option<Operation<'a>> {
        let (name, new_name) = (self.name()?, self.name()?);
        Some(Operation::Rename { name, new_parent, new_name, flags })
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::IntoBytes;

    use super::*;

    /// A message of this kind with this body, aligned as the kernel's are.
    fn message(kind: Message, body: &[u8]) -> (Vec<u64>, usize) {
        let len = size_of::<InHeader>() + body.len();
        let header = InHeader {
            len: len as u32,
            opcode: kind.opcode(),
            nodeid: 7,
            uid: 8,
            gid: 9,
            pid: 10,
            ..InHeader::default()
        };
        let mut words = vec![0_u64; len.div_ceil(8)];
        let bytes = words.as_mut_slice().as_mut_bytes();
        bytes[..size_of::<InHeader>()].copy_from_slice(header.as_bytes());
        bytes[size_of::<InHeader>()..len].copy_from_slice(body);
        (words, len)
    }

    fn decoded<T>(kind: Message, body: &[u8], look: impl FnOnce(Request<'_>) -> T) -> T {
        let (words, len) = message(kind, body);
        let (header, body) = split(&words.as_bytes()[..len]).unwrap();
        look(decode(header, body).unwrap())
    }

    #[test]
    fn names_and_data_follow_their_structures() {
        let rename = [Rename2In { newdir: 11, flags: 2, padding: 0 }.as_bytes(), b"a\0bc\0"];
        decoded(Message::Rename2, &rename.concat(), |request| {
            assert_eq!(request.ino, 7);
            assert_eq!(request.caller, Caller { uid: 8, gid: 9, pid: 10 });
            let Operation::Rename { name: b"a", new_parent: 11, new_name: b"bc", flags: 2 } =
                request.operation
            else {
                panic!("{request:?}");
            };
        });
        let write = WriteIn { offset: 4096, size: 5, ..WriteIn::default() };
        decoded(Message::Write, &[write.as_bytes(), b"hello"].concat(), |request| {
            let Operation::Write(&found, b"hello") = request.operation else {
                panic!("{request:?}");
            };
            assert_eq!(found, write);
        });
        let set = SetxattrIn { size: 3, flags: 1 };
        decoded(Message::Setxattr, &[set.as_bytes(), b"user.x\0a\0b"].concat(), |request| {
            let Operation::Setxattr { name: b"user.x", value: b"a\0b", flags: 1 } =
                request.operation
            else {
                panic!("{request:?}");
            };
        });
        let two = [ForgetOne { nodeid: 1, nlookup: 2 }, ForgetOne { nodeid: 3, nlookup: 4 }];
        let count = BatchForgetIn { count: 2, dummy: 0 };
        let body = [count.as_bytes(), two.as_bytes()].concat();
        decoded(Message::BatchForget, &body, |request| {
            let Operation::BatchForget(found) = request.operation else {
                panic!("{request:?}");
            };
            assert_eq!(found, two);
        });
    }

    /// A body that every kind takes: zeros for its structure, then names.
    fn long_body() -> Vec<u8> {
        [&[0; 88][..], b"name\0other\0"].concat()
    }

    #[test]
    fn every_kind_is_decoded_and_none_beyond_its_end() {
        for &kind in Message::ALL {
            let body = long_body();
            let is_decoded = |len: usize| {
                let (words, len) = message(kind, &body[body.len() - len..]);
                let (header, body) = split(&words.as_bytes()[..len]).unwrap();
                decode(header, body).is_ok()
            };
            // The names come right behind a structure of the right length.
            assert!((0..=body.len()).any(is_decoded), "{kind:?}");
            let needs_body = !matches!(
                kind,
                Message::Readlink
                    | Message::Statfs
                    | Message::Destroy
                    | Message::Setupmapping
                    | Message::Removemapping
            );
            assert_eq!(is_decoded(0), !needs_body, "{kind:?}");
        }
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        let lookup = |body: &[u8]| {
            let (words, len) = message(Message::Lookup, body);
            let (header, body) = split(&words.as_bytes()[..len]).unwrap();
            decode(header, body).err()
        };
        let refused = Some(Malformed::Body(Message::Lookup));
        assert_eq!(lookup(b"name\0"), None);
        assert_eq!([lookup(b"name"), lookup(b"\0"), lookup(b"a/b\0")], [refused; 3]);
        let write = WriteIn { size: 6, ..WriteIn::default() };
        let (words, len) = message(Message::Write, &[write.as_bytes(), b"hello"].concat());
        let (header, body) = split(&words.as_bytes()[..len]).unwrap();
        assert_eq!(decode(header, body).err(), Some(Malformed::Body(Message::Write)));
        assert_eq!(split(&words.as_bytes()[..len - 1]).err(), Some(Malformed::Header));
        assert_eq!(split(&words.as_bytes()[..39]).err(), Some(Malformed::Header));
    }

    #[test]
    fn unknown_kinds_are_told_apart() {
        let header = InHeader { opcode: 99, ..InHeader::default() };
        assert_eq!(decode(&header, &[]).err(), Some(Malformed::Unknown(99)));
    }

    /// Extensions that nobody asked for are cut off, and may be no longer than the message.
    #[test]
    fn extensions_are_no_part_of_the_body() {
        let (mut words, len) = message(Message::Lookup, b"name\0\0\0\0\0\0\0\0\0\0\0\0");
        let set = |words: &mut [u64], extlen: u16| {
            let bytes = words.as_mut_bytes();
            bytes[36..38].copy_from_slice(&extlen.to_ne_bytes());
        };
        set(&mut words, 1);
        let (_, body) = split(&words.as_bytes()[..len]).unwrap();
        assert_eq!(body.len(), 8);
        set(&mut words, 3);
        assert_eq!(split(&words.as_bytes()[..len]).err(), Some(Malformed::Header));
    }
}
