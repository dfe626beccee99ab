//! Requests that a daemon before this one took and did not answer: each takes effect exactly once.
//!
//! | request | noted before the commit | it was done if |
//! |---|---|---|
//! | CREATE, MKNOD, MKDIR, SYMLINK, LINK, RENAME | the inode | the new name leads to the inode |
//! | UNLINK, RMDIR | that it was to come | the name is gone |
//! | WRITE that appends | the end of the file | in doubt it is done again, at the same place |
//! | SETXATTR | that it was to come | in doubt it is done again, without its conditions |
//! | REMOVEXATTR | that it was to come | the attribute is gone |
//!
//! That is enough, because the kernel holds directories and files locked until the answer: nobody
//! else has changed the name, or moved the end of the file, since. A request without a note has had
//! no effect. A noted outcome of a WRITE, FALLOCATE or COPY_FILE_RANGE is the answer.
//! Everything else does the same when it is done again.

use terrace_engine::{Attr, Effect, Ino};
use terrace_transport::abi::{CopyFileRangeOut, WriteIn};
use terrace_transport::{Operation, Past, Reply, Request};

use super::TerraceFs;
use super::replies::{is_direct, written};
use crate::heir::effect_of;

impl TerraceFs {
    /// See the module.
    pub(super) fn answer_again(&self, request: &Request<'_>, past: &Past, reply: Reply) {
        match past.outcome {
            Some(outcome) => self.answer_outcome(request, outcome, reply),
            None => match effect_of(past) {
                Some(effect) => self.answer_in_doubt(request, effect, reply),
                None => self.answer_first(request, reply),
            },
        }
    }

    fn answer_outcome(&self, request: &Request<'_>, outcome: u64, reply: Reply) {
        match request.operation {
            // Nobody knows whether the kernel has dropped the pages.
            Operation::Write(write, _) if is_direct(write.write_flags) => {
                let answer = move || reply.value(&written(outcome));
                self.coherence.settle(request.ino, write.offset, outcome, answer);
            }
            Operation::Write(..) => reply.value(&written(outcome)),
            Operation::CopyFileRange { answer_64: true, .. } => {
                reply.value(&CopyFileRangeOut { bytes_copied: outcome })
            }
            Operation::CopyFileRange { .. } => reply.value(&written(outcome)),
            Operation::Fallocate(_) => reply.ok(),
            _ => self.answer_first(request, reply),
        }
    }

    /// It may have had this effect.
    fn answer_in_doubt(&self, request: &Request<'_>, effect: Effect, reply: Reply) {
        let dir = Ino(request.ino);
        match (request.operation, effect) {
            (
                Operation::Mknod { name, .. }
                | Operation::Mkdir { name, .. }
                | Operation::Symlink { name, .. }
                | Operation::Link { name, .. },
                Effect::Named(made),
            ) => match self.looked_up(dir, name, made) {
                Some(attr) => {
                    // A first name was given, and others only while it is there.
                    self.ledger.iter().for_each(|ledger| ledger.set_linkable(made.0, false));
                    reply.value(&self.entry_of(&attr));
                }
                None => self.answer_first(request, reply),
            },
            (Operation::Create { name, flags, .. }, Effect::Named(made)) => {
                match self.looked_up(dir, name, made) {
                    Some(attr) => self.reply_created(Ok(attr), request.caller, flags, reply),
                    None => self.answer_first(request, reply),
                }
            }
            (Operation::Rename { new_parent, new_name, .. }, Effect::Named(moved))
                if self.leads_to(Ino(new_parent), new_name) == Some(moved) =>
            {
                reply.ok()
            }
            (Operation::Unlink { name } | Operation::Rmdir { name }, Effect::Unnamed)
                if self.leads_to(dir, name).is_none() =>
            {
                reply.ok()
            }
            (Operation::Write(write, data), Effect::Appended(offset)) => {
                let there = WriteIn {
                    offset,
                    flags: (write.flags.cast_signed() & !libc::O_APPEND).cast_unsigned(),
                    ..*write
                };
                self.write(dir, &there, data, request.caller, reply);
            }
            (Operation::Setxattr { name, value, .. }, Effect::Attribute) => {
                self.set_attribute(request, (name, value, 0), reply)
            }
            (Operation::Removexattr { name }, Effect::Attribute)
                if self.has_no_attribute(dir, name) =>
            {
                reply.ok()
            }
            _ => self.answer_first(request, reply),
        }
    }

    /// The inode, with a lookup counted, if the name leads to it.
    fn looked_up(&self, dir: Ino, name: &[u8], made: Ino) -> Option<Attr> {
        let attr = self.volume.lookup(dir, name).ok()?;
        if attr.ino == made {
            return Some(attr);
        }
        self.volume.forget(attr.ino, 1);
        None
    }

    /// The inode that a name leads to.
    fn leads_to(&self, dir: Ino, name: &[u8]) -> Option<Ino> {
        let found = self.volume.lookup(dir, name).ok()?.ino;
        self.volume.forget(found, 1);
        Some(found)
    }

    fn has_no_attribute(&self, ino: Ino, name: &[u8]) -> bool {
        let value = self.volume.getxattr(ino, name);
        value.is_err_and(|error| error.errno() == libc::ENODATA)
    }
}
