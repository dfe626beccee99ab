//! Pins: a file or directory that says on which tier its data lies, whatever the policy predicts.
//!
//! A pin is an extended attribute, [`PIN_XATTR`], so that programs see, copy and set it; what is
//! created in a pinned directory gets its pin, in the commit that creates it. In DRAM it is a word
//! of the inode, for writes to look at.
//!
//! Invariants:
//! * An inode's word follows its attribute, under the inode's lock.
//! * No mover takes pinned data off its tier: pinned files leave the lists of cold data when they
//!   come up there, and are passed over among hot ones.
//! * A pinned file is in its shard's [`PinnedFiles`] from when it is first used; a *stray* there,
//!   while data of it that is on a device lies on another tier, for want of room or since before
//!   the pin. Movers bring strays home when there is room.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

use rustc_hash::FxHashMap;
use terrace_layout::DEVICES_MAX;
use terrace_store::error::{FsError, FsResult};
use terrace_store::index::Extent;
use terrace_store::sync::Arc;
use terrace_store::sync::atomic::Ordering;

use crate::base::counters::Counter;
use crate::base::pin::{PIN_XATTR, parse_pin, pin_value};
use crate::base::types::{FileKind, Ino};
use crate::base::words::{counted, tier_name};
use crate::inode::core::Core;
use crate::inode::resident::{Body, Inner, Inode};
use crate::tiering::relocate::Wanted;
use crate::tiering::schedule::Round;
use crate::tiering::select::Errand;

/// Strays that are tried before the others have their turn.
const TRIED_STRAYS_MAX: usize = 16;

/// Pinned files of a shard that have been used since the mount.
#[derive(Debug, Default)]
pub(crate) struct PinnedFiles {
    tiers: FxHashMap<u64, u8>,
    /// How many are pinned to a tier, by its number.
    counts: [u64; DEVICES_MAX],
    strays: BTreeSet<u64>,
    /// The stray that was tried last.
    tried: u64,
}

impl PinnedFiles {
    /// A file is pinned to this tier, or to none.
    pub fn note(&mut self, ino: Ino, pin: Option<u8>, is_stray: bool) {
        let old = match pin {
            Some(tier) => self.tiers.insert(ino.0, tier),
            None => self.tiers.remove(&ino.0),
        };
        old.into_iter().for_each(|tier| self.counts[usize::from(tier)] -= 1);
        pin.into_iter().for_each(|tier| self.counts[usize::from(tier)] += 1);
        match is_stray {
            true => self.strays.insert(ino.0),
            false => self.strays.remove(&ino.0),
        };
    }

    /// Some strays and their pins, others each time.
    fn next_strays(&mut self) -> Vec<(u64, u8)> {
        let behind = self.strays.range((Excluded(self.tried), Unbounded));
        let rest = self.strays.range(..=self.tried);
        let next: Vec<u64> = behind.chain(rest).copied().take(TRIED_STRAYS_MAX).collect();
        self.tried = next.last().copied().unwrap_or_default();
        next.into_iter().filter_map(|ino| Some((ino, *self.tiers.get(&ino)?))).collect()
    }
}

impl Core {
    /// The tier that a value of the attribute names on this volume.
    ///
    /// # Errors
    /// `EPERM` for what cannot be pinned; `EINVAL` for another value, with those that are allowed.
    pub fn check_pin(&self, kind: FileKind, value: &[u8]) -> FsResult<u8> {
        if !matches!(kind, FileKind::Regular | FileKind::Directory) {
            let message =
                format!("{PIN_XATTR}: only files and directories can be pinned, not {kind:?}");
            return Err(FsError::with_message(libc::EPERM, message));
        }
        parse_pin(value).filter(|&tier| self.space.tiers().any(|t| t == tier)).ok_or_else(|| {
            let allowed: Vec<String> = self.space.tiers().map(pin_value).collect();
            let value = String::from_utf8_lossy(value);
            let message = format!(
                "{PIN_XATTR}: {value:?} is none of this volume's tiers: {}",
                allowed.join(", ")
            );
            FsError::with_message(libc::EINVAL, message)
        })
    }

    /// What the log of an inode says; a value that means no tier of this volume pins nothing.
    ///
    /// # Errors
    /// Damage.
    pub fn pin_in_log(&self, kind: FileKind, inner: &Inner) -> FsResult<Option<u8>> {
        let Some(xattr) = inner.xattrs.get(PIN_XATTR.as_bytes()) else {
            return Ok(None);
        };
        if xattr.entry.value_len as usize > pin_value(u8::MAX).len() {
            return Ok(None);
        }
        let value = self.xattr_value(inner, PIN_XATTR.as_bytes())?;
        Ok(value.and_then(|value| self.check_pin(kind, &value).ok()))
    }

    /// The attribute of an inode, whose lock the caller holds, says this now.
    pub fn set_pin(&self, inode: &Inode, inner: &Inner, pin: Option<u8>) {
        inode.pin.set(pin);
        if !inode.is_file() {
            return;
        }
        if pin.is_some() {
            inode.listed.store(0, Ordering::Relaxed);
            self.shards[inode.shard].mover.lists.lock().forget(inode.ino);
        }
        self.note_pinned(inode, self.is_stray(pin, inner));
        match pin {
            Some(_) => self.note_traffic(),
            None => self.list_everywhere(inode, inner),
        }
    }

    /// A file has been loaded or made, has got a pin or lost it, or has got data on a device.
    pub fn note_pinned(&self, inode: &Inode, is_stray: bool) {
        self.shards[inode.shard].mover.lists.lock().pins.note(inode.ino, inode.pin.get(), is_stray);
    }

    /// A pinned file, whose lock the caller holds, has got data in this tier.
    #[inline]
    pub fn note_pinned_data_in(&self, inode: &Inode, tier: u8) {
        if inode.pin.get().is_some_and(|pin| pin != tier) {
            self.note_pinned(inode, true);
        }
    }

    /// Whether data of a file that is pinned so lies on another tier.
    pub fn is_stray(&self, pin: Option<u8>, inner: &Inner) -> bool {
        let Body::File(file) = &inner.body else {
            return false;
        };
        pin.is_some_and(|pin| {
            file.index.iter().any(|(_, extent)| self.space.tier_of(extent.addr) != pin)
        })
    }

    /// Whether data waits to be brought to the tier that it is pinned to.
    pub fn has_strays(&self) -> bool {
        self.shards.iter().any(|shard| !shard.mover.lists.lock().pins.strays.is_empty())
    }

    /// Pinned files that have been used since the mount, and those of them that have data
    /// elsewhere.
    pub fn count_pinned(&self) -> (u64, u64) {
        let of = |shard: &crate::inode::core::Shard| {
            let lists = shard.mover.lists.lock();
            (lists.pins.tiers.len() as u64, lists.pins.strays.len() as u64)
        };
        self.shards.iter().map(of).fold((0, 0), |(files, strays), (f, s)| (files + f, strays + s))
    }

    /// Why nothing can leave a tier, if pins have to do with it.
    pub fn pinned_in_words(&self, shard: usize, tier: u8) -> Option<String> {
        let count = self.shards[shard].mover.lists.lock().pins.counts[usize::from(tier)];
        (count > 0).then(|| {
            let files = counted(count, "file is", "files are");
            format!(
                "{files} pinned to {0}, and no other has data to give away there",
                tier_name(tier)
            )
        })
    }

    /// Brings some data of a shard's strays to the tier that it is pinned to.
    ///
    /// # Errors
    /// Fatal ones.
    pub fn bring_home(&self, shard: usize) -> FsResult<Round> {
        let strays = self.shards[shard].mover.lists.lock().pins.next_strays();
        if strays.is_empty() {
            return Ok(Round::Idle);
        }
        let mut round = Round::Stuck("pinned data waits for room on its tier, or is in use".into());
        for (ino, pin) in strays {
            let exists = self.space.tiers().any(|tier| tier == pin);
            if exists && self.ways_to(pin).iter().all(|way| self.room_in(way.to) == 0) {
                continue;
            }
            let Some(inode) =
                self.get(Ino(ino)).ok().filter(|inode| exists && inode.pin.get() == Some(pin))
            else {
                self.note_pin_anew(Ino(ino));
                continue;
            };
            for way in self.ways_to(pin) {
                // What has no room is left where it is, without a try.
                let there = |extent: &Extent| way.from.contains(self.space.tier_of(extent.addr));
                let errand = Errand {
                    wanted: Wanted { there: &there, such: None },
                    spares: None,
                    tiers: way.to,
                    keep_cached: false,
                    most: self.room_in(way.to),
                    counter: Counter::MigratedPinned,
                };
                if errand.most == 0 || !round.may_try_another() {
                    continue;
                }
                match self.run_errand(&inode, errand) {
                    Ok(0) => {}
                    Err(error) if error.is_no_room() => {}
                    moved => round = round.after(moved, pin)?,
                }
            }
            self.note_home(&inode);
            self.let_go(inode);
            if !round.may_try_another() {
                break;
            }
        }
        let is_anything_left = !self.shards[shard].mover.lists.lock().pins.strays.is_empty();
        Ok(if is_anything_left || !round.is_in_vain() { round } else { Round::Idle })
    }

    /// What was known of a pinned file is out of date: it has gone, or the tier that it is pinned
    /// to.
    fn note_pin_anew(&self, ino: Ino) {
        let Ok(inode) = self.get(ino) else {
            self.shard(ino).mover.lists.lock().pins.note(ino, None, false);
            return;
        };
        let inner = inode.inner.read();
        let pin = inode.pin.get().filter(|&pin| self.space.tiers().any(|tier| tier == pin));
        if !inode.doomed.load(Ordering::Acquire) {
            self.set_pin(&inode, &inner, pin);
        }
    }

    /// Data of a pinned file has moved: perhaps it is no stray any more.
    pub fn note_home(&self, inode: &Arc<Inode>) {
        let inner = inode.inner.read();
        if !inode.doomed.load(Ordering::Acquire) {
            self.note_pinned(inode, self.is_stray(inode.pin.get(), &inner));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinned_files_are_counted_and_strays_take_turns() {
        let mut files = PinnedFiles::default();
        (1..=40).for_each(|ino| files.note(Ino(ino), Some(if ino % 2 == 0 { 0 } else { 2 }), true));
        files.note(Ino(1), Some(0), true);
        assert_eq!((files.counts[0], files.counts[1], files.counts[2]), (21, 0, 19));
        let mut turn = || files.next_strays().into_iter().map(|(ino, _)| ino).collect::<Vec<u64>>();
        let turns = [turn(), turn(), turn()];
        assert_eq!((turns[0].clone(), turns[1].clone()), ((1..=16).collect(), (17..=32).collect()));
        assert_eq!(turns[2], (33..=40).chain(1..=8).collect::<Vec<_>>());
        (1..=40).for_each(|ino| files.note(Ino(ino), None, false));
        assert_eq!((files.next_strays(), files.counts), (vec![], [0; DEVICES_MAX]));
    }
}
