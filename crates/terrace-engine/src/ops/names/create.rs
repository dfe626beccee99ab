//! New names: files, directories, symbolic links, and more links to an inode.

use terrace_layout::{InodeRecord, Owner};
use terrace_store::error::{FsResult, fail, fence};
use terrace_store::itable::write_record;
use terrace_store::planted::{Bug, planted};
use terrace_store::space::{BlockSource, Purpose};
use terrace_store::sync::Arc;
use terrace_store::sync::atomic::Ordering;

use super::{Names, check_name};
use crate::base::heritage::Effect;
use crate::base::pin::{PIN_XATTR, pin_value};
use crate::base::types::{Attr, FileKind, Ino, NewInode, Time};
use crate::inode::reclaim::free_record;
use crate::inode::resident::rewrite::retain_target;
use crate::inode::resident::{Body, Inner, Inode, Meta, target_entries};
use crate::ops::acl;
use crate::ops::xattr::{ACL_ACCESS, ACL_DEFAULT};

/// Links that an inode can have.
const LINKS_MAX: u32 = 65000;
/// Longest target of a symbolic link, as Linux has it.
const TARGET_BYTES_MAX: usize = 4095;

/// A new inode that has no name yet.
pub(super) struct Unnamed {
    pub inode: Arc<Inode>,
    record_at: u64,
}

/// What a new inode has from its directory and its creator.
struct Inherited {
    mode: u32,
    gid: u32,
    pin: Option<u8>,
    xattrs: Vec<(&'static [u8], Vec<u8>)>,
}

impl Names {
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
            let made = self.make_inode(&dir, &inner, new, target, now)?;
            if let Ok((_, file)) = made.inode.inner.write().file_mut() {
                file.life = self.kin.born(dir.ino, name, now);
            }
            if let Err(error) = self.add_name(&dir, &mut inner, name, &made.inode, now) {
                self.discard(&made);
                return Err(error);
            }
            let child = &made.inode;
            child.set_parent(dir.ino);
            let attr = self.looked_up(child)?;
            self.commits.tidy(dir.shard, &mut inner)?;
            Ok(attr)
        })
    }

    /// Creates a file that has no name, as one in this directory; counts a lookup. With `linkable`,
    /// [`Self::link`] may name it. It goes as one whose last name was removed does.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn create_unnamed(&self, parent: Ino, new: &NewInode, linkable: bool) -> FsResult<Attr> {
        let dir = self.inodes.get(parent)?;
        self.room.operate(|| {
            let dir_inner = dir.shared()?;
            if dir_inner.meta.nlink == 0 {
                return fail(libc::ENOENT);
            }
            let made = self.make_inode(&dir, &dir_inner, new, None, Time::now())?;
            let child = &made.inode;
            let mut inner = child.exclusive()?;
            // On media, an inode does not exist until a name leads to it.
            inner.meta.nlink = 0;
            // A note of an inode without lookups would stay, for the next one of its number.
            child.lookups.add();
            child.lookups.set_linkable(linkable);
            self.inodes.delete_if_unused(child, &mut inner);
            // Other threads may write to it and name it: their fences do not cover this record.
            fence(&self.store.pm)?;
            Ok(child.attr(&inner))
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
    pub(super) fn make_inode(
        &self,
        dir: &Inode,
        dir_inner: &Inner,
        new: &NewInode,
        target: Option<&[u8]>,
        now: Time,
    ) -> FsResult<Unnamed> {
        let Inherited { mode, gid, pin, xattrs } = self.inherit(dir, dir_inner, new)?;
        let shard = self.inodes.pick_shard(dir);
        self.inodes.reclaim_some(shard)?;
        let (ino, at, generation) = self.take_record(shard)?;
        let full_mode = new.kind.format_bits() | mode;
        let owner = Owner { uid: new.uid, gid };
        let record = InodeRecord::new(at, ino.0, generation, full_mode, owner, now.0)
            .with_device(new.rdev)
            .with_secret(self.inodes.log_secret(ino, generation));
        let inode =
            Arc::new(self.inodes.make_inode(ino, &record, Inner::new(at, &record, new.kind))?);
        // Before its record is in use: whoever meets the record finds this inode, and makes no
        // other of it.
        self.inodes.shards[shard].inodes.write().insert(ino.0, inode.clone());
        write_record(&self.store.pm, at, &record);
        let made = Unnamed { inode, record_at: at };
        let written =
            self.write_first_entries(shard, &mut made.inode.inner.write(), target, &xattrs, now);
        written.inspect_err(|_| self.discard(&made))?;
        if pin.is_some() {
            self.activity.set_pin(&made.inode, &made.inode.inner.read(), pin);
        }
        Ok(made)
    }

    /// What a new inode inherits from its directory.
    fn inherit(&self, dir: &Inode, dir_inner: &Inner, new: &NewInode) -> FsResult<Inherited> {
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
        let has_data = matches!(new.kind, FileKind::Regular | FileKind::Directory);
        let pin = dir.tiers.pin.get().filter(|_| has_data);
        xattrs.extend(pin.map(|tier| (PIN_XATTR.as_bytes(), pin_value(tier).into_bytes())));
        Ok(Inherited { mode, gid, pin, xattrs })
    }

    /// A free record of a shard: its inode number, its byte in PM and the generation of the inode.
    /// If there is none, orphans are reclaimed first.
    fn take_record(&self, shard: usize) -> FsResult<(Ino, u64, u32)> {
        let alloc = || {
            let mut table = self.inodes.shards[shard].table.write();
            table.alloc(&self.store.pm, self.store.space.pm())
        };
        let (ino, at, generation) = match alloc() {
            Err(error) if error.is_no_room() => {
                self.inodes.reclaim_all()?;
                alloc()?
            }
            other => other?,
        };
        Ok((ino, at, generation.unwrap_or_else(|| self.inodes.first_generation(ino))))
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

    /// Gives an inode that got no name back.
    pub(super) fn discard(&self, made: &Unnamed) {
        let (shard, ino) = (&self.inodes.shards[made.inode.shard], made.inode.ino);
        let source = self.store.space.source(made.inode.shard, Purpose::Freeing);
        let inner = made.inode.inner.write();
        made.inode.deleted.store(true, Ordering::Release);
        self.activity.forget(&made.inode);
        free_record(&self.store.pm, made.record_at, ino);
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
        let new = child.named(name, entries.cookie_of(name, 0), now);
        let index = entries.push_add(log, &new);
        self.inodes.is_about_to(Effect::Named(child.ino));
        self.commits.commit(dir.shard, Purpose::Ordinary, &mut [log])?;
        let position = log.position(index);
        entries.added(&mut log.refs, position, &new);
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
            if child_inner.meta.nlink == 0 && !child.lookups.is_linkable() {
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
            let new = child.named(name, entries.cookie_of(name, 0), now);
            let index = entries.push_add(log, &new);
            self.inodes.is_about_to(Effect::Named(child.ino));
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
            entries.added(&mut log.refs, position, &new);
            child_inner.attr_committed(&meta, mtime, attr_index);
            child.lookups.set_linkable(false);
            if child.orphaned.swap(false, Ordering::AcqRel) {
                self.inodes.open_orphans.go();
            }
            inner.meta.ctime = now;
            self.commits.tidy(dir.shard, &mut inner)?;
            self.commits.tidy(child.shard, &mut child_inner)?;
            child.lookups.add();
            Ok(child.attr(&child_inner))
        })
    }
}
