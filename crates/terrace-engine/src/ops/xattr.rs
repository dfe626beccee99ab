//! Attributes: stat, chmod, chown, times, extended attributes, ACLs.

use terrace_layout::{
    BLOCK_BYTES, BlockAddr, ENTRY_BYTES_MAX, EntryType, XATTR_NAME_BYTES_MAX,
    XATTR_VALUE_BYTES_MAX, XattrEntry, data_crc, slots_for,
};
use terrace_store::alloc::Use;
use terrace_store::error::{FsResult, fail};
use terrace_store::log::Log;
use terrace_store::planted::{Bug, planted};
use terrace_store::space::Purpose;
use terrace_store::sync::Arc;

use crate::base::heritage::Effect;
use crate::base::pin::{PIN_XATTR, parse_pin};
use crate::base::types::{Attr, FileKind, Ino, KillPriv, SetAttr, SetTime, Time, XattrFlags};
use crate::inode::activity::Activity;
use crate::inode::commits::Commits;
use crate::inode::resident::{Inner, Inode, Meta, Xattr, xattr_blocks};
use crate::inode::store::Store;
use crate::inode::table::Inodes;
use crate::ops::acl;
use crate::ops::data::{Files, without_set_id};
use crate::tiering::room::Room;

/// Access ACL.
pub(crate) const ACL_ACCESS: &[u8] = b"system.posix_acl_access";
/// Default ACL of a directory.
pub(crate) const ACL_DEFAULT: &[u8] = b"system.posix_acl_default";
/// Longest value that stands in its entry.
const INLINE_VALUE_BYTES_MAX: usize = ENTRY_BYTES_MAX / 2;
/// Longest ACL: it must fit into one log entry, since chmod and inheritance write it along with
/// others.
const ACL_BYTES_MAX: usize = INLINE_VALUE_BYTES_MAX;
/// Longest list of names, as Linux has it.
const LIST_BYTES_MAX: usize = 65536;

/// A set that stands in the batch.
pub(crate) struct PendingSet {
    index: usize,
    entry: XattrEntry,
    slots: u64,
}

/// Puts an attribute into the batch; `external`: its value is there already, with this checksum.
pub(crate) fn push_set(
    log: &mut Log,
    name: &[u8],
    value: &[u8],
    external: Option<(BlockAddr, u32)>,
    now: Time,
) -> PendingSet {
    let entry = XattrEntry {
        kind: EntryType::XattrSet as u8,
        slots: 0,
        flags: 0,
        crc: 0,
        ctime_ns: now.0,
        address: external.map_or(0, |(addr, _)| addr.0),
        value_len: value.len() as u32,
        value_crc: external.map_or(0, |(_, crc)| crc),
        name_len: name.len() as u16,
        reserved: [0; 6],
    };
    let inline = if external.is_some() { &[] } else { value };
    let slots = slots_for(size_of::<XattrEntry>() + name.len() + inline.len());
    PendingSet { index: log.push(&entry, &[name, inline]), entry, slots }
}

/// The attribute is committed; returns what it replaced.
pub(crate) fn set_committed(inner: &mut Inner, name: &[u8], pending: PendingSet) -> Option<Xattr> {
    let position = inner.log.position(pending.index);
    let xattr = Xattr { position, slots: pending.slots, entry: pending.entry };
    inner.xattr_set(name, xattr)
}

fn push_remove(log: &mut Log, name: &[u8], now: Time) {
    let entry = XattrEntry {
        kind: EntryType::XattrRemove as u8,
        slots: 0,
        flags: 0,
        crc: 0,
        ctime_ns: now.0,
        address: 0,
        value_len: 0,
        value_crc: 0,
        name_len: name.len() as u16,
        reserved: [0; 6],
    };
    log.push(&entry, &[name]);
}

/// Checks that a name is of a kind that is stored.
fn check_xattr_name(name: &[u8]) -> FsResult<()> {
    if name.len() > XATTR_NAME_BYTES_MAX {
        return fail(libc::ERANGE);
    }
    let known = [&b"user."[..], b"trusted.", b"security."]
        .iter()
        .any(|p| name.starts_with(p) && name.len() > p.len());
    if known || name == ACL_ACCESS || name == ACL_DEFAULT { Ok(()) } else { fail(libc::EOPNOTSUPP) }
}

/// Attributes of inodes.
#[derive(Debug)]
pub(crate) struct Attributes {
    pub store: Arc<Store>,
    pub activity: Arc<Activity>,
    pub commits: Arc<Commits>,
    pub inodes: Arc<Inodes>,
    pub room: Arc<Room>,
    pub files: Arc<Files>,
}

impl Attributes {
    /// Attributes of an inode.
    ///
    /// # Errors
    /// `ESTALE`; damage.
    pub fn getattr(&self, ino: Ino) -> FsResult<Attr> {
        let inode = self.inodes.get(ino)?;
        let inner = inode.glance()?;
        Ok(inode.attr(&inner))
    }

    /// Changes attributes; a change of size first, in a commit of its own.
    ///
    /// # Errors
    /// `EISDIR` and `EINVAL` for the size of what has none, `ENOSPC`, …
    pub fn setattr(&self, ino: Ino, set: &SetAttr) -> FsResult<Attr> {
        let inode = self.inodes.get(ino)?;
        self.room.operate(|| {
            if let Some(size) = set.size {
                self.files.truncate(&inode, size)?;
            }
            let mut inner = inode.exclusive()?;
            self.files.kill_priv(&inode, &mut inner, set.kill_priv)?;
            let others = SetAttr { size: None, kill_priv: KillPriv::Nothing, ..*set };
            if others != SetAttr::default() {
                self.set_meta(&inode, &mut inner, &others)?;
                self.commits.tidy(inode.shard, &mut inner)?;
            }
            Ok(inode.attr(&inner))
        })
    }

    fn set_meta(&self, inode: &Inode, inner: &mut Inner, set: &SetAttr) -> FsResult<()> {
        let now = Time::now();
        let at = |time: SetTime| match time {
            SetTime::Now => now,
            SetTime::At(time) => time,
        };
        let mut meta = Meta { ctime: now, ..inner.meta };
        if (set.uid.is_some() || set.gid.is_some()) && inode.kind != FileKind::Directory {
            meta.mode = without_set_id(meta.mode);
        }
        meta.uid = set.uid.unwrap_or(meta.uid);
        meta.gid = set.gid.unwrap_or(meta.gid);
        meta.atime = set.atime.map_or(meta.atime, at);
        let mtime = set.mtime.map_or(inner.mtime(), at);
        let mut acl = None;
        if let Some(mode) = set.mode {
            meta.mode = mode & 0o7777;
            if let Some(value) = self.inodes.xattr_value(inner, ACL_ACCESS)? {
                acl = Some(acl::chmod(&value, meta.mode)?);
            }
        }
        inner.log.begin();
        let index = inner.push_attr(&meta, mtime);
        let pending = acl.map(|value| push_set(&mut inner.log, ACL_ACCESS, &value, None, now));
        self.commits.commit(inode.shard, Purpose::Ordinary, &mut [&mut inner.log])?;
        inner.attr_committed(&meta, mtime, index);
        if let Some(pending) = pending {
            set_committed(inner, ACL_ACCESS, pending);
        }
        Ok(())
    }

    /// See [`Self::xattr_value`].
    ///
    /// # Errors
    /// `ENODATA` if there is none.
    pub fn getxattr(&self, ino: Ino, name: &[u8]) -> FsResult<Vec<u8>> {
        let inode = self.inodes.get(ino)?;
        let inner = inode.glance()?;
        check_xattr_name(name)?;
        match self.inodes.xattr_value(&inner, name)? {
            Some(value) => Ok(value),
            None => fail(libc::ENODATA),
        }
    }

    /// Names of all attributes, each followed by a NUL.
    ///
    /// # Errors
    /// As [`Self::getattr`].
    pub fn listxattr(&self, ino: Ino) -> FsResult<Vec<u8>> {
        let inode = self.inodes.get(ino)?;
        let inner = inode.glance()?;
        Ok(inner.xattrs.keys().flat_map(|name| name.iter().copied().chain([0])).collect())
    }

    /// Sets an attribute; ACLs change the mode along with it.
    ///
    /// # Errors
    /// `EEXIST`, `ENODATA` as the flags demand; `E2BIG`, `ERANGE`, `EOPNOTSUPP`, `EINVAL` for a bad
    /// ACL, `ENOSPC`.
    pub fn setxattr(
        &self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
        groups: Option<&[u32]>,
    ) -> FsResult<()> {
        check_xattr_name(name)?;
        if value.len() > XATTR_VALUE_BYTES_MAX {
            return fail(libc::E2BIG);
        }
        let inode = self.inodes.get(ino)?;
        self.room.operate(|| {
            let mut inner = inode.exclusive()?;
            match inner.xattrs.contains_key(name) {
                true if flags.create => return fail(libc::EEXIST),
                false if flags.replace => return fail(libc::ENODATA),
                _ => {}
            }
            let listed: usize = inner.xattrs.keys().map(|n| n.len() + 1).sum();
            if !inner.xattrs.contains_key(name) && listed + name.len() + 1 > LIST_BYTES_MAX {
                return fail(libc::ENOSPC);
            }
            if (name == ACL_ACCESS || name == ACL_DEFAULT) && value.len() > ACL_BYTES_MAX {
                return fail(libc::ENOSPC);
            }
            if name == ACL_ACCESS {
                return self.set_access_acl(&inode, &mut inner, value, groups);
            }
            if name == ACL_DEFAULT {
                if inode.kind != FileKind::Directory {
                    return fail(libc::EACCES);
                }
                return match acl::set_default(value)? {
                    Some(value) => self.store_xattr(&inode, &mut inner, name, Some(&value), None),
                    None => self.store_xattr(&inode, &mut inner, name, None, None),
                };
            }
            if name == PIN_XATTR.as_bytes() {
                self.inodes.check_pin(inode.kind, value)?;
            }
            self.store_xattr(&inode, &mut inner, name, Some(value), None)
        })
    }

    fn set_access_acl(
        &self,
        inode: &Arc<Inode>,
        inner: &mut Inner,
        value: &[u8],
        groups: Option<&[u32]>,
    ) -> FsResult<()> {
        if inode.kind == FileKind::Symlink {
            return fail(libc::EOPNOTSUPP);
        }
        let (mut mode, stored) = acl::set_access(value, inner.meta.mode)?;
        if groups.is_some_and(|groups| !groups.contains(&inner.meta.gid)) {
            mode &= !0o2000;
        }
        self.store_xattr(inode, inner, ACL_ACCESS, stored.as_deref(), Some(mode))
    }

    /// Sets (or, without a value, removes) an attribute and, with it, the mode.
    fn store_xattr(
        &self,
        inode: &Inode,
        inner: &mut Inner,
        name: &[u8],
        value: Option<&[u8]>,
        mode: Option<u32>,
    ) -> FsResult<()> {
        let now = Time::now();
        let external = match value {
            Some(value) if value.len() > INLINE_VALUE_BYTES_MAX => {
                Some(self.write_value(inode, value)?)
            }
            _ => None,
        };
        let existed = inner.xattrs.contains_key(name);
        let meta = Meta { mode: mode.unwrap_or(inner.meta.mode), ctime: now, ..inner.meta };
        let mtime = inner.mtime();
        inner.log.begin();
        let attr_index = mode.map(|_| inner.push_attr(&meta, mtime));
        let pending = value.map(|value| push_set(&mut inner.log, name, value, external, now));
        if value.is_none() && existed {
            push_remove(&mut inner.log, name, now);
        }
        if inner.log.batch_is_empty() {
            return Ok(());
        }
        let purpose = if value.is_none() { Purpose::Freeing } else { Purpose::Ordinary };
        self.inodes.is_about_to(Effect::Attribute);
        if let Err(error) = self.commits.commit(inode.shard, purpose, &mut [&mut inner.log]) {
            if let Some((addr, _)) = external {
                self.store
                    .space
                    .free(addr, value.map_or(0, |v| v.len() as u64).div_ceil(BLOCK_BYTES));
            }
            return Err(error);
        }
        if let Some(index) = attr_index {
            inner.attr_committed(&meta, mtime, index);
        }
        inner.meta.ctime = now;
        let old = match pending {
            Some(pending) => set_committed(inner, name, pending),
            None => inner.xattr_removed(name),
        };
        if name == PIN_XATTR.as_bytes() {
            self.activity.set_pin(inode, inner, value.and_then(parse_pin));
        }
        if let Some((addr, blocks)) = old.and_then(|x| xattr_blocks(&x.entry)) {
            self.store.space.free(addr, blocks);
        }
        self.commits.tidy(inode.shard, inner)
    }

    /// Writes a long value to PM blocks of its own; durable at the next fence.
    fn write_value(&self, inode: &Inode, value: &[u8]) -> FsResult<(BlockAddr, u32)> {
        let blocks = (value.len() as u64).div_ceil(BLOCK_BYTES);
        if self.store.space.pm().free_blocks() <= terrace_policy::PM_RESERVE_BLOCKS + blocks {
            return fail(libc::ENOSPC);
        }
        let Some(run) = self.store.space.pm().alloc(inode.shard, blocks, Use::Metadata) else {
            return fail(libc::ENOSPC);
        };
        if run.len < blocks {
            self.store.space.pm().free(run);
            return fail(libc::ENOSPC);
        }
        let addr = BlockAddr::pm(run.start);
        match planted(Bug::ValueNotFlushed) {
            true => self.store.pm.write(addr.byte(), value),
            false => self.store.pm.write_nt(addr.byte(), value),
        }
        Ok((addr, data_crc(value)))
    }

    /// Removes an attribute.
    ///
    /// # Errors
    /// `ENODATA` if there is none.
    pub fn removexattr(&self, ino: Ino, name: &[u8]) -> FsResult<()> {
        check_xattr_name(name)?;
        let inode = self.inodes.get(ino)?;
        self.room.operate(|| {
            let mut inner = inode.exclusive()?;
            if !inner.xattrs.contains_key(name) {
                return fail(libc::ENODATA);
            }
            self.store_xattr(&inode, &mut inner, name, None, None)
        })
    }
}
