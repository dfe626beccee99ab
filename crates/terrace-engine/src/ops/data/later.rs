//! Reads that no thread waits for.

use terrace_store::error::FsResult;
use terrace_store::sync::Arc;

use super::Files;
use crate::base::types::{Ino, Time};
use crate::inode::resident::Inode;
use crate::pageio::PageIo;
use crate::pageio::later::Later;

/// A read that is about to begin.
struct Begun {
    inode: Arc<Inode>,
    later: Later,
    len_bytes: usize,
    /// Size of the file.
    size: u64,
}

impl Files {
    /// Begins to read up to `len_bytes`, if they lie on a disk and the disk can do so. `done` is
    /// told what came of it, once, from a thread of the disk; it may wait for nothing that a read
    /// of this kind is needed for. Returns how much it will be. `None`: `done` is told nothing, and
    /// [`Self::read`] is to read, or says why it cannot.
    pub fn read_later<D>(
        this: &Arc<Self>,
        ino: Ino,
        offset: u64,
        len_bytes: usize,
        done: D,
    ) -> Option<usize>
    where
        D: FnOnce(FsResult<&[u8]>) + Send + 'static,
    {
        let planned = this.plan_later(ino, offset, len_bytes).ok().flatten();
        let Begun { inode, later, len_bytes, size } = planned?;
        let (files, reader) = (Arc::clone(this), Arc::clone(&inode));
        let end = move |bytes: Option<&[u8]>| match bytes {
            Some(bytes) => {
                reader.reading.note(bytes.len(), size);
                done(Ok(bytes));
            }
            None => {
                let mut bytes = vec![0; len_bytes];
                done(files.read(ino, offset, &mut bytes).map(|len| &bytes[..len]));
            }
        };
        if !PageIo::begin_later(&this.pages, later, end) {
            return None;
        }
        inode.reading.note_end(offset, len_bytes);
        this.activity.shards[inode.shard].recent.note(inode.ino);
        this.activity.note_traffic();
        Some(len_bytes)
    }

    /// `None`: these bytes are read in the usual way.
    fn plan_later(&self, ino: Ino, offset: u64, len_bytes: usize) -> FsResult<Option<Begun>> {
        let inode = self.inodes.get(ino)?;
        let goes_on = inode.reading.goes_on_at(offset);
        let (planned, len_bytes, size, stale_atime) = {
            let inner = inode.shared()?;
            let size = inner.file()?.size;
            let len = size.saturating_sub(offset).min(len_bytes as u64) as usize;
            let planned = self.pages.plan_later(&inode, &inner, (offset, len), goes_on)?;
            (planned, len, size, self.inodes.wants_atime(&inner))
        };
        if planned.is_some() && stale_atime {
            let mut inner = inode.exclusive()?;
            inner.meta.atime = Time::now();
            inner.meta.lazy = true;
        }
        Ok(planned.map(|later| Begun { inode, later, len_bytes, size }))
    }
}
