//! Pins: a file or directory that says on which tier its data lies, whatever the policy predicts.
//!
//! A pin is an extended attribute, [`PIN_XATTR`], so that programs see, copy and set it; what is
//! created in a pinned directory gets its pin, in the commit that creates it. In DRAM it is a word
//! of the inode, for writes to look at.
//!
//! Invariants:
//! * An inode's word follows its attribute, under the inode's lock.
//! * No migration takes pinned data off its tier: pinned files leave the lists of cold data when
//!   they come up there, and are passed over among hot ones.
//! * A pinned file is in its shard's `PinnedFiles` from when it is first used. It is *misplaced*
//!   there while some of its data on devices lies on another tier, for want of room or since before
//!   the pin. Migration moves that data when there is room.

use terrace_policy::Rule;
use terrace_store::error::FsResult;
use terrace_store::index::Extent;
use terrace_store::sync::Arc;
use terrace_store::sync::atomic::Ordering;

use crate::base::types::Ino;
use crate::inode::activity::Activity;
use crate::inode::store::Store;
use crate::inode::table::Inodes;
use crate::tiering::relocate::Wanted;
use crate::tiering::relocate::route::routes_to;
use crate::tiering::round::Round;
use crate::tiering::select::{Selection, Selector};

/// See the module.
#[derive(Debug)]
pub(crate) struct Pins {
    pub store: Arc<Store>,
    pub activity: Arc<Activity>,
    pub inodes: Arc<Inodes>,
    pub selector: Arc<Selector>,
}

impl Pins {
    /// Relocates some data of a shard's misplaced files to the tier that it is pinned to.
    ///
    /// # Errors
    /// Fatal ones.
    pub fn migrate(&self, shard: usize) -> FsResult<Round> {
        let misplaced = self.activity.shards[shard].lists.lock().pins.next_misplaced();
        if misplaced.is_empty() {
            return Ok(Round::Idle);
        }
        let mut round = Round::Stuck("pinned data waits for room on its tier, or is in use".into());
        for (ino, pin) in misplaced {
            let exists = self.store.space.tiers().any(|tier| tier == pin);
            if exists
                && routes_to(&self.store.space, pin)
                    .iter()
                    .all(|route| self.store.space.room_for(route.to) == 0)
            {
                continue;
            }
            let Some(inode) = self
                .inodes
                .get(Ino(ino))
                .ok()
                .filter(|inode| exists && inode.tiers.pin.get() == Some(pin))
            else {
                self.note_pin_anew(Ino(ino));
                continue;
            };
            for route in routes_to(&self.store.space, pin) {
                // Data for which there is no room stays where it is, without a try.
                let there =
                    |extent: &Extent| route.from.contains(self.store.space.tier_of(extent.addr));
                let selection = Selection {
                    wanted: Wanted { there: &there, such: None },
                    spares: None,
                    tiers: route.to,
                    keep_cached: false,
                    most: self.store.space.room_for(route.to),
                    rule: Rule::MovedToPin,
                };
                if selection.most == 0 || !round.may_try_another() {
                    continue;
                }
                match self.selector.relocate_selection(&inode, selection) {
                    Ok(0) => {}
                    Err(error) if error.is_no_room() => {}
                    Ok(bytes) => round = Round::Moved(bytes),
                    Err(error) => round = round.after_failure(error)?,
                }
            }
            self.activity.note_moved(&inode);
            self.inodes.let_go(inode);
            if !round.may_try_another() {
                break;
            }
        }
        let is_anything_left = !self.activity.shards[shard].lists.lock().pins.misplaced.is_empty();
        Ok(if is_anything_left || !round.is_in_vain() { round } else { Round::Idle })
    }

    /// Notes that a pinned file is out of date: it has gone, or the tier that it is pinned to.
    fn note_pin_anew(&self, ino: Ino) {
        let Ok(inode) = self.inodes.get(ino) else {
            self.activity.shards[self.store.shard_index(ino)]
                .lists
                .lock()
                .pins
                .note(ino, None, false);
            return;
        };
        let inner = inode.inner.read();
        let pin =
            inode.tiers.pin.get().filter(|&pin| self.store.space.tiers().any(|tier| tier == pin));
        if !inode.deleted.load(Ordering::Acquire) {
            self.activity.set_pin(&inode, &inner, pin);
        }
    }
}
