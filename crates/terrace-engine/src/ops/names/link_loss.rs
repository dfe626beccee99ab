//! An inode that loses a link: what unlink and rename share.

use crate::base::types::Time;
use crate::inode::resident::{Inner, Meta};

/// A link that an inode loses. With others left, its log says so, in the same commit; the last one
/// needs no entry: an inode without a name is gone.
pub(super) struct LinkLoss {
    pub meta: Meta,
    mtime: Time,
    index: usize,
}

impl LinkLoss {
    pub fn stage(inner: &mut Inner, now: Time) -> Option<LinkLoss> {
        if inner.meta.nlink <= 1 {
            return None;
        }
        let meta = Meta { nlink: inner.meta.nlink - 1, ctime: now, ..inner.meta };
        let mtime = inner.mtime();
        inner.log.begin();
        let index = inner.push_attr(&meta, mtime);
        Some(LinkLoss { meta, mtime, index })
    }

    /// It was committed: by a new entry, or, if `in_place`, where the old one stands.
    pub fn apply(loss: Option<LinkLoss>, inner: &mut Inner, now: Time, in_place: bool) {
        match loss {
            Some(loss) if in_place => {
                (inner.meta.nlink, inner.meta.ctime) = (loss.meta.nlink, loss.meta.ctime)
            }
            Some(loss) => inner.attr_committed(&loss.meta, loss.mtime, loss.index),
            None => {
                inner.meta.nlink = 0;
                inner.meta.ctime = now;
            }
        }
    }
}
