//! Names: create, link, unlink, rename, list.
//!
//! An operation that touches one log commits with that log's tail. One that touches several goes
//! through the journal. Creating and removing the last link need no journal: an inode that no name
//! refers to does not exist, and recovery frees its record.

mod create;
mod in_place;
mod link_loss;
mod list;
mod rename;
mod unlink;

use std::collections::HashSet;

use terrace_layout::NAME_BYTES_MAX;
use terrace_store::damage::DamageKind;
use terrace_store::error::{FsResult, fail};
use terrace_store::log::entry_damage;
use terrace_store::planted::{Bug, planted};
use terrace_store::sync::{Arc, Mutex};

use self::rename::Rename;
use crate::base::types::{Attr, FileKind, Ino, RenameFlags};
use crate::inode::activity::Activity;
use crate::inode::commits::Commits;
use crate::inode::device_table::DeviceTable;
use crate::inode::dir::{Dentry, DirData};
use crate::inode::kin::Kin;
use crate::inode::resident::{Body, Inode};
use crate::inode::store::Store;
use crate::inode::table::Inodes;
use crate::pageio::PageIo;
use crate::tiering::room::Room;

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
    pub kin: Arc<Kin>,
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
            // Nobody is to wait for the disk once more. A removed inode's name may mean another one
            // by now.
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
        let inner = inode.glance()?;
        if inner.meta.nlink == 0 {
            return fail(libc::ESTALE);
        }
        inode.lookups.add();
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
