//! Names: create, link, unlink, rename, list.
//!
//! An operation that touches one log commits with that log's tail. One that touches several goes
//! through the journal. Creating and removing the last link need no journal: an inode that no name
//! refers to does not exist, and recovery frees its record.

mod in_place;
mod link_loss;
mod rename;

use std::collections::HashSet;

use terrace_layout::{InodeRecord, NAME_BYTES_MAX};
use terrace_store::damage::DamageKind;
use terrace_store::error::{FsError, FsResult, fail, fence};
use terrace_store::itable::write_record;
use terrace_store::log::entry_damage;
use terrace_store::planted::{Bug, planted};
use terrace_store::space::{BlockSource, Purpose};
use terrace_store::sync::atomic::Ordering;
use terrace_store::sync::{Arc, Mutex};

use self::in_place::InPlace;
use self::link_loss::LinkLoss;
use self::rename::Rename;
use crate::base::pin::{PIN_XATTR, pin_value};
use crate::base::types::{Attr, DirEntry, FileKind, Ino, NewInode, RenameFlags, Time};
use crate::inode::activity::Activity;
use crate::inode::commits::Commits;
use crate::inode::device_table::DeviceTable;
use crate::inode::dir::{Dentry, DirData};
use crate::inode::reclaim::free_record;
use crate::inode::resident::{Body, Inner, Inode, Meta, retain_target, target_entries};
use crate::inode::store::Store;
use crate::inode::table::Inodes;
use crate::ops::acl;
use crate::ops::xattr::{ACL_ACCESS, ACL_DEFAULT};
use crate::pageio::PageIo;
use crate::tiering::room::Room;

/// Links that an inode can have.
const LINKS_MAX: u32 = 65000;
/// Longest target of a symbolic link, as Linux has it.
const TARGET_BYTES_MAX: usize = 4095;

/// A new inode that has no name yet.
struct Newborn {
    inode: Arc<Inode>,
    record_at: u64,
}

/// Inodes that are read from a disk, if they must be, before their directory is listed: about as
/// many as one answer holds.
const PRELOADED: usize = 64;

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

/// Names of inodes: the directories.
#[derive(Debug)]
pub(crate) struct Names {
    pub store: Arc<Store>,
    pub devices: Arc<DeviceTable>,
    pub activity: Arc<Activity>,
    pub commits: Arc<Commits>,
    pub inodes: Arc<Inodes>,
    pub pages: Arc<PageIo>,
    pub room: Arc<Room>,
    /// One rename of a directory at a time, so that no two of them make a circle.
    pub rename: Mutex<()>,
}

impl Names {
    /// Finds a name and counts a lookup of its inode. `.` is the inode itself, whatever it is, and
    /// `..` a directory's parent: for those who know a number and no name.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `ENAMETOOLONG`, `ESTALE` for `.` and `..` of what has lost its last
    /// name; damage.
    pub fn lookup(&self, parent: Ino, name: &[u8]) -> FsResult<Attr> {
        let dir = self.inodes.get(parent)?;
        match name {
            b"." => return self.looked_up(&dir),
            b".." => return self.looked_up(&self.inodes.get(self.parent_of(&dir)?)?),
            _ => {}
        }
        check_name(name)?;
        let loaded =
            self.preload(&dir, |entries| entries.find(name).map(|d| d.ino).into_iter().collect());
        for (_, failed) in
            loaded.iter().filter_map(|(ino, inode)| Some((ino, inode.as_ref().err()?)))
        {
            // Nobody is to wait for the disk once more. What is gone may have another name by now.
            if failed.errno() != libc::ESTALE {
                return Err(failed.clone());
            }
        }
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

    /// The parent of a directory. Nobody knows it who has not come from there since the directory
    /// was read from media: then all directories are looked through. The caller holds no lock.
    ///
    /// # Errors
    /// `ENOTDIR`; `ESTALE` if no name leads to it.
    pub fn parent_of(&self, dir: &Inode) -> FsResult<Ino> {
        dir.shared()?.dir()?;
        let (mut met, mut open) = (HashSet::from([Ino::ROOT]), vec![Ino::ROOT]);
        while dir.known_parent().is_none()
            && let Some(at) = open.pop()
        {
            let Ok(inode) = self.inodes.get(at) else {
                continue;
            };
            if let Ok(inner) = inode.shared()
                && let Ok(entries) = inner.dir()
            {
                for (_, d) in entries.from(0).filter(|(_, d)| d.kind == FileKind::Directory) {
                    if (d.ino, d.generation) == (dir.ino, dir.generation) {
                        dir.is_child_of(at);
                    }
                    if met.insert(d.ino) {
                        open.push(d.ino);
                    }
                }
            }
            self.inodes.let_go(inode);
        }
        dir.known_parent().map_or_else(|| fail(libc::ESTALE), Ok)
    }

    /// Some inodes that a directory names, from a disk if need be: whoever waits for the directory
    /// is not to wait for that. They stay in DRAM as long as what is returned.
    fn preload(
        &self,
        dir: &Inode,
        named: impl FnOnce(&DirData) -> Vec<Ino>,
    ) -> Vec<(Ino, FsResult<Arc<Inode>>)> {
        if !self.devices.has_archives() {
            return Vec::new();
        }
        let named =
            dir.shared().ok().and_then(|inner| inner.dir().ok().map(named)).unwrap_or_default();
        let is_absent = |ino: &Ino| !self.inodes.shard(*ino).inodes.read().contains_key(&ino.0);
        named.into_iter().filter(is_absent).map(|ino| (ino, self.inodes.get(ino))).collect()
    }

    fn looked_up(&self, inode: &Arc<Inode>) -> FsResult<Attr> {
        let inner = inode.shared()?;
        if inner.meta.nlink == 0 {
            return fail(libc::ESTALE);
        }
        inode.lookups.fetch_add(1, Ordering::AcqRel);
        Ok(inode.attr(&inner))
    }

    /// The inode that an entry of `dir`, whose lock the caller holds, names.
    ///
    /// # Errors
    /// Damage: as long as the name is there, so is the inode.
    fn child(&self, dir: &Inode, dentry: &Dentry) -> FsResult<Arc<Inode>> {
        let child = match self.inodes.get(dentry.ino) {
            Err(error) if error.errno() == libc::ESTALE => {
                return self.misleading(dir, dentry, "does not exist");
            }
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
        let kind = DamageKind::Wrong(format!("names inode {}, which {why}", dentry.ino.0).into());
        Err(entry_damage(&self.store.pm, dir.ino, dentry.position(), kind).into())
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
    /// As [`Self::create`]; `ENAMETOOLONG` for a target of more than 4095 bytes, `ENOENT` for an
    /// empty one.
    pub fn symlink(
        &self,
        parent: Ino,
        name: &[u8],
        target: &[u8],
        uid: u32,
        gid: u32,
    ) -> FsResult<Attr> {
        if target.len() > TARGET_BYTES_MAX {
            return fail(libc::ENAMETOOLONG);
        }
        if target.is_empty() {
            return fail(libc::ENOENT);
        }
        let new = NewInode { kind: FileKind::Symlink, mode: 0o777, umask: 0, uid, gid, rdev: 0 };
        self.make(parent, name, &new, Some(target))
    }

    fn make(
        &self,
        parent: Ino,
        name: &[u8],
        new: &NewInode,
        target: Option<&[u8]>,
    ) -> FsResult<Attr> {
        check_name(name)?;
        let dir = self.inodes.get(parent)?;
        self.room.operate(|| {
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
            self.commits.tidy(dir.shard, &mut inner)?;
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
        let mut xattrs = Vec::new();
        match self.inodes.xattr_value(dir_inner, ACL_DEFAULT)? {
            Some(default) if new.kind != FileKind::Symlink => {
                let inherited = acl::inherit(&default, mode, new.kind == FileKind::Directory)?;
                mode = inherited.mode;
                xattrs.extend(inherited.access.map(|value| (ACL_ACCESS, value)));
                xattrs.extend(inherited.default.map(|value| (ACL_DEFAULT, value)));
            }
            _ => mode &= !(new.umask & 0o777),
        }
        if set_gid && new.kind == FileKind::Directory {
            mode |= 0o2000;
        }
        let pin = dir
            .tiers
            .pin
            .get()
            .filter(|_| matches!(new.kind, FileKind::Regular | FileKind::Directory));
        xattrs.extend(pin.map(|tier| (PIN_XATTR.as_bytes(), pin_value(tier).into_bytes())));
        let shard = self.inodes.pick_shard(dir);
        self.inodes.reclaim_some(shard)?;
        let (ino, at, generation) = {
            let mut table = self.inodes.shards[shard].table.write();
            match table.alloc(&self.store.pm, self.store.space.pm()) {
                Err(error) if error.is_no_room() => {
                    drop(table);
                    self.inodes.reclaim_all()?;
                    self.inodes.shards[shard]
                        .table
                        .write()
                        .alloc(&self.store.pm, self.store.space.pm())?
                }
                other => other?,
            }
        };
        let generation = generation.unwrap_or_else(|| self.inodes.first_generation(ino));
        let full_mode = new.kind.format_bits() | mode;
        let record =
            InodeRecord::new(at, ino.0, generation, full_mode, new.uid, gid, new.rdev, now.0)
                .with_secret(self.inodes.log_secret(ino, generation));
        let inode =
            Arc::new(self.inodes.make_inode(ino, &record, Inner::new(at, &record, new.kind))?);
        // Before its record is in use: whoever meets the record finds this inode, and makes no
        // other of it.
        self.inodes.shards[shard].inodes.write().insert(ino.0, inode.clone());
        write_record(&self.store.pm, at, &record);
        let born = Newborn { inode, record_at: at };
        let written =
            self.write_first_entries(shard, &mut born.inode.inner.write(), target, &xattrs, now);
        written.inspect_err(|_| self.unbear(&born))?;
        if pin.is_some() {
            self.activity.set_pin(&born.inode, &born.inode.inner.read(), pin);
        }
        Ok(born)
    }

    /// What a new inode's log starts with. No name leads to it yet, so its tail needs no fence
    /// before it.
    fn write_first_entries(
        &self,
        shard: usize,
        inner: &mut Inner,
        target: Option<&[u8]>,
        inherited: &[(&[u8], Vec<u8>)],
        now: Time,
    ) -> FsResult<()> {
        if target.is_none() && inherited.is_empty() {
            return Ok(());
        }
        inner.log.begin();
        if let Some(target) = target {
            for (entry, piece) in target_entries(target) {
                inner.log.push(&entry, &[piece]);
            }
        }
        let xattrs: Vec<_> = inherited
            .iter()
            .map(|(name, value)| {
                (*name, crate::ops::xattr::push_set(&mut inner.log, name, value, None, now))
            })
            .collect();
        let source = self.store.space.source(shard, Purpose::Ordinary);
        inner.log.stage(&self.store.pm, &source, None)?;
        let word = inner.log.tail_word();
        self.store.pm.store_u64(word.at, word.value);
        self.store.pm.flush(word.at, 8);
        inner.log.published();
        for (name, pending) in xattrs {
            crate::ops::xattr::set_committed(inner, name, pending);
        }
        if let (Some(target), Body::Symlink { target: known, .. }) = (target, &mut inner.body) {
            *known = target.to_vec();
            let (refs, positions) = inner.log.refs_and_positions();
            retain_target(refs, target, positions);
        }
        Ok(())
    }

    fn unbear(&self, born: &Newborn) {
        let (shard, ino) = (&self.inodes.shards[born.inode.shard], born.inode.ino);
        let source = self.store.space.source(born.inode.shard, Purpose::Freeing);
        let inner = born.inode.inner.write();
        born.inode.deleted.store(true, Ordering::Release);
        self.activity.forget(&born.inode);
        free_record(&self.store.pm, born.record_at, ino);
        inner.owned().into_iter().for_each(|(addr, blocks)| source.free(addr, blocks));
        shard.depart(&mut shard.inodes.write(), ino);
        shard.table.write().free(&self.store.pm, ino);
    }

    fn add_name(
        &self,
        dir: &Inode,
        inner: &mut Inner,
        name: &[u8],
        child: &Inode,
        now: Time,
    ) -> FsResult<()> {
        let (log, entries) = inner.dir_mut()?;
        log.begin();
        let cookie = entries.cookie_of(name, 0);
        let index =
            entries.push_add(log, cookie, name, child.ino, child.generation, child.kind, now);
        self.commits.commit(dir.shard, Purpose::Ordinary, &mut [log])?;
        let position = log.position(index);
        entries.added(
            &mut log.refs,
            position,
            cookie,
            name,
            child.ino,
            child.generation,
            child.kind,
            now,
        );
        inner.meta.ctime = now;
        Ok(())
    }

    /// Another name for an inode.
    ///
    /// # Errors
    /// `EPERM` for directories, `EMLINK`, else as [`Self::create`].
    pub fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> FsResult<Attr> {
        check_name(name)?;
        let dir = self.inodes.get(parent)?;
        let child = self.inodes.get(ino)?;
        if child.kind == FileKind::Directory {
            return fail(libc::EPERM);
        }
        self.room.operate(|| {
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
            let cookie = entries.cookie_of(name, 0);
            let index =
                entries.push_add(log, cookie, name, child.ino, child.generation, child.kind, now);
            if planted(Bug::LinksApart) {
                self.commits.commit(dir.shard, Purpose::Ordinary, &mut [log])?;
                self.commits.commit(dir.shard, Purpose::Ordinary, &mut [&mut child_inner.log])?;
            } else {
                self.commits.commit(
                    dir.shard,
                    Purpose::Ordinary,
                    &mut [log, &mut child_inner.log],
                )?;
            }
            let position = log.position(index);
            entries.added(
                &mut log.refs,
                position,
                cookie,
                name,
                child.ino,
                child.generation,
                child.kind,
                now,
            );
            child_inner.attr_committed(&meta, mtime, attr_index);
            inner.meta.ctime = now;
            self.commits.tidy(dir.shard, &mut inner)?;
            self.commits.tidy(child.shard, &mut child_inner)?;
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
            let in_place = self.remove_name(
                dir.shard,
                &mut inner,
                name,
                &mut child_inner,
                loss.as_ref(),
                now,
            )?;
            inner.meta.ctime = now;
            self.commits.tidy(dir.shard, &mut inner)?;
            drop(inner);
            LinkLoss::apply(loss, &mut child_inner, now, in_place);
            self.inodes.delete_if_unused(&child, &mut child_inner);
            drop(child_inner);
            self.inodes.reclaim_some(child.shard)
        })
    }

    /// Removes a name of an inode, which may lose one link of several: by new entries, or, if there
    /// is no room for any, where the old ones stand. Whether it was that.
    fn remove_name(
        &self,
        shard: usize,
        dir: &mut Inner,
        name: &[u8],
        child: &mut Inner,
        loss: Option<&LinkLoss>,
        now: Time,
    ) -> FsResult<bool> {
        let (log, entries) = dir.dir_mut()?;
        log.begin();
        let index = entries.push_remove(log, name, now);
        let commit = |dir: &mut Inner, child: &mut Inner, purpose| match loss {
            Some(_) => self.commits.commit(shard, purpose, &mut [&mut dir.log, &mut child.log]),
            None => self.commits.commit(shard, purpose, &mut [&mut dir.log]),
        };
        let mut committed = commit(dir, child, Purpose::Ordinary);
        if committed.as_ref().is_err_and(FsError::is_no_room) {
            match self.strike_name(shard, dir, name, loss.map(|loss| (&mut *child, loss)), now) {
                // What lies on a disk gets new entries, from the last room.
                Err(error) if error.is_no_room() => {
                    committed = commit(dir, child, Purpose::Freeing)
                }
                struck => return struck.map(|()| true),
            }
        }
        committed?;
        let (log, entries) = dir.dir_mut()?;
        let position = log.position(index);
        entries.removed_name(&mut log.refs, position, name, now);
        Ok(false)
    }

    /// See [`InPlace`].
    fn strike_name(
        &self,
        shard: usize,
        dir: &mut Inner,
        name: &[u8],
        loss: Option<(&mut Inner, &LinkLoss)>,
        now: Time,
    ) -> FsResult<()> {
        let mut change = InPlace::new(&self.store.pm, now);
        change.remove(dir, name)?;
        change.touch(dir)?;
        loss.map_or(Ok(()), |(child, loss)| change.lose_link(child, loss))?;
        change.commit(&self.store, shard)?;
        let (log, entries) = dir.dir_mut()?;
        entries.struck(&mut log.refs, name, now);
        Ok(())
    }

    /// Renames, as `renameat2`.
    ///
    /// # Errors
    /// `ENOENT`, `EEXIST`, `ENOTEMPTY`, `EINVAL` for a directory into itself, …
    pub fn rename(
        &self,
        from: Ino,
        from_name: &[u8],
        to: Ino,
        to_name: &[u8],
        flags: RenameFlags,
    ) -> FsResult<()> {
        check_name(from_name)?;
        check_name(to_name)?;
        if flags.exchange && (flags.no_replace || flags.whiteout) {
            return fail(libc::EINVAL);
        }
        let (from_dir, to_dir) = (self.inodes.get(from)?, self.inodes.get(to)?);
        let frees = !flags.exchange && to_dir.shared()?.dir()?.find(to_name).is_some();
        let rename = || {
            if !flags.exchange {
                self.flush_before_replacing(&from_dir, from_name, &to_dir, to_name)?;
            }
            // Moves between directories exclude one another, so that ancestors hold still
            // while they are compared.
            let _moving = (from_dir.ino != to_dir.ino && !planted(Bug::RenameUnlocked))
                .then(|| self.rename.lock());
            Rename { names: self, from_dir: &from_dir, from_name, to_dir: &to_dir, to_name, flags }
                .run()
        };
        if frees { self.room.operate_to_free(rename) } else { self.room.operate(rename) }
    }

    /// New data reaches its device before its name replaces an old file's: what programs rely on.
    fn flush_before_replacing(
        &self,
        from: &Inode,
        from_name: &[u8],
        to: &Inode,
        to_name: &[u8],
    ) -> FsResult<()> {
        if planted(Bug::RenameNotWrittenBack) || to.shared()?.dir()?.find(to_name).is_none() {
            return Ok(());
        }
        let source = match from.shared()?.dir()?.find(from_name) {
            Some(dentry) => self.child(from, dentry)?,
            None => return Ok(()),
        };
        if source.pages.has_dirty() { self.pages.flush_file(&source) } else { Ok(()) }
    }

    /// Lists a directory from position `from` on; `visit` returns false when it takes no more.
    ///
    /// # Errors
    /// `ENOTDIR`.
    pub fn readdir(
        &self,
        ino: Ino,
        from: u64,
        visit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> FsResult<()> {
        let dir = self.inodes.get(ino)?;
        let mut at_end = true;
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
            for (cookie, d) in entries.from(from) {
                at_end = false;
                if !visit(DirEntry { ino: d.ino, kind: d.kind, name: &d.name, next: cookie }) {
                    break;
                }
            }
        }
        self.end_listing(&dir, at_end)?;
        self.touch_atime(&dir);
        Ok(())
    }

    /// As [`Self::readdir`], with attributes; an accepted entry other than `.` and `..` counts as a
    /// lookup.
    ///
    /// # Errors
    /// As [`Self::readdir`].
    pub fn readdir_plus(
        &self,
        ino: Ino,
        from: u64,
        visit: &mut dyn FnMut(DirEntry<'_>, &Attr) -> bool,
    ) -> FsResult<()> {
        let dir = self.inodes.get(ino)?;
        let loaded = self.preload(&dir, |entries| {
            entries.from(from).take(PRELOADED).map(|(_, d)| d.ino).collect()
        });
        let mut at_end = true;
        let failed: Vec<Ino> =
            loaded.iter().filter(|(_, inode)| inode.is_err()).map(|(ino, _)| *ino).collect();
        {
            let inner = dir.shared()?;
            let entries = inner.dir()?;
            let attr = dir.attr(&inner);
            let own = |name, ino, next| DirEntry { ino, kind: FileKind::Directory, name, next };
            if from < 1 && !visit(own(b".", dir.ino, 1), &attr) {
                return Ok(());
            }
            if from < 2 && !visit(own(b"..", dir.parent(), 2), &Attr { ino: dir.parent(), ..attr })
            {
                return Ok(());
            }
            for (cookie, d) in entries.from(from) {
                // A damaged child must not hide its siblings.
                let child = if failed.contains(&d.ino) { None } else { self.child(&dir, d).ok() };
                let Some(child) = child else {
                    dir.left_out.store(true, Ordering::Relaxed);
                    continue;
                };
                at_end = false;
                let child_inner = child.shared()?;
                let attr = child.attr(&child_inner);
                drop(child_inner);
                if !visit(DirEntry { ino: d.ino, kind: d.kind, name: &d.name, next: cookie }, &attr)
                {
                    break;
                }
                child.lookups.fetch_add(1, Ordering::AcqRel);
            }
        }
        loaded
            .into_iter()
            .filter_map(|(_, inode)| inode.ok())
            .for_each(|inode| self.inodes.let_go(inode));
        self.end_listing(&dir, at_end)?;
        self.touch_atime(&dir);
        Ok(())
    }

    /// A listing that has come to its end may have left names out, of which a program that takes it
    /// for all that there is must hear: in this call or an earlier one, which may have been of the
    /// other kind.
    ///
    /// # Errors
    /// A name whose inode cannot be read: why.
    fn end_listing(&self, dir: &Inode, at_end: bool) -> FsResult<()> {
        if !at_end || !dir.left_out.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut from = 0;
        loop {
            let next = dir.shared()?.dir()?.from(from).next().map(|(cookie, d)| (cookie, d.ino));
            let Some((cookie, ino)) = next else {
                break;
            };
            // Without the directory's lock: it may take a disk's time.
            let inode = self.inodes.get(ino);
            let inner = dir.shared()?;
            inner.dir()?.at(cookie).map_or(Ok(()), |d| self.child(dir, d).map(drop))?;
            inode.into_iter().for_each(|inode| self.inodes.let_go(inode));
            from = cookie;
        }
        dir.left_out.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn touch_atime(&self, inode: &Inode) {
        if self.inodes.wants_atime(&inode.inner.read()) {
            let mut inner = inode.inner.write();
            inner.meta.atime = Time::now();
            inner.meta.lazy = true;
        }
    }

    /// Target of a symbolic link.
    ///
    /// # Errors
    /// `EINVAL` for anything else.
    pub fn readlink(&self, ino: Ino) -> FsResult<Vec<u8>> {
        let inode = self.inodes.get(ino)?;
        let inner = inode.shared()?;
        match &inner.body {
            Body::Symlink { target, .. } => Ok(target.clone()),
            _ => fail(libc::EINVAL),
        }
    }
}
