//! Renames.

use terrace_store::error::{FsError, FsResult, fail, fence};
use terrace_store::log::Log;
use terrace_store::space::Purpose;
use terrace_store::sync::{Arc, RwLockWriteGuard};

use super::create::Unnamed;
use super::in_place::InPlace;
use super::link_loss::LinkLoss;
use crate::base::heritage::Effect;
use crate::base::types::{FileKind, Ino, NewInode, RenameFlags, Time};
use crate::inode::dir::Dentry;
use crate::inode::resident::{Body, Inner, Inode};
use crate::ops::names::Names;

/// A name that comes to lead to another inode.
struct Replacement<'a> {
    source: &'a Dentry,
    /// What takes the source's old name.
    whiteout: Option<Dentry>,
    /// The new name has led to something until now.
    over: bool,
    now: Time,
}

/// One rename.
pub(super) struct Rename<'a> {
    pub names: &'a Names,
    pub from_dir: &'a Arc<Inode>,
    pub from_name: &'a [u8],
    pub to_dir: &'a Arc<Inode>,
    pub to_name: &'a [u8],
    pub flags: RenameFlags,
}

impl Rename<'_> {
    fn same_dir(&self) -> bool {
        self.from_dir.ino == self.to_dir.ino
    }

    pub fn run(&self) -> FsResult<()> {
        if !self.same_dir() {
            self.names.know_ancestors(self.from_dir)?;
            self.names.know_ancestors(self.to_dir)?;
        }
        // Both directories, an ancestor first, as everybody who holds a directory's lock and takes
        // its child's.
        let (mut first, mut second);
        let (from, mut to): (
            &mut RwLockWriteGuard<'_, Inner>,
            Option<&mut RwLockWriteGuard<'_, Inner>>,
        );
        if self.same_dir() {
            first = self.from_dir.exclusive()?;
            (from, to) = (&mut first, None);
        } else if self.names.is_inside(self.to_dir, self.from_dir.ino)? {
            first = self.from_dir.exclusive()?;
            second = self.to_dir.exclusive()?;
            (from, to) = (&mut first, Some(&mut second));
        } else {
            first = self.to_dir.exclusive()?;
            second = self.from_dir.exclusive()?;
            (from, to) = (&mut second, Some(&mut first));
        }
        let names = self.names;
        let to_inner: &Inner = to.as_deref().map_or(&**from, |g| &**g);
        let Some(source) = from.dir()?.find(self.from_name).cloned() else {
            return fail(libc::ENOENT);
        };
        let victim = to_inner.dir()?.find(self.to_name).cloned();
        if to_inner.meta.nlink == 0 {
            return fail(libc::ENOENT);
        }
        if self.flags.no_replace && victim.is_some() {
            return fail(libc::EEXIST);
        }
        self.check_ancestry(&source, victim.as_ref())?;
        if victim.as_ref().is_some_and(|v| v.ino == source.ino) {
            return Ok(());
        }
        let source_inode = names.child(self.from_dir, &source)?;
        names.inodes.is_about_to(Effect::Named(source.ino));
        if self.flags.exchange {
            let Some(other) = victim else {
                return fail(libc::ENOENT);
            };
            let other_inode = names.child(self.to_dir, &other)?;
            self.exchange(from, to.as_deref_mut().map(|g| &mut **g), &source, &other)?;
            self.moved(&source_inode, self.to_dir);
            self.moved(&other_inode, self.from_dir);
        } else {
            let victim_inode = victim.as_ref().map(|v| names.child(self.to_dir, v)).transpose()?;
            self.replace(
                from,
                to.as_deref_mut().map(|g| &mut **g),
                &source,
                victim_inode.as_ref(),
            )?;
            self.moved(&source_inode, self.to_dir);
        }
        names.commits.tidy(self.from_dir.shard, from)?;
        if let Some(to) = to {
            names.commits.tidy(self.to_dir.shard, to)?;
        }
        Ok(())
    }

    /// A directory must not become its own descendant; what it replaces must be of its kind.
    fn check_ancestry(&self, source: &Dentry, victim: Option<&Dentry>) -> FsResult<()> {
        let is_dir = |d: &Dentry| d.kind == FileKind::Directory;
        let moves = !self.same_dir();
        if moves && is_dir(source) && self.names.is_inside(self.to_dir, source.ino)? {
            return fail(libc::EINVAL);
        }
        let Some(victim) = victim else {
            return Ok(());
        };
        if self.flags.exchange {
            if moves && is_dir(victim) && self.names.is_inside(self.from_dir, victim.ino)? {
                return fail(libc::EINVAL);
            }
            return Ok(());
        }
        match (is_dir(source), is_dir(victim)) {
            (true, false) => fail(libc::ENOTDIR),
            (false, true) => fail(libc::EISDIR),
            _ => {
                if moves && is_dir(victim) && self.names.is_inside(self.from_dir, victim.ino)? {
                    return fail(libc::ENOTEMPTY);
                }
                Ok(())
            }
        }
    }

    /// The inode has a new place: its change time moves, and a directory has a new parent.
    fn moved(&self, inode: &Inode, dir: &Inode) {
        if inode.kind == FileKind::Directory {
            inode.set_parent(dir.ino);
        }
        let mut inner = inode.inner.write();
        inner.meta.ctime = Time::now();
        inner.meta.lazy = true;
    }

    fn exchange(
        &self,
        from: &mut Inner,
        to: Option<&mut Inner>,
        a: &Dentry,
        b: &Dentry,
    ) -> FsResult<()> {
        let now = Time::now();
        let (from_dir, from_name, to_name) = (self.from_dir, self.from_name, self.to_name);
        match to {
            None => {
                let mut change = DirChange::new(from, now)?;
                change.remove(from_name);
                change.remove(to_name);
                change.add(from_name, b);
                change.add(to_name, a);
                self.names.commits.commit(
                    from_dir.shard,
                    Purpose::Ordinary,
                    &mut [change.log()],
                )?;
                change.apply();
            }
            Some(to) => {
                let mut change_from = DirChange::new(from, now)?;
                change_from.remove(from_name);
                change_from.add(from_name, b);
                let mut change_to = DirChange::new(to, now)?;
                change_to.remove(to_name);
                change_to.add(to_name, a);
                self.names.commits.commit(
                    from_dir.shard,
                    Purpose::Ordinary,
                    &mut [change_from.log(), change_to.log()],
                )?;
                change_from.apply();
                change_to.apply();
            }
        }
        Ok(())
    }

    fn replace(
        &self,
        from: &mut Inner,
        mut to: Option<&mut Inner>,
        source: &Dentry,
        victim: Option<&Arc<Inode>>,
    ) -> FsResult<()> {
        let names = self.names;
        let now = Time::now();
        let whiteout =
            if self.flags.whiteout { Some(self.make_whiteout(from, now)?) } else { None };
        let mut victim_inner = victim.map(|v| v.exclusive()).transpose()?;
        if let Some(inner) = &victim_inner
            && let Body::Dir(entries) = &inner.body
            && entries.len() > 0
        {
            whiteout.iter().for_each(|w| names.discard(w));
            return fail(libc::ENOTEMPTY);
        }
        let loss = victim_inner.as_mut().and_then(|inner| LinkLoss::stage(inner, now));
        let whiteout_dentry = whiteout.as_ref().map(|w| Dentry::of(&w.inode, self.from_name));
        let new = Replacement { source, whiteout: whiteout_dentry, over: victim.is_some(), now };
        let append =
            |from: &mut Inner, to: Option<&mut Inner>, victim: Option<&mut Inner>, purpose| {
                let loser = victim.filter(|_| loss.is_some()).map(|inner| &mut inner.log);
                self.append(from, to, &new, loser, purpose)
            };
        let mut committed =
            append(from, to.as_deref_mut(), victim_inner.as_deref_mut(), Purpose::Ordinary);
        let mut in_place = false;
        if let Some(inner) = &mut victim_inner
            && new.whiteout.is_none()
            && committed.as_ref().is_err_and(FsError::is_no_room)
        {
            let loss = loss.as_ref().map(|loss| (&mut **inner, loss));
            committed = self.take_over(from, to.as_deref_mut(), source, loss, now);
            in_place = committed.is_ok();
            if committed.as_ref().is_err_and(FsError::is_no_room) {
                // Logs on a disk get new entries, from the last room.
                committed = append(from, to, Some(inner), Purpose::Freeing);
            }
        }
        if let Err(error) = committed {
            whiteout.iter().for_each(|w| names.discard(w));
            return Err(error);
        }
        if let (Some(victim), Some(mut inner)) = (victim, victim_inner) {
            LinkLoss::apply(loss, &mut inner, now, in_place);
            names.inodes.delete_if_unused(victim, &mut inner);
        }
        Ok(())
    }

    /// The source takes the name of the victim, which may lose one link of several, where the
    /// entries stand.
    fn take_over(
        &self,
        from: &mut Inner,
        mut to: Option<&mut Inner>,
        source: &Dentry,
        loss: Option<(&mut Inner, &LinkLoss)>,
        now: Time,
    ) -> FsResult<()> {
        let mut change = InPlace::new(&self.names.store.pm, now);
        change.remove(from, self.from_name)?;
        change.take_over(to.as_deref_mut().unwrap_or(from), self.to_name, source)?;
        change.touch(from)?;
        to.as_deref_mut().map_or(Ok(()), |to| change.touch(to))?;
        loss.map_or(Ok(()), |(victim, loss)| change.lose_link(victim, loss))?;
        change.commit(&self.names.store, self.from_dir.shard)?;
        let (log, entries) = from.dir_mut()?;
        entries.struck(&mut log.refs, self.from_name, now);
        from.meta.ctime = now;
        let to = to.unwrap_or(from);
        to.dir_mut()?.1.taken_over(self.to_name, source, now);
        to.meta.ctime = now;
        Ok(())
    }

    /// New entries say so. `loser`: the log of a victim that has other names; its batch says that
    /// it loses this one.
    fn append(
        &self,
        from: &mut Inner,
        to: Option<&mut Inner>,
        new: &Replacement<'_>,
        loser: Option<&mut Log>,
        purpose: Purpose,
    ) -> FsResult<()> {
        let mut change_from = DirChange::new(from, new.now)?;
        let mut change_to = to.map(|to| DirChange::new(to, new.now)).transpose()?;
        change_from.remove(self.from_name);
        let target = change_to.as_mut().unwrap_or(&mut change_from);
        if new.over {
            target.remove(self.to_name);
        }
        target.add(self.to_name, new.source);
        new.whiteout.iter().for_each(|w| change_from.add(self.from_name, w));
        let mut logs = vec![change_from.log()];
        logs.extend(change_to.as_mut().map(DirChange::log));
        logs.extend(loser);
        self.names.commits.commit(self.from_dir.shard, purpose, &mut logs)?;
        change_from.apply();
        change_to.into_iter().for_each(DirChange::apply);
        Ok(())
    }

    fn make_whiteout(&self, from: &Inner, now: Time) -> FsResult<Unnamed> {
        let (uid, gid) = (from.meta.uid, from.meta.gid);
        let new = NewInode { kind: FileKind::CharDevice, mode: 0, umask: 0o777, uid, gid, rdev: 0 };
        let made = self.names.make_inode(self.from_dir, from, &new, None, now)?;
        fence(&self.names.store.pm)?;
        Ok(made)
    }
}

impl Dentry {
    fn of(inode: &Inode, name: &[u8]) -> Dentry {
        Dentry::new(inode.ino, inode.generation, inode.kind, name)
    }
}

/// Entries removed from and added to one directory in one commit.
struct DirChange<'a> {
    inner: &'a mut Inner,
    now: Time,
    removed: Vec<(Vec<u8>, usize)>,
    added: Vec<(Dentry, u64, usize)>,
}

impl<'a> DirChange<'a> {
    fn new(inner: &'a mut Inner, now: Time) -> FsResult<Self> {
        inner.dir_mut()?.0.begin();
        Ok(Self { inner, now, removed: Vec::new(), added: Vec::new() })
    }

    fn remove(&mut self, name: &[u8]) {
        let (log, entries) = self.inner.dir_mut().expect("checked in new");
        self.removed.push((name.to_vec(), entries.push_remove(log, name, self.now)));
    }

    fn add(&mut self, name: &[u8], what: &Dentry) {
        let (log, entries) = self.inner.dir_mut().expect("checked in new");
        let cookie = entries.cookie_of(name, self.added.len() as u64);
        let new = Dentry::new(what.ino, what.generation, what.kind, name);
        let index = entries.push_add(log, &new.as_new(cookie, self.now));
        self.added.push((new, cookie, index));
    }

    fn log(&mut self) -> &mut Log {
        &mut self.inner.log
    }

    fn apply(self) {
        let (log, entries) = self.inner.dir_mut().expect("checked in new");
        for (name, index) in &self.removed {
            let position = log.position(*index);
            entries.removed_name(&mut log.refs, position, name, self.now);
        }
        for (d, cookie, index) in &self.added {
            let position = log.position(*index);
            entries.added(&mut log.refs, position, &d.as_new(*cookie, self.now));
        }
        self.inner.meta.ctime = self.now;
    }
}

impl Names {
    /// Looks for the parents of a directory's ancestors that nobody knows: once it is locked they
    /// cannot be looked for.
    fn know_ancestors(&self, dir: &Arc<Inode>) -> FsResult<()> {
        let mut at = dir.clone();
        while at.ino != Ino::ROOT {
            at = self.inodes.get(self.parent_of(&at)?)?;
        }
        Ok(())
    }

    /// Whether `dir` is `ancestor` or lies below it. The caller holds the rename lock and knows all
    /// ancestors.
    fn is_inside(&self, dir: &Arc<Inode>, ancestor: Ino) -> FsResult<bool> {
        let mut at = dir.clone();
        loop {
            if at.ino == ancestor {
                return Ok(true);
            }
            if at.ino == Ino::ROOT {
                return Ok(false);
            }
            at = self.inodes.get(at.parent())?;
        }
    }
}
