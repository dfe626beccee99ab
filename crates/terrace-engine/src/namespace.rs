//! Names: create, link, unlink, rename, list.
//!
//! An operation that touches one log commits with that log's tail. One that touches several goes through the
//! journal. Creating and removing the last link need no journal: an inode that no name refers to does not exist,
//! and recovery frees its record.

use terrace_layout::{BlockAddr, InodeRecord, NAME_BYTES_MAX};

use crate::acl;
use crate::core::{Core, free_record};
use crate::dir::{Dentry, FIRST_COOKIE};
use crate::error::{FsError, FsResult, fail, fence};
use crate::inode::{Body, Inner, Inode, Meta, retain_target, target_entries};
use crate::itable::write_record;
use crate::log::Log;
use crate::planted::{Bug, planted};
use crate::space::BlockSource;
use crate::space::Purpose;
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, RwLockWriteGuard};
use crate::types::{Attr, DirEntry, FileKind, Ino, NewInode, RenameFlags, Time};
use crate::xattr::{ACL_ACCESS, ACL_DEFAULT};

/// Links that an inode can have.
const LINKS_MAX: u32 = 65000;
/// Longest target of a symbolic link, as Linux has it.
const TARGET_BYTES_MAX: usize = 4095;

/// A new inode that has no name yet.
struct Newborn {
    inode: Arc<Inode>,
    record_at: u64,
}

/// Checks a name that is to be made, removed or looked up.
fn check_name(name: &[u8]) -> FsResult<()> {
    if name.len() > NAME_BYTES_MAX {
        return fail(libc::ENAMETOOLONG);
    }
    if name.is_empty() {
        return fail(libc::ENOENT);
    }
    if name.contains(&b'/') || name.contains(&0) || name == b"." || name == b".." {
        return fail(libc::EINVAL);
    }
    Ok(())
}

impl Core {
    /// Finds a name and counts a lookup of its inode. `.` and `..` work too.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `ENAMETOOLONG`; damage.
    pub fn lookup(&self, parent: Ino, name: &[u8]) -> FsResult<Attr> {
        let dir = self.get(parent)?;
        if name == b"." || name == b".." {
            let target = if name == b"." { dir.clone() } else { self.get(dir.parent())? };
            target.shared()?.dir()?;
            return self.looked_up(&target);
        }
        check_name(name)?;
        let inner = dir.shared()?;
        let Some(dentry) = inner.dir()?.find(name) else {
            return fail(libc::ENOENT);
        };
        if planted(Bug::LookupUnlocked) {
            let dentry = dentry.clone();
            drop(inner);
            return self.looked_up(&self.child(&dir, &dentry)?);
        }
        let child = self.child(&dir, dentry)?;
        self.looked_up(&child)
    }

    fn looked_up(&self, inode: &Arc<Inode>) -> FsResult<Attr> {
        let inner = inode.shared()?;
        inode.lookups.fetch_add(1, Ordering::AcqRel);
        Ok(inode.attr(&inner))
    }

    /// The inode that an entry of `dir`, whose lock the caller holds, names.
    ///
    /// # Errors
    /// Damage: as long as the name is there, so is the inode.
    fn child(&self, dir: &Inode, dentry: &Dentry) -> FsResult<Arc<Inode>> {
        let child = match self.get(dentry.ino) {
            Err(error) if error.errno() == libc::ESTALE => return self.misleading(dir, dentry, "does not exist"),
            other => other?,
        };
        if child.generation != dentry.generation {
            return self.misleading(dir, dentry, "is of another generation");
        }
        if child.kind != dentry.kind {
            return self.misleading(dir, dentry, "is of another type");
        }
        // A directory with two names could lead in a circle.
        if child.kind == FileKind::Directory && !child.is_child_of(dir.ino) {
            return self.misleading(dir, dentry, "has another name already");
        }
        Ok(child)
    }

    fn misleading<T>(&self, dir: &Inode, dentry: &Dentry, why: &str) -> FsResult<T> {
        let path = self.pm.path().display();
        Err(FsError::corrupt(format!(
            "{path}: directory inode {} (entry at byte {}) names inode {}, which {why}: run `terrace check {path}`",
            dir.ino.0,
            dentry.position(),
            dentry.ino.0
        )))
    }

    /// Creates a file, directory or special file.
    ///
    /// # Errors
    /// `EEXIST`, `ENOENT` in a removed directory, `ENOSPC`, `EROFS`, …
    pub fn create(&self, parent: Ino, name: &[u8], new: &NewInode) -> FsResult<Attr> {
        self.make(parent, name, new, None)
    }

    /// Creates a symbolic link.
    ///
    /// # Errors
    /// As [`Self::create`]; `ENAMETOOLONG` for a target of more than 4095 bytes, `ENOENT` for an empty one.
    pub fn symlink(&self, parent: Ino, name: &[u8], target: &[u8], uid: u32, gid: u32) -> FsResult<Attr> {
        if target.len() > TARGET_BYTES_MAX {
            return fail(libc::ENAMETOOLONG);
        }
        if target.is_empty() {
            return fail(libc::ENOENT);
        }
        let new = NewInode { kind: FileKind::Symlink, mode: 0o777, umask: 0, uid, gid, rdev: 0 };
        self.make(parent, name, &new, Some(target))
    }

    fn make(&self, parent: Ino, name: &[u8], new: &NewInode, target: Option<&[u8]>) -> FsResult<Attr> {
        check_name(name)?;
        let dir = self.get(parent)?;
        self.mutate(|| {
            let mut inner = dir.exclusive()?;
            self.check_can_add(&inner, name)?;
            let now = Time::now();
            let born = self.bear(&dir, &inner, new, target, now)?;
            if let Err(error) = self.add_name(&dir, &mut inner, name, &born.inode, now) {
                self.unbear(&born);
                return Err(error);
            }
            let child = &born.inode;
            child.set_parent(dir.ino);
            let attr = self.looked_up(child)?;
            self.tidy(dir.shard, &mut inner)?;
            Ok(attr)
        })
    }

    fn check_can_add(&self, inner: &Inner, name: &[u8]) -> FsResult<()> {
        if inner.dir()?.find(name).is_some() {
            return fail(libc::EEXIST);
        }
        if inner.meta.nlink == 0 {
            return fail(libc::ENOENT);
        }
        Ok(())
    }

    /// Makes an inode, with what it inherits from its directory; durable at the next fence.
    fn bear(
        &self,
        dir: &Inode,
        dir_inner: &Inner,
        new: &NewInode,
        target: Option<&[u8]>,
        now: Time,
    ) -> FsResult<Newborn> {
        let set_gid = dir_inner.meta.mode & 0o2000 != 0;
        let gid = if set_gid { dir_inner.meta.gid } else { new.gid };
        let mut mode = new.mode & 0o7777;
        let mut acls = Vec::new();
        match self.xattr_value(dir_inner, ACL_DEFAULT)? {
            Some(default) if new.kind != FileKind::Symlink => {
                let inherited = acl::inherit(&default, mode, new.kind == FileKind::Directory)?;
                mode = inherited.mode;
                acls.extend(inherited.access.map(|value| (ACL_ACCESS, value)));
                acls.extend(inherited.default.map(|value| (ACL_DEFAULT, value)));
            }
            _ => mode &= !(new.umask & 0o777),
        }
        if set_gid && new.kind == FileKind::Directory {
            mode |= 0o2000;
        }
        let shard = self.pick_shard(dir);
        self.reclaim_some(shard)?;
        let (ino, at, generation) = {
            let mut table = self.shards[shard].table.write();
            match table.alloc(&self.pm, self.space.pm()) {
                Err(error) if error.is_no_room() => {
                    drop(table);
                    self.reclaim_all()?;
                    self.shards[shard].table.write().alloc(&self.pm, self.space.pm())?
                }
                other => other?,
            }
        };
        let full_mode = new.kind.format_bits() | mode;
        let record = InodeRecord::new(at, ino.0, generation, full_mode, new.uid, gid, new.rdev, now.0)
            .with_secret(self.log_secret(ino, generation));
        let inode = Arc::new(self.make_inode(ino, &record, Inner::new(at, &record, new.kind))?);
        // Before its record is in use: whoever meets the record finds this inode, and makes no other of it.
        self.shards[shard].inodes.write().insert(ino.0, inode.clone());
        write_record(&self.pm, at, &record);
        let born = Newborn { inode, record_at: at };
        let written = self.write_first_entries(shard, &mut born.inode.inner.write(), target, &acls, now);
        written.inspect_err(|_| self.unbear(&born))?;
        Ok(born)
    }

    /// What a new inode's log starts with. No name leads to it yet, so its tail needs no fence before it.
    fn write_first_entries(
        &self,
        shard: usize,
        inner: &mut Inner,
        target: Option<&[u8]>,
        acls: &[(&[u8], Vec<u8>)],
        now: Time,
    ) -> FsResult<()> {
        if target.is_none() && acls.is_empty() {
            return Ok(());
        }
        inner.log.begin();
        if let Some(target) = target {
            for (entry, piece) in target_entries(target) {
                inner.log.push(&entry, &[piece]);
            }
        }
        let xattrs: Vec<_> = acls
            .iter()
            .map(|(name, value)| (*name, crate::xattr::push_set(&mut inner.log, name, value, None, now)))
            .collect();
        let source = self.space.source(shard, Purpose::Ordinary);
        inner.log.stage(&self.pm, &source, None)?;
        let word = inner.log.tail_word();
        self.pm.store_u64(word.at, word.value);
        self.pm.flush(word.at, 8);
        inner.log.published();
        for (name, pending) in xattrs {
            crate::xattr::set_committed(inner, name, pending);
        }
        if let (Some(target), Body::Symlink { target: known, .. }) = (target, &mut inner.body) {
            *known = target.to_vec();
            let (refs, positions) = inner.log.refs_and_positions();
            retain_target(refs, target, positions);
        }
        Ok(())
    }

    fn unbear(&self, born: &Newborn) {
        let (shard, ino) = (&self.shards[born.inode.shard], born.inode.ino);
        let source = self.space.source(born.inode.shard, Purpose::Freeing);
        let inner = born.inode.inner.write();
        born.inode.doomed.store(true, Ordering::Release);
        free_record(&self.pm, born.record_at, ino);
        inner.log.pages().for_each(|b| source.free(BlockAddr::pm(b), 1));
        shard.depart(&mut shard.inodes.write(), ino);
        shard.table.write().free(&self.pm, ino);
    }

    /// Directories spread over the shards; files stay with their directory's.
    fn pick_shard(&self, dir: &Inode) -> usize {
        let n = self.next_shard.fetch_add(1, Ordering::Relaxed);
        (dir.shard + (n / 64) as usize) % self.shards.len()
    }

    fn add_name(&self, dir: &Inode, inner: &mut Inner, name: &[u8], child: &Inode, now: Time) -> FsResult<()> {
        let (log, entries) = inner.dir_mut()?;
        log.begin();
        let cookie = entries.cookie(0);
        let index = entries.push_add(log, cookie, name, child.ino, child.generation, child.kind, now);
        self.commit(dir.shard, Purpose::Ordinary, &mut [log])?;
        let position = log.position(index);
        entries.added(&mut log.refs, position, cookie, name, child.ino, child.generation, child.kind, now);
        inner.meta.ctime = now;
        Ok(())
    }

    /// Another name for an inode.
    ///
    /// # Errors
    /// `EPERM` for directories, `EMLINK`, else as [`Self::create`].
    pub fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> FsResult<Attr> {
        check_name(name)?;
        let dir = self.get(parent)?;
        let child = self.get(ino)?;
        if child.kind == FileKind::Directory {
            return fail(libc::EPERM);
        }
        self.mutate(|| {
            let mut inner = dir.exclusive()?;
            self.check_can_add(&inner, name)?;
            let mut child_inner = child.exclusive()?;
            if child_inner.meta.nlink == 0 {
                return fail(libc::ENOENT);
            }
            if child_inner.meta.nlink >= LINKS_MAX {
                return fail(libc::EMLINK);
            }
            let now = Time::now();
            let meta = Meta { nlink: child_inner.meta.nlink + 1, ctime: now, ..child_inner.meta };
            let mtime = child_inner.mtime();
            let (log, entries) = inner.dir_mut()?;
            log.begin();
            child_inner.log.begin();
            let attr_index = child_inner.push_attr(&meta, mtime);
            let cookie = entries.cookie(0);
            let index = entries.push_add(log, cookie, name, child.ino, child.generation, child.kind, now);
            if planted(Bug::LinksApart) {
                self.commit(dir.shard, Purpose::Ordinary, &mut [log])?;
                self.commit(dir.shard, Purpose::Ordinary, &mut [&mut child_inner.log])?;
            } else {
                self.commit(dir.shard, Purpose::Ordinary, &mut [log, &mut child_inner.log])?;
            }
            let position = log.position(index);
            entries.added(&mut log.refs, position, cookie, name, child.ino, child.generation, child.kind, now);
            child_inner.attr_committed(&meta, mtime, attr_index);
            inner.meta.ctime = now;
            self.tidy(dir.shard, &mut inner)?;
            self.tidy(child.shard, &mut child_inner)?;
            child.lookups.fetch_add(1, Ordering::AcqRel);
            Ok(child.attr(&child_inner))
        })
    }

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
        let dir = self.get(parent)?;
        self.mutate(|| {
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
                free_record(&self.pm, child_inner.log.record_at(), child.ino);
                fence(&self.pm)?;
            }
            let (log, entries) = inner.dir_mut()?;
            log.begin();
            let index = entries.push_remove(log, name, now);
            let loss = LinkLoss::stage(&mut child_inner, now);
            match &loss {
                Some(_) => self.commit(dir.shard, Purpose::Freeing, &mut [log, &mut child_inner.log])?,
                None => self.commit(dir.shard, Purpose::Freeing, &mut [log])?,
            }
            let position = log.position(index);
            entries.removed_name(&mut log.refs, position, name, now);
            inner.meta.ctime = now;
            self.tidy(dir.shard, &mut inner)?;
            drop(inner);
            LinkLoss::apply(loss, &mut child_inner, now);
            self.doom_if_unused(&child, &mut child_inner);
            drop(child_inner);
            self.reclaim_some(child.shard)
        })
    }

    /// Renames, as `renameat2`.
    ///
    /// # Errors
    /// `ENOENT`, `EEXIST`, `ENOTEMPTY`, `EINVAL` for a directory into itself, …
    pub fn rename(&self, from: Ino, from_name: &[u8], to: Ino, to_name: &[u8], flags: RenameFlags) -> FsResult<()> {
        check_name(from_name)?;
        check_name(to_name)?;
        if flags.exchange && (flags.no_replace || flags.whiteout) {
            return fail(libc::EINVAL);
        }
        let (from_dir, to_dir) = (self.get(from)?, self.get(to)?);
        self.mutate(|| {
            if !flags.exchange {
                self.flush_before_replacing(&from_dir, from_name, &to_dir, to_name)?;
            }
            // Moves between directories exclude one another, so that ancestors hold still while they are compared.
            let _moving = (from_dir.ino != to_dir.ino && !planted(Bug::RenameUnlocked)).then(|| self.rename.lock());
            Rename { core: self, from_dir: &from_dir, from_name, to_dir: &to_dir, to_name, flags }.run()
        })
    }

    /// New data reaches its device before its name replaces an old file's: what programs rely on.
    fn flush_before_replacing(&self, from: &Inode, from_name: &[u8], to: &Inode, to_name: &[u8]) -> FsResult<()> {
        if planted(Bug::RenameNotWrittenBack) || to.shared()?.dir()?.find(to_name).is_none() {
            return Ok(());
        }
        let source = match from.shared()?.dir()?.find(from_name) {
            Some(dentry) => self.child(from, dentry)?,
            None => return Ok(()),
        };
        if source.pages.has_dirty() { self.flush_file(&source) } else { Ok(()) }
    }

    /// Lists a directory from position `from` on; `visit` returns false when it takes no more.
    ///
    /// # Errors
    /// `ENOTDIR`.
    pub fn readdir(&self, ino: Ino, from: u64, visit: &mut dyn FnMut(DirEntry<'_>) -> bool) -> FsResult<()> {
        let dir = self.get(ino)?;
        {
            let inner = dir.shared()?;
            let entries = inner.dir()?;
            let own = |name, ino, next| DirEntry { ino, kind: FileKind::Directory, name, next };
            if from < 1 && !visit(own(b".", dir.ino, 1)) {
                return Ok(());
            }
            if from < 2 && !visit(own(b"..", dir.parent(), 2)) {
                return Ok(());
            }
            for (cookie, d) in entries.from(from.max(FIRST_COOKIE)) {
                if !visit(DirEntry { ino: d.ino, kind: d.kind, name: &d.name, next: cookie + 1 }) {
                    break;
                }
            }
        }
        self.touch_atime(&dir);
        Ok(())
    }

    /// As [`Self::readdir`], with attributes; an accepted entry other than `.` and `..` counts as a lookup.
    ///
    /// # Errors
    /// As [`Self::readdir`].
    pub fn readdir_plus(
        &self,
        ino: Ino,
        from: u64,
        visit: &mut dyn FnMut(DirEntry<'_>, &Attr) -> bool,
    ) -> FsResult<()> {
        let dir = self.get(ino)?;
        {
            let inner = dir.shared()?;
            let entries = inner.dir()?;
            let attr = dir.attr(&inner);
            let own = |name, ino, next| DirEntry { ino, kind: FileKind::Directory, name, next };
            if from < 1 && !visit(own(b".", dir.ino, 1), &attr) {
                return Ok(());
            }
            if from < 2 && !visit(own(b"..", dir.parent(), 2), &Attr { ino: dir.parent(), ..attr }) {
                return Ok(());
            }
            for (cookie, d) in entries.from(from.max(FIRST_COOKIE)) {
                // A damaged child must not hide its siblings.
                let Ok(child) = self.child(&dir, d) else {
                    continue;
                };
                let child_inner = child.shared()?;
                let attr = child.attr(&child_inner);
                drop(child_inner);
                if !visit(DirEntry { ino: d.ino, kind: d.kind, name: &d.name, next: cookie + 1 }, &attr) {
                    break;
                }
                child.lookups.fetch_add(1, Ordering::AcqRel);
            }
        }
        self.touch_atime(&dir);
        Ok(())
    }

    fn touch_atime(&self, inode: &Inode) {
        if self.wants_atime(&inode.inner.read()) {
            let mut inner = inode.inner.write();
            inner.meta.atime = Time::now();
            inner.meta.lazy = true;
        }
    }
}

/// A link that an inode loses. With others left, its log says so, in the same commit; the last one needs no entry:
/// an inode without a name is gone.
struct LinkLoss {
    meta: Meta,
    mtime: Time,
    index: usize,
}

impl LinkLoss {
    fn stage(inner: &mut Inner, now: Time) -> Option<LinkLoss> {
        if inner.meta.nlink <= 1 {
            return None;
        }
        let meta = Meta { nlink: inner.meta.nlink - 1, ctime: now, ..inner.meta };
        let mtime = inner.mtime();
        inner.log.begin();
        let index = inner.push_attr(&meta, mtime);
        Some(LinkLoss { meta, mtime, index })
    }

    fn apply(loss: Option<LinkLoss>, inner: &mut Inner, now: Time) {
        match loss {
            Some(loss) => inner.attr_committed(&loss.meta, loss.mtime, loss.index),
            None => {
                inner.meta.nlink = 0;
                inner.meta.ctime = now;
            }
        }
    }
}

/// One rename.
struct Rename<'a> {
    core: &'a Core,
    from_dir: &'a Arc<Inode>,
    from_name: &'a [u8],
    to_dir: &'a Arc<Inode>,
    to_name: &'a [u8],
    flags: RenameFlags,
}

impl Rename<'_> {
    fn same_dir(&self) -> bool {
        self.from_dir.ino == self.to_dir.ino
    }

    fn run(&self) -> FsResult<()> {
        // Both directories, an ancestor first, as everybody who holds a directory's lock and takes its child's.
        let (mut first, mut second);
        let (from, mut to): (&mut RwLockWriteGuard<'_, Inner>, Option<&mut RwLockWriteGuard<'_, Inner>>);
        if self.same_dir() {
            first = self.from_dir.exclusive()?;
            (from, to) = (&mut first, None);
        } else if self.core.is_inside(self.to_dir, self.from_dir.ino)? {
            first = self.from_dir.exclusive()?;
            second = self.to_dir.exclusive()?;
            (from, to) = (&mut first, Some(&mut second));
        } else {
            first = self.to_dir.exclusive()?;
            second = self.from_dir.exclusive()?;
            (from, to) = (&mut second, Some(&mut first));
        }
        let core = self.core;
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
        let source_inode = core.child(self.from_dir, &source)?;
        if self.flags.exchange {
            let Some(other) = victim else {
                return fail(libc::ENOENT);
            };
            let other_inode = core.child(self.to_dir, &other)?;
            self.exchange(from, to.as_deref_mut().map(|g| &mut **g), &source, &other)?;
            self.moved(&source_inode, self.to_dir);
            self.moved(&other_inode, self.from_dir);
        } else {
            let victim_inode = victim.as_ref().map(|v| core.child(self.to_dir, v)).transpose()?;
            self.replace(from, to.as_deref_mut().map(|g| &mut **g), &source, victim_inode.as_ref())?;
            self.moved(&source_inode, self.to_dir);
        }
        core.tidy(self.from_dir.shard, from)?;
        if let Some(to) = to {
            core.tidy(self.to_dir.shard, to)?;
        }
        Ok(())
    }

    /// A directory must not become its own descendant; what it replaces must be of its kind.
    fn check_ancestry(&self, source: &Dentry, victim: Option<&Dentry>) -> FsResult<()> {
        let is_dir = |d: &Dentry| d.kind == FileKind::Directory;
        let moves = !self.same_dir();
        if moves && is_dir(source) && self.core.is_inside(self.to_dir, source.ino)? {
            return fail(libc::EINVAL);
        }
        let Some(victim) = victim else {
            return Ok(());
        };
        if self.flags.exchange {
            if moves && is_dir(victim) && self.core.is_inside(self.from_dir, victim.ino)? {
                return fail(libc::EINVAL);
            }
            return Ok(());
        }
        match (is_dir(source), is_dir(victim)) {
            (true, false) => fail(libc::ENOTDIR),
            (false, true) => fail(libc::EISDIR),
            _ => {
                if moves && is_dir(victim) && self.core.is_inside(self.from_dir, victim.ino)? {
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

    fn exchange(&self, from: &mut Inner, to: Option<&mut Inner>, a: &Dentry, b: &Dentry) -> FsResult<()> {
        let now = Time::now();
        let (from_dir, from_name, to_name) = (self.from_dir, self.from_name, self.to_name);
        match to {
            None => {
                let mut change = DirChange::new(from, now)?;
                change.remove(from_name);
                change.remove(to_name);
                change.add(from_name, b);
                change.add(to_name, a);
                self.core.commit(from_dir.shard, Purpose::Ordinary, &mut [change.log()])?;
                change.apply();
            }
            Some(to) => {
                let mut change_from = DirChange::new(from, now)?;
                change_from.remove(from_name);
                change_from.add(from_name, b);
                let mut change_to = DirChange::new(to, now)?;
                change_to.remove(to_name);
                change_to.add(to_name, a);
                self.core.commit(from_dir.shard, Purpose::Ordinary, &mut [change_from.log(), change_to.log()])?;
                change_from.apply();
                change_to.apply();
            }
        }
        Ok(())
    }

    fn replace(
        &self,
        from: &mut Inner,
        to: Option<&mut Inner>,
        source: &Dentry,
        victim: Option<&Arc<Inode>>,
    ) -> FsResult<()> {
        let core = self.core;
        let now = Time::now();
        let whiteout = if self.flags.whiteout { Some(self.make_whiteout(from, now)?) } else { None };
        let mut victim_inner = victim.map(|v| v.exclusive()).transpose()?;
        if let Some(inner) = &victim_inner
            && let Body::Dir(entries) = &inner.body
            && entries.len() > 0
        {
            whiteout.iter().for_each(|w| core.unbear(w));
            return fail(libc::ENOTEMPTY);
        }
        let loss = victim_inner.as_mut().and_then(|inner| LinkLoss::stage(inner, now));
        let whiteout_dentry = whiteout.as_ref().map(|w| Dentry::of(&w.inode, self.from_name));
        let committed = match to {
            None => {
                let mut change = DirChange::new(from, now)?;
                change.remove(self.from_name);
                if victim.is_some() {
                    change.remove(self.to_name);
                }
                change.add(self.to_name, source);
                if let Some(w) = &whiteout_dentry {
                    change.add(self.from_name, w);
                }
                let result = self.commit_with_victim(&mut [change.log()], loss.is_some(), victim_inner.as_deref_mut());
                result.map(|()| change.apply())
            }
            Some(to) => {
                let mut change_from = DirChange::new(from, now)?;
                change_from.remove(self.from_name);
                if let Some(w) = &whiteout_dentry {
                    change_from.add(self.from_name, w);
                }
                let mut change_to = DirChange::new(to, now)?;
                if victim.is_some() {
                    change_to.remove(self.to_name);
                }
                change_to.add(self.to_name, source);
                let mut logs = [change_from.log(), change_to.log()];
                let result = self.commit_with_victim(&mut logs, loss.is_some(), victim_inner.as_deref_mut());
                result.map(|()| {
                    change_from.apply();
                    change_to.apply();
                })
            }
        };
        if let Err(error) = committed {
            whiteout.iter().for_each(|w| core.unbear(w));
            return Err(error);
        }
        if let (Some(victim), Some(mut inner)) = (victim, victim_inner) {
            LinkLoss::apply(loss, &mut inner, now);
            core.doom_if_unused(victim, &mut inner);
        }
        Ok(())
    }

    fn commit_with_victim(&self, logs: &mut [&mut Log], loses_link: bool, victim: Option<&mut Inner>) -> FsResult<()> {
        let shard = self.from_dir.shard;
        match victim {
            Some(inner) if loses_link => {
                let mut all: Vec<&mut Log> = logs.iter_mut().map(|log| &mut **log).collect();
                all.push(&mut inner.log);
                self.core.commit(shard, Purpose::Ordinary, &mut all)
            }
            _ => self.core.commit(shard, Purpose::Ordinary, logs),
        }
    }

    fn make_whiteout(&self, from: &Inner, now: Time) -> FsResult<Newborn> {
        let (uid, gid) = (from.meta.uid, from.meta.gid);
        let new = NewInode { kind: FileKind::CharDevice, mode: 0, umask: 0o777, uid, gid, rdev: 0 };
        let born = self.core.bear(self.from_dir, from, &new, None, now)?;
        fence(&self.core.pm)?;
        Ok(born)
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
        let cookie = entries.cookie(self.added.len() as u64);
        let index = entries.push_add(log, cookie, name, what.ino, what.generation, what.kind, self.now);
        self.added.push((Dentry::new(what.ino, what.generation, what.kind, name), cookie, index));
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
            entries.added(&mut log.refs, position, *cookie, &d.name, d.ino, d.generation, d.kind, self.now);
        }
        self.inner.meta.ctime = self.now;
    }
}

impl Core {
    /// Whether `dir` is `ancestor` or lies below it. The caller holds the rename lock.
    fn is_inside(&self, dir: &Arc<Inode>, ancestor: Ino) -> FsResult<bool> {
        let mut at = dir.clone();
        loop {
            if at.ino == ancestor {
                return Ok(true);
            }
            if at.ino == Ino::ROOT {
                return Ok(false);
            }
            at = self.get(at.parent())?;
        }
    }
}
