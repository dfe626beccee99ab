//! The requests, and the volume that they are made of.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use terrace_engine::{FileKind, Ino, NewInode, SetAttr, Volume, WriteOptions, XattrFlags};
use terrace_transport::Message;
use terrace_transport::abi::{
    CopyFileRangeIn, CreateIn, EntryOut, FallocateIn, FsyncIn, LinkIn, MkdirIn, MknodIn, ReadIn,
    Rename2In, SetattrIn, SetattrValid, SetxattrIn, SyncfsIn, WriteIn,
};
use zerocopy::IntoBytes;

use crate::daemon::Place;
use crate::kernel::Kernel;
use crate::messages::{Answer, Sent};

/// A kind of request.
#[derive(Debug)]
pub struct Kind {
    pub name: &'static str,
    pub place: Place,
    /// What comes before it, and the request.
    pub prepare: fn(&mut Case<'_, '_>) -> Result<Sent>,
}

/// A mount on which all names are known.
#[derive(Debug)]
pub struct Case<'a, 'b> {
    kernel: &'a mut Kernel<'b>,
    inodes: BTreeMap<&'static str, u64>,
}

/// Files and directories of the volume: the directory, the name.
const NAMES: &[(&str, &str)] = &[
    ("", "d"),
    ("", "e"),
    ("", "f"),
    ("", "g"),
    ("", "h"),
    ("", "o"),
    ("", "s"),
    ("d", "x"),
    ("d", "sub"),
];

/// Makes them. `h` is another name of `g`; `o` is long; `s` has set-id bits.
///
/// # Errors
/// The engine's.
pub fn fill(volume: &Volume) -> Result<()> {
    let make = |dir, name: &str, kind, mode| {
        let new = NewInode { kind, mode, umask: 0, uid: 7, gid: 7, rdev: 0 };
        Ok::<_, anyhow::Error>(volume.create(dir, name.as_bytes(), &new)?.ino)
    };
    let file = |dir, name: &str, len: usize, mode| {
        let ino = make(dir, name, FileKind::Regular, mode)?;
        let written = volume.write(ino, 0, &data(len, 1), WriteOptions::default())?;
        ensure!(written == len, "a short write");
        Ok::<_, anyhow::Error>(ino)
    };
    let d = make(Ino::ROOT, "d", FileKind::Directory, 0o755)?;
    make(Ino::ROOT, "e", FileKind::Directory, 0o755)?;
    let f = file(Ino::ROOT, "f", 3 * 4096, 0o644)?;
    let g = file(Ino::ROOT, "g", 2 * 4096 + 100, 0o600)?;
    volume.link(g, Ino::ROOT, b"h")?;
    file(Ino::ROOT, "o", 24 * 4096, 0o644)?;
    file(Ino::ROOT, "s", 100, 0o6755)?;
    file(d, "x", 4096, 0o644)?;
    make(d, "sub", FileKind::Directory, 0o755)?;
    volume.setxattr(f, b"user.small", b"value", XattrFlags::default(), None)?;
    volume.setxattr(f, b"user.big", &data(6000, 2), XattrFlags::default(), None)?;
    Ok(())
}

/// A file that takes what room there is.
pub const BALLAST: &str = "ballast";

/// Takes all room in PM but what is kept for removing.
///
/// # Errors
/// The engine's.
pub fn fill_up(volume: &Volume) -> Result<()> {
    fill(volume)?;
    let new = NewInode { kind: FileKind::Regular, mode: 0o600, umask: 0, uid: 0, gid: 0, rdev: 0 };
    let ino = volume.create(Ino::ROOT, BALLAST.as_bytes(), &new)?.ino;
    let no_room = |done: std::result::Result<(), terrace_engine::FsError>| match done {
        Ok(()) => Ok(false),
        Err(error) if error.errno() == libc::ENOSPC => Ok(true),
        Err(error) => Err(error),
    };
    let value = data(4096, 3);
    for n in 0.. {
        let name = format!("user.{n}");
        let set = volume.setxattr(ino, name.as_bytes(), &value, XattrFlags::default(), None);
        if no_room(set)? {
            break;
        }
    }
    for n in 0.. {
        let mode = Some(0o600 + n % 2);
        let set = volume.setattr(ino, &SetAttr { mode, ..SetAttr::default() });
        if no_room(set.map(drop))? {
            return Ok(());
        }
    }
    Ok(())
}

/// So many bytes.
fn data(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251 + seed * 31) as u8).collect()
}

impl<'a, 'b> Case<'a, 'b> {
    /// Looks all names up.
    ///
    /// # Errors
    /// One is not there.
    pub fn new(kernel: &'a mut Kernel<'b>) -> Result<Self> {
        let mut case = Case { kernel, inodes: BTreeMap::from([("", 1)]) };
        for &(dir, name) in NAMES {
            let found = case.kernel.call(Sent::lookup(case.ino(dir)?, name.as_bytes()))?;
            case.inodes.insert(name, found.value::<EntryOut>()?.nodeid);
        }
        Ok(case)
    }

    fn ino(&self, name: &str) -> Result<u64> {
        self.inodes.get(name).copied().with_context(|| format!("no {name}"))
    }

    /// A request that must succeed.
    fn done(&mut self, sent: Sent) -> Result<Answer> {
        let kind = sent.kind;
        let answer = self.kernel.call(sent)?;
        ensure!(answer.errno == 0, "{kind:?}: errno {}", answer.errno);
        Ok(answer)
    }

    fn of(&self, kind: Message, name: &str, parts: &[&[u8]]) -> Result<Sent> {
        Ok(Sent::new(kind, self.ino(name)?, parts))
    }

    fn unlink(&self, dir: &str, name: &str) -> Result<Sent> {
        self.of(Message::Unlink, dir, &[name.as_bytes(), &[0]])
    }

    fn create(&self, dir: &str, name: &str) -> Result<Sent> {
        let create = CreateIn { mode: libc::S_IFREG | 0o640, ..CreateIn::default() };
        self.of(Message::Create, dir, &[create.as_bytes(), name.as_bytes(), &[0]])
    }

    fn tmpfile(&self) -> Result<Sent> {
        let create = CreateIn { mode: libc::S_IFREG | 0o640, ..CreateIn::default() };
        self.of(Message::Tmpfile, "", &[create.as_bytes(), b"x\0"])
    }

    fn link(&self, ino: u64, dir: &str, name: &str) -> Result<Sent> {
        let link = LinkIn { oldnodeid: ino };
        self.of(Message::Link, dir, &[link.as_bytes(), name.as_bytes(), &[0]])
    }

    /// RENAME, from a directory and name to another.
    fn rename(&self, from: (&str, &str), to: (&str, &str), flags: u32) -> Result<Sent> {
        let rename = Rename2In { newdir: self.ino(to.0)?, flags, padding: 0 };
        let names = [from.1.as_bytes(), &[0], to.1.as_bytes(), &[0]].concat();
        self.of(Message::Rename2, from.0, &[rename.as_bytes(), &names])
    }

    fn set(&self, name: &str, set: SetattrIn) -> Result<Sent> {
        self.of(Message::Setattr, name, &[set.as_bytes()])
    }

    fn truncate(&self, name: &str, size: u64) -> Result<Sent> {
        let valid = SetattrValid::SIZE.bits();
        self.set(name, SetattrIn { valid, size, ..SetattrIn::default() })
    }

    /// WRITE, with flags of open(2).
    fn write(&self, name: &str, offset: u64, len: usize, flags: i32) -> Result<Sent> {
        let flags = flags.cast_unsigned();
        let write = WriteIn { offset, size: len as u32, flags, ..WriteIn::default() };
        self.of(Message::Write, name, &[write.as_bytes(), &data(len, 5)])
    }

    fn fallocate(&self, name: &str, mode: i32, offset: u64, length: u64) -> Result<Sent> {
        let mode = mode.cast_unsigned();
        let range = FallocateIn { offset, length, mode, ..FallocateIn::default() };
        self.of(Message::Fallocate, name, &[range.as_bytes()])
    }

    fn copy(&self, kind: Message, from: &str, to: &str, off_out: u64) -> Result<Sent> {
        let (nodeid_out, len) = (self.ino(to)?, 2 * 4096 + 50);
        let copy = CopyFileRangeIn { nodeid_out, off_out, len, ..CopyFileRangeIn::default() };
        self.of(kind, from, &[copy.as_bytes()])
    }

    fn set_attribute(&self, name: &str, key: &str, len: usize, flags: i32) -> Result<Sent> {
        let set = SetxattrIn { size: len as u32, flags: flags.cast_unsigned() };
        let parts = [set.as_bytes(), key.as_bytes(), &[0], &data(len, 9)];
        self.of(Message::Setxattr, name, &parts)
    }

    fn remove_attribute(&self, name: &str, key: &str) -> Result<Sent> {
        self.of(Message::Removexattr, name, &[key.as_bytes(), &[0]])
    }

    fn fsync(&self, name: &str) -> Result<Sent> {
        self.of(Message::Fsync, name, &[FsyncIn::default().as_bytes()])
    }

    fn chmod(&self, name: &str, mode: u32) -> Result<Sent> {
        let valid = SetattrValid::MODE.bits();
        self.set(name, SetattrIn { valid, mode, ..SetattrIn::default() })
    }

    /// One more entry has the log of `/` (0) or of `f` (1) compacted.
    fn wear(&mut self, which: usize) -> Result<()> {
        for count in 0..self.kernel.devices().wear[which] {
            self.done(self.chmod(["", "f"][which], 0o700 + count as u32 % 2)?)?;
        }
        Ok(())
    }

    /// Fills the log of an inode up to where it would need more room.
    fn exhaust(&mut self, name: &str) -> Result<()> {
        for count in 0..1000 {
            let answer = self.kernel.call(self.chmod(name, 0o700 + count % 2)?)?;
            if answer.errno != 0 {
                ensure!(answer.errno == libc::ENOSPC, "{name}: errno {}", answer.errno);
                return Ok(());
            }
        }
        bail!("{name}: its log has room")
    }

    /// The kernel forgets it now.
    fn forgotten(&mut self, name: &str) -> Result<()> {
        let forget = self.kernel.forget(self.ino(name)?);
        self.kernel.tell(forget)
    }
}

macro_rules! kinds {
    ($($place:ident $name:literal |$case:ident| $prepare:expr;)*) => {
        /// All kinds.
        pub const KINDS: &[Kind] = &[$(Kind {
            name: $name,
            place: Place::$place,
            prepare: |$case| $prepare,
        }),*];
    };
}

kinds! {
    Pm "lookup" |case| case.of(Message::Lookup, "", &[b"f\0"]);
    Pm "lookup-absent" |case| case.of(Message::Lookup, "", &[b"none\0"]);
    Pm "lookup-in" |case| { case.forgotten("x")?; Ok(Sent::lookup(case.ino("d")?, b"x")) };
    Pm "create" |case| case.create("", "new");
    Pm "create-in" |case| case.create("d", "new");
    Pm "create-existing" |case| case.create("", "f");
    Pm "mknod" |case| {
        let mknod = MknodIn { mode: libc::S_IFCHR | 0o600, rdev: 0x103, ..MknodIn::default() };
        case.of(Message::Mknod, "d", &[mknod.as_bytes(), b"null\0"])
    };
    Pm "mkdir" |case| {
        case.of(Message::Mkdir, "d", &[MkdirIn { mode: 0o755, umask: 0o22 }.as_bytes(), b"new\0"])
    };
    Pm "symlink" |case| case.of(Message::Symlink, "", &[b"new\0a/target\0"]);
    Pm "symlink-long" |case| case.of(Message::Symlink, "", &[b"new\0", &[b't'; 3000], b"\0"]);
    Pm "link" |case| case.link(case.ino("f")?, "d", "new");
    Pm "link-existing" |case| case.link(case.ino("f")?, "d", "x");
    Pm "link-unnamed" |case| {
        let made = case.done(case.tmpfile()?)?.value::<EntryOut>()?.nodeid;
        case.link(made, "", "new")
    };
    Pm "unlink-open" |case| case.unlink("", "o");
    Pm "unlink" |case| { case.forgotten("o")?; case.unlink("", "o") };
    Pm "unlink-one-of-two" |case| case.unlink("", "h");
    Pm "unlink-absent" |case| case.unlink("", "none");
    Pm "rmdir" |case| case.of(Message::Rmdir, "", &[b"e\0"]);
    Pm "rmdir-forgotten" |case| {
        case.forgotten("e")?;
        case.of(Message::Rmdir, "", &[b"e\0"])
    };
    Pm "rmdir-full" |case| case.of(Message::Rmdir, "", &[b"d\0"]);
    Pm "rename" |case| case.rename(("", "f"), ("", "new"), 0);
    Pm "rename-across" |case| case.rename(("", "f"), ("d", "new"), 0);
    Pm "rename-over" |case| case.rename(("", "f"), ("", "o"), 0);
    Pm "rename-over-forgotten" |case| {
        case.forgotten("o")?;
        case.rename(("", "f"), ("", "o"), 0)
    };
    Pm "rename-over-one-of-two" |case| case.rename(("d", "x"), ("", "g"), 0);
    Pm "rename-over-itself" |case| case.rename(("", "h"), ("", "g"), 0);
    Pm "rename-source-forgotten" |case| {
        case.forgotten("f")?;
        case.rename(("", "f"), ("d", "new"), 0)
    };
    Pm "rename-noreplace" |case| case.rename(("", "f"), ("d", "new"), libc::RENAME_NOREPLACE);
    Pm "rename-noreplace-existing" |case| {
        case.rename(("", "f"), ("d", "x"), libc::RENAME_NOREPLACE)
    };
    Pm "rename-exchange" |case| case.rename(("", "f"), ("d", "sub"), libc::RENAME_EXCHANGE);
    Pm "rename-exchange-here" |case| case.rename(("", "f"), ("", "o"), libc::RENAME_EXCHANGE);
    Pm "rename-whiteout" |case| case.rename(("", "f"), ("d", "new"), libc::RENAME_WHITEOUT);
    Pm "rename-whiteout-here" |case| case.rename(("", "f"), ("", "new"), libc::RENAME_WHITEOUT);
    Pm "rename-directory" |case| case.rename(("d", "sub"), ("", "e"), 0);
    Pm "truncate-down" |case| case.truncate("f", 5000);
    Pm "truncate-all" |case| case.truncate("o", 0);
    Pm "truncate-up" |case| case.truncate("g", 40000);
    Disk "truncate-cached" |case| {
        case.done(case.write("f", 4096, 8192, 0)?)?;
        case.truncate("f", 5000)
    };
    Pm "chmod" |case| case.chmod("f", 0o600);
    Pm "chmod-compacting" |case| { case.wear(1)?; case.chmod("f", 0o600) };
    Pm "append-compacting" |case| {
        case.wear(1)?;
        case.write("f", 0, 60, libc::O_APPEND)
    };
    Pm "setxattr-create-compacting" |case| {
        case.wear(1)?;
        case.set_attribute("f", "user.new", 20, libc::XATTR_CREATE)
    };
    Pm "create-compacting" |case| { case.wear(0)?; case.create("", "new") };
    Pm "unlink-open-compacting" |case| { case.wear(0)?; case.unlink("", "o") };
    Pm "rename-compacting" |case| { case.wear(0)?; case.rename(("", "f"), ("", "new"), 0) };
    Pm "link-compacting" |case| { case.wear(0)?; case.link(case.ino("f")?, "", "new") };
    Full "create-no-room" |case| { case.exhaust("")?; case.create("", "new") };
    Full "unlink-open-no-room" |case| { case.exhaust("")?; case.unlink("", "o") };
    Full "unlink-no-room" |case| {
        case.exhaust("")?;
        case.forgotten("o")?;
        case.unlink("", "o")
    };
    Full "unlink-one-of-two-no-room" |case| {
        case.exhaust("")?;
        case.exhaust("g")?;
        case.unlink("", "h")
    };
    Full "rmdir-no-room" |case| {
        case.exhaust("")?;
        case.of(Message::Rmdir, "", &[b"e\0"])
    };
    Full "rename-over-no-room" |case| {
        case.exhaust("")?;
        case.rename(("", "f"), ("", "o"), 0)
    };
    Full "append-no-room" |case| {
        case.exhaust("g")?;
        case.write("g", 0, 20000, libc::O_APPEND)
    };
    Full "truncate-down-no-room" |case| { case.exhaust("o")?; case.truncate("o", 5000) };
    Full "removexattr-no-room" |case| {
        case.exhaust("f")?;
        case.remove_attribute("f", "user.big")
    };
    Pm "chown-and-truncate" |case| {
        let valid = SetattrValid::UID | SetattrValid::SIZE | SetattrValid::KILL_SUIDGID;
        let valid = valid.bits();
        case.set("s", SetattrIn { valid, uid: 9, size: 10, ..SetattrIn::default() })
    };
    Pm "write-block" |case| case.write("f", 4096, 4096, 0);
    Pm "write-patch" |case| case.write("f", 4200, 30, 0);
    Pm "write-beyond" |case| case.write("f", 30000, 5000, 0);
    Pm "write-large" |case| case.write("o", 100, 40000, 0);
    Pm "append" |case| case.write("g", 0, 60, libc::O_APPEND);
    Pm "append-large" |case| case.write("g", 0, 20000, libc::O_APPEND);
    Pm "append-to-orphan" |case| {
        case.done(case.unlink("", "o")?)?;
        case.write("o", 0, 5000, libc::O_APPEND)
    };
    Disk "write-cached" |case| case.write("f", 4000, 9000, 0);
    Disk "append-cached" |case| case.write("g", 0, 9000, libc::O_APPEND);
    Disk "append-cached-again" |case| {
        case.done(case.write("g", 0, 9000, libc::O_APPEND)?)?;
        case.write("g", 0, 3000, libc::O_APPEND)
    };
    Disk "append-durable" |case| case.write("g", 0, 9000, libc::O_APPEND | libc::O_DSYNC);
    Disk "write-direct" |case| {
        // Another thread answers it, so the order of its last steps, and their number, may differ.
        let (size, offset) = (8192, 4096);
        let write_flags = terrace_transport::abi::WriteFlags::LOCKOWNER.bits();
        let flags = libc::O_DIRECT.cast_unsigned();
        let write = WriteIn { offset, size, write_flags, flags, ..WriteIn::default() };
        case.of(Message::Write, "f", &[write.as_bytes(), &data(8192, 6)])
    };
    Pm "write-and-kill-set-id" |case| {
        let size = 5;
        let write_flags = terrace_transport::abi::WriteFlags::KILL_SUIDGID.bits();
        let write = WriteIn { size, write_flags, ..WriteIn::default() };
        case.of(Message::Write, "s", &[write.as_bytes(), b"hello"])
    };
    Pm "fallocate" |case| case.fallocate("f", 0, 8192, 20000);
    Pm "fallocate-keep-size" |case| {
        case.fallocate("f", libc::FALLOC_FL_KEEP_SIZE, 8192, 20000)
    };
    Pm "punch" |case| {
        case.fallocate("o", libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, 1000, 20000)
    };
    Pm "zero" |case| case.fallocate("o", libc::FALLOC_FL_ZERO_RANGE, 1000, 20000);
    Pm "copy" |case| case.copy(Message::CopyFileRange, "f", "g", 3000);
    Pm "copy-64" |case| case.copy(Message::CopyFileRange64, "f", "g", 8292);
    Disk "copy-cached" |case| case.copy(Message::CopyFileRange64, "f", "g", 8292);
    Pm "setxattr-create" |case| case.set_attribute("g", "user.new", 20, libc::XATTR_CREATE);
    Pm "setxattr-create-large" |case| {
        case.set_attribute("g", "user.new", 9000, libc::XATTR_CREATE)
    };
    Pm "setxattr-create-existing" |case| {
        case.set_attribute("f", "user.big", 20, libc::XATTR_CREATE)
    };
    Pm "setxattr-replace" |case| case.set_attribute("f", "user.big", 20, libc::XATTR_REPLACE);
    Pm "setxattr-replace-large" |case| {
        case.set_attribute("f", "user.small", 9000, libc::XATTR_REPLACE)
    };
    Pm "setxattr-replace-absent" |case| {
        case.set_attribute("f", "user.none", 20, libc::XATTR_REPLACE)
    };
    Pm "setxattr-acl" |case| {
        // Version 2; user: rwx, user 9: r, group: r, mask: r, other: nothing.
        let entries = [(1_u16, 7_u16, u32::MAX), (2, 4, 9), (4, 4, u32::MAX), (16, 4, u32::MAX),
            (32, 0, u32::MAX)];
        let mut acl = 2_u32.to_le_bytes().to_vec();
        for (tag, rights, id) in entries {
            acl.extend([&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat());
        }
        let set = SetxattrIn { size: acl.len() as u32, flags: 0 };
        let parts = [set.as_bytes(), b"system.posix_acl_access\0", &acl];
        case.of(Message::Setxattr, "f", &parts)
    };
    Pm "removexattr" |case| case.remove_attribute("f", "user.small");
    Pm "removexattr-large" |case| case.remove_attribute("f", "user.big");
    Pm "removexattr-absent" |case| case.remove_attribute("f", "user.none");
    Pm "fsync" |case| {
        case.done(case.write("f", 4200, 30, 0)?)?;
        case.fsync("f")
    };
    Disk "fsync-cached" |case| {
        case.done(case.write("f", 4000, 9000, 0)?)?;
        case.fsync("f")
    };
    Disk "syncfs" |case| {
        case.done(case.write("f", 4000, 9000, 0)?)?;
        case.done(case.write("g", 0, 5000, libc::O_APPEND)?)?;
        case.forgotten("o")?;
        case.done(case.unlink("", "o")?)?;
        Ok(Sent::new(Message::Syncfs, 1, &[SyncfsIn::default().as_bytes()]))
    };
    Pm "tmpfile" |case| case.tmpfile();
    Pm "readdirplus" |case| {
        let read = ReadIn { size: 8192, ..ReadIn::default() };
        case.of(Message::Readdirplus, "", &[read.as_bytes()])
    };
    Pm "readdirplus-short" |case| {
        // With room for some names.
        let read = ReadIn { size: 700, ..ReadIn::default() };
        case.of(Message::Readdirplus, "", &[read.as_bytes()])
    };
    Pm "read-orphan" |case| {
        case.done(case.unlink("", "o")?)?;
        let read = ReadIn { size: 8192, ..ReadIn::default() };
        case.of(Message::Read, "o", &[read.as_bytes()])
    };
    Pm "forget" |case| Ok(case.kernel.forget(case.ino("f")?));
    Pm "forget-some" |case| {
        // One of two lookups.
        case.done(Sent::lookup(1, b"f"))?;
        let forget = case.kernel.forget_one(case.ino("f")?);
        Ok(forget)
    };
    Pm "forget-orphan" |case| {
        case.done(case.unlink("", "o")?)?;
        Ok(case.kernel.forget(case.ino("o")?))
    };
    Disk "forget-dirty-orphan" |case| {
        case.done(case.write("o", 4000, 9000, 0)?)?;
        case.done(case.unlink("", "o")?)?;
        Ok(case.kernel.forget(case.ino("o")?))
    };
    Pm "forget-tmpfile" |case| {
        let made = case.done(case.tmpfile()?)?.value::<EntryOut>()?.nodeid;
        Ok(case.kernel.forget(made))
    };
    Pm "batch-forget" |case| {
        case.done(case.unlink("", "o")?)?;
        case.done(case.unlink("d", "x")?)?;
        case.done(Sent::lookup(1, b"g"))?;
        // One of three lookups of `g`.
        let inodes = [case.ino("o")?, case.ino("g")?, case.ino("x")?, case.ino("f")?];
        Ok(case.kernel.batch_forget(&inodes, Some(case.ino("g")?)))
    };
}
