//! Removing names: unlink and rmdir.

use terrace_store::error::{FsError, FsResult, fail, fence};
use terrace_store::planted::{Bug, planted};
use terrace_store::space::Purpose;

use super::in_place::InPlace;
use super::link_loss::LinkLoss;
use super::{Names, check_name};
use crate::base::heritage::Effect;
use crate::base::types::{FileKind, Ino, Time};
use crate::inode::reclaim::free_record;
use crate::inode::resident::{Body, Inner};

impl Names {
    /// Removes a name of something that is no directory.
    ///
    /// # Errors
    /// `ENOENT`, `EISDIR`, …
    pub fn unlink(&self, parent: Ino, name: &[u8]) -> FsResult<()> {
        self.remove(parent, name, false)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `ENOTEMPTY`, …
    pub fn rmdir(&self, parent: Ino, name: &[u8]) -> FsResult<()> {
        if name == b"." {
            return fail(libc::EINVAL);
        }
        if name == b".." {
            return fail(libc::ENOTEMPTY);
        }
        self.remove(parent, name, true)
    }

    fn remove(&self, parent: Ino, name: &[u8], directory: bool) -> FsResult<()> {
        check_name(name)?;
        let dir = self.inodes.get(parent)?;
        self.room.operate_to_free(|| {
            let mut inner = dir.exclusive()?;
            let Some(dentry) = inner.dir()?.find(name) else {
                return fail(libc::ENOENT);
            };
            if directory != (dentry.kind == FileKind::Directory) {
                return fail(if directory { libc::ENOTDIR } else { libc::EISDIR });
            }
            let child = self.child(&dir, dentry)?;
            let mut child_inner = child.exclusive()?;
            if let Body::Dir(entries) = &child_inner.body
                && entries.len() > 0
            {
                return fail(libc::ENOTEMPTY);
            }
            let now = Time::now();
            if planted(Bug::FreedBeforeName) {
                free_record(&self.store.pm, child_inner.log.record_at(), child.ino);
                fence(&self.store.pm)?;
            }
            let loss = LinkLoss::stage(&mut child_inner, now);
            let mut removal = Removal {
                names: self,
                shard: dir.shard,
                dir: &mut inner,
                name,
                child: &mut child_inner,
                loss: loss.as_ref(),
                now,
            };
            self.inodes.is_about_to(Effect::Unnamed);
            let in_place = removal.commit()?;
            inner.meta.ctime = now;
            self.commits.tidy(dir.shard, &mut inner)?;
            drop(inner);
            LinkLoss::apply(loss, &mut child_inner, now, in_place);
            self.inodes.delete_if_unused(&child, &mut child_inner);
            drop(child_inner);
            self.inodes.reclaim_some(child.shard)
        })
    }
}

/// The removal of a name. Its inode may lose one link of several.
struct Removal<'a> {
    names: &'a Names,
    /// The directory's.
    shard: usize,
    dir: &'a mut Inner,
    name: &'a [u8],
    child: &'a mut Inner,
    loss: Option<&'a LinkLoss>,
    now: Time,
}

impl Removal<'_> {
    /// Commits the removal by new entries, or, if there is no room for any, where the old ones
    /// stand. Returns whether it was that.
    fn commit(&mut self) -> FsResult<bool> {
        let (log, entries) = self.dir.dir_mut()?;
        log.begin();
        let index = entries.push_remove(log, self.name, self.now);
        let mut committed = self.commit_entries(Purpose::Ordinary);
        if committed.as_ref().is_err_and(FsError::is_no_room) {
            match self.commit_in_place() {
                // Logs on a disk get new entries, from the last room.
                Err(error) if error.is_no_room() => {
                    committed = self.commit_entries(Purpose::Freeing)
                }
                done => return done.map(|()| true),
            }
        }
        committed?;
        let (log, entries) = self.dir.dir_mut()?;
        let position = log.position(index);
        entries.removed_name(&mut log.refs, position, self.name, self.now);
        Ok(false)
    }

    fn commit_entries(&mut self, purpose: Purpose) -> FsResult<()> {
        let commits = &self.names.commits;
        let (dir, child) = (&mut self.dir.log, &mut self.child.log);
        match self.loss {
            Some(_) => commits.commit(self.shard, purpose, &mut [dir, child]),
            None => commits.commit(self.shard, purpose, &mut [dir]),
        }
    }

    /// See [`InPlace`].
    fn commit_in_place(&mut self) -> FsResult<()> {
        let mut change = InPlace::new(&self.names.store.pm, self.now);
        change.remove(self.dir, self.name)?;
        change.touch(self.dir)?;
        if let Some(loss) = self.loss {
            change.lose_link(self.child, loss)?;
        }
        change.commit(&self.names.store, self.shard)?;
        let (log, entries) = self.dir.dir_mut()?;
        entries.struck(&mut log.refs, self.name, self.now);
        Ok(())
    }
}
