//! Listing directories.

use terrace_store::error::FsResult;
use terrace_store::sync::atomic::Ordering;

use super::Names;
use crate::base::types::{Attr, DirEntry, FileKind, Ino, Time};
use crate::inode::resident::Inode;

/// Inodes that are read from a disk, if they must be, before their directory is listed: about as
/// many as one answer holds.
const PRELOADED: usize = 64;

impl Names {
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
                let child_inner = child.glance()?;
                let attr = child.attr(&child_inner);
                drop(child_inner);
                if !visit(DirEntry { ino: d.ino, kind: d.kind, name: &d.name, next: cookie }, &attr)
                {
                    break;
                }
                child.lookups.add();
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
}
