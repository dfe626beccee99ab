//! What workloads do: actions, by names.

use crate::op::{FallocHow, Op, RenameHow, Special};
use crate::paths::{A, B, C, D0A, D0B, D0C, D0L, D1A, D1B, D1C, LONG};

/// A part of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// An operation.
    Op(Op),
    /// An operation that moves data, and another one in the middle of it: before the next write to
    /// a disk, or read, if it moves data to PM.
    Interrupted(Op, Op),
    /// Everything dirty goes to its device, and what was removed is reclaimed.
    Sync,
    /// Unmount, and mount again.
    Remount,
    /// The daemon dies, and the volume is mounted again: the page cache it left behind loses
    /// nothing.
    Kill,
    /// Make a new volume on the same devices.
    Format,
}

/// An action by the name that it has in ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The name.
    pub name: String,
    /// The action.
    pub action: Action,
}

/// All actions.
pub fn actions() -> Vec<Named> {
    use FallocHow::{Allocate, AllocateKeepSize, PunchHole, ZeroRange, ZeroRangeKeepSize};
    use RenameHow::{Exchange, NoReplace, Plain, Whiteout};
    let ops = [
        ("create", Op::Create(C)),
        ("create-by-link", Op::CreateByLink(C)),
        ("create-long", Op::Create(LONG)),
        ("create-in", Op::Create(D0L)),
        ("mkdir", Op::Mkdir(C)),
        ("mkdir-in", Op::Mkdir((Some(0), 22))),
        ("symlink", Op::Symlink(C, 20)),
        ("symlink-long", Op::Symlink(D1B, 4000)),
        ("mknod", Op::Mknod(C)),
        ("mknod-block", Op::MknodSpecial(C, Special::Block)),
        ("mknod-char", Op::MknodSpecial(C, Special::Char)),
        ("mknod-socket", Op::MknodSpecial(D0L, Special::Socket)),
        ("link", Op::Link(A, C)),
        ("link-in", Op::Link(A, D1B)),
        ("unlink", Op::Unlink(A)),
        ("unlink-one-of-two", Op::Unlink(B)),
        ("unlink-symlink", Op::Unlink(D1A)),
        ("unlink-attributes", Op::Unlink(D0A)),
        ("unlink-held", Op::UnlinkHeld(A)),
        ("rmdir", Op::Rmdir(D0C)),
        ("rmdir-held", Op::RmdirHeld(D1C)),
        ("rename", Op::Rename(A, C, Plain)),
        ("rename-over", Op::Rename(B, A, Plain)),
        ("rename-over-one-of-two", Op::Rename(A, B, Plain)),
        ("rename-across", Op::Rename(A, D1B, Plain)),
        ("rename-across-over", Op::Rename(A, D0A, Plain)),
        ("rename-across-over-one-of-two", Op::Rename(A, D0B, Plain)),
        ("rename-long", Op::Rename(A, D0L, Plain)),
        ("rename-noreplace", Op::Rename(A, C, NoReplace)),
        ("rename-exchange", Op::Rename(A, B, Exchange)),
        ("rename-exchange-across", Op::Rename(A, D0A, Exchange)),
        ("rename-same-inode", Op::Rename(B, D0B, Plain)),
        ("rename-exchange-dirs", Op::Rename(D0C, D1C, Exchange)),
        ("rename-exchange-file-dir", Op::Rename(A, D1C, Exchange)),
        ("rename-whiteout", Op::Rename(A, C, Whiteout)),
        ("rename-whiteout-across", Op::Rename(D0A, A, Whiteout)),
        ("rename-dir", Op::Rename(D0C, D1B, Plain)),
        ("rename-dir-over", Op::Rename(D0C, D1C, Plain)),
        ("patch", Op::Write(A, 10, 100, 11)),
        ("patch-at-end", Op::Write(A, 4990, 10, 12)),
        ("patch-large", Op::Write(A, 1000, 1000, 13)),
        ("append", Op::Append(A, 100, 14)),
        ("append-beyond-block", Op::Append(A, 6000, 15)),
        ("append-small-file", Op::Append(B, 50, 16)),
        ("overwrite-block", Op::Write(A, 0, 4096, 17)),
        ("overwrite-unaligned", Op::Write(A, 100, 4500, 18)),
        ("overwrite-extending", Op::Write(A, 4000, 5000, 19)),
        ("write-beyond-end", Op::Write(A, 7000, 500, 20)),
        ("write-far-beyond-end", Op::Write(A, 50_000, 100, 21)),
        // A little longer than the page cache takes at once, so that it is cut in two there; and no
        // longer than PM takes on every volume, with the room that a long write leaves to others.
        ("write-large", Op::Write(A, 0, 262_244, 22)),
        ("write-unprivileged", Op::WriteUnprivileged(B, 0, 50, 23)),
        ("write-durable", Op::WriteDurable(A, 3000, 6000, 24)),
        ("patch-durable", Op::WriteDurable(B, 10, 50, 25)),
        ("append-durable", Op::AppendDurable(D0A, 5000, 26)),
        ("patch-lent", Op::WriteLent(A, 10, 100, 27)),
        ("append-lent", Op::AppendLent(A, 100, 28)),
        ("append-beyond-block-lent", Op::AppendLent(A, 6000, 29)),
        ("overwrite-lent", Op::WriteLent(A, 100, 4500, 30)),
        ("write-beyond-end-lent", Op::WriteLent(A, 9000, 500, 31)),
        ("truncate-down-lent", Op::TruncateLent(A, 100)),
        ("truncate-up-lent", Op::TruncateLent(A, 6010)),
        ("truncate-all", Op::Truncate(A, 0)),
        ("truncate-down", Op::Truncate(A, 100)),
        ("truncate-to-block", Op::Truncate(A, 4096)),
        ("truncate-up", Op::Truncate(A, 5010)),
        ("truncate-far-up", Op::Truncate(A, 20_000)),
        ("allocate", Op::Falloc(A, Allocate, 4096, 16_384)),
        ("allocate-keep-size", Op::Falloc(A, AllocateKeepSize, 8192, 20_000)),
        ("punch", Op::Falloc(A, PunchHole, 0, 4096)),
        ("punch-unaligned", Op::Falloc(D0A, PunchHole, 100, 8500)),
        ("zero", Op::Falloc(A, ZeroRange, 0, 8192)),
        ("zero-unaligned", Op::Falloc(D0A, ZeroRange, 100, 12_000)),
        ("zero-keep-size", Op::Falloc(A, ZeroRangeKeepSize, 1000, 7000)),
        ("chmod", Op::Chmod(A, 0o4711)),
        ("chown", Op::Chown(B, 12)),
        ("chgrp", Op::Chgrp(B, 13)),
        ("utimes", Op::Utimes(A, 1_000_000)),
        ("size-and-mode", Op::SizeAndMode(A, 200, 0o600)),
        ("xattr", Op::SetXattr(A, 0, 30)),
        ("xattr-long", Op::SetXattr(A, 1, 6000)),
        ("xattr-replace", Op::SetXattr(D0A, 0, 50)),
        ("xattr-replace-long", Op::SetXattr(D0A, 1, 6000)),
        ("xattr-shorten", Op::SetXattr(D0A, 1, 60)),
        ("xattr-remove", Op::RemoveXattr(D0A, 0)),
        ("xattr-remove-long", Op::RemoveXattr(D0A, 1)),
        ("acl", Op::AccessAcl(A, 5)),
        ("default-acl", Op::DefaultAcl(0, 6)),
        ("acl-remove", Op::RemoveAccessAcl(A)),
        ("default-acl-remove", Op::RemoveDefaultAcl(0)),
        ("pin-directory", Op::PinDir(0, 1)),
        ("copy", Op::Copy(D0A, A, 0)),
        ("copy-unaligned", Op::Copy(A, D0A, 5000)),
        ("fsync", Op::Fsync(A)),
        ("fdatasync", Op::Fdatasync(A)),
        ("move-to-pm", Op::Move(A, 0)),
        ("move-to-disk", Op::Move(A, 1)),
        ("move-to-last-tier", Op::Move(A, 2)),
        ("move-long-to-pm", Op::Move(B, 0)),
        ("move-long-to-disk", Op::Move(B, 1)),
    ];
    let others = [
        ("sync", Action::Sync),
        ("remount", Action::Remount),
        ("kill", Action::Kill),
        ("format", Action::Format),
    ];
    let ops = ops.into_iter().map(|(name, op)| (name, Action::Op(op)));
    ops.chain(others).map(|(name, action)| Named { name: name.to_owned(), action }).collect()
}

/// What background migration does, which is not among [`actions`]: on most volumes it has nothing
/// to do. `-up`: to PM.
fn migrations() -> [Named; 2] {
    let named =
        |name: &str, up| Named { name: name.to_owned(), action: Action::Op(Op::Migrate { up }) };
    [named("migrate", false), named("migrate-up", true)]
}

/// The action of this name; `MOVE+OP` is a move, or a migration, in the middle of which an
/// operation happens.
pub fn action(name: &str) -> Option<Named> {
    let single =
        |name: &str| actions().into_iter().chain(migrations()).find(|action| action.name == name);
    let Some((outer, inner)) = name.split_once('+') else {
        return single(name);
    };
    match (single(outer)?.action, single(inner)?.action) {
        (_, Action::Op(Op::Move(..) | Op::Migrate { .. })) => None,
        (Action::Op(outer @ (Op::Move(..) | Op::Migrate { .. })), Action::Op(inner)) => {
            Some(Named { name: name.to_owned(), action: Action::Interrupted(outer, inner) })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = actions().into_iter().map(|a| a.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
