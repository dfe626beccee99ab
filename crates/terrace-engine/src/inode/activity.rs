//! What the tiering floor is told of: reads and writes, data that has come to a tier, PM that fills
//! up. All floors tell it here. Migration threads read what was noted, and sleep on the bells.

use terrace_policy::Past;
use terrace_store::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use terrace_store::sync::{Arc, Condvar, Mutex};

use crate::base::recent::Recent;
use crate::base::words::{counted, tier_name};
use crate::inode::lists::Lists;
use crate::inode::resident::{Body, Inner, Inode};
use crate::inode::store::Store;

/// Something that a thread waits for.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    /// There is something to do.
    pub rung: Mutex<bool>,
    pub wake: Condvar,
}

impl Bell {
    /// There is something to do.
    pub fn ring(&self) {
        *self.rung.lock() = true;
        self.wake.notify_all();
    }
}

/// What is noted of the files of one shard.
#[derive(Debug, Default)]
pub(crate) struct ShardActivity {
    pub lists: Mutex<Lists>,
    pub recent: Recent,
    /// Its migration thread has something to do.
    pub migration: Bell,
    /// The migration thread has been told, or has tried in vain: writers that find room need not
    /// wake it.
    pub notified: AtomicBool,
    /// A write has found PM full since the migration thread looked.
    pub found_pm_full: AtomicBool,
}

impl ShardActivity {
    /// Tells the migration thread that there is something to do.
    pub fn notify(&self) {
        self.notified.store(true, Ordering::Relaxed);
        self.migration.ring();
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Activity {
    store: Arc<Store>,
    pub shards: Vec<ShardActivity>,
    /// Free PM blocks below which data is to leave PM, as of the last look at the traffic.
    pub floor_blocks: AtomicU64,
    /// While data has to leave PM, logs are written anew for little.
    pub has_tight_logs: AtomicBool,
    /// Writes go past a PM that is slower for them than a disk: those of so many blocks and
    /// more, and so many sixteenths of them.
    past_blocks: AtomicU64,
    past_share: AtomicU32,
    /// Counts them.
    long_writes: AtomicU32,
    /// The pulse rests; whoever does something wakes it.
    pub resting: AtomicBool,
    pub pulse: Bell,
}

impl Activity {
    /// Of a volume of which nothing is known yet.
    pub fn new(store: Arc<Store>) -> Self {
        let shards = (0..store.shards()).map(|_| ShardActivity::default()).collect();
        Self {
            store,
            shards,
            floor_blocks: AtomicU64::new(0),
            has_tight_logs: AtomicBool::new(false),
            past_blocks: AtomicU64::new(u64::MAX),
            past_share: AtomicU32::new(0),
            long_writes: AtomicU32::new(0),
            resting: AtomicBool::new(false),
            pulse: Bell::default(),
        }
    }

    /// From now on these writes go past PM.
    pub fn set_past(&self, past: Past) {
        self.past_share.store(past.share, Ordering::Relaxed);
        self.past_blocks.store(past.blocks, Ordering::Relaxed);
    }

    /// Whether a write of so many blocks has its turn to go past PM. Each call is another write's.
    #[inline]
    pub fn takes_turn_past(&self, blocks: u64) -> bool {
        let least = self.past_blocks.load(Ordering::Relaxed);
        blocks >= least && {
            let share = self.past_share.load(Ordering::Relaxed);
            let nth = self.long_writes.fetch_add(1, Ordering::Relaxed);
            Past { blocks: least, share }.has(nth)
        }
    }

    /// A file is gone.
    pub fn forget(&self, inode: &Inode) {
        self.shards[inode.shard].lists.lock().forget(inode.ino);
    }
}

impl Activity {
    /// The attribute of an inode, whose lock the caller holds, says this now.
    pub fn set_pin(&self, inode: &Inode, inner: &Inner, pin: Option<u8>) {
        inode.tiers.pin.set(pin);
        if !inode.is_file() {
            return;
        }
        if pin.is_some() {
            inode.tiers.unlist_everywhere();
            self.shards[inode.shard].lists.lock().forget(inode.ino);
        }
        self.note_pinned(inode, self.is_misplaced(pin, inner));
        match pin {
            Some(_) => self.note_traffic(),
            None => self.list_everywhere(inode, inner),
        }
    }

    /// A file has been loaded or made, has got a pin or lost it, or has got data on a device.
    pub fn note_pinned(&self, inode: &Inode, is_misplaced: bool) {
        self.shards[inode.shard].lists.lock().pins.note(
            inode.ino,
            inode.tiers.pin.get(),
            is_misplaced,
        );
    }

    /// Data of a file has moved: if the file is pinned, perhaps none of it is misplaced any more.
    pub fn note_moved(&self, inode: &Inode) {
        let inner = inode.inner.look();
        let pin = inode.tiers.pin.get();
        if pin.is_some() && !inode.deleted.load(Ordering::Acquire) {
            self.note_pinned(inode, self.is_misplaced(pin, &inner));
        }
    }

    /// A pinned file, whose lock the caller holds, has got data in this tier.
    #[inline]
    pub fn note_pinned_data_in(&self, inode: &Inode, tier: u8) {
        if inode.tiers.pin.get().is_some_and(|pin| pin != tier) {
            self.note_pinned(inode, true);
        }
    }

    /// Whether data of a file that is pinned so lies on another tier.
    pub fn is_misplaced(&self, pin: Option<u8>, inner: &Inner) -> bool {
        let Body::File(file) = &inner.body else {
            return false;
        };
        pin.is_some_and(|pin| {
            file.index.iter().any(|(_, extent)| self.store.space.tier_of(extent.addr) != pin)
        })
    }

    /// Whether data waits to be brought to the tier that it is pinned to.
    pub fn has_misplaced(&self) -> bool {
        self.shards.iter().any(|shard| !shard.lists.lock().pins.misplaced.is_empty())
    }

    /// Pinned files that have been used since the mount, and those of them that have data
    /// elsewhere.
    pub fn count_pinned(&self) -> (u64, u64) {
        let of = |shard: &ShardActivity| {
            let lists = shard.lists.lock();
            (lists.pins.tiers.len() as u64, lists.pins.misplaced.len() as u64)
        };
        self.shards
            .iter()
            .map(of)
            .fold((0, 0), |(files, misplaced), (f, m)| (files + f, misplaced + m))
    }

    /// Why nothing can leave a tier, if pins have to do with it.
    pub fn pinned_in_words(&self, shard: usize, tier: u8) -> Option<String> {
        let count = self.shards[shard].lists.lock().pins.counts[usize::from(tier)];
        (count > 0).then(|| {
            let files = counted(count, "file is", "files are");
            format!(
                "{files} pinned to {0}, and no other has data to give away there",
                tier_name(tier)
            )
        })
    }

    /// Called after every read and write: wakes who should look.
    #[inline]
    pub fn note_traffic(&self) {
        if self.resting.load(Ordering::Relaxed) {
            self.wake_pulse();
        }
    }

    /// Whether PM is so full that data has to leave it.
    #[inline]
    fn data_has_to_leave(&self) -> bool {
        self.store.space.pm().free_blocks() < self.floor_blocks.load(Ordering::Relaxed)
    }

    /// Whether a page that a log gives back keeps a page of data in PM.
    #[inline]
    pub fn logs_are_tight(&self) -> bool {
        self.data_has_to_leave() && self.has_tight_logs.load(Ordering::Relaxed)
    }

    /// Called after a write to PM: wakes the shard's migration thread if PM is too full.
    #[inline]
    pub fn note_pm_use(&self, shard: usize) {
        if self.data_has_to_leave() {
            let activity = &self.shards[shard];
            if !activity.notified.load(Ordering::Relaxed) {
                activity.notify();
            }
        }
    }

    /// A write has found no room in PM: the shard's migration thread looks for some, even if it has
    /// found none before.
    #[cold]
    pub fn note_pm_full(&self, shard: usize) {
        let activity = &self.shards[shard];
        if self.floor_blocks.load(Ordering::Relaxed) > 0
            && !activity.found_pm_full.swap(true, Ordering::Relaxed)
        {
            activity.notify();
        }
    }

    #[cold]
    fn wake_pulse(&self) {
        self.resting.store(false, Ordering::Relaxed);
        self.pulse.ring();
    }

    /// Lists a file in every tier where it has data.
    pub fn list_everywhere(&self, inode: &Inode, inner: &Inner) {
        let Body::File(file) = &inner.body else {
            return;
        };
        if inode.deleted.load(Ordering::Acquire) {
            return;
        }
        let mut tiers: Vec<u8> =
            file.index.iter().map(|(_, extent)| self.store.space.tier_of(extent.addr)).collect();
        tiers.sort_unstable();
        tiers.dedup();
        tiers.iter().for_each(|&tier| self.note_data_in(inode, tier));
    }

    /// The file has data in a tier: it may be found cold there.
    #[inline]
    pub fn note_data_in(&self, inode: &Inode, tier: u8) {
        if inode.tiers.pin.get().is_some() {
            return self.note_pinned_data_in(inode, tier);
        }
        if inode.tiers.list(tier) {
            self.shards[inode.shard]
                .lists
                .lock()
                .of_tier(tier)
                .note(inode.ino.0, inode.tiers.rank_ns());
        }
    }
}
