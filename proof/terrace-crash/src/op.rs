//! The operations that the model shares with a volume, and what their arguments mean.

/// Names that operations use: few, so that they meet.
pub const NAMES: [&str; 4] =
    ["a", "b", "c", "a-rather-long-name-that-takes-more-than-one-slot-of-the-log-page-xyz"];

/// A directory to play in, by number ([`dir_name`]), or the root; and the number of a name in it
/// ([`name`]).
pub type Path = (Option<usize>, usize);

/// Most bytes that a copy moves.
pub const COPY_BYTES: usize = 30_000;

/// Name number `i`: one of [`NAMES`], or `n` and the number beyond them.
pub fn name(i: usize) -> String {
    NAMES.get(i).map_or_else(|| format!("n{i}"), |name| (*name).to_owned())
}

/// Name of a directory to play in.
pub fn dir_name(i: usize) -> String {
    format!("dir{i}")
}

/// Recognizable bytes.
pub fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| ((i * 7) as u8).wrapping_add(seed).wrapping_add((i >> 8) as u8) | 1).collect()
}

/// How to rename.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameHow {
    /// Over whatever is there.
    Plain,
    /// Not over anything.
    NoReplace,
    /// The two names swap.
    Exchange,
    /// A whiteout stays behind.
    Whiteout,
}

/// `fallocate` modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FallocHow {
    /// Reserve, and grow the file.
    Allocate,
    /// Reserve.
    AllocateKeepSize,
    /// Deallocate.
    PunchHole,
    /// Zero, and grow the file.
    ZeroRange,
    /// Zero.
    ZeroRangeKeepSize,
}

/// Special files beyond named pipes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "plain")]
pub enum Special {
    Block,
    Char,
    Socket,
}

impl Special {
    /// Its device number: a socket has none.
    pub fn rdev(self) -> u32 {
        match self {
            Special::Block => 0x0810,
            Special::Char => 0x0501,
            Special::Socket => 0,
        }
    }
}

/// An operation. Offsets, lengths and sizes are bytes; the last number of a write is the seed of
/// its pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the operations are those of the volume")]
pub enum Op {
    Create(Path),
    /// A file without a name, and then its name.
    CreateByLink(Path),
    Mkdir(Path),
    /// A target of so many bytes.
    Symlink(Path, usize),
    /// A named pipe.
    Mknod(Path),
    /// A device or a socket.
    MknodSpecial(Path, Special),
    Link(Path, Path),
    Unlink(Path),
    /// Unlink while it is in use, a write to it, and then the last use ends.
    UnlinkHeld(Path),
    Rmdir(Path),
    /// Rmdir while it is in use; a name cannot be made there any more, and then the last use ends.
    RmdirHeld(Path),
    Rename(Path, Path, RenameHow),
    Write(Path, u32, u32, u8),
    /// A write by somebody who may not keep set-id bits.
    WriteUnprivileged(Path, u32, u32, u8),
    Append(Path, u32, u8),
    /// As with `O_DSYNC`.
    WriteDurable(Path, u32, u32, u8),
    /// Likewise.
    AppendDurable(Path, u32, u8),
    Truncate(Path, u32),
    /// By another process, to which the file is lent, if it can be: in blocks that may have been
    /// lent before. It is not given back.
    WriteLent(Path, u32, u32, u8),
    /// Likewise.
    AppendLent(Path, u32, u8),
    /// Likewise.
    TruncateLent(Path, u32),
    Falloc(Path, FallocHow, u32, u32),
    Chmod(Path, u32),
    /// Owner and group.
    Chown(Path, u32),
    /// The group alone.
    Chgrp(Path, u32),
    /// Modification time, in seconds since the epoch; before 2000.
    Utimes(Path, u32),
    /// Size and mode in one call.
    SizeAndMode(Path, u32, u32),
    SetXattr(Path, usize, u16),
    RemoveXattr(Path, usize),
    /// An access ACL with an entry for a user of these permissions.
    AccessAcl(Path, u8),
    /// A default ACL for a directory to play in, likewise.
    DefaultAcl(usize, u8),
    RemoveAccessAcl(Path),
    RemoveDefaultAcl(usize),
    /// A directory to play in is pinned to a tier, 0 for PM.
    PinDir(usize, u8),
    Copy(Path, Path, u32),
    Fsync(Path),
    Fdatasync(Path),
    /// All data of the file to a tier, 0 for PM, or to the last tier if there are fewer.
    Move(Path, u8),
    /// All that background migration would do now; `up`: that is to move data to PM.
    Migrate {
        up: bool,
    },
    /// All of the file, so many times: what migration goes by.
    Read(Path, u8),
}

impl Op {
    /// Whether what it writes is durable when it returns, wherever it goes.
    pub fn is_durable(&self) -> bool {
        matches!(self, Op::WriteDurable(..) | Op::AppendDurable(..))
    }

    /// The file whose data is durable when it returns.
    pub fn syncs(&self) -> Option<Path> {
        match self {
            Op::Fsync(path) | Op::Fdatasync(path) => Some(*path),
            _ => None,
        }
    }
}

/// An access control list with one named user; owner, mask and others are the mode's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acl {
    named: u8,
    group: u8,
}

/// User that the ACLs name.
const ACL_USER: u32 = 7;

impl Acl {
    /// The extended attribute, for a file of this mode.
    pub fn encode(self, mode: u32) -> Vec<u8> {
        let bits = |shift: u32| (mode >> shift & 7) as u8;
        let entries = [
            (0x01u16, bits(6), u32::MAX),
            (0x02, self.named, ACL_USER),
            (0x04, self.group, u32::MAX),
            (0x10, bits(3), u32::MAX),
            (0x20, bits(0), u32::MAX),
        ];
        let mut value = 2u32.to_le_bytes().to_vec();
        for (tag, perm, id) in entries {
            value.extend(tag.to_le_bytes());
            value.extend(u16::from(perm).to_le_bytes());
            value.extend(id.to_le_bytes());
        }
        value
    }
}

/// The access ACL that [`Op::AccessAcl`] sets, and the mode that goes with it.
pub fn access_acl(perm: u8) -> (Acl, u32) {
    let mask = u32::from(perm | 4);
    (Acl { named: perm, group: 4 }, 0o600 | mask << 3)
}

/// The default ACL that [`Op::DefaultAcl`] sets, and the mode whose bits it has.
pub fn default_acl(perm: u8) -> (Acl, u32) {
    (Acl { named: perm, group: 5 }, 0o775)
}
